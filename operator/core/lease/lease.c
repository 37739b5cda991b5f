/*
 * Decides leader election. No clock, no I/O: times come in as milliseconds of a monotonic clock.
 * The invariant: the operator with is_leader sent its last good renewal less than 13/15 of the
 * duration ago. No operator takes the Lease before a whole duration has passed since it saw that
 * renewal, which is after the renewal was sent. Every write of the Lease names the version that it
 * replaces, so of two concurrent writes the API server rejects one.
 */
#include "operator/core/lease/lease.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/api/json.h"
#include "operator/api/kind.h"
#include "operator/api/rfc3339.h"
#include "operator/api/version.h"

#define DURATION_MAX_MS (INT64_C(1000) * HVD_LEASE_DURATION_MAX_S)

void hvd_lease_init(struct hvd_lease *lease, const char *identity, int64_t duration_ms)
{
    *lease = (struct hvd_lease){.duration_ms = duration_ms};
    (void)snprintf(lease->identity, sizeof(lease->identity), "%s", identity);
}

/* ---- observations ---- */

hvd_status_t hvd_lease_decode(const cJSON *object, struct hvd_lease_record *out,
                              struct hvd_err *err)
{
    const char *version = hvd_json_str(object, "metadata.resourceVersion");
    const char *holder = hvd_json_str(object, "spec.holderIdentity");
    int64_t duration_ms = hvd_json_int(object, "spec.leaseDurationSeconds", 0) * 1000;
    struct hvd_lease_record record = {0};

    if (!version || !*version || strlen(version) >= sizeof(record.version))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the Lease has no resourceVersion");
    (void)snprintf(record.version, sizeof(record.version), "%s", version);
    (void)snprintf(record.holder, sizeof(record.holder), "%s", holder ? holder : "");
    record.duration_ms = duration_ms > DURATION_MAX_MS ? DURATION_MAX_MS : duration_ms;
    record.n_transitions = hvd_json_int(object, "spec.leaseTransitions", 0);
    /* At the maximum, which another writer may have set, the API server would reject the next
     * count. */
    if (record.n_transitions < 0 || record.n_transitions >= INT32_MAX)
        record.n_transitions = 0;
    *out = record;
    return HVD_OK;
}

/* Versions are decimal numbers in every API server; any other text counts as newer. */
static bool is_newer(const char *a, const char *b)
{
    if (!hvd_version_number(a) || !hvd_version_number(b))
        return strcmp(a, b) != 0;
    return hvd_version_is_older(b, a);
}

static bool is_ours(const struct hvd_lease *lease)
{
    return strcmp(lease->_record.holder, lease->identity) == 0;
}

void hvd_lease_observe(struct hvd_lease *lease, const struct hvd_lease_record *record,
                       int64_t now_ms)
{
    if (lease->_is_known && !is_newer(record->version, lease->_record.version))
        return;
    lease->_is_known = true;
    lease->_exists = true;
    lease->_record = *record;
    lease->_changed_ms = now_ms;
    if (!is_ours(lease))
        lease->is_leader = false;
}

void hvd_lease_rewind(struct hvd_lease *lease)
{
    lease->_record.version[0] = '\0';
    lease->_needs_get = lease->_exists;
}

void hvd_lease_observe_absent(struct hvd_lease *lease, const char *version, int64_t now_ms)
{
    if (version && lease->_exists && is_newer(lease->_record.version, version))
        return;
    if (lease->_exists)
        lease->_changed_ms = now_ms; /* its holder may have renewed it just before */
    lease->_is_known = true;
    lease->_exists = false;
    if (lease->is_leader)
        lease->_next_ms = now_ms;
}

/* ---- times ---- */

static int64_t lost_at_ms(const struct hvd_lease *lease)
{
    return lease->_renewed_ms + lease->duration_ms * 13 / 15;
}

/* When another's Lease may be taken. A deleted one too: its holder may not know that yet. */
static int64_t free_at_ms(const struct hvd_lease *lease)
{
    const struct hvd_lease_record *record = &lease->_record;
    int64_t duration_ms = record->duration_ms > 0 ? record->duration_ms : lease->duration_ms;

    if (!*record->holder || is_ours(lease))
        return 0;
    return lease->_changed_ms + duration_ms;
}

