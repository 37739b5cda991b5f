/*
 * The operator's metrics and their Prometheus text. Pure; only the event loop uses the one
 * instance.
 */
#include "operator/app/metrics.h"

#include <stdio.h>

#include "base/str.h"
#include "operator/api/kind.h"

static const double bounds_s[HVD_METRICS_N_BUCKETS - 1] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1, 10};
/* For the start of jobs, whose times the API server stores in whole seconds. */
static const double start_bounds_s[HVD_METRICS_N_BUCKETS - 1] = {1,   2,   5,   10,   30,   60,
                                                                 120, 300, 900, 3600, 14400};

#define OTHER "Other" /* the last of each row; a forged status may have any reason */
static const char *const failed[HVD_METRICS_N_REASONS] = {
    "MasterFailed", "WorkerFailed", "DeadlineExceeded", "InvalidTemplate", "ChildAltered",
    "Deleted",      OTHER};
static const char *const restarted[HVD_METRICS_N_REASONS] = {
    "MasterFailed", "WorkerFailed", "MasterDeleted", "MasterSuspended", OTHER};

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

static void observe(struct hvd_histogram *histogram, const double *bounds, double seconds)
{
    size_t i = 0;

    while (i < HVD_METRICS_N_BUCKETS - 1 && seconds > bounds[i])
        i++;
    histogram->buckets[i]++;
    histogram->count++;
    histogram->sum_s += seconds;
}

void hvd_metrics_observe(struct hvd_histogram *histogram, int64_t us)
{
    observe(histogram, bounds_s, (double)us / 1e6);
}

static void count_reason(uint64_t *counts, const char *const *names, const char *reason)
{
    size_t i = 0;

    while (!hvd_str_equal(names[i], OTHER) && !hvd_str_equal(names[i], reason))
        i++;
    counts[i]++;
}

static bool becomes_true(const struct hvd_job *before, const struct hvd_job *after,
                         enum hvd_condition_type type)
{
    return before->status.conditions[type].truth != HVD_TRUE &&
           after->status.conditions[type].truth == HVD_TRUE;
}

/* Counts the first run of the job's master. */
static void count_start(struct hvd_job_counts *counts, const struct hvd_job *after)
{
    const int64_t start_s = after->status.conditions[HVD_COND_RUNNING].since_s;
    const int64_t waited_s = start_s > after->created_s ? start_s - after->created_s : 0;

    observe(&counts->start, start_bounds_s, (double)waited_s);
}

void hvd_metrics_count_job(struct hvd_job_counts *counts, const struct hvd_job *before,
                           const struct hvd_job *after)
{
    const struct hvd_condition *now = after->status.conditions;
    const int32_t ended = hvd_job_ended(&after->status);

    if (before->status.observed_generation == 0 && after->status.observed_generation > 0)
        counts->n_created++;
    if (becomes_true(before, after, HVD_COND_RUNNING) && ended == 0)
        count_start(counts, after);
    if (hvd_job_is_finished(&before->status))
        return;
    if (becomes_true(before, after, HVD_COND_SUCCEEDED))
        counts->n_succeeded++;
    else if (becomes_true(before, after, HVD_COND_FAILED))
        count_reason(counts->n_failed, failed, now[HVD_COND_FAILED].reason);
    else if (ended > hvd_job_ended(&before->status) && after->status.state == HVD_JOB_RESTARTING)
        count_reason(counts->n_restarted, restarted, now[HVD_COND_RUNNING].reason);
}

void hvd_metrics_add_watch(struct hvd_metrics *metrics, enum hvd_kind kind,
                           const struct hvd_watch_health *health, int64_t now_ms)
{
    if (metrics->n_watches == HVD_METRICS_MAX_WATCHES)
        return;
    metrics->watches[metrics->n_watches++] = (struct hvd_watch_sample){
        .resource = hvd_kind_info(kind)->resource,
        .is_open = health->is_open,
        .age_s = health->received_ms ? (double)(now_ms - health->received_ms) / 1000 : -1,
        .n_silences = health->n_silences,
    };
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
                            hvd_kube_api_verb_name(s->verb), hvd_kind_info(s->kind)->resource,
                            s->code, (unsigned long long)s->count);
    }
    return st;
}

