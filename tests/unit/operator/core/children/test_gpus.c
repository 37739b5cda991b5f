#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define SPEC_SIZE 2048
#define SHORT "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},\"resources\":%s%s}"
#define LONG                                                                                       \
    "{\"master\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"master\",\"image\":\"m\"}"   \
    "]}}},\"worker\":{\"replicas\":2,\"template\":{\"spec\":{%s\"containers\":[{\"name\":"         \
    "\"side\","                                                                                    \
    "\"image\":\"s\"},{\"name\":\"worker\",\"image\":\"w\",\"resources\":%s}]}}}}"
#define GPUS(n) "{\"limits\":{\"nvidia.com/gpu\":" n "}}"
#define CLAIM "{\"claims\":[{\"name\":\"gpus\"}]}"

/* A settled job in a world, of a spec. */
static void settle(struct world *w, const char *spec)
{
    world_init(w, spec);
    world_settle(w);
    world_is_state(w, "Running");
}

/* One of the short form, with resources and further members of the spec. */
static void begin(struct world *w, const char *resources, const char *more)
{
    char spec[SPEC_SIZE];

    (void)snprintf(spec, sizeof(spec), SHORT, resources, more);
    settle(w, spec);
}

/* One with templates, with further members of the worker's pod, and resources of its container. */
static void begin_long(struct world *w, const char *pod, const char *resources)
{
    char spec[SPEC_SIZE];

    (void)snprintf(spec, sizeof(spec), LONG, pod, resources);
    settle(w, spec);
}

static const cJSON *pod_of(const struct world *w, const char *kind, const char *name)
{
    return hvd_json_at(world_find(w, kind, name), "spec.template.spec");
}

/* The item of an array whose member has that text; NULL if none. */
static const cJSON *item_with(const cJSON *array, const char *member, const char *text)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, array)
    {
        const char *found = hvd_json_str(item, member);

        if (found && strcmp(found, text) == 0)
            return item;
    }
    return NULL;
}

/* Whether the operator has given that container memory on /dev/shm. */
static bool has_memory(const cJSON *pod, const char *container)
{
    const cJSON *volume = item_with(hvd_json_get(pod, "volumes"), "name", "horovod-shm");
    const cJSON *holder = item_with(hvd_json_get(pod, "containers"), "name", container);
    const cJSON *mount = item_with(hvd_json_get(holder, "volumeMounts"), "mountPath", "/dev/shm");
    char *text;

    assert_non_null(holder);
    if (!volume || !mount || strcmp(hvd_json_str(mount, "name"), "horovod-shm") != 0)
        return false;
    text = cJSON_PrintUnformatted(hvd_json_get(volume, "emptyDir"));
    assert_string_equal(text, "{\"medium\":\"Memory\"}");
    hvd_free(text);
    return true;
}

static void workers_with_gpus_get_memory_on_dev_shm(void **state)
{
    static const struct {
        const char *resources;
        bool has;
    } rows[] = {
        {GPUS("4"), true},
        {GPUS("\"4\""), true},
        {"{\"limits\":{\"amd.com/gpu\":1}}", true},
        {"{\"limits\":{\"nvidia.com/mig-1g.10gb\":1}}", true},
        {"{\"limits\":{\"nvidia.com/gpu.shared\":1}}", true},
        {GPUS("0"), false},
        {GPUS("\"0\""), false},
        {"{\"requests\":{\"nvidia.com/gpu\":1}}", false},
        {"{\"limits\":{\"rdma/ib\":1,\"memory\":\"1Gi\"}}", false},
        {"{}", false},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(&w, rows[i].resources, "");
        assert_int_equal(has_memory(pod_of(&w, "StatefulSet", "digits-worker"), "worker"),
                         rows[i].has);
        assert_false(has_memory(pod_of(&w, "Job", "digits-master"), "master"));
        world_fini(&w);
    }
}

static void a_master_that_runs_ranks_gets_it_too(void **state)
{
    struct world w;

    (void)state;
    begin(&w, GPUS("2"), ",\"runMasterAsWorker\":true");
    assert_true(has_memory(pod_of(&w, "Job", "digits-master"), "master"));
    world_fini(&w);
}

static void a_template_keeps_its_own_dev_shm(void **state)
{
    static const char *const pods[] = {"\"volumes\":[{\"name\":\"mine\",\"emptyDir\":{}}],",
                                       "\"hostIPC\":true,",
                                       "\"volumes\":[{\"name\":\"mine\",\"emptyDir\":{}}],", ""};
    static const char *const containers[] = {
        GPUS("1") ",\"volumeMounts\":[{\"name\":\"mine\",\"mountPath\":\"/dev/shm/\"}]", GPUS("1"),
        GPUS("1") ",\"volumeMounts\":[{\"name\":\"mine\",\"mountPath\":\"/dev/shmem\"}]",
        GPUS("1")};
    static const bool has[] = {false, false, true, true};
    struct world w;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        begin_long(&w, pods[i], containers[i]);
        assert_int_equal(has_memory(pod_of(&w, "StatefulSet", "digits-worker"), "worker"), has[i]);
        world_fini(&w);
    }
    begin_long(&w, "", GPUS("1"));
    assert_false(has_memory(pod_of(&w, "StatefulSet", "digits-worker"), "side"));
    world_fini(&w);
}

