/*
 * What a status holds that somebody else wrote: what follows from the cluster is corrected by one
 * write, what the operator remembers is bounded, an end is believed. docs/horovodjob.md says which
 * is which.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define TIMES "\"reason\":\"Forged\",\"message\":\"forged\",\"lastTransitionTime\":"

static cJSON *status_of(const struct world *w)
{
    return cJSON_GetObjectItem(world_find(w, "HorovodJob", "digits"), "status");
}

/* Somebody replaces these members of the status, conditions by their type. */
static void forge(struct world *w, const char *text)
{
    cJSON *patch = cJSON_Parse(text), *list = cJSON_GetObjectItem(status_of(w), "conditions");
    cJSON *item = NULL;

    assert_non_null(patch);
    while ((item = cJSON_DetachItemFromArray(cJSON_GetObjectItem(patch, "conditions"), 0))) {
        const char *type = hvd_json_str(item, "type");

        for (int i = 0; i < cJSON_GetArraySize(list); i++)
            if (type && strcmp(hvd_json_str(cJSON_GetArrayItem(list, i), "type"), type) == 0)
                cJSON_DeleteItemFromArray(list, i);
        cJSON_AddItemToArray(list, item);
    }
    cJSON_DeleteItemFromObject(patch, "conditions");
    while ((item = patch->child)) {
        cJSON_DetachItemViaPointer(patch, item);
        cJSON_DeleteItemFromObjectCaseSensitive(status_of(w), item->string);
        cJSON_AddItemToObject(status_of(w), item->string, item);
    }
    cJSON_Delete(patch);
}

/* Until all that is due within ten minutes has happened. */
static void wait(struct world *w)
{
    for (int i = 0; i < 10; i++) {
        world_settle(w);
        w->now_ms += 60000;
    }
}

static char *text_of(const struct world *w)
{
    char *text = cJSON_PrintUnformatted(status_of(w));

    assert_non_null(text);
    return text;
}

/* Of a job that runs, whatever is forged, the next status is the one before, by one write. */
static void what_follows_from_the_cluster_is_corrected_by_one_write(void **state)
{
    static const char *const forgeries[] = {
        "{\"state\":\"Succeeded\"}",
        "{\"state\":\"Failed\"}",
        "{\"state\":\"Suspended\"}",
        "{\"state\":\"Pending\"}",
        "{\"state\":\"Nonsense\"}",
        "{\"state\":7}",
        "{\"ready\":\"9/9\"}",
        "{\"ready\":12}",
        "{\"workers\":{\"ready\":7,\"desired\":9}}",
        "{\"workers\":{\"ready\":-2147483648,\"desired\":2147483647}}",
        "{\"workers\":\"all\"}",
        "{\"message\":\"mine\"}",
        "{\"selector\":\"app=mine\"}",
        "{\"image\":\"mine\"}",
        "{\"hosts\":99}",
        "{\"hosts\":\"99\"}",
        "{\"observedGeneration\":99}",
        "{\"observedGeneration\":-1}",
        "{\"completionTime\":\"2023-11-14T22:13:20Z\"}",
        "{\"attempts\":0}",
        "{\"attempts\":-2147483648}",
        "{\"attempts\":2147483647}",
        "{\"attempts\":99999999999999999999}",
        "{\"attempts\":1e300}",
        "{\"attempts\":1.5}",
        "{\"attempts\":\"many\"}",
        "{\"attempts\":[1]}",
        "{\"failures\":-2147483648}",
        "{\"failures\":2147483647,\"interruptions\":2147483647,\"attempts\":2147483647}",
        "{\"failures\":\"x\",\"interruptions\":{}}",
        "{\"failures\":0.5,\"interruptions\":-1}",
        "{\"failuresInARow\":2147483647}",
        "{\"cleaned\":2147483647}",
        "{\"cleaned\":-7}",
        "{\"sshPort\":-1}",
        "{\"sshPort\":\"22\"}",
        "{\"nextAttemptTime\":\"9999-12-31T23:59:59Z\"}",
        "{\"nextAttemptTime\":\"soon\"}",
        "{\"workerFailure\":{\"attempt\":7}}",
        "{\"workerFailure\":[]}",
        "{\"failureLog\":7}",
        "{\"masterUID\":7}",
        "{\"masterUID\":\"another uid\"}",
        "{\"conditions\":[{\"type\":\"Succeeded\",\"status\":\"Maybe\"}]}",
        "{\"conditions\":[{\"type\":\"Failed\",\"status\":true}]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        struct world w;
        char *before, *after, *master;
        cJSON *expected;
        int writes;

        world_start(&w, "");
        wait(&w);
        before = text_of(&w);
        master = strdup(hvd_json_str(world_find(&w, "Job", "digits-master"), "metadata.uid"));
        writes = w.n_writes;
        forge(&w, forgeries[i]);
        wait(&w);
        after = text_of(&w);
        expected = cJSON_Parse(before);
        if (!cJSON_Compare(status_of(&w), expected, true))
            fail_msg("%s: %s", forgeries[i], after);
        cJSON_Delete(expected);
        if (w.n_writes - writes > 1)
            fail_msg("%s: %d writes", forgeries[i], w.n_writes - writes);
        assert_string_equal(hvd_json_str(world_find(&w, "Job", "digits-master"), "metadata.uid"),
                            master);
        assert_int_equal(world_events(&w, "MasterStarted"), 1);
        free(master);
        hvd_free(before);
        hvd_free(after);
        world_fini(&w);
    }
}

