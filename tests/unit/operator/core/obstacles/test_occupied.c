/*
 * Pods of others that have the names of workers: of a job of this name that was deleted without its
 * pods, of another controller, or of no one. They are named, nothing is done to them, and the job
 * goes on once they are gone.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define SECOND_MS INT64_C(1000)
#define HOUR_MS (3600 * SECOND_MS)
#define SPEC "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}"

#define MANAGED                                                                                    \
    "\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":\"digits\""
#define OURS                                                                                       \
    "\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":\"digits\","    \
    "\"horovod.io/role\":\"worker\""
#define OWNED ",\"ownerReferences\":[{\"kind\":\"Node\",\"name\":\"other\",\"controller\":true}]"

static void pass_time(struct world *w, int64_t ms)
{
    const int64_t end_ms = w->now_ms + ms;

    while (w->now_ms < end_ms) {
        (void)world_pass(w);
        (void)world_controllers(w);
        w->now_ms += w->now_ms + HOUR_MS / 4 < end_ms ? HOUR_MS / 4 : SECOND_MS;
    }
}

/* A pod that is older than the job. */
static void put_pod(struct world *w, const char *name, const char *labels, const char *owners)
{
    cJSON *meta, *owner, *other;
    char text[1024];

    (void)snprintf(text, sizeof(text),
                   "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\","
                   "\"labels\":{%s}%s},\"spec\":{%s},\"status\":{\"phase\":\"Running\"}}",
                   name, labels, owners, *labels ? "\"subdomain\":\"digits\"" : "");
    meta = (cJSON *)hvd_json_get(world_put(w, text), "metadata");
    cJSON_DeleteItemFromObjectCaseSensitive(meta, "creationTimestamp");
    cJSON_AddStringToObject(meta, "creationTimestamp", "2001-01-01T00:00:00Z");
    owner = cJSON_GetArrayItem(hvd_json_get(meta, "ownerReferences"), 0);
    if (!owner)
        return;
    other = world_put(w, "{\"kind\":\"Node\",\"metadata\":{\"name\":\"other\"}}");
    cJSON_AddStringToObject(owner, "uid", hvd_json_str(other, "metadata.uid"));
}

static void is_conflict(const struct world *w, const char *text)
{
    assert_string_equal(world_condition(w, "Running"), "False");
    assert_string_equal(world_condition_text(w, "Running", "reason"), "Conflict");
    if (!strstr(world_condition_text(w, "Running", "message"), text))
        fail_msg("%s", world_condition_text(w, "Running", "message"));
    assert_string_equal(world_status(w, "state"), "Pending");
    assert_int_equal(world_events(w, "Conflict"), 1);
}

static void workers_of_an_earlier_job_are_named_and_left_alone(void **state)
{
    struct world w;
    int n_writes;

    (void)state;
    world_init(&w, SPEC);
    put_pod(&w, "digits-worker-1", OURS, "");
    put_pod(&w, "digits-worker-0", OURS, "");
    world_settle(&w);
    is_conflict(&w, "Pods default/digits-worker-0, digits-worker-1 have names of workers and were "
                    "not made by StatefulSet digits-worker of this HorovodJob: they are left "
                    "alone; remove them, or give the job another name");
    assert_null(world_find(&w, "StatefulSet", "digits-worker")); /* it would take them */
    n_writes = w.n_sent;
    pass_time(&w, HOUR_MS);
    world_restart(&w);
    pass_time(&w, HOUR_MS);
    assert_int_equal(w.n_sent, n_writes);
    world_remove(&w, "Pod", "digits-worker-1");
    pass_time(&w, 60 * SECOND_MS);
    is_conflict(&w, "Pod default/digits-worker-0 has the name of a worker and was not made by "
                    "StatefulSet digits-worker of this HorovodJob: it is left alone; remove it, or "
                    "give the job another name");
    world_remove(&w, "Pod", "digits-worker-0");
    pass_time(&w, 60 * SECOND_MS);
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "Conflict"), 1);
    world_fini(&w);
}