/* Writes one histogram; label is "" or "verb=\"get\"". */
static hvd_status_t put_buckets(const struct hvd_histogram *histogram, const double *bounds,
                                const char *name, const char *label, struct hvd_buf *out)
{
    const char *comma = *label ? "," : "";
    const char *open = *label ? "{" : "";
    const char *close = *label ? "}" : "";
    uint64_t below = 0;
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < HVD_METRICS_N_BUCKETS - 1 && st == HVD_OK; i++) {
        below += histogram->buckets[i];
        st = hvd_buf_printf(out, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, label, comma, bounds[i],
                            (unsigned long long)below);
    }
    if (st == HVD_OK)
        st = hvd_buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, label, comma,
                            (unsigned long long)histogram->count);
    if (st == HVD_OK)
        st = hvd_buf_printf(out, "%s_sum%s%s%s %.6f\n%s_count%s%s%s %llu\n", name, open, label,
                            close, histogram->sum_s, name, open, label, close,
                            (unsigned long long)histogram->count);
    return st;
}

static hvd_status_t put_histogram(const struct hvd_histogram *histogram, const char *name,
                                  const char *help, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, name, "histogram", help);

    return st == HVD_OK ? put_buckets(histogram, bounds_s, name, "", out) : st;
}

static hvd_status_t put_latencies(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, "horovod_operator_api_request_seconds", "histogram",
                               "From sending a request to its answer, by verb, without watches.");

    for (unsigned i = 0; i < HVD_VERB_COUNT && st == HVD_OK; i++) {
        char label[32];
        if (i == HVD_VERB_WATCH)
            continue;
        (void)snprintf(label, sizeof(label), "verb=\"%s\"", hvd_kube_api_verb_name((hvd_verb_t)i));
        st = put_buckets(&metrics->request[i], bounds_s, "horovod_operator_api_request_seconds",
                         label, out);
    }
    return st;
}

static hvd_status_t put_watches(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, "horovod_operator_watch_up", "gauge",
                               "Whether the API server streams changes of the resource to us.");

    for (size_t i = 0; i < metrics->n_watches && st == HVD_OK; i++)
        st = hvd_buf_printf(out, "horovod_operator_watch_up{resource=\"%s\"} %d\n",
                            metrics->watches[i].resource, metrics->watches[i].is_open ? 1 : 0);
    if (st == HVD_OK)
        st = put_head(out, "horovod_operator_watch_age_seconds", "gauge",
                      "Since anything came on the watch, bookmarks included.");
    for (size_t i = 0; i < metrics->n_watches && st == HVD_OK; i++)
        if (metrics->watches[i].age_s >= 0)
            st = hvd_buf_printf(out, "horovod_operator_watch_age_seconds{resource=\"%s\"} %.3f\n",
                                metrics->watches[i].resource, metrics->watches[i].age_s);
    if (st == HVD_OK)
        st = put_head(out, "horovod_operator_watch_silences_total", "counter",
                      "Streams given up because nothing came on them for 90 s.");
    for (size_t i = 0; i < metrics->n_watches && st == HVD_OK; i++)
        st = hvd_buf_printf(out, "horovod_operator_watch_silences_total{resource=\"%s\"} %llu\n",
                            metrics->watches[i].resource,
                            (unsigned long long)metrics->watches[i].n_silences);
    return st;
}

static hvd_status_t put_unreadable(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, "horovod_operator_unreadable_objects_total", "counter",
                               "Versions of objects of which a part could not be read.");

    for (size_t i = 0; i < HVD_N_KINDS && st == HVD_OK; i++)
        if (metrics->n_unreadable[i])
            st = hvd_buf_printf(out,
                                "horovod_operator_unreadable_objects_total{resource=\"%s\"} %llu\n",
                                hvd_kind_info((enum hvd_kind)i)->resource,
                                (unsigned long long)metrics->n_unreadable[i]);
    return st;
}

