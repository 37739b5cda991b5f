#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* No text of the status outlives its cause: it is gone a second after what it tells of. */

#define JOB "{\"image\":\"x:1\",\"command\":[\"t\"],\"backoffLimit\":3,\"worker\":{\"replicas\":2}}"
#define LATEST_MS 1000

static void pod_status(struct world *w, const char *pod, const char *status)
{
    cJSON *object = world_find(w, "Pod", pod);

    assert_non_null(object);
    cJSON_ReplaceItemInObject(object, "status", cJSON_Parse(status));
}

static void waits(struct world *w, const char *pod, const char *reason)
{
    char status[256];

    (void)snprintf(status, sizeof(status),
                   "{\"phase\":\"Pending\",\"containerStatuses\":[{\"image\":\"x:1\",\"state\":"
                   "{\"waiting\":{\"reason\":\"%s\",\"message\":\"words\"}}}]}",
                   reason);
    pod_status(w, pod, status);
}

#define PENDING "{\"phase\":\"Pending\"}"

static void begin(struct world *w)
{
    world_init(w, JOB);
    w->is_kubelet_off = true;
    world_settle(w);
}

/* Whether a condition, or the headline, tells of it. */
static bool tells(const struct world *w, const char *text)
{
    const cJSON *status = hvd_json_get(world_find(w, "HorovodJob", "digits"), "status");
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_get(status, "conditions"))
    {
        if (strstr(hvd_json_str(item, "message"), text))
            return true;
    }
    return strstr(world_status(w, "message"), text) != NULL;
}

static void go_round(struct world *w)
{
    world_pass(w);
    while (world_controllers(w))
        ;
    w->now_ms += 250;
}

/* Rounds of everybody, over so much time. */
static void go_on(struct world *w, int64_t for_ms)
{
    for (int64_t end_ms = w->now_ms + for_ms; w->now_ms < end_ms;)
        go_round(w);
}

static void suspend(struct world *w)
{
    begin(w);
    world_edit(w, "{\"suspend\":true}");
}

static void suspend_running(struct world *w)
{
    world_start(w, "");
    world_edit(w, "{\"suspend\":true}");
}

static void resume(struct world *w)
{
    world_edit(w, "{\"suspend\":false}");
}

static void image(struct world *w)
{
    begin(w);
    waits(w, "digits-worker-0", "ErrImagePull");
}

static void image_of_master(struct world *w)
{
    world_init(w, JOB);
    world_settle(w);
    w->is_kubelet_off = true;
    waits(w, "digits-master-abcde", "ErrImagePull");
}

static void image_and_scheduler(struct world *w)
{
    begin(w);
    waits(w, "digits-worker-0", "ErrImagePull");
    pod_status(w, "digits-worker-1",
               "{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
               "\"False\",\"reason\":\"Unschedulable\",\"message\":\"no room\"}]}");
}

static void mend_pods(struct world *w)
{
    static const char *const pods[] = {"digits-worker-0", "digits-worker-1", "digits-master-abcde"};

    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        if (world_find(w, "Pod", pods[i]))
            pod_status(w, pods[i], PENDING);
    }
}

static void mend_worker_0(struct world *w)
{
    pod_status(w, "digits-worker-0", PENDING);
}

static void scheduler(struct world *w)
{
    image_and_scheduler(w);
    mend_worker_0(w);
}

static void crash_loop(struct world *w)
{
    begin(w);
    pod_status(w, "digits-worker-1",
               "{\"phase\":\"Running\",\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":"
               "\"CrashLoopBackOff\"}},\"lastState\":{\"terminated\":{\"exitCode\":3}}}]}");
}

static void quota_of_workers(struct world *w)
{
    world_init(w, JOB);
    w->is_kubelet_off = true;
    w->deny_pods_of = "StatefulSet";
}

static void quota_of_master(struct world *w)
{
    world_init(w, JOB);
    w->deny_pods_of = "Job";
}

static void lift_quota(struct world *w)
{
    w->is_kubelet_off = true;
    w->deny_pods_of = NULL;
}

static void webhook(struct world *w)
{
    world_init(w, JOB);
    w->is_kubelet_off = true;
    w->deny_kind = "Service";
}

static void webhook_of_change(struct world *w)
{
    world_start(w, ",\"worker\":{\"replicas\":2,\"minReplicas\":1}");
    w->is_kubelet_off = true;
    w->deny_kind = "StatefulSet";
    world_edit(w, "{\"worker\":{\"replicas\":4,\"minReplicas\":1}}");
}

static void remove_webhook(struct world *w)
{
    w->deny_kind = NULL;
}

static void conflict(struct world *w)
{
    world_init(w, JOB);
    w->is_kubelet_off = true;
    world_put(w, "{\"kind\":\"Service\",\"metadata\":{\"name\":\"digits\",\"namespace\":"
                 "\"default\",\"labels\":{\"horovod.io/job-name\":\"digits\"}}}");
}

