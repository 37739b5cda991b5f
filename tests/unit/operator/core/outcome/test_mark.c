#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/outcome/mark.h"
#include "operator/core/writes/repair.h"
#include "tests/unit/operator/core/world.h"

/* Ends that were carried out while the status could not be written: an operator that starts anew
 * finds them on the ConfigMap. */

#define MORE ",\"activeDeadlineSeconds\":300"

/* An operator that goes on, and controllers with it. */
static void go_on(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        (void)world_pass(w);
        while (world_controllers(w))
            (void)world_pass(w);
        w->now_ms += 10000;
    }
}

static void restart(struct world *w)
{
    world_restart(w);
    hvd_repairs_fini(&w->repairs);
}

/* A job that runs; of one that is new no status was ever written. */
static void begin(struct world *w, bool is_new, const char *more)
{
    char spec[512];

    (void)snprintf(spec, sizeof(spec),
                   "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}%s}", more);
    world_init(w, spec);
    w->is_status_denied = is_new;
    go_on(w, 4);
    w->is_status_denied = true;
    assert_non_null(world_find(w, "Pod", "digits-master-abcde"));
}

static const char *noted(const struct world *w)
{
    const cJSON *map = world_find(w, "ConfigMap", "digits-hosts");

    return cJSON_GetStringValue(
        hvd_json_get(hvd_json_at(map, "metadata.annotations"), "horovod.io/end"));
}

/* Nothing is made again, also where the status can be written at last. */
static void is_over(struct world *w, const char *state, const char *reason)
{
    restart(w);
    go_on(w, 10);
    assert_null(world_find(w, "StatefulSet", "digits-worker"));
    assert_null(world_find(w, "Pod", "digits-master-abcde"));
    w->is_status_denied = false;
    go_on(w, 10);
    assert_null(world_find(w, "StatefulSet", "digits-worker"));
    world_is_state(w, state);
    assert_string_equal(world_condition_text(w, state, "reason"), reason);
    assert_int_equal(world_events(w, "Succeeded") + world_events(w, "Failed"), 1);
    assert_int_equal(world_events(w, "MasterStarted"), 1);
}

static void an_end_that_no_status_tells_of_is_not_run_again(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;

        begin(&w, i % 2, "");
        world_end_master(&w, i / 2, NULL);
        go_on(&w, 4);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_non_null(noted(&w));
        world_remove(&w, "Job", "digits-master");
        while (world_controllers(&w))
            ;
        is_over(&w, i / 2 ? "Failed" : "Succeeded", i / 2 ? "MasterFailed" : "MasterSucceeded");
        assert_int_equal(
            hvd_json_int(hvd_json_get(world_find(&w, "HorovodJob", "digits"), "status"), "failures",
                         -1),
            i / 2);
        world_fini(&w);
    }
}

static void a_deadline_that_was_carried_out_is_not_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;

        begin(&w, i % 2, MORE);
        go_on(&w, 40);
        assert_null(world_find(&w, "Job", "digits-master"));
        if (i / 2)
            world_edit(&w, "{\"activeDeadlineSeconds\":100000}");
        is_over(&w, "Failed", "DeadlineExceeded");
        world_fini(&w);
    }
}

/* The same operator: a deadline that is raised, a suspension, another template. */
static void what_is_edited_after_the_end_changes_nothing(void **state)
{
    static const char *const edits[] = {"{\"activeDeadlineSeconds\":100000}", "{\"suspend\":true}",
                                        "{\"image\":\"j\",\"backoffLimit\":7}"};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(edits) / sizeof(edits[0]); i++) {
        struct world w;

        begin(&w, false, MORE);
        if (i % 2)
            world_end_master(&w, 1, NULL);
        go_on(&w, 40);
        world_edit(&w, edits[i / 2]);
        go_on(&w, 10);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        w.is_status_denied = false;
        go_on(&w, 4);
        world_is_state(&w, "Failed");
        assert_string_equal(world_condition_text(&w, "Failed", "reason"),
                            i % 2 ? "MasterFailed" : "DeadlineExceeded");
        assert_int_equal(world_events(&w, "Failed"), 1);
        assert_int_equal(world_events(&w, "Suspended"), 0);
        world_fini(&w);
    }
}

/* Whether an event has these words. */
static bool is_told(const struct world *w, const char *words)
{
    const cJSON *event = NULL;

    cJSON_ArrayForEach(event, w->events)
    {
        const char *message = hvd_json_str(event, "message");

        if (message && strstr(message, words))
            return true;
    }
    return false;
}

