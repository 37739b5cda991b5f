#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* What an edit of the spec changes in the status. */

static void suspend_with_another_image(struct world *w)
{
    world_edit(w, "{\"suspend\":true,\"image\":\"new\"}");
}

static void pass_on(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        (void)world_pass(w);
        while (world_controllers(w))
            (void)world_pass(w);
        w->now_ms += 10000;
    }
}

/* Its pods have the old image until the suspension has removed them. */
static void a_job_shows_the_new_image_once_no_pod_has_the_old_one(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    suspend_with_another_image(&w);
    (void)world_pass(&w);
    assert_string_equal(world_status(&w, "state"), "Suspended");
    assert_string_equal(world_status(&w, "image"), "img");
    pass_on(&w, 4);
    assert_string_equal(world_condition(&w, "Suspended"), "True");
    assert_string_equal(world_status(&w, "image"), "new");
    world_fini(&w);
}

/* Before the operator sees the suspension, or while a webhook keeps it from deleting the Job. */
static void a_job_that_ends_while_it_is_suspended_keeps_the_image_that_it_ran_with(void **state)
{
    (void)state;
    for (int is_denied = 0; is_denied < 2; is_denied++) {
        struct world w;

        world_start(&w, "");
        w.deny_kind = is_denied ? "Job" : NULL;
        suspend_with_another_image(&w);
        if (is_denied)
            pass_on(&w, 2);
        world_end_master(&w, 0, NULL);
        assert_true(world_patch(&w, "Job", "digits-master",
                                "{\"status\":{\"conditions\":[{\"type\":\"Complete\","
                                "\"status\":\"True\"}]}}"));
        pass_on(&w, 4);
        world_is_state(&w, "Succeeded");
        assert_string_equal(world_status(&w, "image"), "img");
        world_fini(&w);
    }
}

/* An image in the status of a job that runs counts for nothing: it is computed anew. */
static void the_image_of_another_writer_is_replaced(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    assert_true(world_patch(&w, "HorovodJob", "digits", "{\"status\":{\"image\":\"forged\"}}"));
    pass_on(&w, 4);
    assert_string_equal(world_status(&w, "image"), "img");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_shows_the_new_image_once_no_pod_has_the_old_one),
        cmocka_unit_test(a_job_that_ends_while_it_is_suspended_keeps_the_image_that_it_ran_with),
        cmocka_unit_test(the_image_of_another_writer_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