/* A job that runs goes on, and is told of as before. */
static void conditions_and_times_are_corrected_and_the_job_runs_on(void **state)
{
    static const char *const forgeries[] = {
        "{\"conditions\":[{\"type\":\"WorkersReady\",\"status\":\"False\"," TIMES "null}]}",
        "{\"conditions\":[{\"type\":\"Running\",\"status\":\"False\"," TIMES
        "\"2023-11-14T22:13:20Z\"}]}",
        "{\"conditions\":[{\"type\":\"Running\",\"status\":\"True\"," TIMES
        "\"1960-01-01T00:00:00Z\""
        "}]}",
        "{\"conditions\":[{\"type\":\"Running\",\"status\":\"True\"," TIMES
        "\"9999-01-01T00:00:00Z\""
        "}]}",
        "{\"conditions\":[{\"type\":\"Running\",\"status\":\"True\",\"observedGeneration\":-"
        "5," TIMES "\"later\"}]}",
        "{\"conditions\":[{\"type\":\"Running\",\"status\":\"Unknown\"}]}",
        "{\"startTime\":\"1960-01-01T00:00:00Z\"}",
        "{\"startTime\":\"1971-01-01T00:00:00Z\"}",
        "{\"startTime\":\"9999-12-31T23:59:59Z\"}",
        "{\"startTime\":\"once\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        struct world w;
        int64_t since_s;
        char *text;
        int writes;

        world_start(&w, ",\"activeDeadlineSeconds\":7200");
        wait(&w);
        writes = w.n_writes;
        forge(&w, forgeries[i]);
        wait(&w);
        text = text_of(&w);
        if (strcmp(world_status(&w, "state"), "Running") != 0 ||
            strcmp(world_status(&w, "message"),
                   "pod digits-master-abcde is running (attempt 1 of 1)") != 0 ||
            strcmp(world_condition(&w, "Running"), "True") != 0 ||
            strcmp(world_condition(&w, "WorkersReady"), "True") != 0 || strstr(text, "19") ||
            strstr(text, "9999") || strstr(text, "orged"))
            fail_msg("%s: %s", forgeries[i], text);
        if (w.n_writes - writes > 2) /* one may be an event */
            fail_msg("%s: %d writes", forgeries[i], w.n_writes - writes);
        for (int c = 0; c < cJSON_GetArraySize(cJSON_GetObjectItem(status_of(&w), "conditions"));
             c++) {
            const cJSON *item =
                cJSON_GetArrayItem(cJSON_GetObjectItem(status_of(&w), "conditions"), c);

            assert_non_null(hvd_json_str(item, "lastTransitionTime"));
        }
        since_s = w.now_ms;
        w.now_ms += (int64_t)7200 * 1000; /* the deadline holds */
        world_settle(&w);
        world_is_state(&w, "Failed");
        assert_true(w.now_ms > since_s);
        hvd_free(text);
        world_fini(&w);
    }
}