/* If others repeatedly delete or empty the Lease, this operator takes it no more often than it
 * renews. */
static int64_t take_at_ms(const struct hvd_lease *lease)
{
    return lease->_n_taken > 1 ? lease->_taken_ms + lease->duration_ms / 3 : 0;
}

const char *hvd_lease_awaited(const struct hvd_lease *lease, int64_t now_ms, int64_t *left_ms)
{
    const int64_t free_ms = free_at_ms(lease);

    if (!lease->_is_known || !lease->_exists || now_ms >= free_ms)
        return NULL;
    *left_ms = free_ms - now_ms;
    return lease->_record.holder;
}

int64_t hvd_lease_write_until_ms(const struct hvd_lease *lease, int64_t now_ms)
{
    if (!lease->is_leader || lease->_is_stopping ||
        now_ms >= lease->_renewed_ms + lease->duration_ms * 2 / 3)
        return 0;
    return lost_at_ms(lease);
}

int64_t hvd_lease_timeout_ms(const struct hvd_lease *lease)
{
    return lease->duration_ms / 3;
}

static enum hvd_lease_request wanted(const struct hvd_lease *lease)
{
    if (lease->_is_stopping && !lease->is_leader)
        return HVD_LEASE_NOTHING;
    if (lease->_needs_get)
        return HVD_LEASE_GET;
    if (lease->_is_stopping)
        return lease->_exists ? HVD_LEASE_RELEASE : HVD_LEASE_NOTHING;
    if (!lease->_exists)
        return HVD_LEASE_CREATE;
    return lease->is_leader ? HVD_LEASE_RENEW : HVD_LEASE_TAKE;
}

int64_t hvd_lease_next_ms(const struct hvd_lease *lease)
{
    enum hvd_lease_request request = wanted(lease);
    int64_t next_ms = lease->_next_ms;

    if (lease->_request != HVD_LEASE_NOTHING || !lease->_is_known || request == HVD_LEASE_NOTHING)
        return lease->is_leader ? lost_at_ms(lease) : INT64_MAX;
    if ((request == HVD_LEASE_TAKE || (request == HVD_LEASE_CREATE && !lease->is_leader)) &&
        free_at_ms(lease) > next_ms)
        next_ms = free_at_ms(lease);
    if ((request == HVD_LEASE_TAKE || request == HVD_LEASE_CREATE) && take_at_ms(lease) > next_ms)
        next_ms = take_at_ms(lease);
    if (lease->is_leader && lost_at_ms(lease) < next_ms)
        next_ms = lost_at_ms(lease);
    return next_ms;
}

enum hvd_lease_request hvd_lease_step(struct hvd_lease *lease, int64_t now_ms)
{
    if (lease->is_leader && now_ms >= lost_at_ms(lease))
        lease->is_leader = false;
    if (lease->_request != HVD_LEASE_NOTHING || !lease->_is_known ||
        now_ms < hvd_lease_next_ms(lease))
        return HVD_LEASE_NOTHING;
    lease->_request = wanted(lease);
    (void)snprintf(lease->_asked, sizeof(lease->_asked), "%s", lease->_record.version);
    lease->_sent_ms = now_ms;
    return lease->_request;
}

/* ---- answers ---- */

static void hold(struct hvd_lease *lease)
{
    lease->is_leader = true;
    lease->_renewed_ms = lease->_sent_ms;
    lease->_next_ms = lease->_sent_ms + (lease->_is_stopping ? 0 : lease->duration_ms / 3);
}

static void note_taking(struct hvd_lease *lease)
{
    if (lease->_sent_ms - lease->_taken_ms >= lease->duration_ms)
        lease->_n_taken = 0;
    lease->_taken_ms = lease->_sent_ms;
    lease->_n_taken++;
}

static void take_answer(struct hvd_lease *lease, enum hvd_lease_request request,
                        const struct hvd_lease_record *record, int64_t now_ms)
{
    lease->_needs_get = false;
    lease->_next_ms = now_ms;
    /* The answer is no older than the version known before, unless the server went back. */
    if (request == HVD_LEASE_GET && is_newer(lease->_asked, record->version))
        hvd_lease_rewind(lease);
    lease->_needs_get = false;
    hvd_lease_observe(lease, record, now_ms);
    if (request == HVD_LEASE_GET)
        return;
    if (request == HVD_LEASE_TAKE || request == HVD_LEASE_CREATE)
        note_taking(lease);
    /* An event about a later version may have arrived before this answer, and then it counts. */
    if (request == HVD_LEASE_RELEASE || !is_ours(lease))
        lease->is_leader = false;
    else
        hold(lease);
}

