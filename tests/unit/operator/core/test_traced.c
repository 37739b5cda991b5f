#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "tests/unit/operator/core/world.h"

/* A master's Job that no status records: whether the events of that name are about it, or about
 * another Job that had the name. */

#define SPEC(more) "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2" more "}"
#define ELASTIC ",\"minReplicas\":1,\"maxReplicas\":2}"

static int64_t number(const struct world *w, const char *path)
{
    return hvd_json_int(hvd_json_get(world_find(w, "HorovodJob", "digits"), "status"), path, -1);
}

/* The operator that has seen what happened is no more. */
static void restart(struct world *w)
{
    world_restart(w);
    hvd_repairs_fini(&w->repairs);
}

/* An event of the Job controller, at that time by its clock and by the API server's. */
static void add_event(cJSON *events, const char *reason, const char *uid, const int64_t at_s[2])
{
    char by_controller[HVD_RFC3339_SIZE], stored[HVD_RFC3339_SIZE], text[512];

    hvd_rfc3339_format(at_s[0], by_controller);
    hvd_rfc3339_format(at_s[1], stored);
    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"creationTimestamp\":\"%s\"},\"reason\":\"%s\","
                   "\"involvedObject\":{\"uid\":\"%s\"},\"lastTimestamp\":\"%s\","
                   "\"source\":{\"component\":\"job-controller\"}}",
                   stored, reason, uid, by_controller);
    assert_true(cJSON_AddItemToArray(cJSON_GetObjectItem(events, "items"), cJSON_Parse(text)));
}

static cJSON *no_events(void)
{
    return cJSON_Parse("{\"items\":[]}");
}

/* Workers that wait for their kubelets, and an operator that did not make them. */
static void start_without_kubelets(struct world *w, const char *spec)
{
    world_init(w, spec);
    w->is_kubelet_off = true;
    world_settle(w);
    assert_non_null(world_find(w, "Pod", "digits-worker-1"));
    restart(w);
}

/* When they were made. */
static int64_t made_s(const struct world *w)
{
    return hvd_rfc3339_parse(
        hvd_json_str(world_find(w, "Pod", "digits-worker-1"), "metadata.creationTimestamp"));
}

/* The kubelet starts a worker at that time, or started it again then. */
static void start_worker(struct world *w, const char *name, int64_t at_s, int restarts)
{
    cJSON *pod = world_find(w, "Pod", name);
    char time[HVD_RFC3339_SIZE], text[512];

    hvd_rfc3339_format(at_s, time);
    (void)snprintf(
        text, sizeof(text),
        "{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],"
        "\"containerStatuses\":[{\"name\":\"worker\",\"restartCount\":%d,"
        "\"state\":{\"running\":{\"startedAt\":\"%s\"}}}]}",
        restarts, time);
    cJSON_AddStringToObject((cJSON *)hvd_json_get(pod, "spec"), "nodeName", "node-1");
    cJSON_ReplaceItemInObjectCaseSensitive(pod, "status", cJSON_Parse(text));
}

/* The operator goes on, a good while later. */
static void go_on(struct world *w)
{
    w->is_kubelet_off = false;
    w->now_ms += 120000;
    world_settle(w);
}

static void put_foreign_job(struct world *w)
{
    world_put(w,
              "{\"kind\":\"Job\",\"apiVersion\":\"batch/v1\",\"metadata\":{\"namespace\":"
              "\"default\",\"name\":\"digits-master\",\"labels\":{\"horovod.io/job-name\":"
              "\"digits\"}},\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\"}]}}},"
              "\"status\":{}}");
}

static void a_foreign_job_that_was_in_the_way_is_no_master(void **state)
{
    static const enum hvd_failure_type ends[] = {HVD_FAILURE_SUCCEEDED, HVD_FAILURE_FAILED};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const bool is_second = i >= 2;
        struct world w;

        world_init(&w, SPEC("},\"backoffLimit\":1"));
        if (is_second) {
            world_settle(&w);
            world_end_master(&w, 1, "");
            while (world_find(&w, "Job", "digits-master")) {
                (void)world_pass(&w);
                (void)world_controllers(&w);
            }
        }
        put_foreign_job(&w);
        world_settle(&w);
        if (w.wake_at_ms > w.now_ms) {
            w.now_ms = w.wake_at_ms;
            world_settle(&w);
        }
        assert_string_equal(world_condition_text(&w, "Running", "reason"), "Conflict");
        assert_string_equal(world_status(&w, "ready"), "2/2");
        w.trace = ends[i % 2];
        restart(&w);
        world_remove(&w, "Job", "digits-master");
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(w.n_traced, 0);
        assert_int_equal(number(&w, "attempts"), is_second ? 2 : 1);
        assert_int_equal(number(&w, "failures"), is_second ? 1 : 0);
        world_fini(&w);
    }
}

