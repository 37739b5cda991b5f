#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/clock.h"
#include "operator/app/perform.h"
#include "operator/core/denial.h"
#include "operator/core/refusal.h"
#include "operator/core/trace.h"
#include "tests/unit/operator/app/objects.h"
#include "tests/unit/operator/kube/fake_api.h"

#define GONE_OF(name)                                                                              \
    "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"not "                              \
    "found\",\"details\":{\"name\":\"" name "\"}}"
#define GONE GONE_OF("j")
#define CONFLICT "{\"kind\":\"Status\",\"reason\":\"Conflict\"}"
#define EXISTS "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"exists\"}"

/* A job in the store, a performer over the fake port, and how the last plan ended. */
struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_metrics metrics;
    struct fake_api fake;
    struct hvd_performer performer;
    struct hvd_server_clock clock;
    struct hvd_entry *entry;
    struct hvd_plan plan;
    unsigned n_performed;
    hvd_status_t status;
    int64_t at_least_ms;
    int64_t wake_at_ms;
};

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    ((struct bench *)ctx)->entry = entry;
}

static void on_performed(void *ctx, struct hvd_entry *entry, const struct hvd_outcome *outcome)
{
    struct bench *b = ctx;

    assert_ptr_equal(entry, b->entry);
    b->n_performed++;
    b->status = outcome->status;
    b->at_least_ms = outcome->at_least_ms;
    b->wake_at_ms = outcome->wake_at_ms;
}

static int set_up(void **state)
{
    static struct bench b;
    cJSON *job;

    hvd_json_use_base_memory();
    memset(&b, 0, sizeof(b));
    hvd_store_init(&b.store, &b.queue, on_changed, &b);
    fake_api_init(&b.fake);
    b.performer = (struct hvd_performer){
        &b.fake.api, &b.store, &b.metrics, NULL, NULL, &b.clock, NULL, on_performed, &b,
    };
    job = cJSON_Parse(JOB("j", "u1", "1"));
    assert_int_equal(hvd_store_put(&b.store, HVD_KIND_HOROVODJOB, job, NULL), HVD_OK);
    cJSON_Delete(job);
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    hvd_plan_fini(&b->plan);
    hvd_store_fini(&b->store);
    hvd_queue_fini(&b->queue);
    return hvd_mem_live() == 0 ? 0 : -1;
}

/* Appends an action on the Service j, or on the job for a status patch. */
static enum hvd_repair repair_of(enum hvd_action_type type)
{
    if (type == HVD_ACTION_PATCH_STATUS)
        return HVD_REPAIR_STATUS;
    if (type == HVD_ACTION_PATCH)
        return HVD_REPAIR_SELECTOR;
    return type == HVD_ACTION_CREATE || type == HVD_ACTION_CREATE_SECRET ||
                   type == HVD_ACTION_DELETE
               ? HVD_REPAIR_EXISTENCE
               : HVD_REPAIR_NONE;
}

/* Whether a write waits for its next try, and the job does not wait with it. */
static bool is_put_off(const struct bench *b)
{
    return b->status == HVD_OK && b->entry->repairs.denials;
}

static void plan(struct bench *b, enum hvd_action_type type, bool waits)
{
    struct hvd_action *grown =
        hvd_realloc(b->plan.actions, b->plan.n_actions + 1, sizeof(struct hvd_action));

    assert_non_null(grown);
    b->plan.actions = grown;
    grown[b->plan.n_actions++] = (struct hvd_action){
        .type = type,
        .kind = type == HVD_ACTION_PATCH_STATUS    ? HVD_KIND_HOROVODJOB
                : type == HVD_ACTION_EVENT         ? HVD_KIND_EVENT
                : type == HVD_ACTION_CREATE_SECRET ? HVD_KIND_SECRET
                                                   : HVD_KIND_SERVICE,
        .namespace = hvd_strdup("ns"),
        .name = hvd_strdup(type == HVD_ACTION_CREATE_SECRET ? "j-ssh" : "j"),
        .body = type == HVD_ACTION_CREATE_SECRET ? NULL : hvd_strdup("{}"),
        .repair = repair_of(type),
        .waits = waits,
    };
}

