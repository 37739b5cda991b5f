/*
 * Leader election without a server: the API is a struct here, two or three operators share it, and
 * the clock is a number. The API refuses what names an old version, as the real one does.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/lease/lease.h"

#define D 15000
#define N_MAX 3

/* The API server's Lease. */
struct api {
    bool exists;
    struct hvd_lease_record record;
    unsigned long version;
    unsigned n_writes;
};

static void bump(struct api *api)
{
    api->version++;
    api->n_writes++;
    (void)snprintf(api->record.version, sizeof(api->record.version), "%lu", api->version);
}

/* What the API makes of the request; the record is what it answers with. */
static hvd_status_t serve(struct api *api, const struct hvd_lease *lease,
                          enum hvd_lease_request request, const char *known_version)
{
    if (request == HVD_LEASE_CREATE) {
        if (api->exists)
            return HVD_ERR_EXISTS;
        api->exists = true;
        api->record = (struct hvd_lease_record){.duration_ms = lease->duration_ms};
        (void)snprintf(api->record.holder, sizeof(api->record.holder), "%s", lease->identity);
        bump(api);
        return HVD_OK;
    }
    if (!api->exists)
        return HVD_ERR_NOT_FOUND;
    if (request == HVD_LEASE_GET)
        return HVD_OK;
    if (strcmp(api->record.version, known_version) != 0)
        return HVD_ERR_CONFLICT;
    if (request == HVD_LEASE_TAKE) {
        api->record.duration_ms = lease->duration_ms;
        (void)snprintf(api->record.holder, sizeof(api->record.holder), "%s", lease->identity);
    } else if (request == HVD_LEASE_RELEASE) {
        api->record.holder[0] = '\0';
    }
    bump(api);
    return HVD_OK;
}

/* One round trip, at once. Returns what was asked. */
static enum hvd_lease_request ask(struct api *api, struct hvd_lease *lease, int64_t now_ms)
{
    enum hvd_lease_request request = hvd_lease_step(lease, now_ms);
    hvd_status_t st;

    if (request == HVD_LEASE_NOTHING)
        return request;
    st = serve(api, lease, request, lease->_record.version);
    hvd_lease_answered(lease, st, st == HVD_OK ? &api->record : NULL, now_ms, 0);
    return request;
}

static void show(const struct api *api, struct hvd_lease *lease, int64_t now_ms)
{
    if (api->exists)
        hvd_lease_observe(lease, &api->record, now_ms);
    else
        hvd_lease_observe_absent(lease, NULL, now_ms);
}

/* A leader since time 0, in a world that another operator sees as well. */
static void make_leader(struct api *api, struct hvd_lease *a)
{
    hvd_lease_init(a, "a", D);
    show(api, a, 0);
    assert_int_equal(ask(api, a, 0), HVD_LEASE_CREATE);
    assert_true(a->is_leader);
}

static void an_operator_alone_leads_at_once(void **state)
{
    struct api api = {0};
    struct hvd_lease a;

    (void)state;
    hvd_lease_init(&a, "a", D);
    assert_int_equal(hvd_lease_step(&a, 0), HVD_LEASE_NOTHING); /* nothing is known yet */
    assert_true(hvd_lease_next_ms(&a) == INT64_MAX);
    show(&api, &a, 5);
    assert_int_equal(ask(&api, &a, 5), HVD_LEASE_CREATE);
    assert_true(a.is_leader);
    assert_int_equal(hvd_lease_next_ms(&a), 5 + D / 3);
    assert_string_equal(api.record.holder, "a");
}

static void a_leader_renews_every_third_and_a_standby_writes_nothing(void **state)
{
    struct api api = {0};
    struct hvd_lease a, b;

    (void)state;
    make_leader(&api, &a);
    hvd_lease_init(&b, "b", D);
    for (int64_t now = 0; now < 10 * D; now += 100) {
        show(&api, &b, now);
        (void)ask(&api, &a, now);
        assert_int_equal(ask(&api, &b, now), HVD_LEASE_NOTHING);
        assert_true(a.is_leader && !b.is_leader);
        assert_true(hvd_lease_write_until_ms(&a, now) > now);
        assert_int_equal(hvd_lease_write_until_ms(&b, now), 0);
    }
    assert_int_equal(api.n_writes, 1 + 29);
}

