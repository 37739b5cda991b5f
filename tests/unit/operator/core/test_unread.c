#include "tests/unit/support.h"

#include <string.h>

#include "operator/api/json.h"
#include "operator/core/writes/refusal.h"
#include "operator/core/writes/repair.h"
#include "tests/unit/operator/core/world.h"

/* Reads that are refused for long, beside those of objects that no watch shows (test_labels.c): the
 * job tells of it, what does not need the answer goes on, and no read comes more often than its
 * wait allows. */

#define SPEC(more) "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}" more "}"
#define EVENTS                                                                                     \
    "the job waits for the events about Job digits-master, which show whether it has ended: they " \
    "cannot be read, will be tried again: "

static int64_t number(const struct world *w, const char *path)
{
    return hvd_json_int(hvd_json_get(world_find(w, "HorovodJob", "digits"), "status"), path, -1);
}

/* Passes at the times that the operator wants, for so long. */
static void pass_time(struct world *w, int seconds)
{
    const int64_t end_ms = w->now_ms + (int64_t)seconds * 1000;

    while (w->now_ms < end_ms) {
        world_settle(w);
        w->now_ms = w->wake_at_ms > w->now_ms ? w->wake_at_ms : w->now_ms + 2000;
    }
}

static void tells(const struct world *w, const char *type, const char *text)
{
    const char *message = world_condition_text(w, type, "message");

    if (!message || !strstr(message, text))
        fail_msg("%s: %s", type, message ? message : "(none)");
}

/* Refusals cost few requests, and nothing is written for them once they are told of. */
static void is_bounded(struct world *w, const char *type, const char *text)
{
    int n_sent;

    tells(w, type, text);
    assert_int_equal(world_events(w, "Denied"), 1);
    assert_in_range(w->n_unread, 5, 40);
    n_sent = w->n_sent;
    pass_time(w, 300);
    assert_int_equal(w->n_sent, n_sent);
    tells(w, type, text);
}

static void a_master_that_is_gone_is_told_of_while_its_events_cannot_be_read(void **state)
{
    static const enum hvd_failure_type ends[] = {HVD_FAILURE_NO_TRACE, HVD_FAILURE_SUCCEEDED};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world w;

        world_start(&w, "");
        w.unread_kind = "Event";
        w.deny_from = HVD_REFUSAL_LASTS;
        world_remove(&w, "Job", "digits-master");
        pass_time(&w, 5);
        assert_int_equal(world_events(&w, "Denied"), 0);
        assert_in_range(w.n_unread, 3, HVD_REFUSAL_LASTS - 1);
        pass_time(&w, 300);
        assert_string_equal(world_condition(&w, "Running"), "False");
        assert_string_equal(world_condition_text(&w, "Running", "reason"), "Denied");
        is_bounded(&w, "Running", EVENTS);
        assert_int_equal(number(&w, "attempts"), 1);
        w.unread_kind = NULL;
        w.trace = ends[i];
        pass_time(&w, 120);
        world_is_state(&w, i ? "Succeeded" : "Running");
        assert_int_equal(number(&w, "attempts"), i ? 1 : 2);
        assert_int_equal(number(&w, "interruptions"), i ? 0 : 1);
        assert_null(strstr(world_condition_text(&w, "Running", "message"), "cannot be read"));
        world_fini(&w);
    }
}

/* Begins a job whose workers are Ready; the operator that made them is no more. */
static void begin(struct world *w, const char *spec)
{
    world_init(w, spec);
    w->is_kubelet_off = true;
    world_settle(w);
    cJSON_DeleteItemFromObject(world_find(w, "HorovodJob", "digits"), "status");
    w->is_kubelet_off = false;
    while (world_controllers(w))
        continue;
    world_restart(w);
    hvd_repairs_fini(&w->repairs);
    w->status_written_ms = 0;
}

static void a_job_without_a_status_gets_one_while_events_cannot_be_read(void **state)
{
    struct world w;

    (void)state;
    begin(&w, SPEC(""));
    w.unread_kind = "Event";
    pass_time(&w, 300);
    world_is_state(&w, "Starting");
    assert_string_equal(world_status(&w, "ready"), "2/2");
    is_bounded(&w, "Running", EVENTS);
    assert_null(world_find(&w, "Job", "digits-master"));
    w.unread_kind = NULL;
    pass_time(&w, 60);
    world_is_state(&w, "Running");
    assert_int_equal(number(&w, "attempts"), 1);
    world_fini(&w);
}