/* A job that runs is suspended, and resumed after n_times, while no status can be written. */
static void suspend_unwritten(struct world *w, const char *more, int n_times, bool is_restarted)
{
    begin(w, false, more);
    for (int i = 0; i < n_times; i++) {
        world_edit(w, "{\"suspend\":true}");
        go_on(w, 10);
        assert_null(world_find(w, "Job", "digits-master"));
        if (is_restarted)
            restart(w);
        world_edit(w, "{\"suspend\":false}");
        go_on(w, 10);
        assert_null(world_find(w, "Job", "digits-master"));
    }
}

/* The operator itself has deleted the master's Job: nobody else is accused of it. */
static void a_suspension_that_was_carried_out_is_not_told_as_a_deletion_by_others(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct world w;

        suspend_unwritten(&w, "", 1 + i % 2, i / 2 % 2);
        w.is_status_denied = false;
        w.has_waits = i / 4;
        go_on(&w, 10);
        world_is_state(&w, "Running");
        assert_string_equal(world_status(&w, "attemptLogs.1.reason"), "Suspended");
        assert_int_equal(
            hvd_json_int(hvd_json_get(world_find(&w, "HorovodJob", "digits"), "status"),
                         "interruptions", -1),
            1);
        assert_false(is_told(&w, "was deleted"));
        assert_int_equal(world_events(&w, "Restarting"), 0);
        assert_int_equal(world_events(&w, "Resumed"), 1);
        assert_in_range(world_events(&w, "Suspended"), 1, 2);
        /* What was noted of the first start is nothing of the second one. */
        world_remove(&w, "Job", "digits-master");
        restart(&w);
        go_on(&w, 10);
        assert_true(is_told(&w, "Job digits-master was deleted (attempt 1 of 1 after 1"));
        world_end_master(&w, 0, NULL);
        w.is_status_denied = true;
        go_on(&w, 4);
        assert_true(hvd_str_has_prefix(noted(&w), "Succeeded 3 0 2 "));
        w.is_status_denied = false;
        go_on(&w, 10);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

/* The job is deleted, succeeds, or gets a wrong template meanwhile. */
static void what_follows_a_suspension_that_was_carried_out_is_told_as_it_is(void **state)
{
    struct world w;

    (void)state;
    suspend_unwritten(&w, "", 1, true);
    world_hold(&w, "HorovodJob", "digits");
    world_remove(&w, "HorovodJob", "digits");
    w.is_status_denied = false;
    go_on(&w, 10);
    world_is_state(&w, "Failed");
    assert_string_equal(world_status(&w, "attemptLogs.1.reason"), "Suspended");
    assert_false(is_told(&w, "its master's Job was"));
    world_fini(&w);

    begin(&w, false, MORE);
    world_edit(&w, "{\"suspend\":true}");
    go_on(&w, 10);
    assert_true(hvd_str_has_prefix(noted(&w), "Suspended 1 0 1 Suspended "));
    world_edit(&w, "{\"suspend\":false,\"command\":[]}");
    go_on(&w, 10);
    assert_true(hvd_str_has_prefix(noted(&w), "Failed 1 0 1 InvalidTemplate "));
    restart(&w);
    w.is_status_denied = false;
    go_on(&w, 10);
    world_is_state(&w, "Failed");
    assert_string_equal(world_condition_text(&w, "Failed", "reason"), "InvalidTemplate");
    world_fini(&w);
}

/* Neither status nor note: nobody knows who has deleted the Job, and nobody is accused. */
static void a_deletion_that_could_be_the_operators_accuses_nobody(void **state)
{
    static const char *const edits[] = {"{\"suspend\":true}", "{\"suspend\":false}"};

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct world w;

        begin(&w, false, i % 2 ? MORE : "");
        w.deny_kind = "ConfigMap";
        if (i / 2 % 2)
            world_remove(&w, "ConfigMap", "digits-hosts");
        if (i % 2 == 0)
            world_edit(&w, edits[0]);
        go_on(&w, 40);
        assert_null(world_find(&w, "Job", "digits-master"));
        if (i / 4)
            restart(&w);
        world_edit(&w, i % 2 ? "{\"activeDeadlineSeconds\":100000}" : edits[1]);
        w.deny_kind = NULL;
        w.is_status_denied = false;
        go_on(&w, 10);
        world_is_state(&w, "Running");
        assert_int_equal(world_events(&w, "Restarting"), 1);
        assert_true(is_told(&w, "for a suspension or an end that no status records"));
        assert_non_null(strstr(world_status(&w, "attemptLogs.1.message"), "by this operator"));
        world_fini(&w);
    }
}

