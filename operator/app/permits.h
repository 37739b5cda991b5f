#ifndef HVD_OPERATOR_APP_PERMITS_H
#define HVD_OPERATOR_APP_PERMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Quick plans under way at once: each has a few requests, and needs their memory. */
#define HVD_PERMITS_QUICK 32
/* A plan that takes longer is slow: an admission webhook, for example, may delay each of its
 * requests by half a minute. */
#define HVD_PERMITS_SLOW_MS 2000
#define HVD_PERMITS_BUCKETS 1024

enum hvd_permit_pace { HVD_PERMIT_NEW, HVD_PERMIT_QUICK, HVD_PERMIT_SLOW };
#define HVD_N_PERMIT_PACES 3

/* A job's part: lives inside the job's entry, begins as zeros, and must not move while its plan is
 * under way. Private to permits.c. */
struct hvd_permit {
    struct hvd_permit *_prev; /* among the quick plans under way, oldest first */
    struct hvd_permit *_next;
    int64_t _begun_ms;
    unsigned char _last; /* enum hvd_permit_pace of the last plan that ended */
    unsigned short _bucket;
    bool _is_slow; /* of the plan under way */
};

/*
 * Bounds the plans under way at once, so that slow plans in one namespace do not delay the jobs of
 * others. A plan that has become slow gives its place among the quick ones to another job. Slow
 * plans are bounded for each namespace (by its hash) and in total. The bounds are narrowest for
 * jobs whose last plan was slow, and widest for those whose last plan was quick. So healthy jobs
 * pass beside the others of their namespace. A namespace without slow plans never waits for those
 * of others. Pure: every call passes the time. Begins as zeros.
 */
struct hvd_permits {
    struct hvd_permit *_quick; /* plans under way, oldest first */
    size_t _n_quick;
    size_t _n_slow;
    unsigned short _n_slow_of[HVD_PERMITS_BUCKETS];
};

/* Reclassifies plans that have become slow. Returns when the next one will be; INT64_MAX: none is
 * quick. */
int64_t hvd_permits_step(struct hvd_permits *permits, int64_t now_ms);

/* The numbers of quick plans, and of all plans under way. */
size_t hvd_permits_quick(const struct hvd_permits *permits);
size_t hvd_permits_active(const struct hvd_permits *permits);

/* Whether a job of the namespace may begin a plan, provided that fewer than HVD_PERMITS_QUICK are
 * quick. */
bool hvd_permits_allows(const struct hvd_permits *permits, const struct hvd_permit *permit,
                        const char *ns);

/* Begins a plan of the job, which has none under way. */
void hvd_permits_begin(struct hvd_permits *permits, struct hvd_permit *permit, const char *ns,
                       int64_t now_ms);

/* Ends its plan. */
void hvd_permits_end(struct hvd_permits *permits, struct hvd_permit *permit, int64_t now_ms);

#endif
