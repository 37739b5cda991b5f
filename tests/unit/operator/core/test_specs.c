#include "tests/unit/support.h"

#include "operator/api/json.h"
#include "operator/core/reconcile.h"
#include "tests/unit/operator/core/world.h"

/* When the text of a spec is read, by a shell that keeps none. */

#define SHORT "\"image\":\"i\",\"command\":[\"c\"],\"worker\":{\"replicas\":2}"

/* Every pass of a job that nothing happens to. */
static void reads_nothing_more(struct world *w)
{
    int before = w->n_read;

    for (int i = 0; i < 20; i++) {
        assert_int_equal(world_pass(w), 0);
        w->now_ms += 60000;
    }
    assert_int_equal(w->n_read, before);
}

static void begin(struct world *w, const char *spec)
{
    world_init(w, spec);
    w->keeps_no_spec = true;
    world_settle(w);
}

static void a_life_reads_it_when_children_are_made_and_when_the_master_ended(void **state)
{
    struct world w;
    int before;

    (void)state;
    begin(&w, "{" SHORT ",\"backoffLimit\":1}");
    world_is_state(&w, "Running");
    assert_in_range(w.n_read, 2, 5); /* the workers and the rest, what they run, the master */
    reads_nothing_more(&w);
    before = w.n_read;
    world_end_master(&w, 1, "");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_in_range(w.n_read, before + 2, before + 5); /* failurePolicy, workers, master */
    reads_nothing_more(&w);
    before = w.n_read;
    world_end_master(&w, 0, "");
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    assert_in_range(w.n_read, before, before + 1);
    reads_nothing_more(&w);
    world_fini(&w);
}

static void a_job_at_rest_needs_none(void **state)
{
    static const char *const specs[] = {
        "{" SHORT ",\"suspend\":true}",
        "{" SHORT ",\"managedBy\":\"example.com/other\"}",
        "{\"image\":7,\"command\":[\"c\"],\"worker\":{\"replicas\":2}}",
        "{}",
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        begin(&w, specs[i]);
        assert_int_equal(w.n_read, 0);
        reads_nothing_more(&w);
        world_fini(&w);
    }
}

static void a_job_that_is_suspended_reads_it_when_it_goes_on(void **state)
{
    struct world w;
    int before;

    (void)state;
    begin(&w, "{" SHORT "}");
    before = w.n_read;
    world_edit(&w, "{\"suspend\":true}");
    world_settle(&w);
    world_is_state(&w, "Suspended");
    assert_int_equal(w.n_read, before);
    reads_nothing_more(&w);
    world_edit(&w, "{\"suspend\":false}");
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_in_range(w.n_read, before + 1, before + 3);
    world_fini(&w);
}

static void assert_reads_alone(const struct hvd_plan *plan)
{
    assert_int_equal(plan->n_actions, 1);
    assert_int_equal(plan->actions[0].type, HVD_ACTION_READ_SPEC);
    assert_int_equal(plan->actions[0].kind, HVD_KIND_HOROVODJOB);
    assert_string_equal(plan->actions[0].name, "digits");
    assert_null(plan->actions[0].body);
    assert_int_equal(plan->wake_at_ms, 0);
}

static void a_plan_that_reads_does_nothing_else(void **state)
{
    const cJSON *object;
    struct hvd_plan plan = {0};
    struct hvd_job job;
    struct hvd_view view = {.job = &job};
    struct world w;

    (void)state;
    world_init(&w, "{" SHORT "}");
    object = world_find(&w, "HorovodJob", "digits");
    assert_int_equal(hvd_job_decode(object, &job, NULL), HVD_OK);
    hvd_free(job.spec.text);
    job.spec.text = NULL;
    HVD_MEM_TORTURE({
        hvd_status_t st = hvd_reconcile(&view, w.now_ms, &plan, NULL);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        if (st == HVD_OK)
            assert_reads_alone(&plan);
        else
            assert_int_equal(plan.n_actions, 0);
        hvd_plan_fini(&plan);
    });
    hvd_job_fini(&job);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_reads_it_when_children_are_made_and_when_the_master_ended),
        cmocka_unit_test(a_job_at_rest_needs_none),
        cmocka_unit_test(a_job_that_is_suspended_reads_it_when_it_goes_on),
        cmocka_unit_test(a_plan_that_reads_does_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
