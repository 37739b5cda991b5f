#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/clock.h"
#include "operator/app/perform.h"
#include "operator/core/writes/denial.h"
#include "tests/unit/operator/app/bench.h"
#include "tests/unit/operator/app/objects.h"

static void actions_overlap_until_one_waits(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_EVENT, false);
    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_plan(b, HVD_ACTION_PATCH_STATUS, true);
    bench_perform(b);
    assert_int_equal(b->fake.n_calls, 2);
    assert_string_equal(b->fake.calls[1].query,
                        "?fieldManager=horovod-operator&fieldValidation=Strict");
    fake_api_answer(&b->fake.calls[1], 201, CHILD("j", "s1", "5", "j", "u1"));
    assert_int_equal(b->fake.n_calls, 2);
    fake_api_answer(&b->fake.calls[0], 201, "{}");
    assert_int_equal(b->fake.n_calls, 3);
    assert_string_equal(fake_api_last(&b->fake)->request.path.subresource, "status");
    assert_int_equal(b->n_performed, 0);
    fake_api_answer(fake_api_last(&b->fake), 200, JOB("j", "u1", "6"));
    assert_int_equal(b->n_performed, 1);
    assert_int_equal(b->status, HVD_OK);
    assert_string_equal(b->entry->job.resource_version, "6");
    assert_true(b->entry->status_written_ms > 0);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
}

static void what_waits_behind_a_failure_is_dropped(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_plan(b, HVD_ACTION_PATCH_STATUS, true);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 503, NULL);
    assert_int_equal(b->fake.n_calls, 1);
    assert_int_equal(b->n_performed, 1);
    assert_true(bench_is_put_off(b));
}

static void an_existing_object_of_ours_is_adopted(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 409, EXISTS);
    assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_GET);
    fake_api_answer(fake_api_last(&b->fake), 200, CHILD("j", "s1", "5", "j", "u1"));
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 0);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
}

static void a_foreign_object_becomes_a_failure_and_no_backoff(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 409, EXISTS);
    fake_api_answer(fake_api_last(&b->fake), 200, CHILD("j", "s1", "5", "j", "another uid"));
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 1);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_FOREIGN);
    assert_string_equal(b->entry->failures[0].name, "j");
}

/* The watch shows its removal between the read and its answer: nothing else would end the wait. */
static void a_foreign_object_that_goes_while_it_is_read_is_no_failure(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 409, EXISTS);
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", true);
    fake_api_answer(fake_api_last(&b->fake), 200, CHILD("j", "s1", "5", "other", "another uid"));
    assert_int_equal(b->n_performed, 1);
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 0);
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
}

/* A read that fails says nothing about the object. */
static void an_existing_object_that_cannot_be_read_is_not_called_foreign(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 409, EXISTS);
    fake_api_answer(fake_api_last(&b->fake), 500, "{\"kind\":\"Status\",\"message\":\"etcd\"}");
    assert_true(bench_is_put_off(b));
    assert_int_equal(b->entry->n_failures, 1);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
}

#define WRONG_TEMPLATE                                                                             \
    "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"StatefulSet.apps \\\"j\\\" is "     \
    "invalid: "                                                                                    \
    "spec.template.x: "                                                                            \
    "no\",\"details\":{\"causes\":[{\"field\":\"spec.template.x\"}]}}"

static void a_refused_template_becomes_a_failure_with_the_servers_text(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    b->plan.actions[0].kind = HVD_KIND_STATEFULSET;
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 422, WRONG_TEMPLATE);
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_INVALID);
    assert_string_equal(b->entry->failures[0].message,
                        "StatefulSet.apps \"j\" is invalid: spec.template.x: no");
}

