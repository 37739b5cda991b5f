/* The election over the port in memory: what it asks for, and what it makes of the answers. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/app/election.h"
#include "tests/unit/operator/kube/fake_api.h"

#define LEASE(version, holder)                                                                     \
    "{\"metadata\":{\"name\":\"op\",\"resourceVersion\":\"" version "\"},\"spec\":{"               \
    "\"holderIdentity\":\"" holder "\",\"leaseDurationSeconds\":15}}"
#define LIST(version, items)                                                                       \
    "{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"

static int64_t now_ms;

static int64_t read_clock(void)
{
    return now_ms;
}

static int64_t read_time(void)
{
    return INT64_C(1700000000000000);
}

struct bench {
    struct fake_api fake;
    struct hvd_election *election;
};

static struct hvd_election_options options_of(struct bench *bench)
{
    return (struct hvd_election_options){
        .api = &bench->fake.api,
        .ns = "ns",
        .name = "op",
        .identity = "me",
        .duration_ms = 15000,
        .seed = 1,
        .now_ms = read_clock,
        .unix_us = read_time,
    };
}

/* The Lease is listed with these items; the stream is open after. */
static void start(struct bench *bench, const char *list)
{
    struct hvd_election_options options = options_of(bench);

    now_ms = 0;
    memset(bench, 0, sizeof(*bench));
    fake_api_init(&bench->fake);
    options.api = &bench->fake.api;
    assert_int_equal(hvd_election_create(&options, &bench->election, NULL), HVD_OK);
    (void)hvd_election_step(bench->election);
    assert_int_equal(fake_api_last(&bench->fake)->request.verb, HVD_VERB_LIST);
    assert_string_equal(fake_api_last(&bench->fake)->ns, "ns");
    assert_non_null(strstr(fake_api_last(&bench->fake)->query, "metadata.name%3Dop"));
    fake_api_answer(fake_api_last(&bench->fake), 200, list);
}

/* The latest request that is not a watch. */
static struct hvd_kube_call *last_write(struct bench *bench)
{
    for (size_t i = bench->fake.n_calls; i > 0; i--)
        if (bench->fake.calls[i - 1].request.verb != HVD_VERB_WATCH)
            return &bench->fake.calls[i - 1];
    return NULL;
}

static struct hvd_kube_call *stream_of(struct bench *bench)
{
    for (size_t i = bench->fake.n_calls; i > 0; i--)
        if (bench->fake.calls[i - 1].request.verb == HVD_VERB_WATCH)
            return &bench->fake.calls[i - 1];
    return NULL;
}

static void one_that_is_alone_makes_the_lease_and_leads(void **state)
{
    struct bench b;

    (void)state;
    start(&b, LIST("3", ""));
    (void)hvd_election_step(b.election);
    assert_int_equal(last_write(&b)->request.verb, HVD_VERB_CREATE);
    assert_int_equal(last_write(&b)->request.path.kind, HVD_KIND_LEASE);
    assert_string_equal(last_write(&b)->query, "?timeout=5000ms&fieldManager=horovod-operator");
    assert_non_null(strstr(last_write(&b)->body, "\"holderIdentity\":\"me\""));
    assert_false(hvd_election_may_write(b.election));
    fake_api_answer(last_write(&b), 201, LEASE("4", "me"));
    assert_true(hvd_election_is_leader(b.election) && hvd_election_may_write(b.election));
    assert_int_equal(hvd_election_step(b.election), 5000);
    now_ms = 5000;
    (void)hvd_election_step(b.election);
    assert_int_equal(last_write(&b)->request.verb, HVD_VERB_PATCH);
    assert_non_null(strstr(last_write(&b)->body, "\"resourceVersion\":\"4\""));
    hvd_election_destroy(b.election);
    assert_int_equal(fake_api_open(&b.fake), 0);
}

