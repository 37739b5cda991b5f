#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

/* What others refuse: writes of ours, and pods of what was accepted. */

/* A quota or a webhook for the whole namespace: one request tells whether it is still there. */
static void after_a_denial_each_try_is_one_request(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"img\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.deny_kind = "";
    world_pass(&w);
    assert_int_equal(w.n_sent, 3); /* the children on which no other waits */
    world_pass(&w);                /* tells of it */
    for (int i = 0; i < 5; i++) {
        w.n_sent = 0;
        w.now_ms += 30000;
        world_pass(&w);
        assert_int_equal(w.n_sent, 1);
    }
    w.deny_kind = NULL;
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void has_message(const struct world *w, const char *type, const char *text)
{
    assert_string_equal(world_condition_text(w, type, "message"), text);
}

/* Passes at the times the operator wants, for so long. */
static void go_on(struct world *w, int64_t for_ms)
{
    int64_t end_ms = w->now_ms + for_ms;

    while (w->now_ms < end_ms) {
        world_settle(w);
        w->now_ms = w->wake_at_ms > w->now_ms ? w->wake_at_ms : w->now_ms + 2000;
    }
}

static void a_webhook_that_denies_a_child_is_told_of_and_ends_nothing(void **state)
{
    static const char *const kinds[] = {"Service", "StatefulSet", "Job"};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct world w;

        world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
        w.deny_kind = kinds[i];
        for (int n = 0; n < 40; n++) {
            world_pass(&w);
            (void)world_controllers(&w);
            w.now_ms += 1000;
        }
        assert_string_equal(world_condition_text(&w, "Running", "reason"), "Denied");
        assert_non_null(strstr(world_condition_text(&w, "Running", "message"),
                               "cannot be made, will be tried again: admission webhook \"a\" "
                               "denied the request: no"));
        w.deny_kind = NULL;
        world_settle(&w);
        world_is_state(&w, "Running");
        assert_int_equal(world_events(&w, "InvalidTemplate"), 0);
        world_fini(&w);
    }
}

static void a_webhook_that_denies_a_change_is_told_of(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.deny_kind = "StatefulSet";
    world_edit(&w, "{\"worker\":{\"replicas\":4,\"minReplicas\":1}}");
    for (int n = 0; n < 4; n++)
        world_pass(&w);
    world_is_state(&w, "Running");
    has_message(&w, "WorkersReady",
                "2 of 4 workers are ready; StatefulSet digits-worker cannot be changed, will be "
                "tried again: admission webhook \"a\" denied the request: no");
    w.deny_kind = NULL;
    world_settle(&w);
    go_on(&w, 60000);
    assert_string_equal(world_status(&w, "ready"), "4/4");
    has_message(&w, "WorkersReady",
                "4 of 4 workers are ready; this attempt was started for 2: ranks on the others are "
                "up to the program, or wait for the next attempt");
    world_fini(&w);
}

static void a_suspension_that_is_denied_is_told_of(void **state)
{
    static const struct {
        const char *kind, *message;
    } rows[] = {
        {"StatefulSet",
         "the job is suspended by spec.suspend; StatefulSet digits-worker cannot be "
         "changed, will be tried again: admission webhook \"a\" denied the request: no"},
        {"Job",
         "the job is suspended by spec.suspend; Job digits-master cannot be deleted, will be "
         "tried again: admission webhook \"a\" denied the request: no"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int is_resumed = 0; is_resumed < 2; is_resumed++) {
            char resumed[512];
            struct world w;

            world_start(&w, "");
            w.deny_kind = rows[i].kind;
            world_edit(&w, "{\"suspend\":true}");
            for (int n = 0; n < 10; n++) {
                world_pass(&w);
                (void)world_controllers(&w);
                w.now_ms += 1000;
            }
            has_message(&w, "WorkersReady", rows[i].message);
            world_is_state(&w, "Suspended");
            if (is_resumed) {
                world_edit(&w, "{\"suspend\":false}");
                world_pass(&w);
                (void)snprintf(resumed, sizeof(resumed),
                               "the job resumes as soon as what its last start left is gone%s",
                               strchr(rows[i].message, ';'));
                has_message(&w, "WorkersReady", resumed);
            }
            w.deny_kind = NULL;
            go_on(&w, 60000);
            world_is_state(&w, is_resumed ? "Running" : "Suspended");
            has_message(&w, "WorkersReady",
                        is_resumed ? "2 of 2 workers are ready"
                                   : "the job is suspended by spec.suspend");
            world_fini(&w);
        }
    }
}

