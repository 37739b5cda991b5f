#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/perform.h"
#include "operator/core/obstacles/trace.h"
#include "operator/core/writes/refusal.h"
#include "operator/core/writes/repair.h"
#include "tests/unit/operator/app/bench.h"
#include "tests/unit/operator/app/objects.h"

/* Actions that read, and what follows from their answers. */

static void locate(struct bench *b, const char *node)
{
    bench_plan(b, HVD_ACTION_LOCATE, false);
    hvd_free(b->plan.actions[b->plan.n_actions - 1].name);
    hvd_free(b->plan.actions[b->plan.n_actions - 1].body);
    b->plan.actions[b->plan.n_actions - 1].kind = HVD_KIND_NODE;
    b->plan.actions[b->plan.n_actions - 1].name = hvd_strdup(node);
    b->plan.actions[b->plan.n_actions - 1].body = hvd_strdup("zone");
}

static const char *place(struct bench *b, const char *node)
{
    const char *text = hvd_node_topology_find(&b->store.topology, node, "zone");

    return text ? text : "(not known)";
}

/* The job is decided anew, and the next try of the read waits. */
static void is_unread(const struct bench *b, enum hvd_failure_type type, unsigned n,
                      unsigned told_from)
{
    const struct hvd_failure *failure = &b->entry->failures[b->entry->n_failures - 1];

    assert_int_equal(b->status, HVD_OK);
    assert_true(b->entry->n_failures > 0);
    assert_int_equal(failure->type, type);
    assert_int_equal(failure->n, n);
    assert_int_equal(failure->told_from, told_from);
}

static void nodes_are_read_once_and_refusals_remembered(void **state)
{
    struct bench *b = *state;

    locate(b, "n1");
    locate(b, "n2");
    locate(b, "n3");
    locate(b, "n4");
    bench_perform(b);
    assert_int_equal(b->fake.n_calls, 4);
    assert_int_equal(b->fake.calls[0].request.verb, HVD_VERB_GET);
    assert_int_equal(b->fake.calls[0].request.path.kind, HVD_KIND_NODE);
    assert_null(b->fake.calls[0].request.path.ns);
    assert_string_equal(b->fake.calls[0].name, "n1");
    fake_api_answer(&b->fake.calls[0], 200,
                    "{\"metadata\":{\"name\":\"n1\",\"labels\":{\"zone\":\"a\"}}}");
    fake_api_answer(&b->fake.calls[1], 403,
                    "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\"}");
    fake_api_answer(&b->fake.calls[2], 404, GONE_OF("n3"));
    assert_int_equal(b->n_performed, 0);
    fake_api_answer(&b->fake.calls[3], 500, "{}");
    assert_int_equal(b->n_performed, 1);
    assert_string_equal(place(b, "n1"), "=a\n");
    assert_string_equal(place(b, "n2"), "\n");
    assert_string_equal(place(b, "n3"), "\n");
    assert_string_equal(place(b, "n4"), "(not known)");
    is_unread(b, HVD_FAILURE_UNREAD, 1, HVD_REFUSAL_LASTS);
    assert_string_equal(b->entry->failures[0].name, "n4");
    /* Nor does an account that is not known say anything about rights. */
    locate(b, "n4");
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 401, "{\"kind\":\"Status\",\"message\":\"who?\"}");
    is_unread(b, HVD_FAILURE_UNREAD, 2, HVD_REFUSAL_LASTS);
    assert_string_equal(place(b, "n4"), "(not known)");
    locate(b, "n4");
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"metadata\":{\"name\":\"n4\"}}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 0);
}

/* Metadata of any kind are enough, and what cannot be read has an unknown writer. */
static void the_writer_of_an_object_is_looked_up_in_its_metadata(void **state)
{
    static const struct {
        long code;
        const char *body, *by;
    } answers[] = {
        {200,
         "{\"metadata\":{\"name\":\"j\",\"managedFields\":[{\"manager\":\"kubectl-edit\","
         "\"fieldsV1\":{\"f:spec\":"
         "{\"f:selector\":{}}}}]}}",
         "by manager \"kubectl-edit\""},
        {403, "{\"kind\":\"Status\",\"message\":\"no\"}",
         "by an admission webhook or another program"},
        {404, GONE, "by an admission webhook or another program"},
    };
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        bench_plan(b, HVD_ACTION_PATCH, false);
        b->plan.actions[0].repair = HVD_REPAIR_SELECTOR;
        hvd_repairs_note(&b->entry->repairs, &b->plan.actions[0], 1700000000000);
        b->plan.actions[0].type = HVD_ACTION_ATTRIBUTE;
        hvd_free(b->plan.actions[0].body); /* keys, where others own further ones */
        b->plan.actions[0].body = NULL;
        bench_perform(b);
        assert_int_equal(fake_api_last(&b->fake)->request.verb, HVD_VERB_GET);
        fake_api_answer(fake_api_last(&b->fake), answers[i].code, answers[i].body);
        assert_int_equal(b->status, HVD_OK);
        assert_non_null(strstr(b->entry->repairs.records[0].text, answers[i].by));
    }
}