/* An operator that adds something to templates must not touch jobs that run without it. */
static void a_job_that_runs_without_it_runs_on(void **state)
{
    struct world w;
    int n_writes;

    (void)state;
    begin(&w, GPUS("4"), "");
    assert_true(world_patch(&w, "StatefulSet", "digits-worker",
                            "{\"spec\":{\"template\":{\"spec\":{\"volumes\":null}}}}"));
    assert_true(world_patch(&w, "Job", "digits-master",
                            "{\"spec\":{\"template\":{\"spec\":{\"volumes\":null}}}}"));
    world_restart(&w);
    n_writes = w.n_writes;
    world_pass_on(&w, 3);
    assert_int_equal(w.n_writes, n_writes);
    world_is_state(&w, "Running");
    assert_null(hvd_json_get(pod_of(&w, "StatefulSet", "digits-worker"), "volumes"));
    world_fini(&w);
}

static const char *sentence(const struct world *w)
{
    const char *text = hvd_json_str(item_with(w->events, "reason", "SlotsAssumed"), "message");

    return text ? text : "";
}

static void one_rank_beside_parts_of_gpus_is_reported_once(void **state)
{
    struct world w;

    (void)state;
    begin(&w, "{\"limits\":{\"nvidia.com/mig-1g.10gb\":2}}", "");
    assert_string_equal(
        sentence(&w), "spec.slotsPerWorker is auto, which counts no parts of GPUs: each worker of "
                      "StatefulSet digits-worker has 1 rank and 2 of nvidia.com/mig-1g.10gb; set "
                      "slotsPerWorker to the number of ranks");
    world_restart(&w);
    world_pass_on(&w, 3);
    assert_int_equal(world_events(&w, "SlotsAssumed"), 1);
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_edit(&w, "{\"suspend\":false,\"slotsPerWorker\":2}");
    world_settle(&w);
    assert_int_equal(world_events(&w, "SlotsAssumed"), 1);
    world_fini(&w);
}

static void one_rank_beside_claims_is_reported(void **state)
{
    struct world w;

    (void)state;
    begin_long(&w, "\"resourceClaims\":[{\"name\":\"gpus\"}],", CLAIM);
    assert_string_equal(sentence(&w),
                        "spec.slotsPerWorker is auto, which counts no resource claims: each worker "
                        "of StatefulSet digits-worker has 1 rank; if its claims are GPUs, set "
                        "slotsPerWorker to their number");
    world_fini(&w);
}

static void slots_that_are_clear_are_not_reported(void **state)
{
    static const char *const rows[][2] = {
        {GPUS("4"), ""},
        {"{\"limits\":{\"nvidia.com/gpu\":2,\"nvidia.com/mig-1g.10gb\":2}}", ""},
        {"{\"limits\":{\"nvidia.com/mig-1g.10gb\":1}}", ""},
        {"{\"limits\":{\"nvidia.com/mig-1g.10gb\":2}}", ",\"slotsPerWorker\":2"},
        {"{\"limits\":{\"nvidia.com/gpu\":2},\"claims\":[{\"name\":\"nics\"}]}", ""},
        {CLAIM, ",\"slotsPerWorker\":1"},
        {"{\"claims\":[]}", ""},
        {"{}", ""},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin(&w, rows[i][0], rows[i][1]);
        assert_string_equal(sentence(&w), "");
        world_fini(&w);
    }
}

static void each_group_is_reported_for_itself(void **state)
{
    struct world w;

    (void)state;
    begin(&w, "{\"limits\":{\"nvidia.com/gpu.shared\":2}}",
          ",\"workerGroups\":[{\"name\":\"a\",\"replicas\":1},"
          "{\"name\":\"b\",\"replicas\":1,\"slotsPerWorker\":2}]");
    assert_int_equal(world_events(&w, "SlotsAssumed"), 2);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_with_gpus_get_memory_on_dev_shm),
        cmocka_unit_test(a_master_that_runs_ranks_gets_it_too),
        cmocka_unit_test(a_template_keeps_its_own_dev_shm),
        cmocka_unit_test(a_job_that_runs_without_it_runs_on),
        cmocka_unit_test(one_rank_beside_parts_of_gpus_is_reported_once),
        cmocka_unit_test(one_rank_beside_claims_is_reported),
        cmocka_unit_test(slots_that_are_clear_are_not_reported),
        cmocka_unit_test(each_group_is_reported_for_itself),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
