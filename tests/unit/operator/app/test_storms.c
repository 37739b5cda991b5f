/* What a write costs that gets the same answer for ever, counted on a simulated clock: no answer to
 * any write is followed by requests without a pause. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/app/clock.h"
#include "operator/app/perform.h"
#include "operator/core/writes/denial.h"
#include "operator/core/writes/refusal.h"
#include "tests/unit/operator/app/objects.h"
#include "tests/unit/operator/kube/fake_api.h"

#define TEN_MINUTES_MS 600000
#define EPOCH_MS 1700000000000
#define MOST_AT_FIRST 300 /* requests in the first ten minutes, */
#define MOST_LATER 100    /* and in each ten minutes after that */

static const struct {
    enum hvd_action_type type;
    enum hvd_kind kind;
} writes[] = {
    {HVD_ACTION_CREATE, HVD_KIND_SERVICE},    {HVD_ACTION_CREATE, HVD_KIND_STATEFULSET},
    {HVD_ACTION_CREATE, HVD_KIND_JOB},        {HVD_ACTION_CREATE_SECRET, HVD_KIND_SECRET},
    {HVD_ACTION_PATCH, HVD_KIND_SERVICE},     {HVD_ACTION_PATCH, HVD_KIND_STATEFULSET},
    {HVD_ACTION_PATCH, HVD_KIND_POD},         {HVD_ACTION_PATCH_STATUS, HVD_KIND_HOROVODJOB},
    {HVD_ACTION_DELETE, HVD_KIND_JOB},        {HVD_ACTION_DELETE, HVD_KIND_POD},
    {HVD_ACTION_DELETE, HVD_KIND_HOROVODJOB}, {HVD_ACTION_EVENT, HVD_KIND_EVENT},
};

static const struct {
    long code;
    const char *body;
} answers[] = {
    {200, "{}"},
    {400, "{\"kind\":\"Status\",\"reason\":\"BadRequest\",\"message\":\"no\"}"},
    {401, NULL},
    {403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\"}"},
    {404,
     "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"the server could not find it\","
     "\"details\":{\"name\":\"j\"}}"},
    {404, "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"another\"}"},
    {404, NULL},
    {405, NULL},
    {406, NULL},
    {408, NULL},
    {409, "{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"has been modified\"}"},
    {409, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"exists\"}"},
    {409, NULL},
    {410, NULL},
    {413, NULL},
    {415, NULL},
    {418, NULL},
    {422, "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"no\"}"},
    {422, "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"the server rejected our "
          "request due to an error in "
          "our request\"}"},
    {429, NULL},
    {500, NULL},
    {503, NULL},
    {504, NULL},
    {302, NULL},
    {0, NULL}, /* no answer */
};

/* What a read answers meanwhile. */
enum reads { SAME, NEWER, GONE, DENIED, N_READS };

struct bench {
    struct hvd_queue queue;
    struct hvd_store store;
    struct hvd_metrics metrics;
    struct fake_api fake;
    struct hvd_performer performer;
    struct hvd_server_clock clock;
    struct hvd_entry *entry;
    bool is_over;
    struct hvd_outcome outcome;
    int64_t now_ms;
    unsigned n_requests;
    unsigned serial; /* of versions */
};

static void on_changed(void *ctx, struct hvd_entry *entry)
{
    ((struct bench *)ctx)->entry = entry;
}

static void on_performed(void *ctx, struct hvd_entry *entry, const struct hvd_outcome *outcome)
{
    struct bench *b = ctx;

    (void)entry;
    b->is_over = true;
    b->outcome = *outcome;
}

static void put(struct bench *b, enum hvd_kind kind, const char *text)
{
    cJSON *object = cJSON_Parse(text);

    assert_non_null(object);
    assert_int_equal(hvd_store_put(&b->store, kind, object, NULL), HVD_OK);
    cJSON_Delete(object);
}