static void perform(struct bench *b)
{
    assert_int_equal(hvd_perform(&b->performer, b->entry, &b->plan, NULL), HVD_OK);
}

static void locate(struct bench *b, const char *node)
{
    plan(b, HVD_ACTION_LOCATE, false);
    hvd_free(b->plan.actions[b->plan.n_actions - 1].name);
    hvd_free(b->plan.actions[b->plan.n_actions - 1].body);
    b->plan.actions[b->plan.n_actions - 1].kind = HVD_KIND_NODE;
    b->plan.actions[b->plan.n_actions - 1].name = hvd_strdup(node);
    b->plan.actions[b->plan.n_actions - 1].body = hvd_strdup("zone");
}

static const char *place(struct bench *b, const char *node)
{
    const char *text = hvd_place_cache_find(&b->store.places, node, "zone");

    return text ? text : "(not known)";
}

static void nodes_are_read_once_and_refusals_remembered(void **state)
{
    struct bench *b = *state;

    locate(b, "n1");
    locate(b, "n2");
    locate(b, "n3");
    locate(b, "n4");
    perform(b);
    assert_int_equal(b->fake.n_calls, 4);
    assert_int_equal(b->fake.calls[0].request.verb, HVD_VERB_GET);
    assert_int_equal(b->fake.calls[0].request.path.kind, HVD_KIND_NODE);
    assert_null(b->fake.calls[0].request.path.ns);
    assert_string_equal(b->fake.calls[0].name, "n1");
    fake_api_answer(&b->fake.calls[0], 200, "{\"metadata\":{\"labels\":{\"zone\":\"a\"}}}");
    fake_api_answer(&b->fake.calls[1], 403,
                    "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\"}");
    fake_api_answer(&b->fake.calls[2], 404, GONE_OF("n3"));
    assert_int_equal(b->n_performed, 0);
    fake_api_answer(&b->fake.calls[3], 500, "{}");
    assert_int_equal(b->n_performed, 1);
    assert_int_not_equal(b->status, HVD_OK);
    assert_string_equal(place(b, "n1"), "=a\n");
    assert_string_equal(place(b, "n2"), "\n");
    assert_string_equal(place(b, "n3"), "\n");
    assert_string_equal(place(b, "n4"), "(not known)");
}

static void actions_overlap_until_one_waits(void **state)
{
    struct bench *b = *state;

    plan(b, HVD_ACTION_EVENT, false);
    plan(b, HVD_ACTION_CREATE, false);
    plan(b, HVD_ACTION_PATCH_STATUS, true);
    perform(b);
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

    plan(b, HVD_ACTION_CREATE, false);
    plan(b, HVD_ACTION_PATCH_STATUS, true);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 503, NULL);
    assert_int_equal(b->fake.n_calls, 1);
    assert_int_equal(b->n_performed, 1);
    assert_true(is_put_off(b));
}

static void an_existing_object_of_ours_is_adopted(void **state)
{
    struct bench *b = *state;

    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
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

    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
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

    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
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

    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 409, EXISTS);
    fake_api_answer(fake_api_last(&b->fake), 500, "{\"kind\":\"Status\",\"message\":\"etcd\"}");
    assert_true(is_put_off(b));
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

    plan(b, HVD_ACTION_CREATE, false);
    b->plan.actions[0].kind = HVD_KIND_STATEFULSET;
    perform(b);
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
        plan(b, HVD_ACTION_PATCH, false);
        b->plan.actions[0].is_template = is_template;
        b->plan.actions[0].kind = HVD_KIND_STATEFULSET;
        b->plan.actions[0].repair = HVD_REPAIR_REPLICAS;
        perform(b);
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

    plan(b, HVD_ACTION_PATCH, false);
    b->plan.actions[0].is_json_patch = true;
    b->plan.actions[0].is_template = true;
    perform(b);
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