static hvd_status_t put_numbers(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    const struct {
        const char *name;
        const char *type;
        const char *help;
        double value;
    } rows[] = {
        {"horovod_operator_queue_depth", "gauge", "Jobs that wait to be looked at.",
         (double)metrics->queue_depth},
        {"horovod_operator_plans_active", "gauge",
         "Jobs whose requests are sent and not all answered.", (double)metrics->plans_active},
        {"horovod_operator_spec_bytes", "gauge",
         "Texts of specs that are held, which are read again where they are not.",
         (double)metrics->spec_bytes},
        {"horovod_operator_watches_synced", "gauge", "Watches that have listed once.",
         (double)metrics->watches_synced},
        {"horovod_operator_leader", "gauge", "Whether this operator is the one that writes.",
         metrics->is_leader ? 1 : 0},
        {"horovod_operator_retries_total", "counter", "Jobs and writes put off after a failure.",
         (double)metrics->n_retries},
        {"horovod_operator_log_lines_suppressed_total", "counter",
         "Log lines left out because they repeated others.", (double)metrics->n_suppressed},
        {"horovod_operator_clock_skew_seconds", "gauge",
         "This machine's clock less the API server's, to a second.", metrics->clock_skew_s},
        {"process_resident_memory_bytes", "gauge", "Resident memory.",
         (double)metrics->resident_bytes},
        {"process_cpu_seconds_total", "counter", "Processor time used.", metrics->cpu_s},
    };
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && st == HVD_OK; i++) {
        st = put_head(out, rows[i].name, rows[i].type, rows[i].help);
        if (st == HVD_OK)
            st = hvd_buf_printf(out, "%s %.15g\n", rows[i].name, rows[i].value);
    }
    return st;
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

/* Writes a counter with a series for each reason, from the start, so that its first increase
 * shows. */
static hvd_status_t put_reasons(const uint64_t *counts, const char *const *names, const char *name,
                                const char *help, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, name, "counter", help);

    for (size_t i = 0; i < HVD_METRICS_N_REASONS && names[i] && st == HVD_OK; i++)
        st = hvd_buf_printf(out, "%s{reason=\"%s\"} %llu\n", name, names[i],
                            (unsigned long long)counts[i]);
    return st;
}

static hvd_status_t put_counts(const struct hvd_job_counts *counts, struct hvd_buf *out)
{
    static const char start[] = "horovod_operator_job_start_seconds";
    hvd_status_t st = put_head(out, "horovod_operator_jobs_created_total", "counter",
                               "HorovodJobs that got their first status.");

    if (st == HVD_OK)
        st = hvd_buf_printf(out, "horovod_operator_jobs_created_total %llu\n",
                            (unsigned long long)counts->n_created);
    if (st == HVD_OK)
        st = put_head(out, "horovod_operator_jobs_succeeded_total", "counter",
                      "HorovodJobs that succeeded.");
    if (st == HVD_OK)
        st = hvd_buf_printf(out, "horovod_operator_jobs_succeeded_total %llu\n",
                            (unsigned long long)counts->n_succeeded);
    if (st == HVD_OK)
        st = put_reasons(counts->n_failed, failed, "horovod_operator_jobs_failed_total",
                         "HorovodJobs that failed, by the reason of the condition Failed.", out);
    if (st == HVD_OK)
        st = put_reasons(counts->n_restarted, restarted, "horovod_operator_jobs_restarted_total",
                         "Attempts that another one follows, by the reason of their end.", out);
    if (st == HVD_OK)
        st = put_head(out, start, "histogram",
                      "From the creation of a HorovodJob until its master runs first.");
    return st == HVD_OK ? put_buckets(&counts->start, start_bounds_s, start, "", out) : st;
}

hvd_status_t hvd_metrics_encode(const struct hvd_metrics *metrics, struct hvd_buf *out)
{
    hvd_status_t st = put_head(out, "horovod_operator_build_info", "gauge", "The version.");

    if (st == HVD_OK)
        st = hvd_buf_puts(out, "horovod_operator_build_info{version=\"" HVD_VERSION "\"} 1\n");
    if (st == HVD_OK)
        st = put_requests(metrics, out);
    if (st == HVD_OK)
        st = put_latencies(metrics, out);
    if (st == HVD_OK)
        st = put_histogram(&metrics->reconcile, "horovod_operator_reconcile_seconds",
                           "Time to decide about one job.", out);
    if (st == HVD_OK)
        st = put_histogram(&metrics->event_to_write, "horovod_operator_event_to_write_seconds",
                           "From a watch event to the first write that it causes.", out);
    if (st == HVD_OK)
        st = put_watches(metrics, out);
    if (st == HVD_OK)
        st = put_unreadable(metrics, out);
    if (st == HVD_OK)
        st = put_numbers(metrics, out);
    if (st == HVD_OK)
        st = put_jobs(metrics, out);
    return st == HVD_OK ? put_counts(&metrics->counts, out) : st;
}
