#include "tests/unit/support.h"

#include <string.h>

#include "operator/api/json.h"
#include "operator/core/reconcile.h"
#include "tests/unit/operator/core/world.h"

#define JOB(more) "{\"image\":\"i\",\"command\":[\"t\"],\"slotsPerWorker\":2," more "}"
#define TWO_GROUPS                                                                                 \
    JOB("\"worker\":{\"replicas\":2},\"workerGroups\":[{\"name\":\"big\",\"replicas\":1,"          \
        "\"slotsPerWorker\":8,\"template\":{\"spec\":{\"containers\":[{\"name\":\"worker\","       \
        "\"image\":\"other\"}]}}}]")

static const char *hostfile(const struct world *w)
{
    const char *text = hvd_json_str(world_find(w, "ConfigMap", "digits-hosts"), "data.hostfile");

    return text ? text : "";
}

static const char *np(const struct world *w)
{
    const cJSON *containers =
        hvd_json_at(world_find(w, "Job", "digits-master"), "spec.template.spec.containers");
    const cJSON *command = hvd_json_get(cJSON_GetArrayItem(containers, 0), "command");

    return cJSON_GetStringValue(cJSON_GetArrayItem(command, 2));
}

static int64_t replicas(const struct world *w, const char *set)
{
    return hvd_json_int(world_find(w, "StatefulSet", set), "spec.replicas", -1);
}

static void set_ready(struct world *w, const char *pod, const char *ready)
{
    cJSON *conditions = (cJSON *)hvd_json_at(world_find(w, "Pod", pod), "status.conditions");

    assert_non_null(conditions);
    cJSON_SetValuestring(cJSON_GetObjectItem(cJSON_GetArrayItem(conditions, 0), "status"), ready);
}

static void each_group_is_a_set_of_its_own(void **state)
{
    const cJSON *set;
    struct world w;

    (void)state;
    world_init(&w, TWO_GROUPS);
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Running");
    assert_string_equal(world_status(&w, "ready"), "3/3");
    assert_string_equal(hostfile(&w),
                        "digits-worker-0.digits slots=2\ndigits-worker-1.digits slots=2\n"
                        "digits-worker-big-0.digits slots=8\n");
    assert_string_equal(np(&w), "12");
    set = world_find(&w, "StatefulSet", "digits-worker-big");
    assert_string_equal(cJSON_GetStringValue((cJSON *)hvd_json_get(
                            hvd_json_at(set, "spec.selector.matchLabels"), HVD_LABEL_GROUP)),
                        "big");
    assert_string_equal(
        hvd_json_str(cJSON_GetArrayItem(hvd_json_at(set, "spec.template.spec.containers"), 0),
                     "image"),
        "other");
    assert_null(hvd_json_get(
        hvd_json_at(world_find(&w, "StatefulSet", "digits-worker"), "spec.selector.matchLabels"),
        HVD_LABEL_GROUP));
    assert_int_equal(world_pass(&w), 0);
    world_fini(&w);
}

/* What autoscalers read. */
static int64_t shown_replicas(const struct world *w)
{
    return hvd_json_int(world_find(w, "HorovodJob", "digits"), "status.replicas", -1);
}

static void the_master_waits_for_every_group(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, TWO_GROUPS);
    w.is_kubelet_off = true;
    world_settle(&w);
    assert_null(world_find(&w, "Job", "digits-master"));
    w.is_kubelet_off = false;
    while (world_controllers(&w))
        continue;
    w.now_ms += 5000; /* counts alone are not written sooner */
    set_ready(&w, "digits-worker-big-0", "False");
    world_settle(&w);
    assert_null(world_find(&w, "Job", "digits-master"));
    assert_string_equal(world_status(&w, "ready"), "2/3");
    assert_int_equal(shown_replicas(&w), 2);
    set_ready(&w, "digits-worker-big-0", "True");
    world_settle(&w);
    assert_non_null(world_find(&w, "Job", "digits-master"));
    assert_string_equal(world_status(&w, "ready"), "3/3");
    assert_int_equal(shown_replicas(&w), 2);
    assert_string_equal(world_status(&w, "selector"),
                        "horovod.io/job-name=digits,horovod.io/role=worker,!" HVD_LABEL_GROUP);
    world_fini(&w);
}