/* The Job of the attempt went, and a foreign one took the name, and went too: only the former one's
 * end counts. */
static void a_foreign_job_that_came_after_the_master_does_not_end_the_job(void **state)
{
    (void)state;
    for (int is_own = 0; is_own < 2; is_own++) {
        cJSON *events = no_events();
        struct world w;
        char master[64];
        int64_t at_s;

        world_start(&w, "");
        (void)snprintf(master, sizeof(master), "%s",
                       hvd_json_str(world_find(&w, "Job", "digits-master"), "metadata.uid"));
        assert_string_equal(world_status(&w, "masterUID"), master);
        world_remove(&w, "Job", "digits-master");
        put_foreign_job(&w);
        world_settle(&w);
        assert_string_equal(world_condition_text(&w, "Running", "reason"), "Conflict");
        at_s = w.now_ms / 1000 + 60;
        add_event(events, is_own ? "BackoffLimitExceeded" : "Completed", "foreign",
                  (const int64_t[2]){at_s, at_s});
        if (is_own)
            add_event(events, "Completed", master, (const int64_t[2]){at_s, at_s});
        w.trace_events = events;
        world_remove(&w, "Job", "digits-master");
        for (int i = 0; i < 3; i++) {
            world_settle(&w);
            if (w.wake_at_ms > w.now_ms)
                w.now_ms = w.wake_at_ms;
        }
        world_is_state(&w, is_own ? "Succeeded" : "Running");
        assert_int_equal(number(&w, "attempts"), is_own ? 1 : 2);
        world_fini(&w);
        cJSON_Delete(events);
    }
}

/* The master of the attempt before failed before it was seen to run, which the status cannot tell
 * from the one that is gone now. */
static void the_failure_of_an_earlier_attempt_counts_once(void **state)
{
    cJSON *events = no_events();
    struct world w;
    char first[64];
    int64_t at_s;

    (void)state;
    world_start(&w, ",\"backoffLimit\":3");
    (void)snprintf(first, sizeof(first), "%s",
                   hvd_json_str(world_find(&w, "Job", "digits-master"), "metadata.uid"));
    world_end_master(&w, 1, "");
    world_settle(&w);
    world_is_state(&w, "Running");
    at_s = w.now_ms / 1000 + 60;
    add_event(events, "BackoffLimitExceeded", first, (const int64_t[2]){at_s, at_s});
    w.trace_events = events;
    restart(&w);
    world_remove(&w, "Job", "digits-master");
    for (int i = 0; i < 3; i++) {
        world_settle(&w);
        if (w.wake_at_ms > w.now_ms)
            w.now_ms = w.wake_at_ms;
    }
    world_is_state(&w, "Running");
    assert_int_equal(number(&w, "failures"), 1);
    assert_int_equal(number(&w, "interruptions"), 1);
    world_fini(&w);
    cJSON_Delete(events);
}

