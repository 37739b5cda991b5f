/*
 * The I/O part of leader election. A watch of the one Lease reports changes at once, so that a
 * released Lease is taken within milliseconds, without polling. This file sends the requests of
 * core/lease and passes on their answers. Runs on the event loop; the pure core decides everything
 * about time and order.
 */
#include "operator/app/election.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/app/fence.h"
#include "operator/core/lease/lease.h"

#define SUBSYSTEM "election"
#define SELECTOR_MAX 300

struct hvd_election {
    struct hvd_election_options options;
    struct hvd_lease lease;
    struct hvd_fence fence;
    struct hvd_watch *watch;
    struct hvd_kube_call *call; /* the request about the Lease under way */
    bool is_listed;             /* the current list has the Lease */
    bool was_leader;
    char holder[HVD_LEASE_TEXT_MAX]; /* the other holder that the log named last */
    uint32_t random;
    char selector[SELECTOR_MAX];
};

/* ---- events of the watch ---- */

static void on_begin(void *ctx, enum hvd_kind kind)
{
    struct hvd_election *e = ctx;

    (void)kind;
    e->is_listed = false;
}

static void on_put(void *ctx, enum hvd_kind kind, const cJSON *object)
{
    struct hvd_election *e = ctx;
    struct hvd_lease_record record;

    (void)kind;
    if (hvd_lease_decode(object, &record, NULL) != HVD_OK)
        return;
    e->is_listed = true;
    hvd_lease_observe(&e->lease, &record, e->options.now_ms());
}

static void on_remove(void *ctx, enum hvd_kind kind, const cJSON *object)
{
    struct hvd_election *e = ctx;
    struct hvd_lease_record record;

    (void)kind;
    if (hvd_lease_decode(object, &record, NULL) == HVD_OK)
        hvd_lease_observe_absent(&e->lease, record.version, e->options.now_ms());
}

static void on_end(void *ctx, enum hvd_kind kind, const char *version)
{
    struct hvd_election *e = ctx;

    (void)kind;
    (void)version;
    if (!e->is_listed)
        hvd_lease_observe_absent(&e->lease, NULL, e->options.now_ms());
}

static void on_rewind(void *ctx, enum hvd_kind kind)
{
    struct hvd_election *e = ctx;

    (void)kind;
    hvd_lease_rewind(&e->lease);
}

/* ---- requests about the Lease ---- */

static void note_leading(struct hvd_election *e)
{
    if (e->lease.is_leader == e->was_leader)
        return;
    e->was_leader = e->lease.is_leader;
    HVD_LOG_KV(e->options.log, HVD_LOG_INFO, SUBSYSTEM,
               e->was_leader ? "leading" : "not leading any more", {"lease", e->options.name},
               {"namespace", e->options.ns}, {"identity", e->lease.identity});
}

/* Logs each holder once. */
static void note_holder(struct hvd_election *e, int64_t now_ms)
{
    int64_t left_ms = 0;
    const char *holder = hvd_lease_awaited(&e->lease, now_ms, &left_ms);
    char left[24];

    if (!holder || strcmp(holder, e->holder) == 0)
        return;
    (void)snprintf(e->holder, sizeof(e->holder), "%s", holder);
    (void)snprintf(left, sizeof(left), "%lld", (long long)((left_ms + 999) / 1000));
    HVD_LOG_KV(e->options.log, HVD_LOG_INFO, SUBSYSTEM,
               "another operator leads until it does not renew the Lease for wait_s",
               {"lease", e->options.name}, {"namespace", e->options.ns}, {"holder", holder},
               {"wait_s", left});
}

static uint32_t next_random(struct hvd_election *e)
{
    e->random = e->random * 1664525u + 1013904223u;
    return e->random;
}

static void on_answer(void *ctx, const struct hvd_kube_response *response)
{
    struct hvd_election *e = ctx;
    struct hvd_lease_record record;
    struct hvd_err err = {0};
    hvd_status_t st = response->status;

    e->call = NULL;
    if (st == HVD_OK)
        st = hvd_lease_decode(response->body, &record, &err);
    else if (st != HVD_ERR_CONFLICT && st != HVD_ERR_EXISTS && st != HVD_ERR_NOT_FOUND)
        HVD_LOG_KV(e->options.log, HVD_LOG_WARN, SUBSYSTEM, "cannot reach the Lease, retrying",
                   {"lease", e->options.name}, {"namespace", e->options.ns},
                   {"error", response->err ? response->err->msg : hvd_status_str(st)});
    hvd_lease_answered(&e->lease, st, st == HVD_OK ? &record : NULL, e->options.now_ms(),
                       next_random(e));
}

