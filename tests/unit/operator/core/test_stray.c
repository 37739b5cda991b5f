/*
 * A master's pod that its Job has let go: the Job was deleted with --cascade=orphan, or somebody
 * has edited the labels by which it selects its pod. A job has one master at a time.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "tests/unit/operator/core/world.h"

#define MASTER "digits-master-abcde"
#define SECOND_MS INT64_C(1000)

/* As the Job controller labels its pod, which then has no owner any more. */
static void let_go(struct world *w)
{
    assert_true(world_patch(w, "Pod", MASTER,
                            "{\"metadata\":{\"ownerReferences\":null,\"labels\":{"
                            "\"batch.kubernetes.io/controller-uid\":\"u\"}}}"));
}

static void orphan_job(struct world *w)
{
    let_go(w);
    world_remove(w, "Job", "digits-master");
}

static void pass_time(struct world *w, int64_t ms)
{
    for (int64_t end_ms = w->now_ms + ms; w->now_ms < end_ms; w->now_ms += SECOND_MS) {
        (void)world_pass(w);
        (void)world_controllers(w);
    }
}

static char *uid_of_master(const struct world *w)
{
    const cJSON *pod = world_find(w, "Pod", MASTER);

    return pod ? strdup(hvd_json_str(pod, "metadata.uid")) : NULL;
}

static void the_next_attempt_waits_until_it_is_gone(void **state)
{
    struct world w;
    char *first, *second;

    (void)state;
    world_start(&w, "");
    first = uid_of_master(&w);
    w.lost_pod = MASTER; /* it takes its time */
    orphan_job(&w);
    pass_time(&w, 20 * SECOND_MS);
    assert_non_null(hvd_json_str(world_find(&w, "Pod", MASTER), "metadata.deletionTimestamp"));
    assert_null(world_find(&w, "Job", "digits-master"));
    assert_string_equal(world_status(&w, "state"), "Restarting");
    assert_non_null(strstr(world_condition_text(&w, "Running", "message"), MASTER));
    pass_time(&w, 180 * SECOND_MS); /* its node does not answer: it is not waited for for ever */
    second = uid_of_master(&w);
    assert_non_null(second);
    assert_string_not_equal(first, second);
    world_is_state(&w, "Running");
    free(first);
    free(second);
    world_fini(&w);
}

/* The Job adopts it again, which the watch shows once the pod has its labels. */
static void one_that_loses_its_labels_too_gets_them_back(void **state)
{
    static const char *const labels[] = {HVD_LABEL_JOB, HVD_LABEL_MANAGED_BY, HVD_LABEL_ROLE};

    (void)state;
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        struct world w;

        world_start(&w, "");
        let_go(&w);
        world_label(&w, "Pod", MASTER, labels[i], NULL);
        (void)world_pass(&w);
        (void)world_pass(&w);
        assert_non_null(
            hvd_json_get(hvd_json_at(world_find(&w, "Pod", MASTER), "metadata.labels"), labels[i]));
        assert_int_equal(world_events(&w, "LabelsRestored"), 1);
        assert_int_equal(world_events(&w, "MasterRemoved"), 0);
        world_fini(&w);
    }
}

static void a_suspended_job_has_none(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.lost_pod = MASTER;
    orphan_job(&w);
    world_edit(&w, "{\"suspend\":true}");
    pass_time(&w, 20 * SECOND_MS);
    assert_string_equal(world_condition(&w, "Suspended"), "False");
    w.lost_pod = NULL;
    world_remove(&w, "Pod", MASTER);
    pass_time(&w, 60 * SECOND_MS);
    assert_string_equal(world_condition(&w, "Suspended"), "True");
    assert_null(world_find(&w, "Pod", MASTER));
    world_fini(&w);
}

/* What it shows while the pods of its last start end is what it waits for. */
static void a_resumed_job_is_not_said_to_be_suspended(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    w.lost_pod = MASTER;
    orphan_job(&w);
    world_edit(&w, "{\"suspend\":true}");
    pass_time(&w, 10 * SECOND_MS);
    world_edit(&w, "{\"suspend\":false}");
    pass_time(&w, 10 * SECOND_MS);
    assert_string_equal(world_condition_text(&w, "WorkersReady", "message"),
                        "the job resumes as soon as what its last start left is gone");
    world_fini(&w);
}

