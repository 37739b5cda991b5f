#ifndef HVD_OPERATOR_APP_PERMITS_H
#define HVD_OPERATOR_APP_PERMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plans under way that count as quick: each has a few requests, and what they need in memory. */
#define HVD_PERMITS_QUICK 32
/* A plan that takes longer than this is slow: an admission webhook, for example, may keep each of
 * its requests waiting for half a minute. */
#define HVD_PERMITS_SLOW_MS 2000
#define HVD_PERMITS_BUCKETS 1024

enum hvd_permit_pace { HVD_PERMIT_NEW, HVD_PERMIT_QUICK, HVD_PERMIT_SLOW };
#define HVD_N_PERMIT_PACES 3

/* A job's part: lives inside the job's entry, begins as zeros, and must not move while its plan is
 * under way. Private but for permits.c. */
struct hvd_permit {
    struct hvd_permit *_prev; /* among the quick plans under way, the oldest first */
    struct hvd_permit *_next;
    int64_t _begun_ms;
    unsigned char _last; /* enum hvd_permit_pace of the plan that ended last */
    unsigned short _bucket;
    bool _is_slow; /* the plan under way */
};

/*
 * How many plans may be under way at once, and whose: what is slow in one namespace must not keep
 * the jobs of others waiting. A plan that has become slow gives its place among the quick ones to
 * another job; slow plans are bounded for each namespace (those with the same hash) and in sum,
 * narrowest for jobs whose last plan was slow, widest for those whose last plan was quick, so that
 * sound jobs pass beside the others of their namespace. A namespace without slow plans never waits
 * for those of others. Pure: every call brings the time. Begins as zeros.
 */
struct hvd_permits {
    struct hvd_permit *_quick; /* those under way, the oldest first */
    size_t _n_quick;
    size_t _n_slow;
    unsigned short _n_slow_of[HVD_PERMITS_BUCKETS];
};

/* Moves plans that have become slow. Returns when the next one will be; INT64_MAX: none is quick.
 */
int64_t hvd_permits_step(struct hvd_permits *permits, int64_t now_ms);

/* How many plans are quick, and how many are under way at all. */
size_t hvd_permits_quick(const struct hvd_permits *permits);
size_t hvd_permits_active(const struct hvd_permits *permits);

/* Whether a job of the namespace may begin a plan, provided that fewer than HVD_PERMITS_QUICK are
 * quick. */
bool hvd_permits_allows(const struct hvd_permits *permits, const struct hvd_permit *permit,
                        const char *ns);

/* A plan of the job begins; it has none under way. */
void hvd_permits_begin(struct hvd_permits *permits, struct hvd_permit *permit, const char *ns,
                       int64_t now_ms);

/* Its plan has ended. */
void hvd_permits_end(struct hvd_permits *permits, struct hvd_permit *permit, int64_t now_ms);

#endif