/* Somebody has made the object such that the patch does not pass: that is not the job's fault. */
static void a_refused_patch_of_an_existing_object_ends_no_job(void **state)
{
    struct bench *b = *state;

    for (int is_template = 0; is_template < 2; is_template++) {
        bench_plan(b, HVD_ACTION_PATCH, false);
        b->plan.actions[0].is_template = is_template;
        b->plan.actions[0].kind = HVD_KIND_STATEFULSET;
        b->plan.actions[0].repair = HVD_REPAIR_REPLICAS;
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), 422, WRONG_TEMPLATE);
        assert_int_equal(b->entry->failures[0].type,
                         is_template ? HVD_FAILURE_INVALID : HVD_FAILURE_DENIED);
        assert_int_equal(b->status, HVD_OK);
        assert_int_equal(b->entry->repairs.denials != NULL, !is_template);
        hvd_denials_destroy(b->entry->repairs.denials);
        b->entry->repairs.denials = NULL;
        assert_int_equal(b->entry->repairs.n, 1); /* so that it is tried again late */
    }
}

/* Its first step tests the uid: another object of that name has come. */
static void a_json_patch_that_does_not_fit_reads_the_object_again(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_PATCH, false);
    b->plan.actions[0].is_json_patch = true;
    b->plan.actions[0].is_template = true;
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 422,
                    "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"the server rejected "
                    "our request due to "
                    "an error in our request\"}");
    assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_GET);
    fake_api_answer(fake_api_last(&b->fake), 200, CHILD("j", "s2", "9", "j", "u1"));
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 0);
    assert_string_equal(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.uid, "s2");
}

static void a_denied_write_is_a_failure_and_is_retried(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403,
                    "{\"kind\":\"Status\",\"message\":\"exceeded quota\"}");
    assert_true(bench_is_put_off(b));
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
}

/* Each write has a wait of its own, which an answer that it is accepted ends. */
static void a_denied_write_waits_and_the_job_does_not(void **state)
{
    static const char denied[] = "{\"kind\":\"Status\",\"message\":\"exceeded quota\"}";
    struct bench *b = *state;
    const struct hvd_attempted_write write =
        hvd_denials_write(HVD_KIND_SERVICE, "j", HVD_REPAIR_EXISTENCE, 0, 1);
    const struct hvd_attempted_write other =
        hvd_denials_write(HVD_KIND_SERVICE, "k", HVD_REPAIR_EXISTENCE, 0, 1);
    int64_t now_ms;

    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403, denied);
    assert_true(bench_is_put_off(b));
    assert_int_equal(b->metrics.n_retries, 1);
    now_ms = hvd_server_clock_at(&b->clock, hvd_clock_ms());
    assert_true(hvd_denials_due_ms(b->entry->repairs.denials, &write, now_ms) > 0);
    assert_int_equal(hvd_denials_due_ms(b->entry->repairs.denials, &other, now_ms), 0);
    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 201, CHILD("j", "s1", "5", "j", "u1"));
    assert_null(b->entry->repairs.denials);
}

/* The status is written, and the job may not be deleted all the same. */
static void a_status_that_is_written_allows_no_deletion(void **state)
{
    static const char denied[] = "{\"kind\":\"Status\",\"message\":\"no\"}";
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_DELETE, false);
    b->plan.actions[0].kind = HVD_KIND_HOROVODJOB;
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403, denied);
    bench_plan(b, HVD_ACTION_PATCH_STATUS, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, JOB("j", "u1", "6"));
    assert_int_equal(b->entry->n_failures, 1);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
}

/* Without an answer nobody knows whether the server is there: the whole job waits. */
static void a_write_without_an_answer_is_not_put_off_alone(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE, false);
    b->plan.wake_at_ms = 12345;
    bench_perform(b);
    fake_api_break(fake_api_last(&b->fake), HVD_ERR_TIMEOUT);
    assert_int_equal(b->status, HVD_ERR_TIMEOUT);
    assert_int_equal(b->wake_at_ms, 12345);
    assert_null(b->entry->repairs.denials);
}