static void a_webhook_that_writes_another_hash_suspends_nothing(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, "{\"image\":\"i\",\"command\":[\"t\"],\"worker\":{\"replicas\":2}}");
    w.alter_kind = "StatefulSet";
    w.alter_patch =
        "{\"metadata\":{\"annotations\":{\"horovod.io/spec-hash\":\"1234567890abcdef\"}}}";
    world_settle(&w);
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "Suspended"), 0);
    assert_string_equal(world_condition(&w, "Suspended"), "");
    world_fini(&w);
}

static void a_job_that_has_finished_keeps_only_the_logs(void **state)
{
    (void)state;
    for (int is_all = 0; is_all < 2; is_all++) {
        struct world w;

        world_start(&w, is_all ? ",\"cleanPodPolicy\":\"All\"" : "");
        world_end_master(&w, 0, "done");
        (void)world_pass(&w);
        world_is_state(&w, "Succeeded");
        if (world_find(&w, "Pod", MASTER))
            orphan_job(&w);
        pass_time(&w, 60 * SECOND_MS);
        assert_true((world_find(&w, "Pod", MASTER) == NULL) == is_all);
        world_fini(&w);
    }
    /* the deadline comes while it runs on */
    struct world w;

    world_start(&w, ",\"activeDeadlineSeconds\":60");
    w.now_ms += 100 * SECOND_MS;
    orphan_job(&w);
    pass_time(&w, 60 * SECOND_MS);
    world_is_state(&w, "Failed");
    assert_null(world_find(&w, "Pod", MASTER));
    world_fini(&w);
}

/* The Job controller writes an owner reference again that somebody has edited away. */
static void a_master_that_its_job_takes_back_stays(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, "");
    let_go(&w);
    for (int i = 0; i < 10; i++) {
        w.now_ms += SECOND_MS;
        (void)world_pass(&w);
    }
    assert_null(hvd_json_at(world_find(&w, "Pod", MASTER), "metadata.deletionTimestamp"));
    assert_int_equal(world_events(&w, "MasterRemoved"), 0);
    world_fini(&w);
}

/* The uid of a worker, which the next attempt makes anew. Owned. */
static char *uid_of_worker(const struct world *w)
{
    return strdup(hvd_json_str(world_find(w, "Pod", "digits-worker-0"), "metadata.uid"));
}

static int n_masters(const struct world *w)
{
    const cJSON *object = NULL;
    int n = 0;

    cJSON_ArrayForEach(object, w->objects)
    {
        const char *name = hvd_json_str(object, "metadata.name");

        n += strcmp(hvd_json_str(object, "kind"), "Pod") == 0 &&
             strncmp(name, "digits-master-", strlen("digits-master-")) == 0;
    }
    return n;
}

/* Edits of the labels by which the Job controller finds its pods. */
#define UID_LABEL "batch.kubernetes.io/controller-uid"
#define NO_UID "{\"metadata\":{\"labels\":{\"" UID_LABEL "\":null}}}"
#define NO_LABELS                                                                                  \
    "{\"metadata\":{\"labels\":{\"" UID_LABEL "\":null,\"controller-uid\":null,"                   \
    "\"batch.kubernetes.io/job-name\":null,\"job-name\":null}}}"
static const char no_labels[] = NO_LABELS;
#define OTHER_UID "{\"metadata\":{\"labels\":{\"" UID_LABEL "\":\"mine\"}}}"
static const char *const releases[] = {NO_UID, no_labels, OTHER_UID};
#define N_RELEASES (sizeof(releases) / sizeof(releases[0]))

/* Somebody edits a label by which the Job selects, and it makes another pod beside the old one. */
static void release(struct world *w, const char *patch)
{
    const int n = n_masters(w);

    assert_true(world_patch(w, "Pod", MASTER, patch));
    while (n_masters(w) == n)
        assert_true(world_controllers(w));
}