/* What the operator remembers is believed, but never so that a number overflows or a job hangs. */
static void forged_memory_is_bounded_and_the_job_goes_on(void **state)
{
    static const char *const forgeries[] = {
        "{\"failures\":1,\"interruptions\":10000000,\"attempts\":2147483647}",
        "{\"interruptions\":10000000,\"cleaned\":2147483647}",
        "{\"failures\":3,\"failuresInARow\":3,\"nextAttemptTime\":\"2023-11-14T22:30:00Z\"}",
        "{\"attempts\":2,\"failures\":1}",
        "{\"workerFailure\":{\"message\":\"m\",\"attempt\":2147483647,\"exitCode\":-99999999999,"
        "\"time\":\"9999-01-01T00:00:00Z\"}}",
        "{\"conditions\":[{\"type\":\"Suspended\",\"status\":\"True\"," TIMES
        "\"9999-01-01T00:00:00Z\"}]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        struct world w;
        char *text;

        world_start(&w, ",\"backoffLimit\":1");
        forge(&w, forgeries[i]);
        wait(&w);
        wait(&w);
        text = text_of(&w);
        if (strcmp(world_status(&w, "state"), "Running") != 0 || strstr(text, ":-") ||
            strstr(text, " -") || strstr(text, "9999-"))
            fail_msg("%s: %s", forgeries[i], text);
        world_end_master(&w, 0, NULL);
        wait(&w);
        world_is_state(&w, "Succeeded");
        hvd_free(text);
        world_fini(&w);
    }
}