/* What is denied stays so when the spec changes; a template that is wrong does not. */
static void what_is_denied_is_known_beyond_a_change_of_the_spec(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"u1\",\"resourceVersion\":"
        "\"7\",\"generation\":2,\"creationTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{"
        "\"image\":\"i\",\"command\":[\"c\"],\"worker\":{\"replicas\":1}}}";
    struct bench *b = *state;
    cJSON *job = cJSON_Parse(text);

    bench_plan(b, HVD_ACTION_CREATE, false);
    b->plan.actions[0].kind = HVD_KIND_STATEFULSET;
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 422, WRONG_TEMPLATE);
    for (int i = 0; i < 2; i++) {
        bench_plan(b, i ? HVD_ACTION_PATCH_STATUS : HVD_ACTION_CREATE, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), 403, "{\"kind\":\"Status\",\"message\":\"no\"}");
    }
    assert_int_equal(b->entry->n_failures, 3);
    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_HOROVODJOB, job, NULL), HVD_OK);
    assert_int_equal(b->entry->n_failures, 2);
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(b->entry->failures[i].type, HVD_FAILURE_INVALID);
    cJSON_Delete(job);
}

static void what_may_pass_is_a_denial_and_retried(void **state)
{
    struct bench *b = *state;

    /* A namespace that goes, or a kind that is not installed. */
    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 404,
                    "{\"kind\":\"Status\",\"message\":\"not found\"}");
    assert_true(bench_is_put_off(b));
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
    assert_string_equal(b->entry->failures[0].message, "not found");
    /* A queue that is closed. */
    bench_plan(b, HVD_ACTION_CREATE, false);
    b->plan.actions[0].kind = HVD_KIND_VOLCANO_PODGROUP;
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 400,
                    "{\"kind\":\"Status\",\"message\":\"queue is Closed\"}");
    assert_true(bench_is_put_off(b));
    assert_int_equal(b->entry->n_failures, 2);
    assert_int_equal(b->entry->failures[1].type, HVD_FAILURE_DENIED);
}

static void what_a_webhook_denies_is_a_denial_whatever_its_code(void **state)
{
    static const long codes[] = {400, 403, 409, 422, 500};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        bench_plan(b, HVD_ACTION_CREATE, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), codes[i],
                        "{\"kind\":\"Status\",\"message\":\"admission webhook \\\"a\\\" denied the "
                        "request: no\"}");
        assert_int_equal(b->n_performed, i + 1);
        assert_true(bench_is_put_off(b));
        assert_int_equal(b->entry->n_failures, 1);
        assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
        assert_string_equal(b->entry->failures[0].message,
                            "admission webhook \"a\" denied the request: no");
    }
}

static void a_conflict_reads_the_object_again(void **state)
{
    static const enum hvd_action_type types[] = {HVD_ACTION_PATCH, HVD_ACTION_DELETE};
    struct bench *b = *state;

    for (size_t i = 0; i < 2; i++) {
        bench_plan(b, types[i], false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), 409,
                        "{\"kind\":\"Status\",\"reason\":\"Conflict\"}");
        assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_GET);
        fake_api_answer(fake_api_last(&b->fake), 200,
                        i ? CHILD("j", "s1", "6", "j", "u1") : CHILD("j", "s1", "5", "j", "u1"));
        assert_int_equal(b->status, HVD_OK);
        assert_string_equal(
            hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.resource_version,
            i ? "6" : "5");
    }
}

/* A pod of somebody else's that has the name of one of ours is in its way until it goes. */
static void a_look_that_finds_a_pod_of_somebody_elses_names_it(void **state)
{
    struct bench *b = *state;
    const char *const answers[] = {
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"x\"}}",
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"x\",\"labels\":{"
        "\"horovod.io/job-name\":\"another\"}}}"};

    for (int i = 0; i < 4; i++) {
        bench_plan(b, HVD_ACTION_LOOK, false);
        b->plan.actions[b->plan.n_actions - 1].kind = HVD_KIND_POD;
        hvd_free(b->plan.actions[b->plan.n_actions - 1].body);
        b->plan.actions[b->plan.n_actions - 1].body = NULL;
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), i % 2 ? 404 : 200, i % 2 ? GONE : answers[i / 2]);
        assert_int_equal(b->status, HVD_OK);
        assert_int_equal(b->entry->n_gone, 1);
        assert_int_equal(b->entry->n_failures, i % 2 ? 0 : 1);
        if (i % 2)
            continue;
        assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_FOREIGN);
        assert_int_equal(b->entry->failures[0].kind, HVD_KIND_POD);
        assert_string_equal(b->entry->failures[0].name, "j");
    }
}