static void an_attempt_whose_master_was_let_go_has_ended_and_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_RELEASES; i++) {
        struct world w;
        char *first, *worker, *next;

        world_start(&w, ",\"backoffLimit\":1");
        first = uid_of_master(&w);
        worker = uid_of_worker(&w);
        release(&w, releases[i]);
        for (int n = 0; n < 3; n++)
            (void)world_pass(&w);
        assert_int_equal(world_events(&w, "Restarting"), 1);
        assert_non_null(
            strstr(world_condition_text(&w, "Running", "message"),
                   "pod " MASTER " was let go by Job digits-master, as somebody changed or removed "
                   "its label " UID_LABEL ", and the Job made pod digits-master-00000 beside it "
                   "(attempt 1 of 2)"));
        assert_null(world_find(&w, "Job", "digits-master"));
        assert_null(world_find(&w, "Pod", MASTER));
        pass_time(&w, 20 * SECOND_MS);
        world_is_state(&w, "Running");
        assert_int_equal(n_masters(&w), 1);
        next = uid_of_master(&w);
        assert_string_not_equal(first, next);
        free(next);
        next = uid_of_worker(&w);
        assert_string_not_equal(worker, next);
        assert_string_equal(world_condition_text(&w, "Running", "message"),
                            "pod " MASTER " is running (attempt 2 of 2)");
        free(next);
        free(worker);
        free(first);

        release(&w, releases[i]);
        pass_time(&w, 20 * SECOND_MS);
        world_is_state(&w, "Failed");
        assert_non_null(strstr(world_condition_text(&w, "Failed", "message"), UID_LABEL));
        assert_int_equal(n_masters(&w), 0);
        assert_null(world_find(&w, "Pod", "digits-worker-0"));
        world_fini(&w);
    }
}

/* Nobody has looked meanwhile: the status names the first master. */
static void a_master_that_was_replaced_unseen_has_ended_its_attempt(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_RELEASES; i++) {
        struct world w;
        char *worker, *next;

        world_start(&w, ",\"backoffLimit\":1");
        worker = uid_of_worker(&w);
        release(&w, releases[i]);
        world_remove(&w, "Pod", MASTER);
        while (world_controllers(&w))
            ;
        world_restart(&w);
        pass_time(&w, 20 * SECOND_MS);
        world_is_state(&w, "Running");
        assert_int_equal(world_events(&w, "Restarting"), 1);
        assert_int_equal(n_masters(&w), 1);
        next = uid_of_worker(&w);
        assert_string_not_equal(worker, next);
        assert_non_null(strstr(world_status(&w, "message"), "(attempt 2 of 2)"));
        free(next);
        free(worker);
        world_fini(&w);
    }
}

/* No label is left, and nobody has looked meanwhile: the status names it. */
static void a_named_master_that_lost_every_label_unseen_is_found_by_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world w;
        char *first, *next;

        print_message("%d\n", i);
        world_start(&w, i == 0 ? "" : ",\"backoffLimit\":1");
        first = uid_of_master(&w);
        release(&w, no_labels);
        assert_true(world_patch(&w, "Pod", MASTER, "{\"metadata\":{\"labels\":null}}"));
        if (i == 2)
            world_edit(&w, "{\"suspend\":true}");
        if (i == 3)
            world_remove(&w, "Job", "digits-master");
        world_restart(&w);
        pass_time(&w, 30 * SECOND_MS);
        assert_int_equal(world_events(&w, "LabelsRestored"), 1);
        assert_int_equal(n_masters(&w), i == 0 || i == 2 ? 0 : 1);
        next = uid_of_master(&w);
        if (next)
            assert_string_not_equal(first, next);
        world_is_state(&w, i == 0 ? "Failed" : i == 2 ? "Suspended" : "Running");
        if (i == 2)
            assert_string_equal(world_condition(&w, "Suspended"), "True");
        free(next);
        free(first);
        world_fini(&w);
    }
}

/* Whatever the status names from then on: it ends slowly, and the operator starts anew. */
static void one_that_got_its_labels_back_is_waited_for(void **state)
{
    struct world w;

    (void)state;
    world_start(&w, ",\"backoffLimit\":1");
    w.lost_pod = MASTER;
    release(&w, no_labels);
    assert_true(world_patch(&w, "Pod", MASTER, "{\"metadata\":{\"labels\":null}}"));
    world_edit(&w, "{\"suspend\":true}");
    world_restart(&w);
    pass_time(&w, 10 * SECOND_MS);
    world_restart(&w);
    pass_time(&w, 10 * SECOND_MS);
    assert_string_equal(world_condition_text(&w, "Running", "message"), "");
    assert_string_equal(world_condition(&w, "Suspended"), "False");
    world_remove(&w, "Pod", MASTER);
    pass_time(&w, 10 * SECOND_MS);
    assert_string_equal(world_condition(&w, "Suspended"), "True");
    world_fini(&w);
}