/* Metadata of any kind are enough, and what cannot be read has an unknown writer. */
static void the_writer_of_an_object_is_looked_up_in_its_metadata(void **state)
{
    static const struct {
        long code;
        const char *body, *by;
    } answers[] = {
        {200,
         "{\"metadata\":{\"managedFields\":[{\"manager\":\"kubectl-edit\",\"fieldsV1\":{\"f:spec\":"
         "{\"f:selector\":{}}}}]}}",
         "by manager \"kubectl-edit\""},
        {403, "{\"kind\":\"Status\",\"message\":\"no\"}",
         "by an admission webhook or another program"},
        {404, GONE, "by an admission webhook or another program"},
    };
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        plan(b, HVD_ACTION_PATCH, false);
        b->plan.actions[0].repair = HVD_REPAIR_SELECTOR;
        hvd_repairs_note(&b->entry->repairs, &b->plan.actions[0], 1700000000000);
        b->plan.actions[0].type = HVD_ACTION_ATTRIBUTE;
        perform(b);
        assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_GET);
        fake_api_answer(fake_api_last(&b->fake), answers[i].code, answers[i].body);
        assert_int_equal(b->status, HVD_OK);
        assert_non_null(strstr(b->entry->repairs.records[0].text, answers[i].by));
    }
}

static void a_denied_write_is_a_failure_and_is_retried(void **state)
{
    struct bench *b = *state;

    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403,
                    "{\"kind\":\"Status\",\"message\":\"exceeded quota\"}");
    assert_true(is_put_off(b));
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

    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403, denied);
    assert_true(is_put_off(b));
    assert_int_equal(b->metrics.n_retries, 1);
    now_ms = hvd_server_clock_at(&b->clock, hvd_clock_ms());
    assert_true(hvd_denials_due_ms(b->entry->repairs.denials, &write, now_ms) > 0);
    assert_int_equal(hvd_denials_due_ms(b->entry->repairs.denials, &other, now_ms), 0);
    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 201, CHILD("j", "s1", "5", "j", "u1"));
    assert_null(b->entry->repairs.denials);
}

/* The status is written, and the job may not be deleted all the same. */
static void a_status_that_is_written_allows_no_deletion(void **state)
{
    static const char denied[] = "{\"kind\":\"Status\",\"message\":\"no\"}";
    struct bench *b = *state;

    plan(b, HVD_ACTION_DELETE, false);
    b->plan.actions[0].kind = HVD_KIND_HOROVODJOB;
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403, denied);
    plan(b, HVD_ACTION_PATCH_STATUS, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, JOB("j", "u1", "6"));
    assert_int_equal(b->entry->n_failures, 1);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
}

/* Without an answer nobody knows whether the server is there: the whole job waits. */
static void a_write_without_an_answer_is_not_put_off_alone(void **state)
{
    struct bench *b = *state;

    plan(b, HVD_ACTION_CREATE, false);
    b->plan.wake_at_ms = 12345;
    perform(b);
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

    plan(b, HVD_ACTION_CREATE, false);
    b->plan.actions[0].kind = HVD_KIND_STATEFULSET;
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 422, WRONG_TEMPLATE);
    for (int i = 0; i < 2; i++) {
        plan(b, i ? HVD_ACTION_PATCH_STATUS : HVD_ACTION_CREATE, false);
        perform(b);
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
    plan(b, HVD_ACTION_CREATE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 404,
                    "{\"kind\":\"Status\",\"message\":\"not found\"}");
    assert_true(is_put_off(b));
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
    assert_string_equal(b->entry->failures[0].message, "not found");
    /* A queue that is closed. */
    plan(b, HVD_ACTION_CREATE, false);
    b->plan.actions[0].kind = HVD_KIND_VOLCANO_PODGROUP;
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 400,
                    "{\"kind\":\"Status\",\"message\":\"queue is Closed\"}");
    assert_true(is_put_off(b));
    assert_int_equal(b->entry->n_failures, 2);
    assert_int_equal(b->entry->failures[1].type, HVD_FAILURE_DENIED);
}

