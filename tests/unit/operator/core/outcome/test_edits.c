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
    world_pass_on(&w, 4);
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
            world_pass_on(&w, 2);
        world_end_master(&w, 0, NULL);
        assert_true(world_patch(&w, "Job", "digits-master",
                                "{\"status\":{\"conditions\":[{\"type\":\"Complete\","
                                "\"status\":\"True\"}]}}"));
        world_pass_on(&w, 4);
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
    world_pass_on(&w, 4);
    assert_string_equal(world_status(&w, "image"), "img");
    world_fini(&w);
}

/* The end, after which edits start nothing. */
static void finish(struct world *w, int exit_code)
{
    world_start(w, "");
    world_end_master(w, exit_code, NULL);
    world_pass_on(w, 4);
    world_is_state(w, exit_code ? "Failed" : "Succeeded");
    assert_int_equal(world_events(w, "SpecIgnored"), 0);
}

static void an_edit_of_a_finished_job_has_one_event_that_it_is_ignored(void **state)
{
    static const char *const edits[] = {"{\"worker\":{\"replicas\":5}}", "{\"suspend\":true}",
                                        "{\"suspend\":false}", "{\"backoffLimit\":7}"};

    (void)state;
    for (int exit_code = 0; exit_code < 2; exit_code++) {
        struct world w;

        finish(&w, exit_code);
        for (int i = 0; i < (int)(sizeof(edits) / sizeof(edits[0])); i++) {
            const int n_writes = w.n_writes;

            world_edit(&w, edits[i]);
            world_pass_on(&w, 3);
            world_restart(&w);
            world_pass_on(&w, 3);
            assert_int_equal(world_events(&w, "SpecIgnored"), i + 1);
            assert_int_equal(w.n_writes - n_writes, 2); /* the event and the generation */
            assert_int_equal(
                hvd_json_int(world_find(&w, "HorovodJob", "digits"), "status.observedGeneration",
                             0),
                hvd_json_int(world_find(&w, "HorovodJob", "digits"), "metadata.generation", -1));
        }
        world_fini(&w);
    }
}

/* The operator dies between the event and the status, or cannot write the status. */
static void an_ignored_edit_has_one_event_whatever_comes_of_the_status(void **state)
{
    struct world w;

    (void)state;
    finish(&w, 0);
    world_edit(&w, "{\"worker\":{\"replicas\":5}}");
    w.actions_left = 1;
    (void)world_pass(&w);
    assert_true(w.is_dead);
    world_restart(&w);
    w.is_status_denied = true;
    world_pass_on(&w, 6);
    w.is_status_denied = false;
    world_pass_on(&w, 60);
    assert_int_equal(world_events(&w, "SpecIgnored"), 1);
    world_fini(&w);
}

/* An edit of its metadata is none of the spec, and a job that expires at once needs no advice. */
static void a_job_that_goes_or_was_not_edited_has_no_event_of_an_ignored_edit(void **state)
{
    struct world w;

    (void)state;
    finish(&w, 0);
    assert_true(
        world_patch(&w, "HorovodJob", "digits", "{\"metadata\":{\"labels\":{\"team\":\"a\"}}}"));
    world_pass_on(&w, 3);
    assert_int_equal(world_events(&w, "SpecIgnored"), 0);
    world_edit(&w, "{\"ttlSecondsAfterFinished\":0}");
    world_pass_on(&w, 3);
    assert_null(world_find(&w, "HorovodJob", "digits"));
    assert_int_equal(world_events(&w, "SpecIgnored"), 0);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_shows_the_new_image_once_no_pod_has_the_old_one),
        cmocka_unit_test(a_job_that_ends_while_it_is_suspended_keeps_the_image_that_it_ran_with),
        cmocka_unit_test(the_image_of_another_writer_is_replaced),
        cmocka_unit_test(an_edit_of_a_finished_job_has_one_event_that_it_is_ignored),
        cmocka_unit_test(an_ignored_edit_has_one_event_whatever_comes_of_the_status),
        cmocka_unit_test(a_job_that_goes_or_was_not_edited_has_no_event_of_an_ignored_edit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