static void set_up(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    hvd_store_init(&b->store, &b->queue, on_changed, b);
    fake_api_init(&b->fake);
    b->performer = (struct hvd_performer){
        &b->fake.api, &b->store, &b->metrics, NULL, NULL, &b->clock, NULL, on_performed, b,
    };
    put(b, HVD_KIND_HOROVODJOB, JOB("j", "u1", "1"));
}

static void tear_down(struct bench *b)
{
    hvd_store_fini(&b->store);
    hvd_queue_fini(&b->queue);
    assert_int_equal(hvd_mem_live(), 0);
}

/* The object that everything is about, in a version. */
static void print_object(enum hvd_kind kind, unsigned version, char out[1024])
{
    if (kind == HVD_KIND_HOROVODJOB)
        (void)snprintf(out, 1024, JOB("j", "u1", "%u"), version);
    else
        (void)snprintf(out, 1024, CHILD("j", "c1", "%u", "j", "u1"), version);
}

static void answer_read(struct bench *b, enum hvd_kind kind, enum reads reads)
{
    struct hvd_kube_call *call = fake_api_last(&b->fake);
    char text[1024];

    if (reads == GONE || reads == DENIED) {
        fake_api_answer(call, reads == GONE ? 404 : 403, answers[reads == GONE ? 4 : 3].body);
        return;
    }
    b->serial += reads == NEWER ? 1 : 0;
    print_object(kind, b->serial, text);
    fake_api_answer(call, 200, text);
}

/* One plan with the write; its requests are counted. */
static void perform_once(struct bench *b, size_t write, size_t answer, enum reads reads)
{
    struct hvd_plan plan = {.n_actions = 1};
    char body[128];

    (void)snprintf(body, sizeof(body), "{\"metadata\":{\"uid\":\"%s\",\"resourceVersion\":\"%u\"}}",
                   writes[write].kind == HVD_KIND_HOROVODJOB ? "u1" : "c1", b->serial);
    plan.actions = hvd_calloc(1, sizeof(plan.actions[0]));
    assert_non_null(plan.actions);
    plan.actions[0] = (struct hvd_action){
        .type = writes[write].type,
        .kind = writes[write].kind,
        .namespace = hvd_strdup("ns"),
        .name = hvd_strdup("j"),
        .repair = HVD_REPAIR_EXISTENCE,
        .body = writes[write].type == HVD_ACTION_CREATE_SECRET ? NULL : hvd_strdup(body)};
    b->fake.n_calls = 0;
    b->is_over = false;
    assert_int_equal(hvd_perform(&b->performer, b->entry, &plan, NULL), HVD_OK);
    for (size_t n = 0; !b->is_over; n++) {
        assert_true(n < 4 && b->fake.n_calls == n + 1);
        b->n_requests++;
        if (fake_api_last(&b->fake)->request.verb == HVD_VERB_GET)
            answer_read(b, writes[write].kind, reads);
        else if (answers[answer].code == 0)
            fake_api_break(fake_api_last(&b->fake), HVD_ERR_TIMEOUT);
        else
            fake_api_answer(fake_api_last(&b->fake), answers[answer].code, answers[answer].body);
    }
}

/* Whether reconcile makes no such write any more: the job has failed, waits, or is left alone. */
static bool is_settled(const struct bench *b)
{
    return b->entry->n_failures > 0 && (b->entry->failures[0].type == HVD_FAILURE_INVALID ||
                                        b->entry->failures[0].type == HVD_FAILURE_LEAVING ||
                                        b->entry->failures[0].type == HVD_FAILURE_FOREIGN);
}

/* Until when the write is put off; now, if it is not. */
static int64_t put_off_until(const struct bench *b, size_t write)
{
    const struct hvd_attempted_write tried =
        hvd_denials_write(writes[write].kind, "j", HVD_REPAIR_EXISTENCE, 0, 1);
    const int64_t due_ms =
        hvd_denials_due_ms(b->entry->repairs.denials, &tried, EPOCH_MS + b->now_ms);

    return due_ms ? due_ms - EPOCH_MS : b->now_ms;
}

