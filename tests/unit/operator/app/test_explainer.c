#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/app/clock.h"
#include "operator/app/explainer.h"
#include "operator/app/perform.h"
#include "tests/unit/operator/kube/fake_api.h"

/* Questions of many jobs, and the few lists that answer them. */

#define N_JOBS 200

struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_metrics metrics;
    struct fake_api fake;
    struct hvd_server_clock clock;
    struct hvd_explainer explainer;
    struct hvd_entry *entry; /* that changed last */
    int n_changed;
    int n_performed;
    int64_t now_ms;
};

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    struct bench *b = ctx;

    b->entry = entry;
    b->n_changed++;
}

static int set_up(void **state)
{
    static struct bench b;

    hvd_json_use_base_memory();
    memset(&b, 0, sizeof(b));
    b.now_ms = 1000000;
    hvd_store_init(&b.store, &b.queue, on_changed, &b);
    fake_api_init(&b.fake);
    hvd_explainer_init(&b.explainer,
                       &(struct hvd_explainer_setup){&b.fake.api, &b.store, NULL, &b.clock});
    *state = &b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    hvd_store_fini(&b->store);
    hvd_queue_fini(&b->queue);
    return hvd_mem_live() == 0 ? 0 : -1;
}

/* A job of the namespace; its entry. */
static struct hvd_entry *add_job(struct bench *b, const char *ns, int i)
{
    char text[512];
    cJSON *job;

    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"j%d\",\"uid\":\"u%d\","
                   "\"resourceVersion\":\"1\",\"generation\":1},\"spec\":{\"image\":\"i\","
                   "\"command\":[\"c\"],\"worker\":{\"replicas\":1}}}",
                   ns, i, i);
    job = cJSON_Parse(text);
    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_HOROVODJOB, job, NULL), HVD_OK);
    cJSON_Delete(job);
    return b->entry;
}

static void ask(struct bench *b, struct hvd_entry *entry, const char *uid)
{
    struct hvd_action action = {.type = HVD_ACTION_EXPLAIN,
                                .kind = HVD_KIND_STATEFULSET,
                                .name = (char *)"w",
                                .body = (char *)uid};

    assert_int_equal(hvd_explainer_ask(&b->explainer, entry, &action), HVD_OK);
}

/* The loop runs for so long; each list is answered at once with body. Returns how many there were.
 */
static int run_for(struct bench *b, int64_t for_ms, long code, const char *body)
{
    int64_t end_ms = b->now_ms + for_ms;
    int n = 0;

    while (b->now_ms < end_ms) {
        int64_t due_ms = hvd_explainer_step(&b->explainer, b->now_ms);

        if (fake_api_open(&b->fake)) {
            n++;
            fake_api_answer(fake_api_last(&b->fake), code, body);
            b->fake.n_calls = 0;
        } else if (due_ms == INT64_MAX) {
            break;
        } else {
            b->now_ms = due_ms;
        }
    }
    b->now_ms = end_ms;
    return n;
}

#define EVENT(uid, text)                                                                           \
    "{\"involvedObject\":{\"uid\":\"" uid "\"},\"reason\":\"FailedCreate\",\"message\":"           \
    "\"Error creating: " text "\"}"