static void a_silent_leader_is_replaced_after_the_duration_and_not_before(void **state)
{
    struct api api = {0};
    struct hvd_lease a, b;

    (void)state;
    make_leader(&api, &a);
    hvd_lease_init(&b, "b", D);
    show(&api, &b, 1000); /* seen later than written: the clock of the one who sees counts */
    assert_int_equal(hvd_lease_next_ms(&b), 1000 + D);
    assert_int_equal(ask(&api, &b, 1000 + D - 1), HVD_LEASE_NOTHING);
    assert_int_equal(ask(&api, &b, 1000 + D), HVD_LEASE_TAKE);
    assert_true(b.is_leader);
    assert_string_equal(api.record.holder, "b");
    show(&api, &a, 1000 + D);
    assert_false(a.is_leader);
}

static void a_released_lease_is_taken_at_once(void **state)
{
    struct api api = {0};
    struct hvd_lease a, b;

    (void)state;
    make_leader(&api, &a);
    hvd_lease_init(&b, "b", D);
    show(&api, &b, 0);
    hvd_lease_stop(&a, 2000);
    assert_int_equal(hvd_lease_write_until_ms(&a, 2000), 0);
    assert_false(hvd_lease_is_over(&a));
    assert_int_equal(ask(&api, &a, 2000), HVD_LEASE_RELEASE);
    assert_true(hvd_lease_is_over(&a));
    assert_int_equal(ask(&api, &a, 9000), HVD_LEASE_NOTHING);
    show(&api, &b, 2001);
    assert_int_equal(ask(&api, &b, 2001), HVD_LEASE_TAKE);
    assert_true(b.is_leader);
}

static void a_stopped_standby_is_over_and_never_leads(void **state)
{
    struct api api = {0};
    struct hvd_lease a;

    (void)state;
    hvd_lease_init(&a, "a", D);
    show(&api, &a, 0);
    hvd_lease_stop(&a, 0);
    assert_true(hvd_lease_is_over(&a));
    assert_int_equal(ask(&api, &a, 0), HVD_LEASE_NOTHING);
}

static void one_that_is_stopped_while_it_takes_the_lease_gives_it_back(void **state)
{
    struct api api = {0};
    struct hvd_lease a;

    (void)state;
    hvd_lease_init(&a, "a", D);
    show(&api, &a, 0);
    assert_int_equal(hvd_lease_step(&a, 0), HVD_LEASE_CREATE);
    hvd_lease_stop(&a, 1);
    assert_false(hvd_lease_is_over(&a));
    assert_int_equal(serve(&api, &a, HVD_LEASE_CREATE, ""), HVD_OK);
    hvd_lease_answered(&a, HVD_OK, &api.record, 2, 0);
    assert_int_equal(hvd_lease_write_until_ms(&a, 2), 0);
    assert_int_equal(ask(&api, &a, 2), HVD_LEASE_RELEASE);
    assert_true(hvd_lease_is_over(&a));
}

static void a_leader_that_cannot_renew_stops_before_another_may_lead(void **state)
{
    struct api api = {0};
    struct hvd_lease a;
    int64_t now = 0, last_write = 0;

    (void)state;
    make_leader(&api, &a);
    for (; a.is_leader; now += 10) {
        if (hvd_lease_write_until_ms(&a, now)) {
            last_write = now;
            assert_true(hvd_lease_write_until_ms(&a, now) < D);
        }
        if (hvd_lease_step(&a, now) != HVD_LEASE_NOTHING)
            hvd_lease_answered(&a, HVD_ERR_UNAVAILABLE, NULL, now, 7);
        assert_true(hvd_lease_next_ms(&a) > now || !a.is_leader);
    }
    assert_true(last_write >= D * 2 / 3 - 10 && last_write < D * 2 / 3);
    assert_true(now <= D * 13 / 15 + 20);
}