static void a_group_of_somebody_else_is_left_alone(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, TWO_GROUPS);
    world_put(&w, "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"digits-worker-big\","
                  "\"namespace\":\"default\"}}");
    world_settle(&w);
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "Conflict");
    assert_non_null(
        strstr(world_condition_text(&w, "Running", "message"), "default/digits-worker-big exists"));
    assert_int_equal(world_events(&w, "Conflict"), 1);
    assert_null(world_find(&w, "Job", "digits-master"));
    world_fini(&w);
}

static void enough_workers_start_the_master_and_the_list_follows(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, JOB("\"worker\":{\"replicas\":4,\"minReplicas\":2}"));
    w.is_kubelet_off = true;
    world_settle(&w);
    w.is_kubelet_off = false;
    while (world_controllers(&w))
        continue;
    set_ready(&w, "digits-worker-0", "False");
    set_ready(&w, "digits-worker-2", "False");
    w.is_kubelet_off = true;
    world_settle(&w);
    assert_string_equal(hostfile(&w),
                        "digits-worker-1.digits slots=2\ndigits-worker-3.digits slots=2\n");
    assert_string_equal(np(&w), "4");
    assert_string_equal(world_status(&w, "ready"), "2/4");
    set_ready(&w, "digits-worker-0", "True");
    world_settle(&w);
    assert_string_equal(hostfile(&w),
                        "digits-worker-0.digits slots=2\ndigits-worker-1.digits slots=2\n"
                        "digits-worker-3.digits slots=2\n");
    assert_string_equal(np(&w), "4");
    world_fini(&w);
}

static void counts_are_written_when_their_time_has_come(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, JOB("\"worker\":{\"replicas\":3}"));
    w.now_ms += 700; /* the start is known to the second only */
    world_pass(&w);
    world_pass(&w);
    w.now_ms = w.wake_at_ms;
    world_pass(&w);
    while (world_controllers(&w))
        continue;
    set_ready(&w, "digits-worker-0", "False");
    world_pass(&w);
    assert_string_equal(world_status(&w, "ready"), "0/3");
    assert_true(w.wake_at_ms > w.now_ms);
    w.now_ms = w.wake_at_ms;
    world_pass(&w);
    assert_string_equal(world_status(&w, "ready"), "2/3");
    world_fini(&w);
}

/* Counts alone come the more seldom, the more jobs start: 100 at once cost no more than their
 * beginnings and ends. */
static void many_jobs_at_once_write_counts_seldom(void **state)
{
    static const struct {
        size_t n_others;
        int64_t first_ms, next_ms;
    } cases[] = {{0, 5000, 5000}, {19, 5000, 5000}, {99, 25000, 25000}, {10000, 30000, 30000}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;
        int64_t made_ms;

        world_init(&w, JOB("\"worker\":{\"replicas\":3}"));
        w.n_starting = cases[i].n_others;
        made_ms = w.now_ms;
        world_pass(&w);
        while (world_controllers(&w))
            continue;
        set_ready(&w, "digits-worker-0", "False");
        world_pass(&w);
        assert_string_equal(world_status(&w, "ready"), "");
        assert_int_equal(w.wake_at_ms - made_ms, cases[i].first_ms);
        w.now_ms = w.wake_at_ms;
        world_pass(&w);
        assert_string_equal(world_status(&w, "ready"), "2/3");
        set_ready(&w, "digits-worker-1", "False");
        world_pass(&w);
        assert_string_equal(world_status(&w, "ready"), "2/3");
        assert_true(w.wake_at_ms - w.now_ms >= cases[i].next_ms);
        assert_true(w.wake_at_ms - w.now_ms <= 30000);
        w.now_ms = w.wake_at_ms;
        world_pass(&w);
        assert_string_equal(world_status(&w, "ready"), "1/3");
        world_fini(&w);
    }
}