/* Whatever cannot be read. */
static void a_deadline_is_carried_out_while_something_cannot_be_read(void **state)
{
    static const char *const kinds[] = {"Event", "Secret", "Pod"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct world w;
        int64_t from_ms;

        print_message("%s\n", kinds[i]);
        begin(&w, SPEC(",\"activeDeadlineSeconds\":40"));
        if (i == 1)
            world_label(&w, "Secret", "digits-ssh", "horovod.io/job-name", NULL);
        if (i == 2)
            world_label(&w, "Pod", "digits-worker-0", "horovod.io/job-name", NULL);
        w.unread_kind = kinds[i];
        from_ms = w.now_ms;
        while (!*world_condition(&w, "Failed") && w.now_ms < from_ms + 300000) {
            world_settle(&w);
            w.now_ms = w.wake_at_ms > w.now_ms ? w.wake_at_ms : w.now_ms + 2000;
        }
        world_is_state(&w, "Failed");
        assert_string_equal(world_condition_text(&w, "Failed", "reason"), "DeadlineExceeded");
        assert_true(w.now_ms <= from_ms + 75000); /* a try lasts no longer than its wait */
        pass_time(&w, 60);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        assert_null(world_find(&w, "Pod", "digits-worker-1"));
        world_fini(&w);
    }
}

/* An object of the job has lost its label, and cannot be read. */
static void lose(struct world *w, const char *const object[2])
{
    world_label(w, object[0], object[1], "horovod.io/job-name", NULL);
    w->unread_kind = object[0];
}

static void a_finished_job_is_cleaned_while_something_cannot_be_read(void **state)
{
    static const char *const lost[][2] = {{"Secret", "digits-ssh"},
                                          {"Pod", "digits-worker-0"},
                                          {"StatefulSet", "digits-worker"},
                                          {"Job", "digits-master"}};

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        const bool is_late = i / 4;
        struct world w;

        print_message("%s, %s\n", lost[i % 4][0], is_late ? "a deadline" : "a success");
        world_start(&w, ",\"activeDeadlineSeconds\":100,\"ttlSecondsAfterFinished\":600");
        if (is_late)
            w.now_ms += 100000;
        else
            world_end_master(&w, 0, NULL);
        while (!*world_condition(&w, is_late ? "Failed" : "Succeeded"))
            (void)world_pass(&w);
        assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
        lose(&w, lost[i % 4]);
        pass_time(&w, 60);
        assert_in_range(w.n_unread, 1, 12);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        if (is_late)
            assert_null(world_find(&w, "Job", "digits-master"));
        assert_non_null(world_find(&w, "HorovodJob", "digits"));
        pass_time(&w, 600);
        assert_null(world_find(&w, "HorovodJob", "digits"));
        world_fini(&w);
    }
}

/* A child that it keeps has lost all metadata, and only the spec has what is missing of them. */
static void a_finished_job_expires_while_its_spec_cannot_be_read(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"cleanPodPolicy\":\"None\",\"ttlSecondsAfterFinished\":600");
    world_end_master(&w, 0, NULL);
    world_settle(&w);
    world_is_state(&w, "Succeeded");
    w.keeps_no_spec = true;
    w.unread_kind = "HorovodJob";
    assert_true(world_patch(&w, "StatefulSet", "digits-worker",
                            "{\"metadata\":{\"ownerReferences\":null,\"annotations\":null}}"));
    world_settle(&w);
    assert_non_null(
        hvd_json_at(world_find(&w, "StatefulSet", "digits-worker"), "metadata.ownerReferences"));
    pass_time(&w, 700);
    assert_null(world_find(&w, "HorovodJob", "digits"));
    world_fini(&w);
}