static void a_patch_of_something_gone_forgets_it(void **state)
{
    struct bench *b = *state;
    cJSON *child = cJSON_Parse(CHILD("j", "s1", "5", "j", "u1"));

    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_SERVICE, child, NULL), HVD_OK);
    cJSON_Delete(child);
    bench_plan(b, HVD_ACTION_PATCH, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 404, GONE);
    fake_api_answer(fake_api_last(&b->fake), 404, GONE);
    assert_int_equal(b->status, HVD_OK);
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
}

static void a_late_answer_about_what_is_gone_forgets_nothing_new(void **state)
{
    struct bench *b = *state;
    cJSON *old = cJSON_Parse(CHILD("j", "s1", "5", "j", "u1"));
    cJSON *new = cJSON_Parse(CHILD("j", "s2", "9", "j", "u1"));

    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_SERVICE, old, NULL), HVD_OK);
    bench_plan(b, HVD_ACTION_PATCH, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 409, CONFLICT);
    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_SERVICE, new, NULL), HVD_OK);
    fake_api_answer(fake_api_last(&b->fake), 404, GONE);
    assert_int_equal(b->n_performed, 1);
    assert_string_equal(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.uid, "s2");
    cJSON_Delete(old);
    cJSON_Delete(new);
}

static void a_delete_of_something_gone_is_done(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_DELETE, false);
    bench_plan(b, HVD_ACTION_PATCH_STATUS, true);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 404, GONE);
    fake_api_answer(fake_api_last(&b->fake), 200, JOB("j", "u1", "6"));
    assert_int_equal(b->status, HVD_OK);
}

static void a_delete_that_was_denied_is_forgotten_when_it_succeeds(void **state)
{
    static const long codes[] = {200, 404};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        bench_plan(b, HVD_ACTION_DELETE, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), 403, "{\"kind\":\"Status\",\"message\":\"no\"}");
        assert_int_equal(b->entry->n_failures, 1);
        bench_plan(b, HVD_ACTION_DELETE, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), codes[i], GONE);
        assert_int_equal(b->entry->n_failures, 0);
    }
}

static void a_delete_is_never_wrong_in_itself(void **state)
{
    static const long codes[] = {400, 403, 422};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        bench_plan(b, HVD_ACTION_DELETE, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), codes[i],
                        "{\"kind\":\"Status\",\"message\":\"no\"}");
        assert_true(bench_is_put_off(b));
        assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
        assert_string_equal(b->entry->failures[0].message, "no");
    }
}

#define ENDED(version)                                                                             \
    "{\"metadata\":{\"name\":\"j\",\"namespace\":\"ns\",\"uid\":\"s1\"," version                   \
    "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{\"horovod.io/job-name\":\"j\"},"   \
    "\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"j\",\"uid\":\"u1\",\"controller\":"  \
    "true}]"                                                                                       \
    "}}"
#define ENDING ENDED("\"resourceVersion\":\"5\",")

static void a_delete_that_takes_time_is_seen_in_the_store(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_DELETE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, ENDING);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    bench_plan(b, HVD_ACTION_DELETE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"kind\":\"Status\",\"status\":\"Success\"}");
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
}