static void one_that_comes_second_waits_for_the_stream_to_tell(void **state)
{
    struct bench b;
    size_t n_calls;

    (void)state;
    start(&b, LIST("3", LEASE("3", "other")));
    assert_int_equal(hvd_election_step(b.election), 15000);
    n_calls = b.fake.n_calls;
    now_ms = 5000;
    assert_int_equal(fake_api_stream(stream_of(&b), "{\"type\":\"MODIFIED\",\"object\":" LEASE(
                                                        "7", "other") "}\n"),
                     HVD_OK);
    assert_int_equal(hvd_election_step(b.election), 20000);
    assert_int_equal(b.fake.n_calls, n_calls);
    assert_int_equal(
        fake_api_stream(stream_of(&b), "{\"type\":\"MODIFIED\",\"object\":" LEASE("9", "") "}\n"),
        HVD_OK);
    (void)hvd_election_step(b.election);
    assert_int_equal(last_write(&b)->request.verb, HVD_VERB_PATCH);
    assert_non_null(strstr(last_write(&b)->body, "\"resourceVersion\":\"9\""));
    fake_api_answer(last_write(&b), 409, "{\"kind\":\"Status\",\"reason\":\"Conflict\"}");
    (void)hvd_election_step(b.election);
    assert_int_equal(last_write(&b)->request.verb, HVD_VERB_GET);
    fake_api_answer(last_write(&b), 200, LEASE("10", "third"));
    assert_false(hvd_election_is_leader(b.election));
    assert_int_equal(hvd_election_step(b.election), 20000);
    hvd_election_destroy(b.election);
}

static void one_that_is_stopped_gives_the_lease_back(void **state)
{
    struct bench b;

    (void)state;
    start(&b, LIST("3", ""));
    (void)hvd_election_step(b.election);
    fake_api_answer(last_write(&b), 201, LEASE("4", "me"));
    hvd_election_stop(b.election);
    assert_false(hvd_election_may_write(b.election) || hvd_election_is_over(b.election));
    (void)hvd_election_step(b.election);
    assert_non_null(strstr(last_write(&b)->body, "\"holderIdentity\":\"\""));
    fake_api_answer(last_write(&b), 200, LEASE("5", ""));
    assert_true(hvd_election_is_over(b.election));
    hvd_election_destroy(b.election);
}

static void a_lease_deleted_on_the_stream_is_made_anew_by_its_holder(void **state)
{
    struct bench b;

    (void)state;
    start(&b, LIST("3", ""));
    (void)hvd_election_step(b.election);
    fake_api_answer(last_write(&b), 201, LEASE("4", "me"));
    (void)hvd_election_step(b.election);
    now_ms = 100;
    assert_int_equal(
        fake_api_stream(stream_of(&b), "{\"type\":\"DELETED\",\"object\":" LEASE("6", "me") "}\n"),
        HVD_OK);
    (void)hvd_election_step(b.election);
    assert_int_equal(last_write(&b)->request.verb, HVD_VERB_CREATE);
    assert_true(hvd_election_is_leader(b.election));
    hvd_election_destroy(b.election);
}

static void what_cannot_be_sent_or_understood_is_tried_again(void **state)
{
    struct bench b;

    (void)state;
    start(&b, LIST("3", ""));
    b.fake.fail_send = HVD_ERR_NOMEM;
    (void)hvd_election_step(b.election);
    b.fake.fail_send = HVD_OK;
    now_ms = 3000;
    (void)hvd_election_step(b.election);
    assert_int_equal(last_write(&b)->request.verb, HVD_VERB_CREATE);
    fake_api_answer(last_write(&b), 201, "{}");
    assert_false(hvd_election_is_leader(b.election));
    now_ms = 6000;
    (void)hvd_election_step(b.election);
    fake_api_answer(last_write(&b), 201, LEASE("4", "me"));
    assert_true(hvd_election_is_leader(b.election));
    hvd_election_destroy(b.election);
}

static void no_memory_makes_no_election(void **state)
{
    struct bench b;
    struct hvd_election_options options;

    (void)state;
    fake_api_init(&b.fake);
    options = options_of(&b);
    HVD_MEM_TORTURE({
        struct hvd_election *election = NULL;
        struct hvd_err err = {0};
        hvd_status_t st = hvd_election_create(&options, &election, &err);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_election_destroy(election);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_alone_makes_the_lease_and_leads),
        cmocka_unit_test(one_that_comes_second_waits_for_the_stream_to_tell),
        cmocka_unit_test(one_that_is_stopped_gives_the_lease_back),
        cmocka_unit_test(a_lease_deleted_on_the_stream_is_made_anew_by_its_holder),
        cmocka_unit_test(what_cannot_be_sent_or_understood_is_tried_again),
        cmocka_unit_test(no_memory_makes_no_election),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
