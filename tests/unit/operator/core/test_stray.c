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

/* Somebody edited the label by which the Job selects: it makes another pod beside it. */
static void of_two_masters_the_one_without_a_job_is_removed(void **state)
{
    cJSON *pod, *job;
    struct world w;
    char text[96];

    (void)state;
    world_start(&w, "");
    let_go(&w);
    pod = cJSON_Duplicate(world_find(&w, "Pod", MASTER), true);
    job = world_find(&w, "Job", "digits-master");
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(pod, "metadata"), "uid");
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(pod, "metadata"), "name",
                              cJSON_CreateString("digits-master-other"));
    char *copy = cJSON_PrintUnformatted(pod);
    world_put(&w, copy);
    (void)snprintf(text, sizeof(text), "%s", hvd_json_str(job, "metadata.uid"));
    char patch[256];
    (void)snprintf(
        patch, sizeof(patch),
        "{\"metadata\":{\"ownerReferences\":[{\"kind\":\"Job\",\"name\":\"digits-master\","
        "\"uid\":\"%s\",\"controller\":true}]}}",
        text);
    assert_true(world_patch(&w, "Pod", "digits-master-other", patch));
    pass_time(&w, 10 * SECOND_MS);
    assert_null(world_find(&w, "Pod", MASTER));
    assert_non_null(world_find(&w, "Pod", "digits-master-other"));
    world_is_state(&w, "Running");
    assert_int_equal(world_events(&w, "MasterRemoved"), 1);
    free(copy);
    cJSON_Delete(pod);
    world_fini(&w);
}

/* Nobody else's: without our labels, without those of the Job controller, of another name, of
 * another HorovodJob by its annotation, or older where it has none. */
static void a_pod_that_only_looks_so_is_left_alone(void **state)
{
    static const char *const patches[] = {
        "{\"metadata\":{\"labels\":{\"batch.kubernetes.io/controller-uid\":null}}}",
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_attempt_waits_until_it_is_gone),
        cmocka_unit_test(one_that_loses_its_labels_too_gets_them_back),
        cmocka_unit_test(a_suspended_job_has_none),
        cmocka_unit_test(a_resumed_job_is_not_said_to_be_suspended),
        cmocka_unit_test(a_webhook_that_writes_another_hash_suspends_nothing),
        cmocka_unit_test(a_job_that_has_finished_keeps_only_the_logs),
        cmocka_unit_test(a_master_that_its_job_takes_back_stays),
        cmocka_unit_test(of_two_masters_the_one_without_a_job_is_removed),
        cmocka_unit_test(a_pod_that_only_looks_so_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