static void a_running_job_grows_and_shrinks(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, TWO_GROUPS);
    world_settle(&w);
    world_edit(&w, "{\"worker\":{\"replicas\":1,\"minReplicas\":1},\"workerGroups\":[{\"name\":"
                   "\"big\",\"replicas\":2,"
                   "\"slotsPerWorker\":8,\"template\":{\"spec\":{\"containers\":[{\"name\":"
                   "\"worker\",\"image\":\"other\"}]}}}]}");
    world_pass(&w);
    world_pass(&w);
    /* Who has to go is not listed from then on, though it still is Ready. */
    assert_non_null(world_find(&w, "Pod", "digits-worker-1"));
    assert_string_equal(hostfile(&w), "digits-worker-0.digits slots=2\n"
                                      "digits-worker-big-0.digits slots=8\n");
    world_settle(&w);
    assert_int_equal(replicas(&w, "digits-worker"), 1);
    assert_int_equal(replicas(&w, "digits-worker-big"), 2);
    assert_string_equal(hostfile(&w), "digits-worker-0.digits slots=2\n"
                                      "digits-worker-big-0.digits slots=8\n"
                                      "digits-worker-big-1.digits slots=8\n");
    assert_string_equal(world_status(&w, "state"), "Running");
    assert_int_equal(world_events(&w, "Suspended"), 0);
    world_fini(&w);
}

static void a_group_that_is_dropped_while_suspended_goes(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, TWO_GROUPS);
    world_settle(&w);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    assert_int_equal(replicas(&w, "digits-worker-big"), 0);
    world_edit(&w, "{\"workerGroups\":[{\"name\":\"small\",\"replicas\":1}],\"suspend\":false}");
    world_settle(&w);
    assert_null(world_find(&w, "StatefulSet", "digits-worker-big"));
    assert_int_equal(replicas(&w, "digits-worker-small"), 1);
    assert_string_equal(world_status(&w, "state"), "Running");
    assert_string_equal(np(&w), "6");
    world_fini(&w);
}

static const char *image_of(const struct world *w, const char *set)
{
    const cJSON *containers =
        hvd_json_at(world_find(w, "StatefulSet", set), "spec.template.spec.containers");

    return hvd_json_str(cJSON_GetArrayItem(containers, 0), "image");
}

/* The job is resumed with another image; the operator dies after so many actions, and another one
 * finds what the controllers made of it until then. False when it did not die. */
static bool resume_across_death(int n_actions)
{
    struct world w;
    bool has_died;

    world_init(&w, JOB("\"worker\":{\"replicas\":2},\"workerGroups\":[{\"name\":\"big\","
                       "\"replicas\":1},{\"name\":\"tiny\",\"replicas\":1}]"));
    world_settle(&w);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":false,\"image\":\"next\"}");
    w.actions_left = n_actions;
    world_settle(&w);
    has_died = w.is_dead;
    while (world_controllers(&w))
        ;
    w.is_dead = false;
    w.actions_left = -1;
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Running");
    assert_string_equal(image_of(&w, "digits-worker"), "next");
    assert_string_equal(image_of(&w, "digits-worker-big"), "next");
    assert_string_equal(image_of(&w, "digits-worker-tiny"), "next");
    world_fini(&w);
    return has_died;
}

static void groups_that_start_one_by_one_all_start_with_the_new_template(void **state)
{
    int n = 0;

    (void)state;
    while (resume_across_death(n))
        n++;
    assert_in_range(n, 6, 50);
}

static void the_end_of_a_job_removes_every_group(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, TWO_GROUPS);
    world_settle(&w);
    world_end_master(&w, 0, "");
    world_settle(&w);
    assert_string_equal(world_status(&w, "state"), "Succeeded");
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_null(world_find(&w, "StatefulSet", "digits-worker-big"));
    assert_null(world_find(&w, "Pod", "digits-worker-big-0"));
    world_fini(&w);
}