static void a_removal_that_is_denied_after_the_end_is_told_of(void **state)
{
    static const struct {
        const char *kind, *name, *more, *status, *removed;
    } rows[] = {
        {"StatefulSet", "digits-worker", "", "False",
         "the workers are removed: the job has finished"},
        {"Job", "digits-master", ",\"cleanPodPolicy\":\"All\"", "False",
         "the workers are removed: the job has finished"},
        {"HorovodJob", "digits", ",\"cleanPodPolicy\":\"None\",\"ttlSecondsAfterFinished\":0",
         "True", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        char message[256];
        int n_writes;

        world_start(&w, rows[i].more);
        w.deny_kind = rows[i].kind;
        world_end_master(&w, 0, NULL);
        for (int n = 0; n < 10; n++) {
            world_pass(&w);
            (void)world_controllers(&w);
            w.now_ms += 1000;
        }
        world_is_state(&w, "Succeeded");
        (void)snprintf(message, sizeof(message),
                       "the job has finished; %s %s cannot be deleted, will be tried again: "
                       "admission webhook \"a\" denied the request: no",
                       rows[i].kind, rows[i].name);
        has_message(&w, "WorkersReady", message);
        assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "RemovalDenied");
        assert_string_equal(world_condition(&w, "WorkersReady"), rows[i].status);
        assert_string_equal(world_status(&w, "ready"), i == 1 ? "-" : "2/2");
        n_writes = w.n_writes;
        assert_int_equal(world_pass(&w), 1); /* it is tried again, and nothing else */
        assert_int_equal(w.n_writes, n_writes);
        w.deny_kind = NULL;
        go_on(&w, 60000);
        assert_null(world_find(&w, rows[i].kind, rows[i].name));
        has_message(&w, "WorkersReady", rows[i].removed);
        if (i < 2)
            assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "JobFinished");
        if (i < 2)
            assert_string_equal(world_status(&w, "ready"), "-");
        assert_int_equal(world_events(&w, "Succeeded"), 1);
        world_fini(&w);
    }
}

/* Each is named once and in one order, also while some of them wait for their next try. */
static void all_removals_that_are_denied_are_named_at_once(void **state)
{
    static const char message[] =
        "the job has finished; StatefulSet digits-worker and Job digits-master cannot be deleted, "
        "will be tried again: admission webhook \"a\" denied the request: no";

    (void)state;
    for (int has_waits = 0; has_waits < 2; has_waits++) {
        struct world w;
        int n_writes;

        world_start(&w, ",\"cleanPodPolicy\":\"All\"");
        w.has_waits = has_waits == 1;
        world_end_master(&w, 0, NULL);
        w.deny_kind = "";
        for (int n = 0; n < 10; n++) {
            world_pass(&w);
            (void)world_controllers(&w);
            w.now_ms += 1000;
        }
        world_is_state(&w, "Succeeded");
        has_message(&w, "WorkersReady", message);
        assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "RemovalDenied");
        n_writes = w.n_writes;
        for (int n = 0; n < 200; n++) { /* the two come due at different times */
            world_pass(&w);
            has_message(&w, "WorkersReady", message);
            w.now_ms += 1000;
        }
        assert_int_equal(w.n_writes, n_writes);
        w.deny_kind = NULL;
        go_on(&w, 60000);
        assert_null(world_find(&w, "Job", "digits-master"));
        has_message(&w, "WorkersReady", "the workers are removed: the job has finished");
        world_fini(&w);
    }
}