/* It counts like one of the write, which alone waits for it, until the writer is known. */
static void a_refusal_to_tell_who_else_writes_is_one_of_the_write(void **state)
{
    static const long codes[] = {500, 401};
    struct bench *b = *state;

    for (int i = 0; i < 3; i++) {
        bench_plan(b, HVD_ACTION_PATCH, false);
        hvd_repairs_note(&b->entry->repairs, &b->plan.actions[0], 1700000000000);
        b->plan.actions[0].type = HVD_ACTION_ATTRIBUTE;
        b->plan.actions[0].value = 7;
        bench_perform(b);
        if (i == 2)
            break;
        fake_api_answer(fake_api_last(&b->fake), codes[i],
                        "{\"kind\":\"Status\",\"message\":\"etcd\"}");
        assert_true(bench_is_put_off(b));
        assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_DENIED);
        assert_int_equal(b->entry->failures[0].n, i + 1);
        assert_null(b->entry->repairs.records[0].text);
    }
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"metadata\":{\"name\":\"j\"}}");
    assert_int_equal(b->status, HVD_OK);
    assert_null(b->entry->repairs.denials);
    assert_int_equal(b->entry->n_failures, 0);
    assert_non_null(b->entry->repairs.records[0].text);
}

/* For the HorovodJob of that uid. */
static void plan_trace(struct bench *b, const char *uid)
{
    struct hvd_trace_bounds bounds = {.made_s = 0, .ended_s = 0};
    struct hvd_action *action;

    (void)snprintf(bounds.job_uid, sizeof(bounds.job_uid), "%s", uid);
    bench_plan(b, HVD_ACTION_TRACE, false);
    action = &b->plan.actions[b->plan.n_actions - 1];
    hvd_free(action->body);
    action->body = hvd_trace_encode(&bounds);
}

static void the_end_of_a_job_that_is_gone_is_asked_of_its_events(void **state)
{
    struct bench *b = *state;

    plan_trace(b, "u1");
    bench_perform(b);
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
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 403,
                    "{\"kind\":\"Status\",\"message\":\"no right to list events\"}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->failures[0].type, HVD_FAILURE_NO_TRACE);
    /* A server that does not answer says nothing about the Job. */
    plan_trace(b, "u1");
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 500, "{\"kind\":\"Status\",\"message\":\"etcd\"}");
    is_unread(b, HVD_FAILURE_UNTRACED, 1, HVD_REFUSAL_LASTS);
    assert_string_equal(b->entry->failures[0].message, "etcd");
    plan_trace(b, "u1");
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 401, "{\"kind\":\"Status\",\"message\":\"who?\"}");
    is_unread(b, HVD_FAILURE_UNTRACED, 2, HVD_REFUSAL_LASTS);
    plan_trace(b, "u1");
    bench_perform(b);
    fake_api_break(fake_api_last(&b->fake), HVD_ERR_TIMEOUT);
    assert_int_equal(b->status, HVD_ERR_TIMEOUT);
}

/* It was deleted, and made again, while the answer was under way. */
static void the_end_of_another_horovodjobs_master_is_not_this_ones(void **state)
{
    struct bench *b = *state;

    plan_trace(b, "the one before");
    bench_perform(b);
    fake_api_answer(fake_api_last(&b->fake), 200,
                    "{\"items\":[{\"reason\":\"Completed\",\"source\":{\"component\":"
                    "\"job-controller\"},\"lastTimestamp\":\"2036-01-01T00:00:00Z\"}]}");
    assert_int_equal(b->status, HVD_OK);
    assert_int_equal(b->entry->n_failures, 0);
}