/* The object is there until the API server itself says that it is not. */
static void a_delete_is_done_when_the_api_server_says_so(void **state)
{
    static const char *const answers[] = {"{}", "[]",
                                          "{\"kind\":\"Status\",\"status\":\"Failure\"}",
                                          "{\"kind\":\"Status\",\"code\":403}"};
    struct bench *b = *state;
    cJSON *service = cJSON_Parse(CHILD("j", "s1", "5", "j", "u1"));

    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_SERVICE, service, NULL), HVD_OK);
    cJSON_Delete(service);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        bench_plan(b, HVD_ACTION_DELETE, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), 200, answers[i]);
        assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
        assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
        assert_true(bench_is_put_off(b));
    }
    bench_plan(b, HVD_ACTION_DELETE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"kind\":\"Status\",\"status\":\"Success\"}");
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_int_equal(b->entry->n_failures, 0);
}

/* The API server answers the deletion of a Service with what it was. */
static void an_answer_with_what_was_deleted_brings_nothing_back(void **state)
{
    struct bench *b = *state;
    cJSON *service = cJSON_Parse(CHILD("j", "s1", "5", "j", "u1"));

    assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_SERVICE, service, NULL), HVD_OK);
    cJSON_Delete(service);
    bench_plan(b, HVD_ACTION_DELETE, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, CHILD("j", "s1", "5", "j", "u1"));
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_int_equal(b->entry->n_gone, 1);
}

/* As kube-apiserver 1.34 answers where a controller removes the last finalizer meanwhile: with the
 * time of the end, and without a version. The watch may tell of the end first. */
static void a_delete_that_another_client_finishes_brings_nothing_back(void **state)
{
    struct bench *b = *state;

    for (int is_first = 0; is_first < 2; is_first++) {
        cJSON *service = cJSON_Parse(CHILD("j", "s1", "5", "j", "u1"));

        assert_int_equal(hvd_store_put(&b->store, HVD_KIND_SERVICE, service, NULL), HVD_OK);
        cJSON_Delete(service);
        bench_plan(b, HVD_ACTION_DELETE, false);
        bench_perform(b);
        if (is_first) {
            hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", true);
            hvd_store_told(&b->store, HVD_KIND_SERVICE, "7");
        }
        fake_api_answer(fake_api_last(&b->fake), 200, ENDED(""));
        assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
        assert_int_equal(b->entry->n_gone, 1);
    }
}

static void events_never_hold_a_job_up_unless_the_server_is_away(void **state)
{
    static const struct {
        long code;
        const char *body;
        hvd_status_t expected;
    } rows[] = {{201, "{}", HVD_OK},
                {409, EXISTS, HVD_OK},
                {403, "{\"kind\":\"Status\"}", HVD_OK},
                {422, "{\"kind\":\"Status\"}", HVD_OK},
                {500, "{}", HVD_ERR_UNAVAILABLE}};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bench_plan(b, HVD_ACTION_EVENT, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), rows[i].code, rows[i].body);
        assert_int_equal(b->n_performed, i + 1);
        assert_int_equal(b->status, rows[i].expected);
    }
}

static void an_event_that_a_leaving_namespace_refuses_is_a_failure_to_be_told(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_EVENT, false);
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403,
                    "{\"kind\":\"Status\",\"message\":\"events \\\"a\\\" is forbidden: unable to "
                    "create new content in "
                    "namespace ns because it is being terminated\",\"details\":{\"causes\":[{"
                    "\"reason\":\"NamespaceTerminating\"}]}}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 1);
    assert_int_equal(b->entry->failures[0].kind, HVD_KIND_EVENT);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_LEAVING);
}

static void a_secret_holds_a_new_key_and_answers_with_metadata_only(void **state)
{
    struct bench *b = *state;

    bench_plan(b, HVD_ACTION_CREATE_SECRET, false);
    bench_perform(b);
    assert_non_null(strstr(fake_api_last(&b->fake)->body, "BEGIN EC PRIVATE KEY"));
    assert_non_null(strstr(fake_api_last(&b->fake)->request.accept, "PartialObjectMetadata"));
    fake_api_answer(fake_api_last(&b->fake), 201, CHILD("j-ssh", "k1", "5", "j", "u1"));
    assert_int_equal(b->status, HVD_OK);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SECRET, "ns", "j-ssh"));
}