static void a_renewal_whose_answer_is_late_counts_from_when_it_was_sent(void **state)
{
    struct api api = {0};
    struct hvd_lease a;

    (void)state;
    make_leader(&api, &a);
    assert_int_equal(hvd_lease_step(&a, D / 3), HVD_LEASE_RENEW);
    assert_int_equal(serve(&api, &a, HVD_LEASE_RENEW, a._record.version), HVD_OK);
    hvd_lease_answered(&a, HVD_OK, &api.record, D / 3 + 4000, 0);
    assert_int_equal(hvd_lease_write_until_ms(&a, D / 3 + 4000), D / 3 + D * 13 / 15);
    /* So late that the time is over: not a leader, though the Lease is ours. */
    assert_int_equal(hvd_lease_step(&a, 2 * D / 3), HVD_LEASE_RENEW);
    assert_int_equal(serve(&api, &a, HVD_LEASE_RENEW, a._record.version), HVD_OK);
    hvd_lease_answered(&a, HVD_OK, &api.record, 2 * D, 0);
    assert_false(a.is_leader);
    assert_int_equal(ask(&api, &a, 2 * D), HVD_LEASE_TAKE);
    assert_true(a.is_leader);
}

static void a_renewal_that_landed_without_an_answer_is_found_by_reading(void **state)
{
    struct api api = {0};
    struct hvd_lease a;

    (void)state;
    make_leader(&api, &a);
    assert_int_equal(hvd_lease_step(&a, D / 3), HVD_LEASE_RENEW);
    assert_int_equal(serve(&api, &a, HVD_LEASE_RENEW, a._record.version), HVD_OK);
    hvd_lease_answered(&a, HVD_ERR_TIMEOUT, NULL, D / 3 + 1000, 0);
    assert_int_equal(ask(&api, &a, D / 3 + 3000), HVD_LEASE_RENEW); /* refused: an old version */
    assert_true(a.is_leader);
    assert_int_equal(ask(&api, &a, D / 3 + 3000), HVD_LEASE_GET);
    assert_int_equal(ask(&api, &a, D / 3 + 3000), HVD_LEASE_RENEW);
    assert_int_equal(a._renewed_ms, D / 3 + 3000);
}

static void of_two_that_try_at_once_one_leads(void **state)
{
    struct api api = {0};
    struct hvd_lease a, b;

    (void)state;
    hvd_lease_init(&a, "a", D);
    hvd_lease_init(&b, "b", D);
    show(&api, &a, 0);
    show(&api, &b, 0);
    assert_int_equal(ask(&api, &a, 0), HVD_LEASE_CREATE);
    assert_int_equal(ask(&api, &b, 0), HVD_LEASE_CREATE);
    assert_true(a.is_leader && !b.is_leader);
    assert_int_equal(ask(&api, &b, 1), HVD_LEASE_GET);
    assert_int_equal(ask(&api, &b, 1), HVD_LEASE_NOTHING);
    assert_int_equal(hvd_lease_next_ms(&b), 1 + D);
}

static void a_deleted_lease_is_made_anew_by_its_holder_and_by_others_only_later(void **state)
{
    struct api api = {0};
    struct hvd_lease a, b;

    (void)state;
    make_leader(&api, &a);
    hvd_lease_init(&b, "b", D);
    show(&api, &b, 0);
    api.exists = false;
    hvd_lease_observe_absent(&b, "2", 100);
    assert_int_equal(ask(&api, &b, 100), HVD_LEASE_NOTHING);
    hvd_lease_observe_absent(&a, "2", 200);
    assert_true(a.is_leader);
    api.version = 2;
    assert_int_equal(ask(&api, &a, 200), HVD_LEASE_CREATE);
    assert_true(a.is_leader);
    hvd_lease_observe_absent(&a, "2", 300); /* the event about the old one comes late */
    assert_int_equal(hvd_lease_next_ms(&a), 200 + D / 3);
    show(&api, &b, 300);
    assert_int_equal(hvd_lease_next_ms(&b), 300 + D);
}