/* Where it cannot be noted either, what is due is done all the same. */
static void an_end_that_cannot_be_noted_holds_nothing_up(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;
        int n_sent;

        begin(&w, false, MORE);
        w.has_waits = true;
        if (i % 2)
            world_end_master(&w, 0, NULL);
        if (i / 2)
            world_remove(&w, "ConfigMap", "digits-hosts");
        else
            w.deny_kind = "ConfigMap";
        go_on(&w, 40);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_int_equal(world_find(&w, "Job", "digits-master") != NULL, i % 2);
        n_sent = w.n_sent;
        go_on(&w, 20);
        assert_in_range(w.n_sent - n_sent, 0, 40);
        w.deny_kind = NULL;
        w.is_status_denied = false;
        go_on(&w, 10);
        world_is_state(&w, i % 2 ? "Succeeded" : "Failed");
        assert_int_equal(world_events(&w, "Succeeded") + world_events(&w, "Failed"), 1);
        world_fini(&w);
    }
}

/* Another writer takes the note away again and again. */
static void a_note_that_others_take_away_costs_a_bounded_number_of_writes(void **state)
{
    struct world w;
    int n_sent;

    (void)state;
    begin(&w, false, "");
    world_end_master(&w, 0, NULL);
    go_on(&w, 4);
    n_sent = w.n_sent;
    for (int i = 0; i < 600; i++) {
        (void)world_patch(&w, "ConfigMap", "digits-hosts",
                          "{\"metadata\":{\"annotations\":{\"horovod.io/end\":null}}}");
        w.is_status_denied = i < 500;
        (void)world_pass(&w);
        while (world_controllers(&w))
            (void)world_pass(&w);
        w.now_ms += 1000;
    }
    assert_in_range(w.n_sent - n_sent, 1, 600 + 20);
    world_is_state(&w, "Succeeded");
    assert_int_equal(world_events(&w, "Succeeded"), 1);
    world_fini(&w);
}

/* The failure is told of, and cannot be counted; later only an event about its Job is left. */
static void a_failure_that_cannot_be_counted_is_told_once(void **state)
{
    (void)state;
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        struct world w;

        begin(&w, false, ",\"backoffLimit\":2");
        world_end_master(&w, 1, "boom");
        go_on(&w, 4);
        w.trace = HVD_FAILURE_FAILED;
        w.trace_text = "Job has reached the specified backoff limit";
        world_remove(&w, "Job", "digits-master");
        if (is_restarted)
            restart(&w);
        go_on(&w, 10);
        w.is_status_denied = false;
        go_on(&w, 10);
        assert_int_equal(world_events(&w, "Restarting"), 1);
        w.trace = HVD_FAILURE_NO_TRACE;
        go_on(&w, 10);
        world_is_state(&w, "Running");
        world_end_master(&w, 1, "boom");
        go_on(&w, 2);
        assert_int_equal(world_events(&w, "Restarting"), 2);
        world_fini(&w);
    }
}

/* What a status waits for that holds no news is no wait of one that does. */
static void news_do_not_wait_for_the_next_try_of_an_older_status(void **state)
{
    static const char *const events[] = {"Failed", "Succeeded", "Suspended"};

    (void)state;
    for (size_t i = 0; i < 3 * 20; i++) {
        struct world w;
        int64_t since_ms;

        begin(&w, true, ",\"activeDeadlineSeconds\":1000");
        w.has_waits = true;
        for (size_t n = 0; n < 300 + 10 * i; n++) {
            (void)world_pass(&w);
            w.now_ms += 100;
        }
        if (i % 3 == 0)
            w.now_ms += 1000000;
        else if (i % 3 == 1)
            world_end_master(&w, 0, NULL);
        else
            world_edit(&w, "{\"suspend\":true}");
        since_ms = w.now_ms;
        while (world_events(&w, events[i % 3]) == 0) {
            (void)world_pass(&w);
            while (world_controllers(&w))
                (void)world_pass(&w);
            w.now_ms += 50;
        }
        assert_in_range(w.now_ms - since_ms, 0, 1500);
        go_on(&w, 10);
        assert_int_equal(world_events(&w, events[i % 3]), 1);
        world_fini(&w);
    }
}