/* What the first one has come to counts, and ends the second one, of which nobody knew. */
static void the_end_of_a_master_that_was_let_go_is_that_of_its_attempt(void **state)
{
    (void)state;
    for (int code = 0; code < 2; code++) {
        struct world w;

        world_start(&w, "");
        release(&w, NO_UID);
        while (world_controllers(&w))
            ;
        world_end_master(&w, code, "last words");
        world_restart(&w);
        pass_time(&w, 20 * SECOND_MS);
        world_is_state(&w, code ? "Failed" : "Succeeded");
        if (code)
            assert_string_equal(world_condition_text(&w, "Failed", "message"),
                                "pod " MASTER " container master exited with code 1 (attempt 1 of "
                                "1): last words");
        assert_null(world_find(&w, "Pod", "digits-master-00000"));
        assert_non_null(world_find(&w, "Pod", MASTER)); /* with its logs */
        world_fini(&w);
    }
}

/* By the other labels of its own the Job controller finds no pod. */
static void labels_that_nobody_selects_by_cost_nothing(void **state)
{
    static const char *const names[] = {"controller-uid", "job-name",
                                        "batch.kubernetes.io/job-name"};
    struct world w;
    int n_sent;

    (void)state;
    world_start(&w, "");
    n_sent = w.n_sent;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        world_label(&w, "Pod", MASTER, names[i], NULL);
        pass_time(&w, 60 * SECOND_MS);
    }
    assert_int_equal(w.n_sent, n_sent);
    world_is_state(&w, "Running");
    world_fini(&w);
}

/* One that the Job of an earlier attempt has let go, and that nobody saw. */
static void a_master_from_before_its_job_is_removed(void **state)
{
    struct world w;
    cJSON *pod;
    char *text;

    (void)state;
    world_start(&w, "");
    pod = cJSON_Duplicate(world_find(&w, "Pod", MASTER), true);
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(pod, "metadata"), "name",
                              cJSON_CreateString("digits-master-other"));
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(pod, "metadata"), "ownerReferences");
    text = cJSON_PrintUnformatted(pod);
    world_put(&w, text);
    assert_true(world_patch(&w, "Pod", "digits-master-other",
                            "{\"metadata\":{\"creationTimestamp\":\"2023-11-14T22:13:10Z\","
                            "\"labels\":{\"" UID_LABEL "\":\"another\"}}}"));
    pass_time(&w, 10 * SECOND_MS);
    assert_null(world_find(&w, "Pod", "digits-master-other"));
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "MasterRemoved"), 1);
    assert_int_equal(world_events(&w, "Restarting"), 0);
    free(text);
    cJSON_Delete(pod);
    world_fini(&w);
}

/* Nobody else's: without our labels, without those of the Job controller, of another name, of
 * another HorovodJob by its annotation, or older where it has none. */
static void a_pod_that_only_looks_so_is_left_alone(void **state)
{
    static const char *const patches[] = {
        no_labels,
        "{\"metadata\":{\"labels\":{\"horovod.io/role\":\"worker\"}}}",
        "{\"metadata\":{\"labels\":{\"app.kubernetes.io/managed-by\":\"me\"}}}",
        "{\"metadata\":{\"labels\":{\"horovod.io/job-name\":\"other\"}}}",
        "{\"metadata\":{\"annotations\":{\"horovod.io/job-uid\":\"another\"}}}",
        "{\"metadata\":{\"creationTimestamp\":\"2001-01-01T00:00:00Z\",\"annotations\":null}}",
        "{\"metadata\":{\"ownerReferences\":[{\"kind\":\"x\",\"controller\":true}]}}",
        "{\"spec\":{\"subdomain\":\"other\"}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(patches) / sizeof(patches[0]); i++) {
        struct world w;
        cJSON *pod, *meta;
        char *text;

        world_start(&w, "");
        let_go(&w);
        assert_true(world_patch(&w, "Pod", MASTER, patches[i]));
        pod = cJSON_Duplicate(world_find(&w, "Pod", MASTER), true);
        meta = cJSON_GetObjectItem(pod, "metadata");
        cJSON_ReplaceItemInObject(meta, "name", cJSON_CreateString("digits-master-mine"));
        text = cJSON_PrintUnformatted(pod);
        world_fini(&w);

        world_start(&w, "");
        world_put(&w, text);
        if (i == 5)
            (void)world_patch(&w, "Pod", "digits-master-mine", patches[i]);
        pass_time(&w, 10 * SECOND_MS);
        if (i != 6) /* the garbage collector of the world takes it */
            assert_non_null(world_find(&w, "Pod", "digits-master-mine"));
        assert_int_equal(world_events(&w, "MasterRemoved"), 0);
        world_is_state(&w, "Running");
        cJSON_Delete(pod);
        free(text);
        world_fini(&w);
    }
}