static void a_job_that_may_not_be_removed_and_then_shall_stay_tells_of_its_workers(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"cleanPodPolicy\":\"None\",\"ttlSecondsAfterFinished\":0");
    w.deny_kind = "HorovodJob";
    world_end_master(&w, 0, NULL);
    for (int n = 0; n < 4; n++)
        world_pass(&w);
    assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "RemovalDenied");
    world_edit(&w, "{\"ttlSecondsAfterFinished\":1000000}");
    go_on(&w, 60000);
    has_message(&w, "WorkersReady", "2 of 2 workers are ready");
    assert_string_equal(world_condition_text(&w, "WorkersReady", "reason"), "AllReady");
    world_fini(&w);
}

/* Passes of a shell that tries again every 10 s; the controllers go on. */
static void try_again(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        (void)world_pass(w);
        while (world_controllers(w))
            (void)world_pass(w);
        w->now_ms += 10000;
    }
}

static void a_status_that_is_refused_is_told_of_and_holds_no_workers(void **state)
{
    static const char *const more[] = {"", ",\"cleanPodPolicy\":\"All\"",
                                       ",\"cleanPodPolicy\":\"None\""};

    (void)state;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        struct world w;
        int n_sent;

        world_start(&w, more[i]);
        w.is_status_denied = true;
        world_end_master(&w, 0, NULL);
        try_again(&w, 4);
        assert_int_equal(world_events(&w, "StatusNotWritten"), 1);
        assert_int_equal(world_events(&w, "Succeeded"), 1);
        assert_int_equal(world_find(&w, "StatefulSet", "digits-worker") != NULL, i == 2);
        assert_non_null(world_find(&w, "Job", "digits-master"));
        n_sent = w.n_sent;
        try_again(&w, 10);
        assert_in_range(w.n_sent - n_sent, 1, 10); /* the status alone */
        assert_int_equal(world_events(&w, "StatusNotWritten"), 1);
        world_is_state(&w, "Running");
        w.is_status_denied = false;
        try_again(&w, 4);
        world_is_state(&w, "Succeeded");
        assert_int_equal(world_events(&w, "Succeeded"), 1);
        world_fini(&w);
    }
}

/* A status that cannot be written holds up nothing that follows from the spec and the clock. */
static void a_suspension_is_carried_out_though_the_status_is_refused(void **state)
{
    struct world w;
    int n_sent;

    (void)state;
    for (int is_new = 0; is_new < 2; is_new++) {
        world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
        w.is_status_denied = is_new;
        try_again(&w, 4);
        w.is_status_denied = true;
        assert_non_null(world_find(&w, "Job", "digits-master"));
        world_edit(&w, "{\"suspend\":true}");
        try_again(&w, 6);
        assert_null(world_find(&w, "Job", "digits-master"));
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        assert_int_equal(world_events(&w, "Suspended"), 1);
        n_sent = w.n_sent;
        try_again(&w, 10);
        assert_in_range(w.n_sent - n_sent, 1, 10); /* the status alone */
        w.is_status_denied = false;
        try_again(&w, 4);
        world_is_state(&w, "Suspended");
        assert_string_equal(world_condition(&w, "Suspended"), "True");
        assert_int_equal(world_events(&w, "Suspended"), 1);
        world_edit(&w, "{\"suspend\":false}");
        try_again(&w, 4);
        world_is_state(&w, "Running");
        world_fini(&w);
    }
}

static void a_deadline_is_kept_though_the_status_is_refused(void **state)
{
    struct world w;

    (void)state;
    for (int is_new = 0; is_new < 2; is_new++) {
        world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2},"
                       "\"activeDeadlineSeconds\":300}");
        w.is_status_denied = is_new;
        try_again(&w, 4);
        w.is_status_denied = true;
        try_again(&w, 20);
        assert_non_null(world_find(&w, "Job", "digits-master"));
        assert_int_equal(world_events(&w, "Failed"), 0);
        try_again(&w, 20);
        assert_null(world_find(&w, "Job", "digits-master"));
        assert_null(world_find(&w, "StatefulSet", "digits-worker"));
        assert_int_equal(world_events(&w, "Failed"), 1);
        w.is_status_denied = false;
        try_again(&w, 4);
        world_is_state(&w, "Failed");
        assert_string_equal(world_condition_text(&w, "Failed", "reason"), "DeadlineExceeded");
        assert_int_equal(world_events(&w, "Failed"), 1);
        world_fini(&w);
    }
}