static void what_a_webhook_denies_is_a_denial_whatever_its_code(void **state)
{
    static const long codes[] = {400, 403, 409, 422, 500};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        plan(b, HVD_ACTION_CREATE, false);
        perform(b);
        fake_api_answer(fake_api_last(&b->fake), codes[i],
                        "{\"kind\":\"Status\",\"message\":\"admission webhook \\\"a\\\" denied the "
                        "request: no\"}");
        assert_int_equal(b->n_performed, i + 1);
        assert_true(is_put_off(b));
        assert_int_equal(b->entry->n_failures, 1);
        assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
        assert_string_equal(b->entry->failures[0].message,
                            "admission webhook \"a\" denied the request: no");
    }
}

/* For the HorovodJob of that uid. */
static void plan_trace(struct bench *b, const char *uid)
{
    struct hvd_trace_bounds bounds = {.made_s = 0, .ended_s = 0};
    struct hvd_action *action;

    (void)snprintf(bounds.job_uid, sizeof(bounds.job_uid), "%s", uid);
    plan(b, HVD_ACTION_TRACE, false);
    action = &b->plan.actions[b->plan.n_actions - 1];
    hvd_free(action->body);
    action->body = hvd_trace_encode(&bounds);
}

static void the_end_of_a_job_that_is_gone_is_asked_of_its_events(void **state)
{
    struct bench *b = *state;

    plan_trace(b, "u1");
    perform(b);
    assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_LIST);
    assert_int_equal(fake_api_last(&b->fake)->request.path.kind, HVD_KIND_EVENT);
    assert_string_equal(fake_api_last(&b->fake)->query,
                        "?limit=500&fieldSelector=involvedObject.kind%3DJob%2C"
                        "involvedObject.name%3Dj");
    fake_api_answer(fake_api_last(&b->fake), 200,
                    "{\"items\":[{\"reason\":\"Completed\",\"source\":{\"component\":"
                    "\"job-controller\"},\"lastTimestamp\":\"2036-01-01T00:00:00Z\"}]}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_SUCCEEDED);
    plan_trace(b, "u1");
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403,
                    "{\"kind\":\"Status\",\"message\":\"no right to list events\"}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_NO_TRACE);
    /* A server that does not answer says nothing about the Job. */
    plan_trace(b, "u1");
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 500, "{\"kind\":\"Status\",\"message\":\"etcd\"}");
    assert_int_not_equal(b->status, HVD_OK);
}

/* It was deleted, and made again, while the answer was under way. */
static void the_end_of_another_horovodjobs_master_is_not_this_ones(void **state)
{
    struct bench *b = *state;

    plan_trace(b, "the one before");
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200,
                    "{\"items\":[{\"reason\":\"Completed\",\"source\":{\"component\":"
                    "\"job-controller\"},\"lastTimestamp\":\"2036-01-01T00:00:00Z\"}]}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 0);
}

