#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* Replicas that change while an attempt runs: what takes effect when, and what the job shows. */

#define LATER ": takes effect with the next attempt; suspend and resume the job to apply it now"
#define DOWN "spec.worker.replicas changed from 3 to 2" LATER
#define UP "spec.worker.replicas changed from 3 to 5" LATER

static void start(struct world *w, const char *more)
{
    char spec[512];

    (void)snprintf(spec, sizeof(spec),
                   "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":3}%s}", more);
    world_init(w, spec);
    world_settle(w);
    world_is_state(w, "Running");
}

static void has_message(const struct world *w, const char *type, const char *text)
{
    assert_string_equal(world_condition_text(w, type, "message"), text);
}

static int64_t replicas(const struct world *w, const char *set)
{
    return hvd_json_int(world_find(w, "StatefulSet", set), "spec.replicas", -1);
}

static int hosts(const struct world *w)
{
    const char *text = hvd_json_str(world_find(w, "ConfigMap", "digits-hosts"), "data.hostfile");
    int n = 0;

    for (; text && (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

static void scale(struct world *w, int n)
{
    char patch[64];

    (void)snprintf(patch, sizeof(patch), "{\"worker\":{\"replicas\":%d}}", n);
    world_edit(w, patch);
    world_settle(w);
}

static void keeps_three(const struct world *w, const char *why)
{
    char message[512];

    world_is_state(w, "Running");
    assert_int_equal(replicas(w, "digits-worker"), 3);
    assert_non_null(world_find(w, "Pod", "digits-worker-2"));
    assert_null(world_find(w, "Pod", "digits-worker-3"));
    assert_int_equal(hosts(w), 3);
    assert_string_equal(world_status(w, "ready"), "3/3");
    (void)snprintf(message, sizeof(message), "3 of 3 workers are ready%s%s", *why ? "; " : "", why);
    has_message(w, "WorkersReady", message);
    (void)snprintf(message, sizeof(message),
                   "pod digits-master-abcde is running (attempt 1 of 2)%s%s", *why ? "; " : "",
                   why);
    assert_string_equal(world_status(w, "message"), message);
}

/* Smaller, it would lose a rank; larger, it would not use the worker. */
static void an_attempt_of_fixed_size_keeps_its_workers_whoever_scales_the_job(void **state)
{
    static const struct {
        int n;
        const char *why;
    } rows[] = {{2, DOWN}, {5, UP}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;
        int n_writes;

        start(&w, ",\"backoffLimit\":1");
        n_writes = w.n_writes;
        scale(&w, rows[i].n);
        keeps_three(&w, rows[i].why);
        assert_int_equal(world_events(&w, "ScalingDeferred"), 1);
        assert_int_equal(w.n_writes - n_writes, 2); /* the event and the status */
        assert_int_equal(world_pass(&w), 0);
        scale(&w, 3);
        keeps_three(&w, "");
        scale(&w, rows[i].n);
        world_end_master(&w, 1, "boom");
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(replicas(&w, "digits-worker"), rows[i].n);
        assert_int_equal(hosts(&w), rows[i].n);
        has_message(&w, "WorkersReady",
                    i ? "5 of 5 workers are ready" : "2 of 2 workers are ready");
        has_message(&w, "Running", "pod digits-master-abcde is running (attempt 2 of 2)");
        assert_string_equal(world_status(&w, "workerFailure.message"), "");
        world_end_master(&w, 0, NULL);
        world_settle(&w);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

static void suspending_and_resuming_applies_a_new_size(void **state)
{
    struct world w;

    (void)state;
    start(&w, "");
    scale(&w, 2);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    assert_string_equal(world_status(&w, "ready"), "0/2");
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "ready"), "2/2");
    assert_int_equal(hosts(&w), 2);
    world_fini(&w);
}

static void before_its_master_is_made_a_job_has_the_new_size_at_once(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":3}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    scale(&w, 2);
    assert_int_equal(replicas(&w, "digits-worker"), 2);
    w.is_kubelet_off = false;
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_string_equal(world_status(&w, "ready"), "2/2");
    assert_int_equal(world_events(&w, "ScalingDeferred"), 0);
    world_fini(&w);
}

/* One that goes to and fro, as autoscalers do, costs what each change of a spec costs. */
static void an_autoscaler_of_a_fixed_size_costs_two_writes_for_each_change(void **state)
{
    struct world w;
    int n_writes;

    (void)state;
    start(&w, "");
    n_writes = w.n_writes;
    for (int i = 0; i < 20; i++) {
        scale(&w, i % 2 ? 2 : 5);
        assert_int_equal(replicas(&w, "digits-worker"), 3);
        w.now_ms += 15000;
    }
    assert_true(w.n_writes - n_writes <= 40);
    world_fini(&w);
}

static void a_group_of_a_fixed_size_waits_too(void **state)
{
    struct world w;

    (void)state;
    start(&w, ",\"workerGroups\":[{\"name\":\"big\",\"replicas\":1}]");
    world_edit(&w, "{\"worker\":{\"replicas\":2},\"workerGroups\":[{\"name\":\"big\",\"replicas\":"
                   "2}]}");
    world_settle(&w);
    assert_int_equal(replicas(&w, "digits-worker"), 3);
    assert_int_equal(replicas(&w, "digits-worker-big"), 1);
    has_message(&w, "WorkersReady",
                "4 of 4 workers are ready; spec.worker.replicas changed from 3 to 2, "
                "spec.workerGroups[big].replicas changed from 1 to 2" LATER);
    world_fini(&w);
}

/* What stands on the master's Job is the operator's; what cannot be is not acted upon. */
static void a_forged_size_of_an_attempt_is_not_believed(void **state)
{
    static const char *const forged[] = {"",   "0", "-1", "x", "10001", "99999999999",
                                         "3;", "1", "9"};

    (void)state;
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        struct world w;
        cJSON *annotations;

        start(&w, "");
        annotations =
            (cJSON *)hvd_json_at(world_find(&w, "Job", "digits-master"), "metadata.annotations");
        cJSON_ReplaceItemInObject(annotations, HVD_ANNOTATION_WORKERS,
                                  cJSON_CreateString(forged[i]));
        (void)world_pass(&w);
        assert_true(replicas(&w, "digits-worker") == 3);
        world_fini(&w);
    }
}

static void elastic(struct world *w)
{
    world_init(w, "{\"image\":\"i\",\"command\":[\"t\"],\"backoffLimit\":1,\"failurePolicy\":{"
                  "\"rules\":[{\"action\":\"Ignore\",\"onDisruption\":true}]},\"worker\":{"
                  "\"replicas\":4,\"minReplicas\":1}}");
    world_settle(w);
    w->now_ms += 600000;
}

static void a_program_that_cannot_lose_a_worker_fails_by_the_name_of_those_removed(void **state)
{
    static const struct {
        int n;
        const char *text;
    } rows[] = {{3, "worker digits-worker-3 was removed by scaling from 4 to 3 "
                    "(spec.worker.replicas)"},
                {1, "workers digits-worker-1 to digits-worker-3 were removed by scaling from 4 to "
                    "1 (spec.worker.replicas)"}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char message[512];
        struct world w;

        elastic(&w);
        scale(&w, rows[i].n);
        world_is_state(&w, "Running");
        assert_string_equal(world_status(&w, "workerFailure.message"), "");
        world_end_master(&w, 143, "rank 0 killed by signal 15");
        world_settle(&w);
        assert_string_equal(world_status(&w, "workerFailure.message"), rows[i].text);
        (void)snprintf(message, sizeof(message),
                       "%s (attempt 1 of 2, failurePolicy rule 1: Ignore); pod digits-master-abcde "
                       "container master exited with code 143: rank 0 killed by signal 15",
                       rows[i].text);
        assert_int_equal(world_events(&w, "Restarting"), 1);
        for (int n = 0; n < cJSON_GetArraySize(w.events); n++) {
            const cJSON *event = cJSON_GetArrayItem(w.events, n);

            if (strcmp(hvd_json_str(event, "reason"), "Restarting") == 0)
                assert_string_equal(hvd_json_str(event, "message"), message);
        }
        world_fini(&w);
    }
}

static void a_failure_long_after_a_job_was_scaled_down_is_not_put_down_to_that(void **state)
{
    struct world w;

    (void)state;
    elastic(&w);
    scale(&w, 3);
    w.now_ms += 600000;
    world_end_master(&w, 1, "KeyError");
    world_settle(&w);
    assert_string_equal(world_status(&w, "workerFailure.message"), "");
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.failures", 0), 1);
    world_fini(&w);
}

static void workers_that_an_elastic_attempt_did_not_begin_with_are_told_of(void **state)
{
    struct world w;

    (void)state;
    elastic(&w);
    has_message(&w, "WorkersReady", "4 of 4 workers are ready");
    scale(&w, 6);
    assert_string_equal(world_status(&w, "ready"), "6/6");
    has_message(&w, "WorkersReady",
                "6 of 6 workers are ready; this attempt was started for 4: ranks on the others are "
                "up to the program, or wait for the next attempt");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_of_fixed_size_keeps_its_workers_whoever_scales_the_job),
        cmocka_unit_test(suspending_and_resuming_applies_a_new_size),
        cmocka_unit_test(before_its_master_is_made_a_job_has_the_new_size_at_once),
        cmocka_unit_test(an_autoscaler_of_a_fixed_size_costs_two_writes_for_each_change),
        cmocka_unit_test(a_group_of_a_fixed_size_waits_too),
        cmocka_unit_test(a_forged_size_of_an_attempt_is_not_believed),
        cmocka_unit_test(a_program_that_cannot_lose_a_worker_fails_by_the_name_of_those_removed),
        cmocka_unit_test(a_failure_long_after_a_job_was_scaled_down_is_not_put_down_to_that),
        cmocka_unit_test(workers_that_an_elastic_attempt_did_not_begin_with_are_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