/* The number of failures has to last before the next attempt begins: the Job keeps it meanwhile. */
static void a_failed_attempt_is_kept_until_it_can_be_counted(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    w.is_status_denied = true;
    world_edit(&w, "{\"ttlSecondsAfterFinished\":1000000}");
    try_again(&w, 4);
    world_end_master(&w, 1, NULL);
    try_again(&w, 10);
    assert_non_null(world_find(&w, "Job", "digits-master"));
    assert_int_equal(world_events(&w, "Restarting"), 0);
    w.is_status_denied = false;
    try_again(&w, 4);
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "Restarting"), 1);
    world_fini(&w);
}

/* The wait of a write that is denied is its own: the job is suspended, resumed and scaled. */
static void what_is_denied_holds_nothing_else_up(void **state)
{
    struct world w;
    int n_sent;

    (void)state;
    world_start(&w, "");
    w.has_waits = true;
    w.deny_kind = "ConfigMap";
    world_edit(&w, "{\"suspend\":true}");
    for (int i = 0; i < 60; i++) {
        (void)world_pass(&w);
        while (world_controllers(&w))
            (void)world_pass(&w);
        w.now_ms += 1000;
    }
    world_is_state(&w, "Suspended");
    n_sent = w.n_sent;
    (void)world_pass(&w);
    (void)world_pass(&w);
    assert_in_range(w.n_sent - n_sent, 0, 1); /* the write waits for its next try */
    world_edit(&w, "{\"suspend\":false,\"worker\":{\"replicas\":3}}");
    for (int i = 0; i < 8; i++) /* no time passes */
        (void)world_pass(&w);
    assert_int_equal(
        hvd_json_at(world_find(&w, "StatefulSet", "digits-worker"), "spec.replicas")->valuedouble,
        3);
    w.deny_kind = NULL;
    for (int i = 0; i < 60; i++) {
        (void)world_pass(&w);
        while (world_controllers(&w))
            (void)world_pass(&w);
        w.now_ms += 1000;
    }
    world_is_state(&w, "Running");
    assert_null(w.repairs.denials);
    world_fini(&w);
}

static void a_deletion_that_waits_is_told_of_in_the_same_words(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.has_waits = true;
    w.deny_kind = "StatefulSet";
    world_end_master(&w, 0, NULL);
    for (int i = 0; i < 40; i++) {
        (void)world_pass(&w);
        if (i > 5)
            has_message(&w, "WorkersReady",
                        "the job has finished; StatefulSet digits-worker cannot be deleted, will "
                        "be tried again: admission webhook \"a\" denied the request: no");
        w.now_ms += 700;
    }
    w.deny_kind = NULL;
    try_again(&w, 6);
    assert_null(world_find(&w, "StatefulSet", "digits-worker"));
    world_fini(&w);
}