static void a_conflict_reads_the_object_again(void **state)
{
    static const enum hvd_action_type types[] = {HVD_ACTION_PATCH, HVD_ACTION_DELETE};
    struct bench *b = *state;

    for (size_t i = 0; i < 2; i++) {
        plan(b, types[i], false);
        perform(b);
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

/* As the Service j without the label that its watch selects by. */
#define HIDDEN(owner)                                                                              \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"s1\",\"resourceVersion\":\"4\"," \
    "\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"" owner "\",\"uid\":\"u1\","         \
    "\"controller\":true}]}}"

static void look(struct bench *b, const char *selector)
{
    plan(b, HVD_ACTION_LOOK, false);
    hvd_free(b->plan.actions[b->plan.n_actions - 1].body);
    b->plan.actions[b->plan.n_actions - 1].body = selector ? hvd_strdup(selector) : NULL;
    perform(b);
}

/* The job is decided anew, and the next try waits. */
static void is_unread(const struct bench *b, unsigned n, unsigned told_from)
{
    const struct hvd_failure *failure = &b->entry->failures[b->entry->n_failures - 1];

    assert_int_equal(b->status, HVD_OK);
    assert_true(b->entry->n_failures > 0);
    assert_int_equal(failure->type, HVD_FAILURE_UNREAD);
    assert_int_equal(failure->n, n);
    assert_int_equal(failure->told_from, told_from);
}

static void what_a_look_finds_is_known_and_what_it_does_not_is_gone(void **state)
{
    struct bench *b = *state;

    hvd_store_told(&b->store, HVD_KIND_SERVICE, "9");
    look(b, NULL);
    assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_GET);
    assert_string_equal(fake_api_last(&b->fake)->name, "j");
    fake_api_answer(fake_api_last(&b->fake), 200, HIDDEN("j"));
    assert_int_equal(b->status, HVD_OK);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_int_equal(b->entry->n_gone, 0);
    hvd_store_miss(&b->store, HVD_KIND_SERVICE, "ns", "j", "s1", false);
    look(b, NULL);
    fake_api_answer(fake_api_last(&b->fake), 503, NULL);
    is_unread(b, 1, HVD_REFUSAL_LASTS);
    assert_true(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.is_doubtful);
    look(b, NULL);
    fake_api_answer(fake_api_last(&b->fake), 403, "{\"kind\":\"Status\",\"message\":\"no right\"}");
    is_unread(b, 1, 1);
    assert_string_equal(b->entry->failures[0].message, "no right");
    look(b, NULL);
    fake_api_break(fake_api_last(&b->fake), HVD_ERR_TIMEOUT);
    assert_int_equal(b->status, HVD_ERR_TIMEOUT);
    look(b, NULL);
    fake_api_answer(fake_api_last(&b->fake), 404, GONE);
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 0);
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_int_equal(b->entry->n_gone, 1);
    assert_int_equal(b->entry->gone[0].kind, HVD_KIND_SERVICE);
    assert_int_equal(b->metrics.event_to_write.count, 0);
}

static void read_spec(struct bench *b)
{
    plan(b, HVD_ACTION_READ_SPEC, false);
    b->plan.actions[0].kind = HVD_KIND_HOROVODJOB;
    hvd_free(b->plan.actions[0].body);
    b->plan.actions[0].body = NULL;
    perform(b);
}

static void a_spec_that_is_not_held_is_read_and_is_there(void **state)
{
    struct bench *b = *state;

    hvd_specs_drop(&b->store, b->entry);
    read_spec(b);
    assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_GET);
    assert_int_equal(fake_api_last(&b->fake)->request.path.kind, HVD_KIND_HOROVODJOB);
    assert_string_equal(fake_api_last(&b->fake)->name, "j");
    fake_api_answer(fake_api_last(&b->fake), 200, JOB("j", "u1", "1"));
    assert_int_equal(b->status, HVD_OK);
    assert_non_null(strstr(b->entry->job.spec.text, "\"image\":\"i\""));
    assert_int_equal(b->metrics.event_to_write.count, 0);
    hvd_specs_drop(&b->store, b->entry);
    read_spec(b);
    fake_api_answer(fake_api_last(&b->fake), 503, NULL);
    assert_int_not_equal(b->status, HVD_OK);
    assert_true(b->entry->has_job);
    read_spec(b);
    fake_api_answer(fake_api_last(&b->fake), 404, GONE);
    assert_int_equal(b->status, HVD_OK);
    assert_false(b->entry->has_job);
    assert_true(hvd_doubts_due_ms(&b->store.doubts) < INT64_MAX); /* until the watch says so, too */
}