static void neither_suspension_nor_the_end_removes_them(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world w;
        char *uid;

        world_init(&w, SPEC);
        put_pod(&w, "digits-worker-0", OURS, "");
        uid = strdup(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"));
        world_settle(&w);
        if (i == 0)
            world_edit(&w, "{\"suspend\":true}");
        if (i == 1)
            world_edit(&w, "{\"activeDeadlineSeconds\":1,\"cleanPodPolicy\":\"All\"}");
        if (i == 2)
            assert_true(world_patch(&w, "HorovodJob", "digits",
                                    "{\"metadata\":{\"deletionTimestamp\":\"2023-11-14T22:13:20Z\","
                                    "\"finalizers\":[\"example.com/hold\"]}}"));
        pass_time(&w, 300 * SECOND_MS);
        world_is_state(&w, i == 0 ? "Suspended" : "Failed");
        assert_string_equal(world_condition(&w, "Suspended"), i == 0 ? "True" : "");
        assert_string_equal(hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.uid"),
                            uid);
        assert_null(
            hvd_json_str(world_find(&w, "Pod", "digits-worker-0"), "metadata.deletionTimestamp"));
        free(uid);
        world_fini(&w);
    }
}

/* Of what a set has let go, the uid of its HorovodJob decides; where that is not told, as an older
 * operator made it, what is older than the job is not its own. */
static void a_worker_without_a_set_is_of_the_job_that_it_was_made_for(void **state)
{
    static const struct {
        const char *made_for; /* "": this job; NULL: it does not tell */
        const char *created;  /* NULL: in the second in which the job was */
        bool is_ours;
    } cases[] = {{"another", NULL, false},
                 {"another", "2001-01-01T00:00:00Z", false},
                 {"another", "2033-01-01T00:00:00Z", false},
                 {"", NULL, true},
                 {"", "2001-01-01T00:00:00Z", true},
                 {NULL, NULL, true},
                 {NULL, "2001-01-01T00:00:00Z", false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *made_for = cases[i].made_for, *created = cases[i].created;
        cJSON *meta, *job;
        struct world w;

        print_message("case %zu\n", i);
        world_init(&w, SPEC);
        put_pod(&w, "digits-worker-0", OURS, "");
        job = (cJSON *)hvd_json_get(world_find(&w, "HorovodJob", "digits"), "metadata");
        meta = (cJSON *)hvd_json_get(world_find(&w, "Pod", "digits-worker-0"), "metadata");
        cJSON_ReplaceItemInObject(
            meta, "creationTimestamp",
            cJSON_CreateString(created ? created : hvd_json_str(job, "creationTimestamp")));
        if (made_for)
            cJSON_AddStringToObject(cJSON_AddObjectToObject(meta, "annotations"),
                                    "horovod.io/job-uid",
                                    *made_for ? made_for : hvd_json_str(job, "uid"));
        world_settle(&w);
        assert_int_equal(world_events(&w, "Conflict"), !cases[i].is_ours);
        assert_int_equal(world_find(&w, "StatefulSet", "digits-worker") != NULL, cases[i].is_ours);
        world_fini(&w);
    }
}

/* Their templates lack what this operator adds: a set that has pods keeps its template. */
static void workers_of_an_older_operator_run_on(void **state)
{
    static const char none[] = "{\"metadata\":{\"annotations\":{\"horovod.io/job-uid\":null}}}";
    static const char *const pods[] = {"digits-worker-0", "digits-worker-1", "digits-master-abcde"};
    struct world w;
    int n_writes;

    (void)state;
    world_start(&w, "");
    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++)
        assert_true(world_patch(&w, "Pod", pods[i], none));
    assert_true(world_patch(&w, "StatefulSet", "digits-worker",
                            "{\"spec\":{\"template\":{\"metadata\":{\"annotations\":null}}}}"));
    n_writes = w.n_sent;
    world_restart(&w);
    pass_time(&w, HOUR_MS);
    assert_int_equal(w.n_sent, n_writes);
    world_is_state(&w, "Running");
    world_fini(&w);
}

/* Nor is any other that the set would take and remove, while those that it leaves alone hold
 * nothing up. */
