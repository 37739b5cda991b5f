#include "tests/unit/support.h"

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* The event of a suspension tells of what was stopped. */

static int64_t number(const struct world *w, const char *path)
{
    return hvd_json_int(hvd_json_get(world_find(w, "HorovodJob", "digits"), "status"), path, -1);
}

/* The user takes it back after so many actions of the operator, which dies there. */
static void a_suspension_is_told_of_where_it_has_stopped_something(void **state)
{
    (void)state;
    for (int n_actions = 0; n_actions < 8; n_actions++) {
        struct world w;

        world_start(&w, "");
        w.actions_left = n_actions;
        world_edit(&w, "{\"suspend\":true}");
        world_settle(&w);
        w.is_dead = false;
        w.actions_left = -1;
        world_edit(&w, "{\"suspend\":false}");
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(number(&w, "interruptions"), n_actions > 0);
        assert_int_equal(world_events(&w, "Suspended"), number(&w, "interruptions"));
        assert_int_equal(world_events(&w, "Resumed"), number(&w, "interruptions"));
        world_fini(&w);
    }
}

/* One pass has all there is to do. */
static void a_job_made_suspended_is_told_of_at_once(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"suspend\":true");
    world_is_state(&w, "Suspended");
    assert_string_equal(world_condition(&w, "Suspended"), "True");
    assert_string_equal(world_condition_text(&w, "Suspended", "message"),
                        "the job is suspended by spec.suspend");
    assert_int_equal(w.n_writes, 2);
    assert_int_equal(world_events(&w, "Suspended"), 1);
    world_fini(&w);
}

/* Whatever happens once the status has begun it. */
static void a_suspension_that_has_begun_is_told_of_however_the_job_ends(void **state)
{
    static const char *const ends[] = {"Succeeded", "Failed", "Failed"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct world w;

        print_message("case %zu\n", i);
        world_start(&w, "");
        world_hold(&w, "HorovodJob", "digits");
        world_edit(&w, "{\"suspend\":true}");
        while (!*world_condition(&w, "Suspended"))
            (void)world_pass(&w);
        assert_int_equal(world_events(&w, "Suspended"), 0);
        if (i == 0)
            assert_true(world_patch(
                &w, "Job", "digits-master",
                "{\"status\":{\"conditions\":[{\"type\":\"Complete\",\"status\":\"True\"}]}}"));
        if (i == 1)
            world_edit(&w, "{\"image\":null}");
        if (i == 2) {
            world_edit(&w, "{\"suspend\":false}");
            world_remove(&w, "HorovodJob", "digits");
        }
        world_settle(&w);
        world_is_state(&w, ends[i]);
        assert_int_equal(world_events(&w, "Suspended"), 1);
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suspension_is_told_of_where_it_has_stopped_something),
        cmocka_unit_test(a_job_made_suspended_is_told_of_at_once),
        cmocka_unit_test(a_suspension_that_has_begun_is_told_of_however_the_job_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