/* A job was forgotten for ever, as its watch never shows it again. */
static void a_404_of_a_load_balancer_forgets_no_job(void **state)
{
    struct bench *b = *state;

    for (int i = 0; i < 3; i++) {
        plan(b, HVD_ACTION_PATCH_STATUS, false);
        perform(b);
        fake_api_answer(fake_api_last(&b->fake), 404, NULL);
        assert_true(is_put_off(b));
        read_spec(b);
        fake_api_answer(fake_api_last(&b->fake), 404, "\"default backend - 404\"");
        assert_int_not_equal(b->status, HVD_OK);
        assert_true(b->entry->has_job);
    }
    look(b, NULL);
    fake_api_answer(fake_api_last(&b->fake), 404, "{\"code\":404}");
    is_unread(b, 1, HVD_REFUSAL_LASTS);
    assert_int_equal(b->entry->n_gone, 0);
    assert_true(hvd_doubts_due_ms(&b->store.doubts) == INT64_MAX);
}

static void a_look_that_finds_somebody_elses_object_finds_none(void **state)
{
    struct bench *b = *state;

    look(b, NULL);
    fake_api_answer(fake_api_last(&b->fake), 200,
                    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"x\"}}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_gone, 1);
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
        plan(b, HVD_ACTION_LOOK, false);
        b->plan.actions[b->plan.n_actions - 1].kind = HVD_KIND_POD;
        hvd_free(b->plan.actions[b->plan.n_actions - 1].body);
        b->plan.actions[b->plan.n_actions - 1].body = NULL;
        perform(b);
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

static void a_search_finds_pods_by_a_label(void **state)
{
    struct bench *b = *state;

    look(b, "a/b=c");
    assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_LIST);
    assert_string_equal(fake_api_last(&b->fake)->query, "?labelSelector=a%2Fb%3Dc");
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"items\":[" HIDDEN("j") "]}");
    assert_int_equal(b->status, HVD_OK);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_int_equal(b->entry->n_gone, 1); /* it was looked for */
}

static void a_patch_of_something_gone_forgets_it(void **state)
{
    struct bench *b = *state;
    cJSON *child = cJSON_Parse(CHILD("j", "s1", "5", "j", "u1"));

    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_SERVICE, child, NULL), HVD_OK);
    cJSON_Delete(child);
    plan(b, HVD_ACTION_PATCH, false);
    perform(b);
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
    plan(b, HVD_ACTION_PATCH, false);
    perform(b);
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

    plan(b, HVD_ACTION_DELETE, false);
    plan(b, HVD_ACTION_PATCH_STATUS, true);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 404, GONE);
    fake_api_answer(fake_api_last(&b->fake), 200, JOB("j", "u1", "6"));
    assert_int_equal(b->status, HVD_OK);
}

static void a_delete_that_was_denied_is_forgotten_when_it_succeeds(void **state)
{
    static const long codes[] = {200, 404};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        plan(b, HVD_ACTION_DELETE, false);
        perform(b);
        fake_api_answer(fake_api_last(&b->fake), 403, "{\"kind\":\"Status\",\"message\":\"no\"}");
        assert_int_equal(b->entry->n_failures, 1);
        plan(b, HVD_ACTION_DELETE, false);
        perform(b);
        fake_api_answer(fake_api_last(&b->fake), codes[i], GONE);
        assert_int_equal(b->entry->n_failures, 0);
    }
}

static void a_delete_is_never_wrong_in_itself(void **state)
{
    static const long codes[] = {400, 403, 422};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        plan(b, HVD_ACTION_DELETE, false);
        perform(b);
        fake_api_answer(fake_api_last(&b->fake), codes[i],
                        "{\"kind\":\"Status\",\"message\":\"no\"}");
        assert_true(is_put_off(b));
        assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
        assert_string_equal(b->entry->failures[0].message, "no");
    }
}

#define ENDING                                                                                     \
    "{\"metadata\":{\"name\":\"j\",\"namespace\":\"ns\",\"uid\":\"s1\",\"resourceVersion\":\"5\"," \
    "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{\"horovod.io/job-name\":\"j\"},"   \
    "\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"j\",\"uid\":\"u1\",\"controller\":"  \
    "true}]"                                                                                       \
    "}}"