/* Somebody deletes the Lease, or empties it, as soon as it is there. */
static void a_lease_that_is_taken_away_again_and_again_costs_no_more_than_renewals(void **state)
{
    (void)state;
    for (int is_deleted = 0; is_deleted < 2; is_deleted++) {
        struct hvd_lease a = {.identity = "a", .duration_ms = D};
        struct api api = {0};
        unsigned n_sent = 0;

        show(&api, &a, 0);
        for (int64_t now_ms = 0; now_ms < 600000; now_ms += 10) {
            for (int i = 0; i < 3; i++)
                n_sent += ask(&api, &a, now_ms) != HVD_LEASE_NOTHING;
            if (!api.exists || !api.record.holder[0])
                continue;
            if (is_deleted)
                api.exists = false;
            else
                api.record.holder[0] = '\0';
            bump(&api);
            show(&api, &a, now_ms);
        }
        assert_true(n_sent <= 600000 / (D / 3) + 2);
    }
}

/* The etcd of the server was restored from a backup: every renewal names a version that is not. */
static void a_lease_that_went_back_is_read_and_renewed(void **state)
{
    struct api api = {.version = 100};
    struct hvd_lease a;

    (void)state;
    hvd_lease_init(&a, "a", D);
    make_leader(&api, &a);
    api.version = 7;
    (void)snprintf(api.record.version, sizeof(api.record.version), "7");
    assert_int_equal(ask(&api, &a, D / 3), HVD_LEASE_RENEW);
    assert_int_equal(ask(&api, &a, D / 3), HVD_LEASE_GET);
    assert_int_equal(ask(&api, &a, D / 3), HVD_LEASE_RENEW);
    assert_true(a.is_leader);
    assert_string_equal(a._record.version, "8");
    assert_int_equal(ask(&api, &a, D / 3), HVD_LEASE_NOTHING);
}

static void a_lease_that_went_back_to_another_holder_is_waited_for(void **state)
{
    struct api api = {.version = 100};
    struct hvd_lease a, b;

    (void)state;
    hvd_lease_init(&a, "a", D);
    hvd_lease_init(&b, "b", D);
    make_leader(&api, &a);
    show(&api, &b, 0);
    api.version = 7;
    (void)snprintf(api.record.version, sizeof(api.record.version), "7");
    (void)snprintf(api.record.holder, sizeof(api.record.holder), "old");
    hvd_lease_rewind(&a);
    hvd_lease_rewind(&b);
    show(&api, &a, 1000);
    show(&api, &b, 1000);
    assert_false(a.is_leader);
    assert_int_equal(ask(&api, &a, 1000 + D / 2), HVD_LEASE_GET);
    assert_int_equal(ask(&api, &b, 1000 + D / 2), HVD_LEASE_GET);
    assert_int_equal(ask(&api, &a, 1000 + D - 1), HVD_LEASE_NOTHING);
    assert_int_equal(ask(&api, &a, 1000 + D), HVD_LEASE_TAKE);
    assert_true(a.is_leader);
    assert_false(b.is_leader);
}

static void an_event_older_than_what_is_known_changes_nothing(void **state)
{
    struct api api = {0};
    struct hvd_lease a;
    struct hvd_lease_record old = {.version = "9", .holder = "b", .duration_ms = D};

    (void)state;
    api.version = 9;
    make_leader(&api, &a); /* version 10 */
    hvd_lease_observe(&a, &old, 50);
    assert_true(a.is_leader);
    (void)snprintf(old.version, sizeof(old.version), "11");
    hvd_lease_observe(&a, &old, 60);
    assert_false(a.is_leader);
}