/* As the Service j without the label that its watch selects by. */
#define HIDDEN(owner)                                                                              \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j\",\"uid\":\"s1\",\"resourceVersion\":\"4\"," \
    "\"ownerReferences\":[{\"kind\":\"HorovodJob\",\"name\":\"" owner "\",\"uid\":\"u1\","         \
    "\"controller\":true}]}}"

static void look(struct bench *b, const char *selector)
{
    bench_plan(b, HVD_ACTION_LOOK, false);
    hvd_free(b->plan.actions[b->plan.n_actions - 1].body);
    b->plan.actions[b->plan.n_actions - 1].body = selector ? hvd_strdup(selector) : NULL;
    bench_perform(b);
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
    is_unread(b, HVD_FAILURE_UNREAD, 1, HVD_REFUSAL_LASTS);
    assert_true(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "j")->meta.is_doubtful);
    look(b, NULL);
    fake_api_answer(fake_api_last(&b->fake), 403, "{\"kind\":\"Status\",\"message\":\"no right\"}");
    is_unread(b, HVD_FAILURE_UNREAD, 1, 1);
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
    bench_plan(b, HVD_ACTION_READ_SPEC, false);
    b->plan.actions[0].kind = HVD_KIND_HOROVODJOB;
    hvd_free(b->plan.actions[0].body);
    b->plan.actions[0].body = NULL;
    bench_perform(b);
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
    is_unread(b, HVD_FAILURE_UNREAD, 1, HVD_REFUSAL_LASTS);
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
        bench_plan(b, HVD_ACTION_PATCH_STATUS, false);
        bench_perform(b);
        fake_api_answer(fake_api_last(&b->fake), 404, NULL);
        assert_true(bench_is_put_off(b));
        read_spec(b);
        fake_api_answer(fake_api_last(&b->fake), 404, "\"default backend - 404\"");
        assert_int_not_equal(b->status, HVD_OK);
        assert_true(b->entry->has_job);
    }
    look(b, NULL);
    fake_api_answer(fake_api_last(&b->fake), 404, "{\"code\":404}");
    is_unread(b, HVD_FAILURE_UNREAD, 1, HVD_REFUSAL_LASTS);
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

/* Of a proxy that confuses answers, or that gives its own: the read is tried again, ever later. */
static void a_success_with_another_object_is_no_answer(void **state)
{
    static const char *const bodies[] = {"{\"message\":\"told\",\"metadata\":{\"namespace\":\"ns\","
                                         "\"name\":\"other\",\"uid\":\"x\"}}",
                                         CHILD("other", "s7", "9", "j", "u1"), "{}"};
    struct bench *b = *state;
    const unsigned n = sizeof(bodies) / sizeof(bodies[0]);

    for (unsigned i = 0; i < n; i++) {
        look(b, NULL);
        fake_api_answer(fake_api_last(&b->fake), 200, bodies[i]);
        is_unread(b, HVD_FAILURE_UNREAD, i + 1, HVD_REFUSAL_LASTS);
        assert_non_null(strstr(b->entry->failures[0].message,
                               "get services ns/j: HTTP 200 with another object, of no kind "));
        assert_int_equal(b->entry->n_gone, 0);
        assert_null(hvd_store_find(&b->store, HVD_KIND_SERVICE, "ns", "other"));
    }
    for (unsigned i = 0; i < n; i++) {
        read_spec(b);
        fake_api_answer(fake_api_last(&b->fake), 200, JOB("other", "u1", "9"));
        is_unread(b, HVD_FAILURE_UNREAD, i + 1, HVD_REFUSAL_LASTS);
        assert_non_null(strstr(b->entry->failures[1].message,
                               "get horovodjobs ns/j: HTTP 200 with another object, HorovodJob "
                               "ns/other: check proxies"));
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, bench_set_up, bench_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_are_read_once_and_refusals_remembered),
        TEST(the_writer_of_an_object_is_looked_up_in_its_metadata),
        TEST(a_refusal_to_tell_who_else_writes_is_one_of_the_write),
        TEST(the_end_of_a_job_that_is_gone_is_asked_of_its_events),
        TEST(the_end_of_another_horovodjobs_master_is_not_this_ones),
        TEST(what_a_look_finds_is_known_and_what_it_does_not_is_gone),
        TEST(a_spec_that_is_not_held_is_read_and_is_there),
        TEST(a_404_of_a_load_balancer_forgets_no_job),
        TEST(a_look_that_finds_somebody_elses_object_finds_none),
        TEST(a_success_with_another_object_is_no_answer),
        TEST(a_search_finds_pods_by_a_label),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