static void one_question_is_answered_by_a_list_about_its_object(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = add_job(b, "ns", 1);
    int n_changed = b->n_changed;

    assert_int_equal(hvd_explainer_step(&b->explainer, b->now_ms), INT64_MAX);
    ask(b, entry, "u");
    assert_true(entry->failures[0].is_open);
    assert_null(entry->failures[0].message);
    assert_int_equal(hvd_explainer_step(&b->explainer, b->now_ms), INT64_MAX);
    assert_int_equal(fake_api_last(&b->fake)->request.path.kind, HVD_KIND_EVENT);
    assert_string_equal(fake_api_last(&b->fake)->ns, "ns");
    assert_string_equal(fake_api_last(&b->fake)->query,
                        "?limit=100&fieldSelector=type%3DWarning%2CinvolvedObject.uid%3Du");
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"items\":[" EVENT("u", "no room") "]}");
    assert_int_equal(b->n_changed, n_changed + 1);
    assert_int_equal(entry->n_failures, 1);
    assert_int_equal(entry->failures[0].type, HVD_FAILURE_NO_PODS);
    assert_string_equal(entry->failures[0].message, "no room");
    assert_false(entry->failures[0].is_open);
    /* Asked again the last answer holds, also where a list is refused, until there is none. */
    ask(b, entry, "u");
    assert_string_equal(entry->failures[0].message, "no room");
    assert_int_equal(
        run_for(b, 10000, 403, "{\"kind\":\"Status\",\"message\":\"no right to list events\"}"), 1);
    assert_string_equal(entry->failures[0].message, "no room");
    assert_true(entry->failures[0].is_unread);
    assert_false(entry->failures[0].is_open);
    ask(b, entry, "u");
    assert_true(entry->failures[0].is_unread);
    (void)run_for(b, 10000, 200, "{\"items\":[]}");
    assert_null(entry->failures[0].message);
    assert_false(entry->failures[0].is_unread);
    /* The answer about another object of that name is none about this one. */
    ask(b, entry, "u");
    (void)run_for(b, 10000, 200, "{\"items\":[" EVENT("u", "no room") "]}");
    ask(b, entry, "u-2");
    assert_null(entry->failures[0].message);
}

static void many_jobs_of_a_namespace_share_a_list(void **state)
{
    static const char events[] = "{\"items\":[" EVENT("u7", "seven") "," EVENT("u9", "nine") "]}";
    struct bench *b = *state;
    struct hvd_entry *entries[N_JOBS], *other = add_job(b, "ns-2", 1000);
    char uid[16];

    for (int i = 0; i < N_JOBS; i++) {
        entries[i] = add_job(b, "ns", i);
        (void)snprintf(uid, sizeof(uid), "u%d", i);
        ask(b, entries[i], uid);
    }
    ask(b, other, "u7");
    b->n_changed = 0;
    (void)hvd_explainer_step(&b->explainer, b->now_ms);
    assert_string_equal(fake_api_last(&b->fake)->query, "?limit=500&fieldSelector=type%3DWarning");
    fake_api_answer(fake_api_last(&b->fake), 200, events);
    assert_int_equal(b->n_changed, N_JOBS);
    assert_string_equal(entries[7]->failures[0].message, "seven");
    assert_string_equal(entries[9]->failures[0].message, "nine");
    assert_null(entries[8]->failures[0].message);
    assert_true(other->failures[0].is_open);
    assert_int_equal(run_for(b, 60000, 200, "{}"), 1); /* of the other namespace */
    /* One asks again: the answers of all are renewed, and only those who read news look at it. */
    ask(b, entries[3], "u3");
    b->n_changed = 0;
    assert_int_equal(run_for(b, 60000, 200, events), 1);
    assert_int_equal(b->n_changed, 1);
    assert_string_equal(entries[7]->failures[0].message, "seven");
}

/* However many namespaces have however many jobs that ask again and again. */
static void lists_of_all_namespaces_are_rationed(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entries[N_JOBS];
    char ns[16];
    int n = 0;

    for (int i = 0; i < N_JOBS; i++) {
        (void)snprintf(ns, sizeof(ns), "ns-%d", i);
        entries[i] = add_job(b, ns, i);
    }
    for (int second = 0; second < 15; second++) {
        for (int i = 0; i < N_JOBS; i++)
            ask(b, entries[i], "u");
        n += run_for(b, 1000, 200, "{}");
    }
    assert_in_range(n, 5, HVD_EXPLAIN_BURST + 15000 / HVD_EXPLAIN_PERIOD_MS + 1);
    (void)run_for(b, (int64_t)N_JOBS * HVD_EXPLAIN_PERIOD_MS, 200, "{}");
    for (int i = 0; i < N_JOBS; i++)
        assert_false(entries[i]->failures[0].is_open);
}

