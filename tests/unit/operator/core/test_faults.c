#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/observe/observe.h"
#include "operator/core/reconcile.h"
#include "tests/unit/operator/core/world.h"

/* What happens before the first master ends. */
enum between {
    NOTHING,
    SUSPENDED,
    WORKER_LOST,
    MASTER_LOST,
};

/* What happens to a job from its creation to its end; every step settles. */
struct story {
    const char *name;
    const char *spec;
    int exit_codes[3]; /* of the masters, -1: no further end */
    enum between between;
};

static const struct story stories[] = {
    {"success",
     "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}",
     {0, -1, -1},
     NOTHING},
    {"failure with everything removed",
     "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":1},\"cleanPodPolicy\":\"All\"}",
     {3, -1, -1},
     NOTHING},
    {"second attempt succeeds",
     "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},\"backoffLimit\":2}",
     {3, 0, -1},
     NOTHING},
    {"suspended and resumed, then both attempts fail",
     "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},\"backoffLimit\":1}",
     {1, 2, -1},
     SUSPENDED},
    {"two groups, suspended and resumed",
     "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2,\"minReplicas\":1},"
     "\"workerGroups\":[{\"name\":\"a\",\"replicas\":1}],\"backoffLimit\":1}",
     {1, 0, -1},
     SUSPENDED},
    {"a worker is killed for memory, which does not count, then success",
     "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},\"failurePolicy\":{"
     "\"rules\":[{\"action\":\"Ignore\",\"role\":\"Worker\"}]}}",
     {0, -1, -1},
     WORKER_LOST},
    {"the master's Job is deleted",
     "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}",
     {0, -1, -1},
     MASTER_LOST},
};

/* Settles; if the operator dies on the way, another one takes over with no memory. */
static void settle_across_death(struct world *w)
{
    world_settle(w);
    if (!w->is_dead)
        return;
    w->is_dead = false;
    w->actions_left = -1;
    w->status_written_ms = 0;
    w->n_failures = 0;
    world_settle(w);
}

static void go_on(struct world *w, int64_t after_ms)
{
    w->now_ms += after_ms;
    settle_across_death(w);
}

static void tell_between(struct world *w, enum between between)
{
    if (between == SUSPENDED) {
        world_edit(w, "{\"suspend\":true}");
        go_on(w, 0);
        world_edit(w, "{\"suspend\":false}");
    } else if (between == WORKER_LOST) {
        world_end_worker(w, "digits-worker-1", 137, "OOMKilled");
        go_on(w, 0);
        go_on(w, 60000);
    } else if (between == MASTER_LOST) {
        world_remove(w, "Job", "digits-master");
        while (world_controllers(w))
            ;
        go_on(w, 0);
        go_on(w, 60000);
    }
    go_on(w, 0);
}

/* Tells the story with a death after so many actions (-1: none); true if the operator died. */
static bool tell(const struct story *story, int actions, char **digest)
{
    struct world w;
    bool died;

    world_init(&w, story->spec);
    w.actions_left = actions;
    settle_across_death(&w);
    tell_between(&w, story->between);
    for (size_t i = 0; i < 3 && story->exit_codes[i] >= 0; i++) {
        world_end_master(&w, story->exit_codes[i], "last words");
        settle_across_death(&w);
    }
    died = w.actions_left == -1 && actions >= 0;
    assert_int_equal(world_pass(&w), 0);
    *digest = world_digest(&w);
    world_fini(&w);
    return died;
}

static void a_death_after_any_action_changes_nothing_in_the_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
        char *expected = NULL;
        bool died = true;
        int n = 0;

        (void)tell(&stories[i], -1, &expected);
        for (; died; n++) {
            char *found = NULL;

            died = tell(&stories[i], n, &found);
            if (strcmp(expected, found) != 0)
                print_error("%s, dead after %d actions\n", stories[i].name, n);
            assert_string_equal(found, expected);
            free(found);
            assert_true(n < 200);
        }
        assert_true(n > 10);
        free(expected);
    }
}

/* One reconcile that may run out of memory: then it says so and plans nothing. */
static void try_reconcile(const struct hvd_view *view, int64_t now_ms)
{
    struct hvd_plan plan = {0};
    hvd_status_t st = hvd_reconcile(view, now_ms, &plan, NULL);

    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    assert_true(st == HVD_OK || plan.n_actions == 0);
    hvd_plan_fini(&plan);
}

/* One pass over the world with failing allocations; the world itself does not change. */
static void torture(struct world *w)
{
    struct hvd_object objects[32] = {{0}};
    const struct hvd_object *pointers[32];
    struct hvd_job job = {0};
    struct hvd_view view = {.job = &job, .objects = pointers};
    const cJSON *item = NULL;
    size_t n = 0;

    cJSON_ArrayForEach(item, w->objects)
    {
        for (int kind = HVD_KIND_SECRET; kind < HVD_KIND_EVENT; kind++) {
            if (strcmp(hvd_json_str(item, "kind"), hvd_kind_info((enum hvd_kind)kind)->kind) != 0)
                continue;
            assert_int_equal(hvd_observe((enum hvd_kind)kind, item, &objects[n], NULL), HVD_OK);
            pointers[n] = &objects[n];
            n++;
        }
    }
    assert_int_equal(hvd_job_decode(world_find(w, "HorovodJob", "digits"), &job, NULL), HVD_OK);
    view.n_objects = n;
    HVD_MEM_TORTURE(try_reconcile(&view, w->now_ms));
    for (size_t i = 0; i < n; i++)
        hvd_observe_object_fini(&objects[i]);
    hvd_job_fini(&job);
}

static void reconcile_survives_every_failing_allocation(void **state)
{
    const struct story *story = &stories[3];
    struct world w;

    (void)state;
    world_init(&w, story->spec);
    torture(&w);
    for (int i = 0; i < 12; i++) {
        world_pass(&w);
        w.now_ms += 2000;
        (void)world_controllers(&w);
        torture(&w);
    }
    world_settle(&w);
    world_remove(&w, "Pod", "digits-worker-0");
    torture(&w);
    world_settle(&w);
    world_end_worker(&w, "digits-worker-1", 137, "OOMKilled");
    torture(&w);
    world_pass(&w);
    w.now_ms += 60000;
    torture(&w);
    world_end_master(&w, 1, "last words");
    torture(&w);
    world_edit(&w, "{\"suspend\":true}");
    torture(&w);
    world_settle(&w);
    world_edit(&w, "{\"suspend\":false,\"image\":\"j\"}");
    for (int i = 0; i < 6; i++) {
        torture(&w);
        world_pass(&w);
        w.now_ms += 2000;
        (void)world_controllers(&w);
    }
    world_fini(&w);
}

static void a_view_without_a_job_is_refused(void **state)
{
    const struct hvd_job empty = {0};
    const struct hvd_view view = {.job = &empty};
    struct hvd_plan plan = {0};

    (void)state;
    assert_int_equal(hvd_reconcile(&view, 1, &plan, NULL), HVD_ERR_INVALID);
    assert_int_equal(plan.n_actions, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_after_any_action_changes_nothing_in_the_end),
        cmocka_unit_test(reconcile_survives_every_failing_allocation),
        cmocka_unit_test(a_view_without_a_job_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
