#ifndef HVD_OPERATOR_APP_METRICS_H
#define HVD_OPERATOR_APP_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/kube/api.h"
#include "operator/kube/watch.h"

#define HVD_METRICS_N_BUCKETS 12
#define HVD_METRICS_MAX_SERIES 256
#define HVD_METRICS_MAX_WATCHES 16
#define HVD_METRICS_N_REASONS 7 /* for which jobs fail or restart; the names are in metrics.c */

/* A Prometheus histogram of seconds; the bounds are in metrics.c. */
struct hvd_histogram {
    uint64_t buckets[HVD_METRICS_N_BUCKETS]; /* not cumulative; the last is +Inf */
    uint64_t count;
    double sum_s;
};

/* One series of horovod_operator_api_requests_total. */
struct hvd_request_series {
    hvd_verb_t verb;
    enum hvd_kind kind;
    long code;
    uint64_t count;
};

/* The health of a watch when /metrics is read. */
struct hvd_watch_sample {
    const char *resource;
    bool is_open;
    double age_s; /* since anything arrived; < 0: nothing ever did */
    uint64_t n_silences;
};

/* Outcomes of jobs while this operator led. */
struct hvd_job_counts {
    uint64_t n_created;
    uint64_t n_succeeded;
    uint64_t n_failed[HVD_METRICS_N_REASONS];
    uint64_t n_restarted[HVD_METRICS_N_REASONS];
    struct hvd_histogram start; /* from a job's creation to the first run of its master */
};

/* All metrics of /metrics. A zeroed struct is a valid start. One thread. */
struct hvd_metrics {
    struct hvd_request_series requests[HVD_METRICS_MAX_SERIES];
    size_t n_requests;
    struct hvd_histogram reconcile;
    struct hvd_histogram event_to_write;
    struct hvd_histogram request[HVD_VERB_COUNT]; /* without watches, which are no round trips */
    struct hvd_job_counts counts;
    uint64_t n_unreadable[HVD_N_KINDS]; /* versions of objects that were not read entirely */
    uint64_t n_retries;                 /* delayed jobs and writes */
    uint64_t n_suppressed;              /* log lines */
    bool is_leader;
    struct hvd_watch_sample watches[HVD_METRICS_MAX_WATCHES];
    size_t n_watches;
    uint64_t resident_bytes;
    double cpu_s;
    double clock_skew_s; /* this machine's clock minus the API server's */
    size_t queue_depth;
    size_t plans_active;
    size_t spec_bytes; /* of the texts of specs in memory */
    size_t jobs[HVD_N_JOB_STATES];
    size_t watches_synced;
};

/* Counts a request that was sent; code 0: no answer. Counts nothing beyond the last series. */
void hvd_metrics_count_request(struct hvd_metrics *metrics, hvd_verb_t verb, enum hvd_kind kind,
                               long code);

/* Adds the health of a watch at now_ms. Adds nothing beyond the last one. */
void hvd_metrics_add_watch(struct hvd_metrics *metrics, enum hvd_kind kind,
                           const struct hvd_watch_health *health, int64_t now_ms);

/* Adds a duration to a histogram. */
void hvd_metrics_observe(struct hvd_histogram *histogram, int64_t us);

/*
 * Counts the change of a job between two versions. An operator that has seen both counts it once; a
 * restarted operator, which has seen neither, counts nothing. Reasons of other writers count as
 * "Other". Pure.
 */
void hvd_metrics_count_job(struct hvd_job_counts *counts, const struct hvd_job *before,
                           const struct hvd_job *after);

/* Appends the Prometheus text format, version 0.0.4. Failures as hvd_buf_add. Pure. */
hvd_status_t hvd_metrics_encode(const struct hvd_metrics *metrics, struct hvd_buf *out);

#endif
