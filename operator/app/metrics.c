/*
 * What the operator counts, and its Prometheus text. Pure; the event loop owns the one instance and
 * is the only one to touch it.
 */
#include "operator/app/metrics.h"

#include "operator/api/kind.h"

static const double bounds_s[HVD_METRICS_N_BUCKETS - 1] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1, 10};

void hvd_metrics_count_request(struct hvd_metrics *metrics, hvd_verb_t verb, enum hvd_kind kind,
                               long code)
{
    for (size_t i = 0; i < metrics->n_requests; i++) {
        struct hvd_request_series *s = &metrics->requests[i];
        if (s->verb == verb && s->kind == kind && s->code == code) {
            s->count++;
            return;
        }
    }
    if (metrics->n_requests < HVD_METRICS_MAX_SERIES)
        metrics->requests[metrics->n_requests++] = (struct hvd_request_series){verb, kind, code, 1};
}

void hvd_histogram_observe(struct hvd_histogram *histogram, int64_t us)
{
    double seconds = (double)us / 1e6;
    size_t i = 0;

    while (i < HVD_METRICS_N_BUCKETS - 1 && seconds > bounds_s[i])
        i++;
    histogram->buckets[i]++;
    histogram->count++;
    histogram->sum_s += seconds;
}

static hvd_status_t put_head(struct hvd_buf *out, const char *name, const char *type,
                             const char *help)
{
    return hvd_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static hvd_status_t put_requests(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, "horovod_operator_api_requests_total", "counter",
                               "Requests sent to the API server; code 0 had no answer.");

    for (size_t i = 0; i < metrics->n_requests && st == HVD_OK; i++) {
        const struct hvd_request_series *s = &metrics->requests[i];
        st = hvd_buf_printf(out,
                            "horovod_operator_api_requests_total{verb=\"%s\",resource=\"%s\","
                            "code=\"%ld\"} %llu\n",
                            hvd_verb_name(s->verb), hvd_kind_info(s->kind)->resource, s->code,
                            (unsigned long long)s->count);
    }
    return st;
}

static hvd_status_t put_histogram(const struct hvd_histogram *histogram, const char *name,
                                  const char *help, struct hvd_buf *out)
{
    uint64_t below = 0;
    hvd_status_t st = put_head(out, name, "histogram", help);

    for (size_t i = 0; i < HVD_METRICS_N_BUCKETS && st == HVD_OK; i++) {
        below += histogram->buckets[i];
        if (i < HVD_METRICS_N_BUCKETS - 1)
            st = hvd_buf_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds_s[i],
                                (unsigned long long)below);
        else
            st = hvd_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n", name,
                                (unsigned long long)below);
    }
    if (st == HVD_OK)
        st = hvd_buf_printf(out, "%s_sum %.6f\n%s_count %llu\n", name, histogram->sum_s, name,
                            (unsigned long long)histogram->count);
    return st;
}

static hvd_status_t put_gauge(const char *name, const char *help, size_t value, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, name, "gauge", help);

    return st == HVD_OK ? hvd_buf_printf(out, "%s %zu\n", name, value) : st;
}

static hvd_status_t put_jobs(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    hvd_status_t st =
        put_head(out, "horovod_operator_jobs", "gauge", "HorovodJobs by status.state.");

    for (unsigned i = 0; i < HVD_N_JOB_STATES && st == HVD_OK; i++) {
        const char *state = hvd_job_state_str((enum hvd_job_state)i);
        st = hvd_buf_printf(out, "horovod_operator_jobs{state=\"%s\"} %zu\n",
                            *state ? state : "New", metrics->jobs[i]);
    }
    return st;
}

hvd_status_t hvd_metrics_encode(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, "horovod_operator_build_info", "gauge", "The version.");

    if (st == HVD_OK)
        st = hvd_buf_puts(out, "horovod_operator_build_info{version=\"" HVD_VERSION "\"} 1\n");
    if (st == HVD_OK)
        st = put_requests(metrics, out);
    if (st == HVD_OK)
        st = put_histogram(&metrics->reconcile, "horovod_operator_reconcile_seconds",
                           "Time to decide about one job.", out);
    if (st == HVD_OK)
        st = put_histogram(&metrics->event_to_write, "horovod_operator_event_to_write_seconds",
                           "From a watch event to the first write that it causes.", out);
    if (st == HVD_OK)
        st = put_gauge("horovod_operator_queue_depth", "Jobs that wait to be looked at.",
                       metrics->queue_depth, out);
    if (st == HVD_OK)
        st = put_gauge("horovod_operator_watches_synced", "Watches that have listed once.",
                       metrics->watches_synced, out);
    return st == HVD_OK ? put_jobs(metrics, out) : st;
}