static void a_failure_is_tried_again_after_a_while_with_jitter(void **state)
{
    struct api api = {0};
    struct hvd_lease a;

    (void)state;
    hvd_lease_init(&a, "a", D);
    show(&api, &a, 0);
    assert_int_equal(hvd_lease_step(&a, 0), HVD_LEASE_CREATE);
    hvd_lease_answered(&a, HVD_ERR_DENIED, NULL, 10, 0);
    assert_int_equal(hvd_lease_next_ms(&a), 10 + D / 15);
    assert_int_equal(hvd_lease_step(&a, 10 + D / 15), HVD_LEASE_CREATE);
    hvd_lease_answered(&a, HVD_ERR_DENIED, NULL, 2000, UINT32_MAX);
    assert_int_equal(hvd_lease_next_ms(&a), 2000 + 2 * D / 15);
}

/* ---- many random histories ---- */

struct message {
    int owner; /* -1: none */
    enum hvd_lease_request request;
    char version[64];
    int64_t lands_ms;    /* when the API sees it; INT64_MAX: lost */
    int64_t answered_ms; /* when the sender hears; beyond its timeout: never */
    hvd_status_t status;
    bool is_served;
    struct hvd_lease_record record;
};

struct history {
    struct api api;
    struct hvd_lease leases[N_MAX];
    struct message messages[N_MAX];
    int64_t skew_ms[N_MAX]; /* clocks differ by any amount */
    int64_t last_write_until[N_MAX];
    unsigned random;
    unsigned n_leaders;
};

static unsigned next(struct history *h)
{
    h->random = h->random * 1664525u + 1013904223u;
    return h->random >> 8;
}

static void send(struct history *h, int i, int64_t now_ms)
{
    struct hvd_lease *lease = &h->leases[i];
    struct message *m = &h->messages[i];
    enum hvd_lease_request request = hvd_lease_step(lease, now_ms + h->skew_ms[i]);

    if (request == HVD_LEASE_NOTHING)
        return;
    *m = (struct message){.owner = i, .request = request};
    (void)snprintf(m->version, sizeof(m->version), "%s", lease->_record.version);
    m->lands_ms = next(h) % 4 == 0 ? INT64_MAX : now_ms + next(h) % 3000;
    m->answered_ms = next(h) % 4 == 0 ? INT64_MAX : now_ms + next(h) % 4000;
    if (m->answered_ms < m->lands_ms)
        m->answered_ms = m->lands_ms;
    if (m->answered_ms > now_ms + hvd_lease_timeout_ms(lease))
        m->answered_ms = now_ms + hvd_lease_timeout_ms(lease);
}

static void deliver(struct history *h, int i, int64_t now_ms)
{
    struct hvd_lease *lease = &h->leases[i];
    struct message *m = &h->messages[i];

    if (m->owner < 0)
        return;
    if (!m->is_served && now_ms >= m->lands_ms) {
        m->is_served = true;
        m->status = serve(&h->api, lease, m->request, m->version);
        m->record = h->api.record;
    }
    if (now_ms < m->answered_ms)
        return;
    m->owner = -1;
    if (!m->is_served)
        m->status = HVD_ERR_TIMEOUT; /* and what was not served is cut off with the connection */
    hvd_lease_answered(lease, m->status, m->status == HVD_OK ? &m->record : NULL,
                       now_ms + h->skew_ms[i], next(h));
}

static void play(struct history *h, int64_t now_ms)
{
    int i = (int)(next(h) % N_MAX);

    for (int k = 0; k < N_MAX; k++) {
        deliver(h, k, now_ms);
        send(h, k, now_ms);
    }
    if (next(h) % 8 == 0)
        show(&h->api, &h->leases[i], now_ms + h->skew_ms[i]);
    if (next(h) % 3000 == 0)
        h->api.exists = false;
}