/* Decides for the same write again and again, as the shell does. */
static unsigned go_on(struct bench *b, size_t write, size_t answer, enum reads reads)
{
    const int64_t end_ms = b->now_ms + TEN_MINUTES_MS;

    struct hvd_queue_item *item = &b->entry->item;

    b->n_requests = 0;
    hvd_queue_add(&b->queue, item, HVD_QUEUE_SOON, b->now_ms);
    while (b->now_ms < end_ms && !is_settled(b)) {
        int64_t wait_ms;

        if (hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER) > b->now_ms)
            b->now_ms = hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER);
        assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, b->now_ms), item);
        if (put_off_until(b, write) > b->now_ms) { /* nothing to do meanwhile */
            b->entry->unrest = (struct hvd_unrest){0};
            hvd_queue_done(&b->queue, item);
            hvd_queue_add(&b->queue, item, HVD_QUEUE_SOON, put_off_until(b, write));
            continue;
        }
        wait_ms = hvd_unrest_plan(&b->entry->unrest);
        hvd_server_clock_init(&b->clock, EPOCH_MS + b->now_ms, hvd_clock_ms());
        if (wait_ms == 0)
            perform_once(b, write, answer, reads);
        if (wait_ms > 0 || b->outcome.status != HVD_OK) {
            (void)hvd_queue_fail(&b->queue, item, b->now_ms, UINT32_MAX, wait_ms);
            continue;
        }
        hvd_queue_done(&b->queue, item);
        hvd_queue_add(&b->queue, item, HVD_QUEUE_SOON, b->now_ms);
    }
    return b->n_requests;
}

static void count_requests(size_t w, size_t a, enum reads reads)
{
    struct bench b;
    char text[1024];
    unsigned n, later;

    set_up(&b);
    b.serial = 1;
    print_object(writes[w].kind, 1, text);
    if (writes[w].type == HVD_ACTION_PATCH || writes[w].type == HVD_ACTION_DELETE)
        put(&b, writes[w].kind, text);
    n = go_on(&b, w, a, reads);
    later = go_on(&b, w, a, reads);
    if (n > MOST_AT_FIRST || later > MOST_LATER)
        fail_msg("write %zu, answer %ld (%zu), reads %d: %u and %u requests", w, answers[a].code, a,
                 (int)reads, n, later);
    tear_down(&b);
}

static void no_answer_to_any_write_is_followed_by_requests_without_a_pause(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof(writes) / sizeof(writes[0]); w++) {
        for (size_t a = 0; a < sizeof(answers) / sizeof(answers[0]); a++) {
            for (int reads = 0; reads < N_READS; reads++)
                count_requests(w, a, (enum reads)reads);
        }
    }
}

/* The definition has no status, or a proxy answers: the job is there all the same. */
static void a_write_that_is_not_found_where_its_object_is_counts_as_refused(void **state)
{
    static const size_t statuses[] = {7, 5, 6};
    struct bench b;
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        const size_t w = statuses[i];

        set_up(&b);
        b.serial = 1;
        print_object(writes[w].kind, 1, text);
        if (writes[w].kind != HVD_KIND_HOROVODJOB)
            put(&b, writes[w].kind, text);
        perform_once(&b, w, 4, SAME);
        assert_int_equal(b.outcome.status, HVD_OK);
        assert_non_null(b.entry->repairs.denials);
        assert_int_equal(b.entry->n_failures, 1);
        assert_int_equal(b.entry->failures[0].type, writes[w].kind == HVD_KIND_HOROVODJOB
                                                        ? HVD_FAILURE_STATUS
                                                        : HVD_FAILURE_DENIED);
        assert_string_equal(b.entry->failures[0].message, "the server could not find it");
        assert_true(hvd_refusal_is_told(&b.entry->failures[0]));
        /* Another version has been written meanwhile: decided anew, at once. */
        perform_once(&b, w, 10, NEWER);
        assert_int_equal(b.outcome.status, HVD_OK);
        tear_down(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_answer_to_any_write_is_followed_by_requests_without_a_pause),
        cmocka_unit_test(a_write_that_is_not_found_where_its_object_is_counts_as_refused),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