/* Events of others may be more than a list holds. */
static void what_a_list_that_is_cut_does_not_answer_is_asked_alone(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *first = add_job(b, "ns", 1), *second = add_job(b, "ns", 2);

    ask(b, first, "u1");
    ask(b, second, "u2");
    (void)hvd_explainer_step(&b->explainer, b->now_ms);
    fake_api_answer(fake_api_last(&b->fake), 200,
                    "{\"metadata\":{\"continue\":\"x\"},\"items\":[" EVENT("u1", "one") "]}");
    assert_string_equal(first->failures[0].message, "one");
    assert_true(second->failures[0].is_open);
    (void)hvd_explainer_step(&b->explainer, b->now_ms);
    assert_string_equal(fake_api_last(&b->fake)->query,
                        "?limit=100&fieldSelector=type%3DWarning%2CinvolvedObject.uid%3Du2");
    fake_api_answer(fake_api_last(&b->fake), 200, "{\"items\":[" EVENT("u2", "two") "]}");
    assert_string_equal(second->failures[0].message, "two");
    assert_int_equal(hvd_explainer_step(&b->explainer, b->now_ms), INT64_MAX);
    assert_string_equal(first->failures[0].message, "one");
}

static void an_entry_keeps_few_answers_about_pods(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = add_job(b, "ns", 1);
    char name[16];

    for (int i = 0; i < 100; i++) {
        struct hvd_action action = {.kind = HVD_KIND_POD, .name = name, .body = name};

        (void)snprintf(name, sizeof(name), "w-%d", i);
        assert_int_equal(hvd_explainer_ask(&b->explainer, entry, &action), HVD_OK);
    }
    assert_in_range(entry->n_failures, 1, 4);
}

static void on_performed(void *ctx, struct hvd_entry *entry, const struct hvd_outcome *outcome)
{
    (void)entry;
    assert_int_equal(outcome->status, HVD_OK);
    ((struct bench *)ctx)->n_performed++;
}

/* No plan waits for an answer: others need its place. */
static void a_plan_that_asks_is_done_at_once(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = add_job(b, "ns", 1);
    struct hvd_performer performer = {.api = &b->fake.api,
                                      .store = &b->store,
                                      .metrics = &b->metrics,
                                      .clock = &b->clock,
                                      .explainer = &b->explainer,
                                      .performed = on_performed,
                                      .ctx = b};
    struct hvd_plan plan = {.actions = hvd_malloc(1, sizeof(struct hvd_action)), .n_actions = 1};

    plan.actions[0] = (struct hvd_action){.type = HVD_ACTION_EXPLAIN,
                                          .kind = HVD_KIND_STATEFULSET,
                                          .namespace = hvd_strdup("ns"),
                                          .name = hvd_strdup("w"),
                                          .body = hvd_strdup("u")};
    assert_int_equal(hvd_perform(&performer, entry, &plan, NULL), HVD_OK);
    assert_int_equal(b->n_performed, 1);
    assert_int_equal(fake_api_open(&b->fake), 0);
    assert_true(entry->failures[0].is_open);
    hvd_plan_fini(&plan);
}

/* The refusal is over: what was answered about it says nothing of the next pods. */
static void a_pod_that_appears_ends_the_answer_about_its_controller(void **state)
{
    struct bench *b = *state;
    struct hvd_entry *entry = add_job(b, "ns", 1);
    cJSON *pod = cJSON_Parse(
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"j1-worker-0\",\"uid\":\"p\","
        "\"resourceVersion\":\"5\",\"labels\":{\"app.kubernetes.io/managed-by\":"
        "\"horovod-operator\",\"horovod.io/job-name\":\"j1\",\"horovod.io/role\":\"worker\"},"
        "\"ownerReferences\":[{\"kind\":\"StatefulSet\",\"name\":\"j1-worker\",\"uid\":\"s\","
        "\"controller\":true}]},\"spec\":{\"subdomain\":\"j1\"}}");

    ask(b, entry, "s");
    (void)run_for(b, 1000, 200, "{\"items\":[" EVENT("s", "no room") "]}");
    assert_string_equal(entry->failures[0].message, "no room");
    assert_int_equal(hvd_store_put(&b->store, HVD_KIND_POD, pod, NULL), HVD_OK);
    assert_int_equal(entry->n_failures, 0);
    cJSON_Delete(pod);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_question_is_answered_by_a_list_about_its_object),
        TEST(many_jobs_of_a_namespace_share_a_list),
        TEST(lists_of_all_namespaces_are_rationed),
        TEST(what_a_list_that_is_cut_does_not_answer_is_asked_alone),
        TEST(an_entry_keeps_few_answers_about_pods),
        TEST(a_plan_that_asks_is_done_at_once),
        TEST(a_pod_that_appears_ends_the_answer_about_its_controller),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