/* Whoever may write now: the writes of all others must have ended by their own account. */
static void check(struct history *h, int64_t now_ms)
{
    for (int k = 0; k < N_MAX; k++) {
        int64_t until = hvd_lease_write_until_ms(&h->leases[k], now_ms + h->skew_ms[k]);
        if (!until)
            continue;
        h->n_leaders++;
        h->last_write_until[k] = until - h->skew_ms[k];
        for (int other = 0; other < N_MAX; other++)
            assert_true(other == k || !h->leases[other].is_leader ||
                        h->last_write_until[other] <= now_ms);
    }
}

static void no_history_of_losses_delays_and_deletions_has_two_writers(void **state)
{
    unsigned n_leaders = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 60; seed++) {
        struct history h = {.random = seed};
        for (int i = 0; i < N_MAX; i++) {
            char name[8];
            (void)snprintf(name, sizeof(name), "op-%d", i);
            hvd_lease_init(&h.leases[i], name, D);
            h.skew_ms[i] = (int64_t)(next(&h) % 1000000);
            h.messages[i].owner = -1;
            show(&h.api, &h.leases[i], h.skew_ms[i]);
        }
        for (int64_t now = 0; now < 40 * D; now += 50) {
            play(&h, now);
            check(&h, now);
        }
        n_leaders += h.n_leaders;
    }
    assert_true(n_leaders > 60 * 40 * D / 50 / 3); /* somebody leads most of the time */
}

/* ---- documents ---- */

static void a_lease_document_is_read_and_garbage_refused(void **state)
{
    cJSON *good =
        cJSON_Parse("{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"holderIdentity\":"
                    "\"a\",\"leaseDurationSeconds\":15,\"leaseTransitions\":3}}");
    cJSON *bare = cJSON_Parse("{\"metadata\":{\"resourceVersion\":\"8\"}}");
    cJSON *bad = cJSON_Parse("{\"spec\":{\"holderIdentity\":\"a\"}}");
    struct hvd_lease_record record = {0};
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_lease_decode(good, &record, &err), HVD_OK);
    assert_string_equal(record.version, "7");
    assert_string_equal(record.holder, "a");
    assert_int_equal(record.duration_ms, 15000);
    assert_int_equal(record.n_transitions, 3);
    assert_int_equal(hvd_lease_decode(bare, &record, &err), HVD_OK);
    assert_string_equal(record.holder, "");
    assert_int_equal(hvd_lease_decode(bad, &record, &err), HVD_ERR_INVALID);
    assert_int_equal(hvd_lease_decode(NULL, &record, &err), HVD_ERR_INVALID);
    cJSON_Delete(good);
    cJSON_Delete(bare);
    cJSON_Delete(bad);
}

/* It is an int32 in the API, and goes back there with the next holder. */
static void a_count_that_somebody_has_set_stops_no_election(void **state)
{
    static const char *const counts[] = {"2147483647", "2147483648", "-1", "1e300", "\"many\""};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct hvd_lease_record record = {0};
        char text[128];
        cJSON *object;

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{"
                       "\"leaseTransitions\":%s}}",
                       counts[i]);
        object = cJSON_Parse(text);
        assert_int_equal(hvd_lease_decode(object, &record, NULL), HVD_OK);
        assert_in_range(record.n_transitions, 0, INT32_MAX - 1);
        cJSON_Delete(object);
    }
}

static void a_duration_that_somebody_has_set_ends(void **state)
{
    static const char *const durations[] = {"2147483647", "601", "-1", "1e300", "\"long\"", "0"};

    (void)state;
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        struct hvd_lease_record record = {0};
        struct hvd_lease lease;
        int64_t left_ms = 0;
        char text[160];
        cJSON *object;

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{"
                       "\"holderIdentity\":\"evil\",\"leaseDurationSeconds\":%s}}",
                       durations[i]);
        object = cJSON_Parse(text);
        assert_int_equal(hvd_lease_decode(object, &record, NULL), HVD_OK);
        hvd_lease_init(&lease, "me", 15000);
        hvd_lease_observe(&lease, &record, 1000);
        assert_string_equal(hvd_lease_awaited(&lease, 1000, &left_ms), "evil");
        assert_in_range(left_ms, 1, HVD_LEASE_DURATION_MAX_S * 1000);
        assert_null(hvd_lease_awaited(&lease, 1000 + left_ms, &left_ms));
        assert_int_equal(hvd_lease_step(&lease, 1000 + HVD_LEASE_DURATION_MAX_S * 1000),
                         HVD_LEASE_TAKE);
        cJSON_Delete(object);
    }
}