static void an_end_counts_that_came_after_the_workers(void **state)
{
    static const struct {
        const char *reason;
        int begun_s;    /* after the workers were made, when the Job has its first event */
        int ended_s[2]; /* when it has its last, by the controller's clock and the server's */
        const char *state;
    } cases[] = {
        {"Completed", 5, {7, 7}, "Succeeded"},
        {"BackoffLimitExceeded", 5, {7, 7}, "Failed"},
        /* in the second in which the workers were started, and before */
        {"Completed", 0, {5, 5}, "Running"},
        {"BackoffLimitExceeded", 0, {5, 5}, "Running"},
        {"Completed", 0, {3, 3}, "Running"},
        /* by a controller whose clock is ahead */
        {"Completed", 0, {60, 3}, "Running"},
        /* the Job was there before the workers */
        {"Completed", -1, {7, 7}, "Running"},
        {"BackoffLimitExceeded", -1, {7, 7}, "Running"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cJSON *events = no_events();
        struct world w;
        int64_t from_s;

        print_message("%zu\n", i);
        start_without_kubelets(&w, SPEC("}"));
        from_s = made_s(&w);
        start_worker(&w, "digits-worker-0", from_s + 2, 0);
        start_worker(&w, "digits-worker-1", from_s + 5, 0);
        add_event(events, "SuccessfulCreate", "a",
                  (const int64_t[2]){from_s + cases[i].begun_s, from_s + cases[i].begun_s});
        add_event(events, cases[i].reason, "a",
                  (const int64_t[2]){from_s + cases[i].ended_s[0], from_s + cases[i].ended_s[1]});
        w.trace_events = events;
        go_on(&w);
        assert_int_equal(w.n_traced, 1);
        world_is_state(&w, cases[i].state);
        world_fini(&w);
        cJSON_Delete(events);
    }
}

/* A Job has completed at that time, by each clock: the state that its job comes to. Frees w. */
static void ends_at(struct world *w, int64_t at_s, const char *state)
{
    cJSON *events = no_events();

    add_event(events, "Completed", "a", (const int64_t[2]){at_s, at_s});
    w->trace_events = events;
    go_on(w);
    world_is_state(w, state);
    world_fini(w);
    cJSON_Delete(events);
}

/* As soon as one of two is Ready the master is made: that the other came later does not matter. */
static void an_elastic_job_counts_from_the_workers_that_are_enough(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world w;

        start_without_kubelets(&w, SPEC(ELASTIC));
        start_worker(&w, "digits-worker-0", made_s(&w) + 30, 0);
        start_worker(&w, "digits-worker-1", made_s(&w) + 2, 0);
        ends_at(&w, made_s(&w) + (i ? 9 : 2), i ? "Succeeded" : "Running");
    }
}

/* The master waits for those of each group. */
static void a_job_with_groups_counts_from_the_last_group(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world w;

        start_without_kubelets(&w, SPEC("},\"workerGroups\":[{\"name\":\"b\",\"replicas\":1}]"));
        start_worker(&w, "digits-worker-0", made_s(&w) + 2, 0);
        start_worker(&w, "digits-worker-1", made_s(&w) + 3, 0);
        start_worker(&w, "digits-worker-b-0", made_s(&w) + 20, 0);
        ends_at(&w, made_s(&w) + (i ? 21 : 20), i ? "Succeeded" : "Running");
    }
}

/* A worker that was started again long after does not make the end of the master an earlier one. */
static void a_worker_that_was_started_again_does_not_hide_the_end(void **state)
{
    struct world w;

    (void)state;
    start_without_kubelets(&w, SPEC("}"));
    start_worker(&w, "digits-worker-0", made_s(&w) + 2, 0);
    start_worker(&w, "digits-worker-1", made_s(&w) + 30, 1);
    ends_at(&w, made_s(&w) + 9, "Succeeded");
}

/* Its master ended well after the attempt had been given up for a worker. */
static void the_success_of_an_earlier_attempt_is_not_the_one_of_the_next(void **state)
{
    cJSON *events = no_events();
    struct world w;
    int64_t ended_s;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    world_end_master(&w, 1, "");
    w.is_kubelet_off = true;
    ended_s = w.now_ms / 1000;
    world_settle(&w);
    for (int i = 0; i < 9 && !world_find(&w, "Pod", "digits-worker-1"); i++) {
        w.now_ms += 10000;
        world_settle(&w);
    }
    assert_true(made_s(&w) > ended_s);
    add_event(events, "Completed", "a", (const int64_t[2]){ended_s, ended_s});
    w.trace_events = events;
    restart(&w);
    go_on(&w);
    world_is_state(&w, "Running");
    assert_int_equal(w.n_traced, 1);
    assert_int_equal(number(&w, "attempts"), 2);
    world_fini(&w);
    cJSON_Delete(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_foreign_job_that_was_in_the_way_is_no_master),
        cmocka_unit_test(a_foreign_job_that_came_after_the_master_does_not_end_the_job),
        cmocka_unit_test(the_failure_of_an_earlier_attempt_counts_once),
        cmocka_unit_test(an_end_counts_that_came_after_the_workers),
        cmocka_unit_test(an_elastic_job_counts_from_the_workers_that_are_enough),
        cmocka_unit_test(a_job_with_groups_counts_from_the_last_group),
        cmocka_unit_test(a_worker_that_was_started_again_does_not_hide_the_end),
        cmocka_unit_test(the_success_of_an_earlier_attempt_is_not_the_one_of_the_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