static void a_master_that_runs_ranks_counts_for_np_and_has_the_workers_resources(void **state)
{
    const cJSON *containers;
    struct world w;

    (void)state;
    world_init(&w, JOB("\"runMasterAsWorker\":true,\"worker\":{\"replicas\":2},\"resources\":"
                       "{\"limits\":{\"memory\":\"64Mi\"}}"));
    world_settle(&w);
    assert_string_equal(np(&w), "6");
    assert_int_equal(hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.hosts", 0), 3);
    containers =
        hvd_json_at(world_find(&w, "Job", "digits-master"), "spec.template.spec.containers");
    assert_string_equal(hvd_json_str(cJSON_GetArrayItem(containers, 0), "resources.limits.memory"),
                        "64Mi");
    world_fini(&w);
}

/* One pass over a job without children, whose list is longer than a ConfigMap may be. */
static void pass_over_long_list(struct hvd_job *job, struct hvd_plan *plan)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"5\",\"name\":"
        "\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrs\"},\"spec\":{\"image\":\"i\","
        "\"command\":[\"t\"],\"slotsPerWorker\":8,\"worker\":{\"replicas\":10000}}}";
    const struct hvd_view view = {.job = job};
    cJSON *object = cJSON_Parse(text);

    assert_int_equal(hvd_job_decode(object, job, NULL), HVD_OK);
    assert_int_equal(hvd_reconcile(&view, 1700000000000, plan, NULL), HVD_OK);
    cJSON_Delete(object);
}

static void a_list_that_is_too_long_is_said_to_be_before_any_worker_is_made(void **state)
{
    struct hvd_plan plan = {0};
    struct hvd_job job = {0};
    bool is_said = false;

    (void)state;
    pass_over_long_list(&job, &plan);
    for (size_t i = 0; i < plan.n_actions; i++) {
        assert_int_not_equal(plan.actions[i].kind, HVD_KIND_STATEFULSET);
        assert_int_not_equal(plan.actions[i].kind, HVD_KIND_CONFIGMAP);
        is_said = is_said || (plan.actions[i].type == HVD_ACTION_PATCH_STATUS &&
                              strstr(plan.actions[i].body, "\"HostListTooLong\"") &&
                              strstr(plan.actions[i].body, "a ConfigMap holds 1048576"));
    }
    assert_true(is_said);
    hvd_plan_fini(&plan);
    hvd_job_fini(&job);
}

static void every_allocation_may_fail(void **state)
{
    cJSON *object = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"u\","
                                "\"resourceVersion\":\"5\"}}");
    struct hvd_job job = {0};
    const struct hvd_view view = {.job = &job};

    (void)state;
    cJSON_AddItemToObject(object, "spec", cJSON_Parse(TWO_GROUPS));
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    HVD_MEM_TORTURE({
        struct hvd_plan plan = {0};
        hvd_status_t st = hvd_reconcile(&view, 1700000000000, &plan, NULL);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_plan_fini(&plan);
    });
    hvd_job_fini(&job);
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_is_a_set_of_its_own),
        cmocka_unit_test(the_master_waits_for_every_group),
        cmocka_unit_test(a_group_of_somebody_else_is_left_alone),
        cmocka_unit_test(enough_workers_start_the_master_and_the_list_follows),
        cmocka_unit_test(counts_are_written_when_their_time_has_come),
        cmocka_unit_test(many_jobs_at_once_write_counts_seldom),
        cmocka_unit_test(a_running_job_grows_and_shrinks),
        cmocka_unit_test(a_group_that_is_dropped_while_suspended_goes),
        cmocka_unit_test(groups_that_start_one_by_one_all_start_with_the_new_template),
        cmocka_unit_test(the_end_of_a_job_removes_every_group),
        cmocka_unit_test(a_master_that_runs_ranks_counts_for_np_and_has_the_workers_resources),
        cmocka_unit_test(a_list_that_is_too_long_is_said_to_be_before_any_worker_is_made),
        cmocka_unit_test(every_allocation_may_fail),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