static void what_holds_a_set_up_is_what_it_would_meet(void **state)
{
    static const struct {
        const char *pod;
        const char *labels;
        const char *owners;
        bool is_met;
    } cases[] = {{"digits-worker-7", OURS, "", true},
                 {"digits-worker-7", OURS, OWNED, false},
                 {"digits-worker-1", OURS, OWNED, true},
                 {"digits-worker-7", "\"horovod.io/job-name\":\"digits\"", "", false},
                 {"digits-worker-1", "\"horovod.io/job-name\":\"digits\"", "", true},
                 {"digits-worker-00", OURS, "", true},
                 {"digits-worker-01", OURS, "", true},
                 {"digits-worker-007", OURS, "", true},
                 {"digits-worker-4294967297", OURS, "", true},
                 {"digits-worker-01", OURS, OWNED, false},
                 {"digits-worker-01", MANAGED, "", false},
                 {"digits-worker-+1", OURS, "", false},
                 {"digits-worker-1x", OURS, "", false},
                 {"digits-worker-", OURS, "", false},
                 {"digits-worker-x", OURS, "", false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;

        world_init(&w, SPEC);
        put_pod(&w, cases[i].pod, cases[i].labels, cases[i].owners);
        world_settle(&w);
        if (!cases[i].is_met) {
            world_is_state(&w, "Running");
        } else {
            is_conflict(&w, cases[i].pod);
            world_remove(&w, "Pod", cases[i].pod);
            pass_time(&w, 60 * SECOND_MS);
            world_is_state(&w, "Running");
        }
        world_fini(&w);
    }
}

static void many_are_counted(void **state)
{
    char name[64];
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":16}}");
    for (int i = 12; i >= 0; i--) {
        (void)snprintf(name, sizeof(name), "digits-worker-%d", i);
        put_pod(&w, name, OURS, "");
    }
    world_settle(&w);
    is_conflict(&w, "Pods default/digits-worker-0, digits-worker-1, digits-worker-2 and 10 more "
                    "have names of workers");
    for (int i = 0; i < 13; i++) {
        (void)snprintf(name, sizeof(name), "digits-worker-%d", i);
        world_remove(&w, "Pod", name);
        pass_time(&w, SECOND_MS);
        assert_int_equal(world_events(&w, "Conflict"), 1);
    }
    pass_time(&w, 60 * SECOND_MS);
    world_is_state(&w, "Running");
    world_fini(&w);
}

/* No watch shows it: it is found when the set makes no pod, and looked for again. */
static void a_pod_without_our_labels_is_found(void **state)
{
    struct world w;
    int n_writes, n_looked;

    (void)state;
    world_init(&w, SPEC);
    put_pod(&w, "digits-worker-1", "", "");
    pass_time(&w, 120 * SECOND_MS);
    is_conflict(&w, "Pod default/digits-worker-1 has the name of a worker");
    n_writes = w.n_sent;
    n_looked = w.n_looked;
    pass_time(&w, 300 * SECOND_MS);
    assert_int_equal(w.n_sent, n_writes);
    assert_in_range(w.n_looked - n_looked, 4, 6);
    world_remove(&w, "Pod", "digits-worker-1");
    pass_time(&w, 120 * SECOND_MS);
    world_is_state(&w, "Running");
    world_fini(&w);
}

/* A job that runs goes on, and its message tells of it. */
static void a_running_job_that_grows_into_one_tells_of_it(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2,"
                   "\"minReplicas\":1,\"maxReplicas\":4}}");
    put_pod(&w, "digits-worker-2", OURS, OWNED);
    world_settle(&w);
    world_is_state(&w, "Running");
    world_edit(&w, "{\"worker\":{\"replicas\":4}}");
    pass_time(&w, 60 * SECOND_MS);
    world_is_state(&w, "Running");
    assert_string_equal(world_condition(&w, "Running"), "True");
    assert_non_null(strstr(world_condition_text(&w, "Running", "message"),
                           "Pod default/digits-worker-2 has the name of a worker"));
    assert_non_null(world_find(&w, "Pod", "digits-worker-3"));
    assert_int_equal(world_events(&w, "Conflict"), 1);
    world_remove(&w, "Pod", "digits-worker-2");
    pass_time(&w, 60 * SECOND_MS);
    assert_non_null(world_find(&w, "Pod", "digits-worker-2"));
    assert_null(strstr(world_condition_text(&w, "Running", "message"), "digits-worker-2 has"));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_of_an_earlier_job_are_named_and_left_alone),
        cmocka_unit_test(neither_suspension_nor_the_end_removes_them),
        cmocka_unit_test(a_worker_without_a_set_is_of_the_job_that_it_was_made_for),
        cmocka_unit_test(workers_of_an_older_operator_run_on),
        cmocka_unit_test(what_holds_a_set_up_is_what_it_would_meet),
        cmocka_unit_test(many_are_counted),
        cmocka_unit_test(a_pod_without_our_labels_is_found),
        cmocka_unit_test(a_running_job_that_grows_into_one_tells_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