void hvd_lease_answered(struct hvd_lease *lease, hvd_status_t status,
                        const struct hvd_lease_record *record, int64_t now_ms, uint32_t random)
{
    enum hvd_lease_request request = lease->_request;
    int64_t retry_ms = lease->duration_ms / 15;

    lease->_request = HVD_LEASE_NOTHING;
    if (status == HVD_OK && record) {
        take_answer(lease, request, record, now_ms);
    } else if (status == HVD_ERR_CONFLICT || status == HVD_ERR_EXISTS) {
        lease->_needs_get = true;
        lease->_next_ms = now_ms;
    } else if (status == HVD_ERR_NOT_FOUND) {
        lease->_needs_get = false;
        lease->_next_ms = now_ms;
        hvd_lease_observe_absent(lease, NULL, now_ms);
    } else {
        lease->_next_ms = now_ms + retry_ms + (int64_t)((uint64_t)retry_ms * random / UINT32_MAX);
    }
    if (lease->is_leader && now_ms >= lost_at_ms(lease))
        lease->is_leader = false;
}

void hvd_lease_stop(struct hvd_lease *lease, int64_t now_ms)
{
    lease->_is_stopping = true;
    lease->_next_ms = now_ms;
}

bool hvd_lease_is_over(const struct hvd_lease *lease)
{
    if (lease->_request == HVD_LEASE_TAKE || lease->_request == HVD_LEASE_CREATE)
        return false;
    return !lease->is_leader || (lease->_is_stopping && !lease->_exists && !lease->_needs_get);
}

/* ---- bodies ---- */

static void put_time(struct hvd_jb *jb, cJSON *spec, const char *key, int64_t unix_us)
{
    char seconds[HVD_RFC3339_SIZE];

    hvd_rfc3339_format(unix_us / 1000000, seconds);
    hvd_jb_fmt(jb, spec, key, "%.19s.%06dZ", seconds, (int)(unix_us % 1000000));
}

static void put_holder(struct hvd_jb *jb, cJSON *spec, const struct hvd_lease *lease,
                       int64_t unix_us)
{
    bool is_change = lease->_exists && !is_ours(lease);

    hvd_jb_str(jb, spec, "holderIdentity", lease->identity);
    hvd_jb_int(jb, spec, "leaseDurationSeconds", (lease->duration_ms + 999) / 1000);
    put_time(jb, spec, "acquireTime", unix_us);
    hvd_jb_int(jb, spec, "leaseTransitions", lease->_record.n_transitions + (is_change ? 1 : 0));
}

hvd_status_t hvd_lease_encode(const struct hvd_lease *lease, enum hvd_lease_request request,
                              const char *name, int64_t unix_us, char **out, struct hvd_err *err)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *meta = hvd_jb_object(&jb, root, "metadata");
    cJSON *spec = hvd_jb_object(&jb, root, "spec");
    char *text;

    if (request == HVD_LEASE_CREATE) {
        hvd_jb_str(&jb, root, "apiVersion", hvd_kind_info(HVD_KIND_LEASE)->api_version);
        hvd_jb_str(&jb, root, "kind", hvd_kind_info(HVD_KIND_LEASE)->kind);
        hvd_jb_str(&jb, meta, "name", name);
    } else {
        hvd_jb_str(&jb, meta, "resourceVersion", lease->_record.version);
    }
    if (request == HVD_LEASE_CREATE || request == HVD_LEASE_TAKE)
        put_holder(&jb, spec, lease, unix_us);
    if (request == HVD_LEASE_RELEASE) {
        hvd_jb_str(&jb, spec, "holderIdentity", "");
        hvd_jb_int(&jb, spec, "leaseDurationSeconds", 1);
    }
    put_time(&jb, spec, "renewTime", unix_us);
    text = hvd_jb_print(&jb, root);
    cJSON_Delete(root);
    if (!text)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "Lease %s: out of memory", name);
    *out = text;
    return HVD_OK;
}