static void a_delete_that_takes_time_is_seen_in_the_store(void **state)
{
    struct bench *b = *state;

    plan(b, HVD_ACTION_DELETE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, ENDING);
    assert_non_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    plan(b, HVD_ACTION_DELETE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"kind\":\"Status\",\"status\":\"Success\"}");
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
}

/* The API server answers the deletion of a Service with what it was. */
static void an_answer_with_what_was_deleted_brings_nothing_back(void **state)
{
    struct bench *b = *state;
    cJSON *service = cJSON_Parse(CHILD("j", "s1", "5", "j", "u1"));

    assert_int_equal(hvd_store_put_answer(&b->store, HVD_KIND_SERVICE, service, NULL), HVD_OK);
    cJSON_Delete(service);
    plan(b, HVD_ACTION_DELETE, false);
    perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, CHILD("j", "s1", "5", "j", "u1"));
    assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j"));
    assert_int_equal(b->entry->n_gone, 1);
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
        plan(b, HVD_ACTION_EVENT, false);
        perform(b);
        fake_api_answer(fake_api_last(&b->fake), rows[i].code, rows[i].body);
        assert_int_equal(b->n_performed, i + 1);
        assert_int_equal(b->status, rows[i].expected);
    }
}

static void an_event_that_a_leaving_namespace_refuses_is_a_failure_to_be_told(void **state)
{
    struct bench *b = *state;

    plan(b, HVD_ACTION_EVENT, false);
    perform(b);
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

    plan(b, HVD_ACTION_CREATE_SECRET, false);
    perform(b);
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
    plan(b, HVD_ACTION_CREATE, false);
    plan(b, HVD_ACTION_PATCH_STATUS, true);
    perform(b);
    assert_int_equal(b->n_performed, 1);
    assert_int_equal(b->status, HVD_ERR_SHUTDOWN);
}

static void every_failed_allocation_ends_the_plan_and_leaks_nothing(void **state)
{
    struct bench *b = *state;

    for (unsigned long nth = 1; nth < 40; nth++) {
        hvd_status_t st;

        plan(b, HVD_ACTION_CREATE_SECRET, false);
        plan(b, HVD_ACTION_DELETE, true);
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_are_read_once_and_refusals_remembered),
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
        TEST(the_writer_of_an_object_is_looked_up_in_its_metadata),
        TEST(a_denied_write_is_a_failure_and_is_retried),
        TEST(what_a_webhook_denies_is_a_denial_whatever_its_code),
        TEST(the_end_of_a_job_that_is_gone_is_asked_of_its_events),
        TEST(the_end_of_another_horovodjobs_master_is_not_this_ones),
        TEST(a_conflict_reads_the_object_again),
        TEST(what_a_look_finds_is_known_and_what_it_does_not_is_gone),
        TEST(a_look_that_finds_a_pod_of_somebody_elses_names_it),
        TEST(a_spec_that_is_not_held_is_read_and_is_there),
        TEST(a_404_of_a_load_balancer_forgets_no_job),
        TEST(a_look_that_finds_somebody_elses_object_finds_none),
        TEST(a_search_finds_pods_by_a_label),
        TEST(a_patch_of_something_gone_forgets_it),
        TEST(a_late_answer_about_what_is_gone_forgets_nothing_new),
        TEST(a_delete_of_something_gone_is_done),
        TEST(a_delete_that_was_denied_is_forgotten_when_it_succeeds),
        TEST(a_delete_is_never_wrong_in_itself),
        TEST(a_delete_that_takes_time_is_seen_in_the_store),
        TEST(an_answer_with_what_was_deleted_brings_nothing_back),
        TEST(events_never_hold_a_job_up_unless_the_server_is_away),
        TEST(an_event_that_a_leaving_namespace_refuses_is_a_failure_to_be_told),
        TEST(a_secret_holds_a_new_key_and_answers_with_metadata_only),
        TEST(a_request_that_cannot_be_sent_fails_the_plan),
        TEST(every_failed_allocation_ends_the_plan_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