/* The Job of an attempt that ended would never be looked at. */
static void a_master_with_a_forged_attempt_is_cleared_away(void **state)
{
    static const char *const attempts[] = {"1", "0", "-1", "2147483647", "9999999999", "two"};

    (void)state;
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        struct world w;

        world_start(&w, ",\"backoffLimit\":1");
        world_end_master(&w, 1, NULL);
        wait(&w);
        world_is_state(&w, "Running");
        cJSON_ReplaceItemInObject(
            (cJSON *)hvd_json_at(world_find(&w, "Job", "digits-master"), "metadata.annotations"),
            "horovod.io/attempt", cJSON_CreateString(attempts[i]));
        wait(&w);
        world_is_state(&w, "Running");
        assert_in_range(hvd_json_int(status_of(&w), "attempts", -1), 2, 3);
        assert_int_equal(hvd_json_int(status_of(&w), "failures", -1), 1);
        world_end_master(&w, 0, NULL);
        wait(&w);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

static void a_forged_end_is_believed_and_made_whole(void **state)
{
    static const struct {
        const char *status, *state;
    } table[] = {
        {"{\"conditions\":[{\"type\":\"Succeeded\",\"status\":\"True\"," TIMES
         "\"2023-11-14T22:13:30Z\"}]}",
         "Succeeded"},
        {"{\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\",\"reason\":\"R\",\"message\":"
         "\"m\"}]}",
         "Failed"},
        {"{\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\"," TIMES
         "\"2023-11-14T22:13:30Z\"},{\"type\":\"Succeeded\",\"status\":\"True\"," TIMES
         "\"2023-11-14T22:13:30Z\"}],\"state\":\"Succeeded\"}",
         "Failed"},
        {"{\"state\":\"Running\",\"conditions\":[{\"type\":\"Succeeded\",\"status\":\"True\"," TIMES
         "\"9999-11-14T22:13:30Z\"}],\"completionTime\":\"1971-01-01T00:00:00Z\"}",
         "Succeeded"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct world w;
        int writes;

        world_start(&w, ",\"ttlSecondsAfterFinished\":86400");
        forge(&w, table[i].status);
        wait(&w);
        world_is_state(&w, table[i].state);
        assert_string_equal(world_condition(&w, table[i].state), "True");
        assert_string_not_equal(
            world_condition(&w, strcmp(table[i].state, "Failed") == 0 ? "Succeeded" : "Failed"),
            "True");
        assert_string_equal(world_condition(&w, "Running"), "False");
        assert_string_equal(world_condition(&w, "WorkersReady"), "False");
        assert_int_equal(strncmp(world_status(&w, "completionTime"), "2023-11-14T22:", 14), 0);
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        assert_null(world_find(&w, "Pod", "digits-master-abcde"));
        writes = w.n_writes;
        wait(&w);
        assert_int_equal(w.n_writes, writes);
        w.now_ms += (int64_t)86400 * 1000;
        world_settle(&w);
        assert_null(world_find(&w, "HorovodJob", "digits"));
        world_fini(&w);
    }
}

/* The conditions of others stay: a list in a merge patch replaces the whole list. */
static void conditions_of_others_are_kept(void **state)
{
    struct world w;
    int writes;

    (void)state;
    world_start(&w, "");
    wait(&w);
    writes = w.n_writes;
    forge(&w, "{\"conditions\":[{\"type\":\"example.com/Audited\",\"status\":\"True\",\"reason\":"
              "\"R\",\"message\":\"m\",\"lastTransitionTime\":\"2023-11-14T22:13:30Z\",\"more\":1}"
              "]}");
    wait(&w);
    assert_int_equal(w.n_writes, writes); /* nothing to write for it */
    world_end_master(&w, 0, NULL);
    wait(&w);
    world_is_state(&w, "Succeeded");
    assert_string_equal(world_condition(&w, "example.com/Audited"), "True");
    assert_string_equal(world_condition_text(&w, "example.com/Audited", "message"), "m");
    assert_string_equal(world_condition_text(&w, "example.com/Audited", "lastTransitionTime"),
                        "2023-11-14T22:13:30Z");
    world_fini(&w);
}

static void many_and_large_conditions_are_bounded(void **state)
{
    const size_t mib = (size_t)1024 * 1024;
    struct world w;
    cJSON *list, *twin;
    char *large = malloc(mib + 1), *text;
    int writes;

    (void)state;
    memset(large, 'x', mib);
    large[mib] = '\0';
    world_start(&w, "");
    wait(&w);
    list = cJSON_GetObjectItem(status_of(&w), "conditions");
    twin = cJSON_Duplicate(cJSON_GetArrayItem(list, 0), true);
    cJSON_ReplaceItemInObject(twin, "message", cJSON_CreateString(large));
    cJSON_AddItemToArray(list, twin);
    cJSON_ReplaceItemInObject(status_of(&w), "message", cJSON_CreateString(large));
    cJSON_AddStringToObject(status_of(&w), "failureLog", large);
    cJSON_ReplaceItemInObject(status_of(&w), "masterUID", cJSON_CreateString(large));
    for (int i = 0; i < 10000; i++) {
        cJSON *item = cJSON_CreateObject();
        char type[32];

        (void)snprintf(type, sizeof(type), "Other%d", i);
        cJSON_AddStringToObject(item, "type", type);
        cJSON_AddStringToObject(item, "status", "True");
        cJSON_AddItemToArray(list, item);
    }
    writes = w.n_writes;
    wait(&w);
    assert_int_equal(w.n_writes - writes, 1);
    text = text_of(&w);
    assert_true(strlen(text) < 20000);
    list = cJSON_GetObjectItem(status_of(&w), "conditions");
    assert_true(cJSON_GetArraySize(list) <= 32 + HVD_N_CONDITIONS);
    assert_string_equal(world_condition(&w, "Other0"), "True");
    assert_string_equal(world_status(&w, "message"),
                        "pod digits-master-abcde is running (attempt 1 of 1)");
    hvd_free(text);
    free(large);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_from_the_cluster_is_corrected_by_one_write),
        cmocka_unit_test(conditions_and_times_are_corrected_and_the_job_runs_on),
        cmocka_unit_test(forged_memory_is_bounded_and_the_job_goes_on),
        cmocka_unit_test(a_master_with_a_forged_attempt_is_cleared_away),
        cmocka_unit_test(a_forged_end_is_believed_and_made_whole),
        cmocka_unit_test(conditions_of_others_are_kept),
        cmocka_unit_test(many_and_large_conditions_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
