#ifndef HVD_OPERATOR_APP_FOLLOW_H
#define HVD_OPERATOR_APP_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "operator/app/metrics.h"
#include "operator/kube/watch.h"

#define HVD_FOLLOW_MAX 10

/* The watches of everything that reconcile reads. A zeroed struct is legal for fini. */
struct hvd_follow {
    struct hvd_watch *_watches[HVD_FOLLOW_MAX];
    enum hvd_kind _kinds[HVD_FOLLOW_MAX];
    bool _is_optional[HVD_FOLLOW_MAX];
    size_t _n;
};

struct hvd_follow_options {
    const struct hvd_kube_api *api;
    const char *ns;          /* NULL: all namespaces */
    enum hvd_kind gang_kind; /* an additional kind that the server may lack; HVD_N_KINDS: none */
    uint32_t seed;
    struct hvd_watch_handler handler;
    const struct hvd_log *log;
};

/* Prepares the watches; sends nothing before the first step. fini is legal after a failure. */
hvd_status_t hvd_follow_init(struct hvd_follow *follow, const struct hvd_follow_options *options,
                             struct hvd_err *err);

/* Ends all watches. */
void hvd_follow_fini(struct hvd_follow *follow);

/* Steps all; returns the earliest time at which one is due again. */
int64_t hvd_follow_step(struct hvd_follow *follow, int64_t now_ms);

/* Whether every kind has been listed once, or is the one that the server may lack, and is
 * missing. */
bool hvd_follow_is_synced(const struct hvd_follow *follow);

/* Lists the kind again, whatever its watch shows. */
void hvd_follow_relist(struct hvd_follow *follow, enum hvd_kind kind);

/* Watches that have listed once. */
size_t hvd_follow_count_synced(const struct hvd_follow *follow);

/* How often the stream of the kind has ended too early, as it does when the kind's definition is
 * removed. Counts also when the definition is restored before a check. */
unsigned hvd_follow_count_cuts(const struct hvd_follow *follow, enum hvd_kind kind);

/* Whether the server does not serve the kind. */
bool hvd_follow_is_missing(const struct hvd_follow *follow, enum hvd_kind kind);

/*
 * Appends a line about a fault of a watch: not listed yet, or without a stream for longer than a
 * reconnect takes. True when there is no fault.
 */
bool hvd_follow_explain(enum hvd_kind kind, const struct hvd_watch_health *health, int64_t now_ms,
                        struct hvd_buf *out);

/* The same for all of them. */
bool hvd_follow_explain_all(const struct hvd_follow *follow, int64_t now_ms, struct hvd_buf *out);

/* Adds them all to the metrics. */
void hvd_follow_sample(const struct hvd_follow *follow, int64_t now_ms,
                       struct hvd_metrics *metrics);

#endif
