/*
 * Bounds the plans under way, and each namespace's share. Slow plans are counted by a hash of their
 * namespace, so that nothing is allocated; namespaces with one hash share a bound. Pure.
 */
#include "operator/app/permits.h"

#include <utlist.h>

#include "operator/core/view/hash.h"

/* So many slow plans in its namespace, and in total, keep a job from another plan. */
static const struct {
    unsigned own, all;
} limits[HVD_N_PERMIT_PACES] = {
    [HVD_PERMIT_NEW] = {24, 64},
    [HVD_PERMIT_QUICK] = {64, 256},
    [HVD_PERMIT_SLOW] = {16, 64},
};

static unsigned short bucket_of(const char *ns)
{
    return (unsigned short)(hvd_hash_text(HVD_HASH_START, ns) % HVD_PERMITS_BUCKETS);
}

static void leave_quick(struct hvd_permits *permits, struct hvd_permit *permit)
{
    DL_DELETE2(permits->_quick, permit, _prev, _next);
    permits->_n_quick--;
}

int64_t hvd_permits_step(struct hvd_permits *permits, int64_t now_ms)
{
    struct hvd_permit *oldest;

    while ((oldest = permits->_quick) != NULL) {
        if (now_ms - oldest->_begun_ms < HVD_PERMITS_SLOW_MS)
            return oldest->_begun_ms + HVD_PERMITS_SLOW_MS;
        leave_quick(permits, oldest);
        oldest->_is_slow = true;
        permits->_n_slow++;
        permits->_n_slow_of[oldest->_bucket]++;
    }
    return INT64_MAX;
}

size_t hvd_permits_quick(const struct hvd_permits *permits)
{
    return permits->_n_quick;
}

size_t hvd_permits_active(const struct hvd_permits *permits)
{
    return permits->_n_quick + permits->_n_slow;
}

bool hvd_permits_allows(const struct hvd_permits *permits, const struct hvd_permit *permit,
                        const char *ns)
{
    const unsigned n_own = permits->_n_slow_of[bucket_of(ns)];

    return n_own == 0 ||
           (n_own < limits[permit->_last].own && permits->_n_slow < limits[permit->_last].all);
}

void hvd_permits_begin(struct hvd_permits *permits, struct hvd_permit *permit, const char *ns,
                       int64_t now_ms)
{
    permit->_bucket = bucket_of(ns);
    permit->_begun_ms = now_ms;
    permit->_is_slow = false;
    DL_APPEND2(permits->_quick, permit, _prev, _next);
    permits->_n_quick++;
}

void hvd_permits_end(struct hvd_permits *permits, struct hvd_permit *permit, int64_t now_ms)
{
    (void)hvd_permits_step(permits, now_ms);
    permit->_last = permit->_is_slow ? HVD_PERMIT_SLOW : HVD_PERMIT_QUICK;
    if (!permit->_is_slow) {
        leave_quick(permits, permit);
        return;
    }
    permits->_n_slow--;
    permits->_n_slow_of[permit->_bucket]--;
    permit->_is_slow = false;
}