static hvd_status_t send(struct hvd_election *e, enum hvd_lease_request request, const char *body,
                         struct hvd_err *err)
{
    int64_t timeout_ms = hvd_lease_timeout_ms(&e->lease);
    bool is_create = request == HVD_LEASE_CREATE;
    struct hvd_kube_request http = {
        .verb = is_create                  ? HVD_VERB_CREATE
                : request == HVD_LEASE_GET ? HVD_VERB_GET
                                           : HVD_VERB_PATCH,
        .path = {.kind = HVD_KIND_LEASE,
                 .ns = e->options.ns,
                 .name = is_create ? NULL : e->options.name},
        .body = body,
        .content_type = is_create ? "application/json"
                        : body    ? "application/merge-patch+json"
                                  : NULL,
        .timeout_ms = timeout_ms,
        .on_done = on_answer,
        .ctx = e,
    };
    char query[64];

    (void)snprintf(query, sizeof(query), "?timeout=%lldms%s", (long long)timeout_ms,
                   body ? "&fieldManager=horovod-operator" : "");
    http.query = query;
    return e->options.api->send(e->options.api->self, &http, &e->call, err);
}

static void ask(struct hvd_election *e, enum hvd_lease_request request)
{
    struct hvd_err err = {0};
    char *body = NULL;
    hvd_status_t st = HVD_OK;

    if (request != HVD_LEASE_GET)
        st = hvd_lease_encode(&e->lease, request, e->options.name, e->options.unix_us(), &body,
                              &err);
    if (st == HVD_OK)
        st = send(e, request, body, &err);
    hvd_free(body);
    if (st == HVD_OK)
        return;
    e->call = NULL;
    hvd_lease_answered(&e->lease, st, NULL, e->options.now_ms(), next_random(e));
    HVD_LOG_KV(e->options.log, HVD_LOG_WARN, SUBSYSTEM, "cannot ask for the Lease, retrying",
               {"lease", e->options.name}, {"error", err.msg});
}

int64_t hvd_election_step(struct hvd_election *e)
{
    int64_t now_ms = e->options.now_ms();
    int64_t watch_ms = hvd_watch_step(e->watch, now_ms);
    enum hvd_lease_request request = hvd_lease_step(&e->lease, now_ms);
    int64_t next_ms;

    if (request != HVD_LEASE_NOTHING)
        ask(e, request);
    note_leading(e);
    note_holder(e, now_ms);
    next_ms = hvd_lease_next_ms(&e->lease);
    return watch_ms < next_ms ? watch_ms : next_ms;
}

/* ---- the rest ---- */

bool hvd_election_is_leader(const struct hvd_election *e)
{
    return e->lease.is_leader;
}

bool hvd_election_may_write(const struct hvd_election *e)
{
    return hvd_lease_write_until_ms(&e->lease, e->options.now_ms()) != 0;
}

const struct hvd_kube_api *hvd_election_fence(const struct hvd_election *e)
{
    return &e->fence.api;
}

void hvd_election_stop(struct hvd_election *e)
{
    hvd_lease_stop(&e->lease, e->options.now_ms());
}

bool hvd_election_is_over(const struct hvd_election *e)
{
    return hvd_lease_is_over(&e->lease);
}

struct hvd_watch_health hvd_election_health(const struct hvd_election *e)
{
    return hvd_watch_health(e->watch);
}

hvd_status_t hvd_election_create(const struct hvd_election_options *options,
                                 struct hvd_election **out, struct hvd_err *err)
{
    struct hvd_election *e = hvd_calloc(1, sizeof(*e));
    struct hvd_watch_options watch = {
        .api = options->api,
        .kind = HVD_KIND_LEASE,
        .ns = options->ns,
        .seed = options->seed,
        .handler = {e, on_begin, on_put, on_remove, on_end, on_rewind},
        .log = options->log,
    };
    hvd_status_t st;

    if (!e)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "leader election: out of memory");
    e->options = *options;
    e->random = options->seed;
    (void)snprintf(e->selector, sizeof(e->selector), "metadata.name=%s", options->name);
    watch.field_selector = e->selector;
    hvd_lease_init(&e->lease, options->identity, options->duration_ms);
    hvd_fence_init(&e->fence, options->api, &e->lease, options->now_ms);
    st = hvd_watch_create(&watch, &e->watch, err);
    if (st != HVD_OK) {
        hvd_free(e);
        return st;
    }
    *out = e;
    return HVD_OK;
}

void hvd_election_destroy(struct hvd_election *e)
{
    if (!e)
        return;
    if (e->call)
        e->options.api->cancel(e->options.api->self, e->call);
    hvd_watch_destroy(e->watch);
    hvd_free(e);
}