static void a_refused_status_of_a_job_that_runs_ends_nothing(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_status_denied = true;
    try_again(&w, 10);
    assert_non_null(world_find(&w, "Job", "digits-master"));
    assert_non_null(world_find(&w, "StatefulSet", "digits-worker"));
    assert_int_equal(world_events(&w, "StatusNotWritten"), 1);
    w.is_status_denied = false;
    try_again(&w, 2);
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void workers_whose_pods_are_refused_are_told_of(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.deny_pods_of = "StatefulSet";
    world_pass(&w);
    world_pass(&w);
    w.now_ms = w.wake_at_ms; /* of the first status */
    world_pass(&w);
    world_pass(&w);
    assert_int_equal(w.n_explained, 0);
    assert_int_equal(w.wake_at_ms, w.now_ms + 5000);
    w.now_ms = w.wake_at_ms;
    world_pass(&w);
    assert_int_equal(w.n_explained, 1);
    world_pass(&w);
    has_message(&w, "WorkersReady",
                "0 of 2 workers are ready; pods of StatefulSet digits-worker cannot be made: "
                "forbidden: exceeded quota");
    assert_string_equal(world_status(&w, "message"),
                        world_condition_text(&w, "WorkersReady", "message"));
    world_is_state(&w, "Pending");
    w.deny_pods_of = NULL;
    world_settle(&w);
    world_is_state(&w, "Running");
    has_message(&w, "WorkersReady", "2 of 2 workers are ready");
    world_fini(&w);
}

static void a_master_whose_pod_is_refused_is_told_of(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.deny_pods_of = "Job";
    go_on(&w, 60000);
    world_is_state(&w, "Starting");
    has_message(&w, "Running",
                "the pod of Job digits-master cannot be made: forbidden: exceeded quota");
    w.deny_pods_of = NULL;
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

static void the_question_is_asked_ever_more_seldom_and_nothing_is_written_meanwhile(void **state)
{
    struct world w;
    int writes, asked;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.deny_pods_of = "StatefulSet";
    go_on(&w, 60000);
    writes = w.n_writes;
    go_on(&w, 3600000);
    asked = w.n_explained;
    assert_in_range(asked, 13, 24);
    go_on(&w, 3600000);
    assert_in_range(w.n_explained - asked, 11, 13);
    assert_int_equal(w.n_writes, writes);
    world_fini(&w);
}

/* Nothing changes: a job that waits for a quota is looked at no more often than it asks. */
static void a_blocked_job_is_looked_at_as_seldom_as_it_asks(void **state)
{
    int64_t end_ms;
    struct world w;
    int n_passes = 0, asked;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.deny_pods_of = "StatefulSet";
    go_on(&w, 60000);
    asked = w.n_explained;
    for (end_ms = w.now_ms + 3600000; w.now_ms < end_ms; w.now_ms = w.wake_at_ms) {
        size_t n = world_pass(&w);

        n_passes++;
        if (n > 0)
            n_passes += world_pass(&w) == 0;
        assert_true(w.wake_at_ms > w.now_ms);
    }
    assert_in_range(n_passes, 12, 2 * (w.n_explained - asked) + 2);
    assert_in_range(w.n_explained - asked, 12, 20);
    world_fini(&w);
}

static void nobody_asks_about_a_job_whose_pods_are_there(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    go_on(&w, 60000);
    world_end_master(&w, 0, NULL);
    go_on(&w, 60000);
    assert_int_equal(w.n_explained, 0);
    world_fini(&w);
}

static const char leaving[] = "namespace default is being deleted, and nothing can be made in it";

/* What the API server refuses once, it refuses until the namespace is gone. */
static void nothing_is_tried_in_a_namespace_that_is_being_deleted(void **state)
{
    struct world w;
    int n_sent;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_leaving = true;
    try_again(&w, 6);
    world_is_state(&w, "Pending");
    has_message(&w, "Running", leaving);
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "NamespaceTerminating");
    assert_string_equal(world_status(&w, "message"), leaving);
    assert_in_range(w.n_sent, 2, 4); /* three children on which no other waits, and the status */
    n_sent = w.n_sent;
    try_again(&w, 350);
    assert_int_equal(w.n_sent, n_sent);
    try_again(&w, 10 * 360);
    assert_in_range(w.n_sent - n_sent, 10, 11); /* should it be there for ever: once in an hour */
    assert_int_equal(cJSON_GetArraySize(w.events), 0);
    has_message(&w, "Running", leaving);
    world_restart(&w);
    n_sent = w.n_sent;
    try_again(&w, 6);
    assert_in_range(w.n_sent - n_sent, 1, 4);
    world_fini(&w);
}

/* What is there goes on to its end; what would be made for it is left. */
static void a_job_that_runs_in_such_a_namespace_ends_and_is_not_started_again(void **state)
{
    struct world w;
    int n_sent;

    (void)state;
    world_start(&w, ",\"backoffLimit\":3");
    w.is_leaving = true;
    world_remove(&w, "Service", "digits");
    try_again(&w, 6);
    world_is_state(&w, "Running");
    assert_non_null(strstr(world_condition_text(&w, "Running", "message"), leaving));
    assert_string_equal(world_condition(&w, "Running"), "True");
    world_end_master(&w, 1, NULL);
    try_again(&w, 6);
    world_is_state(&w, "Restarting");
    assert_null(world_find(&w, "Job", "digits-master"));
    n_sent = w.n_sent;
    try_again(&w, 180);
    assert_int_equal(w.n_sent, n_sent);
    assert_int_equal(world_events(&w, "NamespaceTerminating"), 0);
    world_fini(&w);
}

static void a_namespace_that_is_being_deleted_is_named(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.is_kubelet_off = true;
    world_settle(&w);
    w.failures[w.n_failures++] = (struct hvd_failure){
        .type = HVD_FAILURE_LEAVING,
        .kind = HVD_KIND_EVENT,
        .name = "",
        .message = "events \"a\" is forbidden: unable to create new content in namespace default "
                   "because it is being terminated",
        .at_ms = w.now_ms};
    go_on(&w, 60000);
    has_message(&w, "WorkersReady",
                "0 of 2 workers are ready; namespace default is being deleted, and nothing can be "
                "made in it");
    assert_int_equal(world_pass(&w), 0);
    world_fini(&w);
}

/* A server that is overloaded for a moment is no news; one that never answers better is. */
static void a_trouble_that_lasts_is_told_of(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.deny_kind = "ConfigMap";
    w.deny_from = 8;
    for (int n = 1; n < 8; n++)
        (void)world_pass(&w);
    assert_string_equal(world_condition_text(&w, "Running", "message"), "");
    for (int n = 0; n < 3; n++)
        (void)world_pass(&w);
    assert_non_null(strstr(world_condition_text(&w, "Running", "message"),
                           "ConfigMap digits-hosts cannot be made, will be tried again: "));
    assert_string_equal(world_condition_text(&w, "Running", "reason"), "Denied");
    assert_int_equal(world_events(&w, "Denied"), 1);
    w.deny_kind = NULL;
    world_settle(&w);
    world_is_state(&w, "Running");
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_denial_each_try_is_one_request),
        cmocka_unit_test(a_webhook_that_denies_a_child_is_told_of_and_ends_nothing),
        cmocka_unit_test(a_webhook_that_denies_a_change_is_told_of),
        cmocka_unit_test(a_suspension_that_is_denied_is_told_of),
        cmocka_unit_test(a_removal_that_is_denied_after_the_end_is_told_of),
        cmocka_unit_test(all_removals_that_are_denied_are_named_at_once),
        cmocka_unit_test(a_job_that_may_not_be_removed_and_then_shall_stay_tells_of_its_workers),
        cmocka_unit_test(a_status_that_is_refused_is_told_of_and_holds_no_workers),
        cmocka_unit_test(a_suspension_is_carried_out_though_the_status_is_refused),
        cmocka_unit_test(a_deadline_is_kept_though_the_status_is_refused),
        cmocka_unit_test(a_failed_attempt_is_kept_until_it_can_be_counted),
        cmocka_unit_test(what_is_denied_holds_nothing_else_up),
        cmocka_unit_test(a_deletion_that_waits_is_told_of_in_the_same_words),
        cmocka_unit_test(a_refused_status_of_a_job_that_runs_ends_nothing),
        cmocka_unit_test(workers_whose_pods_are_refused_are_told_of),
        cmocka_unit_test(a_master_whose_pod_is_refused_is_told_of),
        cmocka_unit_test(the_question_is_asked_ever_more_seldom_and_nothing_is_written_meanwhile),
        cmocka_unit_test(a_blocked_job_is_looked_at_as_seldom_as_it_asks),
        cmocka_unit_test(a_namespace_that_is_being_deleted_is_named),
        cmocka_unit_test(nothing_is_tried_in_a_namespace_that_is_being_deleted),
        cmocka_unit_test(a_job_that_runs_in_such_a_namespace_ends_and_is_not_started_again),
        cmocka_unit_test(a_trouble_that_lasts_is_told_of),
        cmocka_unit_test(nobody_asks_about_a_job_whose_pods_are_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