static void the_bodies_name_the_version_that_they_replace(void **state)
{
    struct api api = {0};
    struct hvd_lease a;
    struct hvd_err err = {0};
    char *text = NULL;

    (void)state;
    make_leader(&api, &a);
    assert_int_equal(
        hvd_lease_encode(&a, HVD_LEASE_RENEW, "n", INT64_C(1700000000000042), &text, &err), HVD_OK);
    assert_string_equal(text, "{\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"renewTime\":"
                              "\"2023-11-14T22:13:20.000042Z\"}}");
    hvd_free(text);
    assert_int_equal(hvd_lease_encode(&a, HVD_LEASE_RELEASE, "n", 0, &text, &err), HVD_OK);
    assert_non_null(strstr(text, "\"holderIdentity\":\"\""));
    hvd_free(text);
    assert_int_equal(hvd_lease_encode(&a, HVD_LEASE_CREATE, "n", 0, &text, &err), HVD_OK);
    assert_non_null(strstr(text, "\"kind\":\"Lease\""));
    assert_non_null(strstr(text, "\"leaseDurationSeconds\":15"));
    assert_null(strstr(text, "resourceVersion"));
    hvd_free(text);
}

static void a_body_that_finds_no_memory_says_so(void **state)
{
    struct hvd_lease a;
    struct hvd_err err = {0};

    (void)state;
    hvd_json_use_base_memory();
    hvd_lease_init(&a, "a", D);
    HVD_MEM_TORTURE({
        char *text = NULL;
        hvd_status_t st = hvd_lease_encode(&a, HVD_LEASE_CREATE, "n", 0, &text, &err);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_free(text);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_alone_leads_at_once),
        cmocka_unit_test(a_leader_renews_every_third_and_a_standby_writes_nothing),
        cmocka_unit_test(a_silent_leader_is_replaced_after_the_duration_and_not_before),
        cmocka_unit_test(a_released_lease_is_taken_at_once),
        cmocka_unit_test(a_stopped_standby_is_over_and_never_leads),
        cmocka_unit_test(one_that_is_stopped_while_it_takes_the_lease_gives_it_back),
        cmocka_unit_test(a_leader_that_cannot_renew_stops_before_another_may_lead),
        cmocka_unit_test(a_renewal_whose_answer_is_late_counts_from_when_it_was_sent),
        cmocka_unit_test(a_renewal_that_landed_without_an_answer_is_found_by_reading),
        cmocka_unit_test(of_two_that_try_at_once_one_leads),
        cmocka_unit_test(a_deleted_lease_is_made_anew_by_its_holder_and_by_others_only_later),
        cmocka_unit_test(a_lease_that_is_taken_away_again_and_again_costs_no_more_than_renewals),
        cmocka_unit_test(a_lease_that_went_back_is_read_and_renewed),
        cmocka_unit_test(a_lease_that_went_back_to_another_holder_is_waited_for),
        cmocka_unit_test(an_event_older_than_what_is_known_changes_nothing),
        cmocka_unit_test(a_failure_is_tried_again_after_a_while_with_jitter),
        cmocka_unit_test(no_history_of_losses_delays_and_deletions_has_two_writers),
        cmocka_unit_test(a_lease_document_is_read_and_garbage_refused),
        cmocka_unit_test(a_count_that_somebody_has_set_stops_no_election),
        cmocka_unit_test(a_duration_that_somebody_has_set_ends),
        cmocka_unit_test(the_bodies_name_the_version_that_they_replace),
        cmocka_unit_test(a_body_that_finds_no_memory_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