/* kubectl delete --cascade=orphan of the set or the Job of a running master, and somebody else's of
 * that name comes in its place. */
static void what_stands_in_the_place_of_an_orphaned_owner_is_named(void **state)
{
    static const struct {
        const char *kind, *name, *foreign;
        const char *pods[2];
    } cases[] = {
        {"StatefulSet",
         "digits-worker",
         "{\"kind\":\"StatefulSet\",\"metadata\":{\"name\":\"digits-worker\",\"namespace\":"
         "\"default\"}"
         ",\"spec\":{\"replicas\":0}}",
         {"digits-worker-0", "digits-worker-1"}},
        {"Job",
         "digits-master",
         "{\"kind\":\"Job\",\"metadata\":{\"name\":\"digits-master\",\"namespace\":\"default\"},"
         "\"spec\":{\"suspend\":true},\"status\":{}}",
         {MASTER, MASTER}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[128];
        struct world w;

        print_message("%s\n", cases[i].kind);
        world_start(&w, ",\"backoffLimit\":1");
        for (size_t n = 0; n < 2; n++)
            (void)world_patch(&w, "Pod", cases[i].pods[n],
                              "{\"metadata\":{\"ownerReferences\":null}}");
        world_remove(&w, cases[i].kind, cases[i].name);
        (void)world_put(&w, cases[i].foreign);
        pass_time(&w, 120 * SECOND_MS);
        (void)snprintf(expected, sizeof(expected), "%s default/%s exists and is not controlled",
                       cases[i].kind, cases[i].name);
        assert_non_null(strstr(world_condition_text(&w, "Running", "message"), expected));
        assert_int_equal(world_events(&w, "Conflict"), 1);
        world_remove(&w, cases[i].kind, cases[i].name);
        pass_time(&w, 180 * SECOND_MS);
        world_is_state(&w, "Running");
        world_end_master(&w, 0, "");
        pass_time(&w, 60 * SECOND_MS);
        world_is_state(&w, "Succeeded");
        world_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_in_the_place_of_an_orphaned_owner_is_named),
        cmocka_unit_test(the_next_attempt_waits_until_it_is_gone),
        cmocka_unit_test(one_that_loses_its_labels_too_gets_them_back),
        cmocka_unit_test(a_suspended_job_has_none),
        cmocka_unit_test(a_resumed_job_is_not_said_to_be_suspended),
        cmocka_unit_test(a_webhook_that_writes_another_hash_suspends_nothing),
        cmocka_unit_test(a_job_that_has_finished_keeps_only_the_logs),
        cmocka_unit_test(a_master_that_its_job_takes_back_stays),
        cmocka_unit_test(an_attempt_whose_master_was_let_go_has_ended_and_counts),
        cmocka_unit_test(a_master_that_was_replaced_unseen_has_ended_its_attempt),
        cmocka_unit_test(a_named_master_that_lost_every_label_unseen_is_found_by_its_name),
        cmocka_unit_test(one_that_got_its_labels_back_is_waited_for),
        cmocka_unit_test(the_end_of_a_master_that_was_let_go_is_that_of_its_attempt),
        cmocka_unit_test(labels_that_nobody_selects_by_cost_nothing),
        cmocka_unit_test(a_master_from_before_its_job_is_removed),
        cmocka_unit_test(a_pod_that_only_looks_so_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