static void conflict_under_master(struct world *w)
{
    world_start(w, "");
    world_remove(w, "Service", "digits");
    world_put(w, "{\"kind\":\"Service\",\"metadata\":{\"name\":\"digits\",\"namespace\":"
                 "\"default\",\"labels\":{\"horovod.io/job-name\":\"digits\"}}}");
}

static void remove_conflict(struct world *w)
{
    world_remove(w, "Service", "digits");
    w->n_failures = 0; /* as the shell does when it sees the removal */
}

static void scale_up(struct world *w)
{
    world_start(w, "");
    world_edit(w, "{\"worker\":{\"replicas\":5}}");
}

static void scale_back(struct world *w)
{
    world_edit(w, "{\"worker\":{\"replicas\":2}}");
}

static void attempt_with_trouble(struct world *w)
{
    image_of_master(w);
}

/* The attempt is given up, and another one begins. */
static void fail_attempt(struct world *w)
{
    world_remove(w, "Job", "digits-master");
}

static void fail_master(struct world *w)
{
    world_start(w, ",\"backoffLimit\":3");
    world_end_master(w, 3, "boom");
    w->is_kubelet_off = true;
}

/* The next attempt runs. */
static void run_again(struct world *w)
{
    w->is_kubelet_off = false;
    world_settle(w);
}

static void end_suspended(struct world *w)
{
    suspend(w);
    world_settle(w);
    w->refuse_kind = NULL;
}

static void fail_suspended(struct world *w)
{
    cJSON *job = world_find(w, "HorovodJob", "digits");

    world_edit(w, "{\"image\":\"x\\u0001\"}");
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(job, "spec"), "worker",
                              cJSON_Parse("{\"replicas\":-1}"));
}

struct row {
    const char *name;
    void (*cause)(struct world *w);
    void (*mend)(struct world *w);
    const char *text; /* of the cause */
};

static const struct row rows[] = {
    {"resumed", suspend, resume, "suspended by spec.suspend"},
    {"resumed after it ran", suspend_running, resume, "suspended by spec.suspend"},
    {"image mended", image, mend_pods, "cannot be pulled"},
    {"image of the master mended", image_of_master, mend_pods, "cannot be pulled"},
    {"image mended, room missing", image_and_scheduler, mend_worker_0, "cannot be pulled"},
    {"room found", scheduler, mend_pods, "cannot be scheduled"},
    {"worker ends no more", crash_loop, mend_pods, "keeps ending"},
    {"quota lifted", quota_of_workers, lift_quota, "exceeded quota"},
    {"quota lifted for the master", quota_of_master, lift_quota, "exceeded quota"},
    {"webhook gone", webhook, remove_webhook, "denied the request"},
    {"webhook gone for a change", webhook_of_change, remove_webhook, "denied the request"},
    {"conflict gone", conflict, remove_conflict, "is not controlled"},
    {"conflict under a master gone", conflict_under_master, remove_conflict, "is not controlled"},
    {"scaled back", scale_up, scale_back, "next attempt"},
    {"attempt given up", attempt_with_trouble, fail_attempt, "cannot be pulled"},
    {"next attempt runs", fail_master, run_again, "boom"},
    {"ended while suspended", end_suspended, fail_suspended, "suspended by spec.suspend"},
};

static void no_text_outlives_its_cause_by_more_than_a_second(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;

        rows[i].cause(&w);
        /* As soon as it is told: the next status would wait for some seconds then. */
        for (int n = 0; n < 200 && !tells(&w, rows[i].text); n++)
            go_round(&w);
        if (!tells(&w, rows[i].text))
            fail_msg("%s: the cause is not told", rows[i].name);
        rows[i].mend(&w);
        go_on(&w, LATEST_MS);
        if (tells(&w, rows[i].text))
            fail_msg("%s: after a second the status still says: %s", rows[i].name,
                     world_status(&w, "message"));
        world_fini(&w);
    }
}

static void a_resumed_job_waits_for_its_workers(void **state)
{
    struct world w;

    (void)state;
    suspend_running(&w);
    go_on(&w, 20000);
    w.is_kubelet_off = true;
    resume(&w);
    go_on(&w, LATEST_MS);
    world_is_state(&w, "Pending");
    assert_string_equal(world_condition(&w, "Suspended"), "False");
    assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "WaitingForWorkers");
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "0 of 2 workers are ready");
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "WaitingForMaster");
    assert_string_equal(world_status(&w, "message"), "0 of 2 workers are ready");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_text_outlives_its_cause_by_more_than_a_second),
        cmocka_unit_test(a_resumed_job_waits_for_its_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