static void a_request_that_cannot_be_sent_fails_the_plan(void **state)
{
    struct bench *b = *state;

    b->fake.fail_send = HVD_ERR_SHUTDOWN;
    bench_plan(b, HVD_ACTION_CREATE, false);
    bench_plan(b, HVD_ACTION_PATCH_STATUS, true);
    bench_perform(b);
    assert_int_equal(b->n_performed, 1);
    assert_int_equal(b->status, HVD_ERR_SHUTDOWN);
}

static void every_failed_allocation_ends_the_plan_and_leaks_nothing(void **state)
{
    struct bench *b = *state;

    for (unsigned long nth = 1; nth < 40; nth++) {
        hvd_status_t st;

        bench_plan(b, HVD_ACTION_CREATE_SECRET, false);
        bench_plan(b, HVD_ACTION_DELETE, true);
        b->n_performed = 0;
        hvd_mem_fail_nth(nth);
        st = hvd_perform(&b->performer, b->entry, &b->plan, NULL);
        hvd_mem_fail_nth(0);
        b->fake.n_calls = st == HVD_OK ? b->fake.n_calls : 0;
        while (fake_api_open(&b->fake))
            fake_api_answer(fake_api_last(&b->fake), 404, GONE);
        assert_int_equal(b->n_performed, st == HVD_OK ? 1 : 0);
        hvd_plan_fini(&b->plan);
        b->fake.n_calls = 0;
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_set_up, bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(actions_overlap_until_one_waits),
        TEST(what_waits_behind_a_failure_is_dropped),
        TEST(an_existing_object_of_ours_is_adopted),
        TEST(a_foreign_object_becomes_a_failure_and_no_backoff),
        TEST(a_foreign_object_that_goes_while_it_is_read_is_no_failure),
        TEST(an_existing_object_that_cannot_be_read_is_not_called_foreign),
        TEST(a_refused_template_becomes_a_failure_with_the_servers_text),
        TEST(a_denied_write_waits_and_the_job_does_not),
        TEST(a_status_that_is_written_allows_no_deletion),
        TEST(a_write_without_an_answer_is_not_put_off_alone),
        TEST(what_is_denied_is_known_beyond_a_change_of_the_spec),
        TEST(what_may_pass_is_a_denial_and_retried),
        TEST(a_refused_patch_of_an_existing_object_ends_no_job),
        TEST(a_json_patch_that_does_not_fit_reads_the_object_again),
        TEST(a_denied_write_is_a_failure_and_is_retried),
        TEST(what_a_webhook_denies_is_a_denial_whatever_its_code),
        TEST(a_conflict_reads_the_object_again),
        TEST(a_look_that_finds_a_pod_of_somebody_elses_names_it),
        TEST(a_patch_of_something_gone_forgets_it),
        TEST(a_late_answer_about_what_is_gone_forgets_nothing_new),
        TEST(a_delete_of_something_gone_is_done),
        TEST(a_delete_that_was_denied_is_forgotten_when_it_succeeds),
        TEST(a_delete_is_never_wrong_in_itself),
        TEST(a_delete_that_takes_time_is_seen_in_the_store),
        TEST(a_delete_is_done_when_the_api_server_says_so),
        TEST(an_answer_with_what_was_deleted_brings_nothing_back),
        TEST(a_delete_that_another_client_finishes_brings_nothing_back),
        TEST(events_never_hold_a_job_up_unless_the_server_is_away),
        TEST(an_event_that_a_leaving_namespace_refuses_is_a_failure_to_be_told),
        TEST(a_secret_holds_a_new_key_and_answers_with_metadata_only),
        TEST(a_request_that_cannot_be_sent_fails_the_plan),
        TEST(every_failed_allocation_ends_the_plan_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