/* One of its own writing counts as it is; anything else counts for nothing. */
static void what_somebody_else_notes_does_no_harm(void **state)
{
    static const char *const texts[] = {
        "",
        "Succeeded",
        "Running 1 0 0 A b",
        "Succeeded 1 0 A b",
        "Succeeded -1 0 0 A b",
        "Succeeded 1 0 99999999999999999999 A b",
        "Failed 1 1 0 a-b c",
        "Failed 1 1 0 Bad",
        "Failed 1 1 0  none",
        "Failed 1 1 0 Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b"};
    struct hvd_mark mark, again;
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_false(hvd_mark_decode(texts[i], &mark));
        assert_int_equal(mark.state, HVD_JOB_NEW);
    }
    assert_false(hvd_mark_decode(NULL, &mark));
    assert_true(hvd_mark_decode("Failed 2 1 0 MasterFailed pod x:  no\n more ", &mark));
    assert_int_equal(mark.attempts, 2);
    assert_int_equal(mark.failures, 1);
    assert_string_equal(mark.message, "pod x:  no\n more ");
    text = hvd_mark_encode(&mark);
    assert_true(hvd_mark_decode(text, &again));
    assert_memory_equal(&mark, &again, sizeof(mark));
    hvd_free(text);
}

/* ---- masters that succeed though their attempt was given up ---- */

static void complete(struct world *w)
{
    assert_true(world_patch(w, "Job", "digits-master",
                            "{\"status\":{\"conditions\":[{\"type\":\"Complete\","
                            "\"status\":\"True\"}]}}"));
}

static void a_master_that_succeeds_before_it_can_be_suspended_has_succeeded(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;

        world_start(&w, "");
        w.deny_kind = "Job";
        w.has_waits = i % 2;
        world_edit(&w, "{\"suspend\":true}");
        go_on(&w, 4);
        world_is_state(&w, "Suspended");
        if (i / 2) {
            world_edit(&w, "{\"suspend\":false}");
            go_on(&w, 4);
        }
        assert_non_null(world_find(&w, "Job", "digits-master"));
        world_end_master(&w, 0, NULL);
        complete(&w);
        go_on(&w, 4);
        world_is_state(&w, "Succeeded");
        w.deny_kind = NULL;
        go_on(&w, 40);
        world_is_state(&w, "Succeeded");
        assert_string_equal(world_condition(&w, "Suspended"), "False");
        assert_int_equal(world_events(&w, "Succeeded"), 1);
        assert_int_equal(world_events(&w, "Resumed"), 0);
        assert_int_equal(world_events(&w, "MasterStarted"), 1);
        world_fini(&w);
    }
}

/* The attempt had failed for a worker; the Job that is to go succeeds. */
static void a_master_that_succeeds_after_its_attempt_failed_has_succeeded(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":3");
    w.deny_kind = "Job";
    world_end_worker(&w, "digits-worker-1", 137, "OOMKilled");
    go_on(&w, 10);
    world_is_state(&w, "Restarting");
    world_end_master(&w, 0, NULL);
    complete(&w);
    go_on(&w, 4);
    w.deny_kind = NULL;
    go_on(&w, 10);
    world_is_state(&w, "Succeeded");
    assert_int_equal(world_events(&w, "Succeeded"), 1);
    world_fini(&w);
}

/* A Job that is on its way out may be stopped by that, and say that it has completed. */
static void a_job_that_is_being_deleted_does_not_succeed_late(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    world_hold(&w, "Job", "digits-master");
    world_edit(&w, "{\"suspend\":true}");
    go_on(&w, 4);
    complete(&w);
    go_on(&w, 4);
    world_is_state(&w, "Suspended");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_that_no_status_tells_of_is_not_run_again),
        cmocka_unit_test(a_deadline_that_was_carried_out_is_not_forgotten),
        cmocka_unit_test(what_is_edited_after_the_end_changes_nothing),
        cmocka_unit_test(a_suspension_that_was_carried_out_is_not_told_as_a_deletion_by_others),
        cmocka_unit_test(what_follows_a_suspension_that_was_carried_out_is_told_as_it_is),
        cmocka_unit_test(a_deletion_that_could_be_the_operators_accuses_nobody),
        cmocka_unit_test(an_end_that_cannot_be_noted_holds_nothing_up),
        cmocka_unit_test(a_note_that_others_take_away_costs_a_bounded_number_of_writes),
        cmocka_unit_test(a_failure_that_cannot_be_counted_is_told_once),
        cmocka_unit_test(news_do_not_wait_for_the_next_try_of_an_older_status),
        cmocka_unit_test(what_somebody_else_notes_does_no_harm),
        cmocka_unit_test(a_master_that_succeeds_before_it_can_be_suspended_has_succeeded),
        cmocka_unit_test(a_master_that_succeeds_after_its_attempt_failed_has_succeeded),
        cmocka_unit_test(a_job_that_is_being_deleted_does_not_succeed_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