/* The master has ended before the deadline, and what follows waits for the read. */
static void at_its_deadline_a_job_ends_as_its_master_has(void **state)
{
    static const struct {
        int exit_code;
        bool is_noted; /* on the ConfigMap, and nothing else is left of it */
        const char *state, *reason;
    } cases[] = {{0, false, "Succeeded", "MasterSucceeded"},
                 {3, false, "Failed", "MasterFailed"},
                 {0, true, "Succeeded", "MasterSucceeded"},
                 {3, true, "Failed", "MasterFailed"}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct world w;

        print_message("case %zu\n", i);
        world_start(&w, ",\"activeDeadlineSeconds\":200,\"backoffLimit\":0");
        if (cases[i].is_noted) {
            w.has_waits = w.is_status_denied = true;
            world_end_master(&w, cases[i].exit_code, NULL);
            pass_time(&w, 10);
            world_remove(&w, "Job", "digits-master");
            while (world_controllers(&w))
                continue;
            w.is_status_denied = false;
        }
        lose(&w, (const char *[2]){"Secret", "digits-ssh"});
        pass_time(&w, 20);
        if (!cases[i].is_noted)
            world_end_master(&w, cases[i].exit_code, NULL);
        pass_time(&w, 60);
        world_is_state(&w, "Running");
        pass_time(&w, 200);
        world_is_state(&w, cases[i].state);
        assert_string_equal(world_condition_text(&w, cases[i].state, "reason"), cases[i].reason);
        assert_int_equal(number(&w, "failures"), cases[i].exit_code ? 1 : 0);
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        world_fini(&w);
    }
}

/* What follows from the failure only the spec says. */
static void a_job_without_a_spec_meets_its_deadline_whatever_its_master_did(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world w;

        world_start(&w, ",\"activeDeadlineSeconds\":200,\"backoffLimit\":0");
        w.keeps_no_spec = true;
        lose(&w, (const char *[2]){"Secret", "digits-ssh"});
        pass_time(&w, 20);
        world_end_master(&w, i ? 0 : 3, NULL);
        pass_time(&w, 60);
        w.unread_kind = "HorovodJob";
        pass_time(&w, 300);
        world_is_state(&w, i ? "Succeeded" : "Failed");
        if (i == 0)
            assert_string_equal(world_condition_text(&w, "Failed", "reason"), "DeadlineExceeded");
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        world_fini(&w);
    }
}

static void nodes_that_cannot_be_read_hold_up_the_list_and_are_told_of(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SPEC(",\"topologyKeys\":[\"zone\"]"));
    w.unread_kind = "Node";
    w.is_kubelet_off = true;
    world_settle(&w);
    for (int i = 0; i < 2; i++) {
        cJSON *pod = world_find(&w, "Pod", i ? "digits-worker-1" : "digits-worker-0");

        cJSON_AddStringToObject(cJSON_GetObjectItem(pod, "spec"), "nodeName", "node-0");
    }
    w.is_kubelet_off = false;
    pass_time(&w, 300);
    is_bounded(&w, "WorkersReady",
               "2 of 2 workers are ready; Node node-0 cannot be read, will be tried again, and the "
               "list of hosts waits for that: ");
    assert_null(world_find(&w, "Job", "digits-master"));
    w.unread_kind = NULL;
    pass_time(&w, 60);
    world_is_state(&w, "Running");
    tells(&w, "WorkersReady", "2 of 2 workers are ready");
    world_fini(&w);
}

static void a_spec_that_cannot_be_read_is_told_of_and_no_child_is_made(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, SPEC(""));
    w.keeps_no_spec = true;
    w.unread_kind = "HorovodJob";
    pass_time(&w, 300);
    world_is_state(&w, "Pending");
    is_bounded(&w, "WorkersReady",
               "HorovodJob digits cannot be read, will be tried again, and the job waits for that");
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    w.unread_kind = NULL;
    pass_time(&w, 60);
    world_is_state(&w, "Running");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_that_is_gone_is_told_of_while_its_events_cannot_be_read),
        cmocka_unit_test(a_job_without_a_status_gets_one_while_events_cannot_be_read),
        cmocka_unit_test(a_deadline_is_carried_out_while_something_cannot_be_read),
        cmocka_unit_test(a_finished_job_is_cleaned_while_something_cannot_be_read),
        cmocka_unit_test(a_finished_job_expires_while_its_spec_cannot_be_read),
        cmocka_unit_test(at_its_deadline_a_job_ends_as_its_master_has),
        cmocka_unit_test(a_job_without_a_spec_meets_its_deadline_whatever_its_master_did),
        cmocka_unit_test(nodes_that_cannot_be_read_hold_up_the_list_and_are_told_of),
        cmocka_unit_test(a_spec_that_cannot_be_read_is_told_of_and_no_child_is_made),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
