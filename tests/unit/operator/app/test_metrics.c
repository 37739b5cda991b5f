#include "tests/unit/support.h"

#include <string.h>

#include "operator/app/metrics.h"

static void requests_are_counted_by_verb_resource_and_code(void **state)
{
    static struct hvd_metrics m;
    struct hvd_buf text;

    (void)state;
    m = (struct hvd_metrics){0};
    hvd_metrics_count_request(&m, HVD_VERB_CREATE, HVD_KIND_STATEFULSET, 201);
    hvd_metrics_count_request(&m, HVD_VERB_CREATE, HVD_KIND_STATEFULSET, 201);
    hvd_metrics_count_request(&m, HVD_VERB_CREATE, HVD_KIND_STATEFULSET, 409);
    hvd_metrics_count_request(&m, HVD_VERB_WATCH, HVD_KIND_POD, 0);
    hvd_buf_init(&text, 64 * 1024);
    assert_int_equal(hvd_metrics_encode(&m, &text), HVD_OK);
    assert_non_null(strstr(text.data,
                           "# TYPE horovod_operator_api_requests_total counter\n"
                           "horovod_operator_api_requests_total{verb=\"create\",resource="
                           "\"statefulsets\",code=\"201\"} 2\n"));
    assert_non_null(strstr(text.data, "code=\"409\"} 1\n"));
    assert_non_null(strstr(text.data, "{verb=\"watch\",resource=\"pods\",code=\"0\"} 1\n"));
    hvd_buf_fini(&text);
}

static void histograms_are_cumulative_and_end_with_infinity(void **state)
{
    static struct hvd_metrics m;
    struct hvd_buf text;

    (void)state;
    m = (struct hvd_metrics){0};
    hvd_metrics_observe(&m.reconcile, 50);
    hvd_metrics_observe(&m.reconcile, 100);
    hvd_metrics_observe(&m.reconcile, 2000);
    hvd_metrics_observe(&m.reconcile, 20000000);
    hvd_buf_init(&text, 64 * 1024);
    assert_int_equal(hvd_metrics_encode(&m, &text), HVD_OK);
    assert_non_null(strstr(text.data, "reconcile_seconds_bucket{le=\"0.0001\"} 2\n"));
    assert_non_null(strstr(text.data, "reconcile_seconds_bucket{le=\"0.0025\"} 3\n"));
    assert_non_null(strstr(text.data, "reconcile_seconds_bucket{le=\"10\"} 3\n"));
    assert_non_null(strstr(text.data, "reconcile_seconds_bucket{le=\"+Inf\"} 4\n"));
    assert_non_null(strstr(text.data, "reconcile_seconds_sum 20.002150\n"));
    assert_non_null(strstr(text.data, "reconcile_seconds_count 4\n"));
    hvd_buf_fini(&text);
}

static void every_line_is_a_comment_or_a_sample(void **state)
{
    static struct hvd_metrics m;
    struct hvd_buf text;
    struct hvd_strview rest;

    (void)state;
    m = (struct hvd_metrics){.queue_depth = 3,
                             .plans_active = 6,
                             .jobs = {[HVD_JOB_RUNNING] = 2},
                             .n_unreadable = {[HVD_KIND_CONFIGMAP] = 4}};
    hvd_metrics_add_watch(&m, HVD_KIND_POD, &(struct hvd_watch_health){.n_silences = 5}, 0);
    hvd_buf_init(&text, 64 * 1024);
    assert_int_equal(hvd_metrics_encode(&m, &text), HVD_OK);
    assert_non_null(strstr(text.data, "horovod_operator_queue_depth 3\n"));
    assert_non_null(strstr(text.data, "horovod_operator_plans_active 6\n"));
    assert_non_null(strstr(
        text.data, "horovod_operator_unreadable_objects_total{resource=\"configmaps\"} 4\n"));
    assert_null(strstr(text.data, "objects_total{resource=\"pods\"}"));
    assert_non_null(
        strstr(text.data, "horovod_operator_watch_silences_total{resource=\"pods\"} 5\n"));
    assert_non_null(strstr(text.data, "horovod_operator_jobs{state=\"Running\"} 2\n"));
    rest = hvd_strview_of(text.data);
    while (rest.data) {
        struct hvd_strview line = hvd_strview_cut(&rest, '\n');
        if (line.len)
            assert_true(strncmp(line.data, "# ", 2) == 0 ||
                        strncmp(line.data, "horovod_operator_", 17) == 0 ||
                        strncmp(line.data, "process_", 8) == 0);
    }
    hvd_buf_fini(&text);
}

/* A job whose first status is written: created at second 100. */
static struct hvd_job job_of(enum hvd_job_state state)
{
    return (struct hvd_job){.created_s = 100, .status = {.state = state, .observed_generation = 1}};
}

static struct hvd_job job_with(enum hvd_job_state state, enum hvd_condition_type type,
                               enum hvd_truth truth, const char *reason)
{
    struct hvd_job job = job_of(state);

    job.status.conditions[type] =
        (struct hvd_condition){.truth = truth, .reason = (char *)reason, .since_s = 130};
    return job;
}

static const char *encoded(const struct hvd_job_counts *counts, struct hvd_buf *text)
{
    static struct hvd_metrics m;

    m = (struct hvd_metrics){.counts = *counts};
    hvd_buf_reset(text);
    assert_int_equal(hvd_metrics_encode(&m, text), HVD_OK);
    return text->data;
}

static void a_life_is_counted_once_from_version_to_version(void **state)
{
    const struct hvd_job versions[] = {
        {.created_s = 100},
        job_of(HVD_JOB_PENDING),
        job_of(HVD_JOB_STARTING),
        job_with(HVD_JOB_RUNNING, HVD_COND_RUNNING, HVD_TRUE, "MasterStarted"),
        job_with(HVD_JOB_RUNNING, HVD_COND_RUNNING, HVD_TRUE, "MasterStarted"),
        job_with(HVD_JOB_SUCCEEDED, HVD_COND_SUCCEEDED, HVD_TRUE, "MasterSucceeded"),
        job_with(HVD_JOB_SUCCEEDED, HVD_COND_SUCCEEDED, HVD_TRUE, "MasterSucceeded"),
    };
    struct hvd_job_counts counts = {0};
    struct hvd_buf text;

    (void)state;
    for (size_t i = 1; i < sizeof(versions) / sizeof(versions[0]); i++)
        hvd_metrics_count_job(&counts, &versions[i - 1], &versions[i]);
    hvd_buf_init(&text, 64 * 1024);
    (void)encoded(&counts, &text);
    assert_non_null(strstr(text.data, "horovod_operator_jobs_created_total 1\n"));
    assert_non_null(strstr(text.data, "horovod_operator_jobs_succeeded_total 1\n"));
    assert_non_null(strstr(text.data, "horovod_operator_job_start_seconds_bucket{le=\"10\"} 0\n"));
    assert_non_null(strstr(text.data, "horovod_operator_job_start_seconds_bucket{le=\"30\"} 1\n"));
    assert_non_null(strstr(text.data, "horovod_operator_job_start_seconds_sum 30.000000\n"));
    assert_non_null(
        strstr(text.data, "horovod_operator_jobs_failed_total{reason=\"MasterFailed\"} 0\n"));
    assert_null(strstr(text.data, "reason=\"(null)\""));
    hvd_buf_fini(&text);
}

static void failures_and_restarts_are_counted_by_reason(void **state)
{
    const struct hvd_job running =
        job_with(HVD_JOB_RUNNING, HVD_COND_RUNNING, HVD_TRUE, "MasterStarted");
    const char *const reasons[] = {"WorkerFailed", "MasterFailed", "of another writer", NULL};
    struct hvd_job_counts counts = {0};
    struct hvd_buf text;

    (void)state;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        struct hvd_job again =
            job_with(HVD_JOB_RESTARTING, HVD_COND_RUNNING, HVD_FALSE, reasons[i]);
        const struct hvd_job end = job_with(HVD_JOB_FAILED, HVD_COND_FAILED, HVD_TRUE, reasons[i]);

        again.status.failures = 1;
        hvd_metrics_count_job(&counts, &running, &again);
        hvd_metrics_count_job(&counts, &again, &again);
        hvd_metrics_count_job(&counts, &again, &end);
        hvd_metrics_count_job(&counts, &end, &end);
    }
    hvd_buf_init(&text, 64 * 1024);
    (void)encoded(&counts, &text);
    assert_non_null(strstr(text.data, "jobs_failed_total{reason=\"WorkerFailed\"} 1\n"));
    assert_non_null(strstr(text.data, "jobs_failed_total{reason=\"MasterFailed\"} 1\n"));
    assert_non_null(strstr(text.data, "jobs_failed_total{reason=\"Other\"} 2\n"));
    assert_non_null(strstr(text.data, "jobs_restarted_total{reason=\"WorkerFailed\"} 1\n"));
    assert_non_null(strstr(text.data, "jobs_restarted_total{reason=\"Other\"} 2\n"));
    assert_non_null(strstr(text.data, "jobs_succeeded_total 0\n"));
    hvd_buf_fini(&text);
}

static void a_suspension_and_a_later_attempt_are_no_restart_and_no_first_start(void **state)
{
    const struct hvd_job running =
        job_with(HVD_JOB_RUNNING, HVD_COND_RUNNING, HVD_TRUE, "MasterStarted");
    struct hvd_job suspended =
        job_with(HVD_JOB_SUSPENDED, HVD_COND_RUNNING, HVD_FALSE, "Suspended");
    struct hvd_job second = running;
    struct hvd_job_counts counts = {0};

    (void)state;
    suspended.status.interruptions = second.status.interruptions = 1;
    hvd_metrics_count_job(&counts, &running, &suspended);
    hvd_metrics_count_job(&counts, &suspended, &second);
    assert_memory_equal(&counts, &(struct hvd_job_counts){0}, sizeof(counts));
}

static void series_beyond_the_maximum_are_dropped(void **state)
{
    static struct hvd_metrics m;

    (void)state;
    m = (struct hvd_metrics){0};
    for (long code = 0; code < HVD_METRICS_MAX_SERIES + 10; code++)
        hvd_metrics_count_request(&m, HVD_VERB_GET, HVD_KIND_POD, code);
    assert_int_equal(m.n_requests, HVD_METRICS_MAX_SERIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_counted_by_verb_resource_and_code),
        cmocka_unit_test(histograms_are_cumulative_and_end_with_infinity),
        cmocka_unit_test(every_line_is_a_comment_or_a_sample),
        cmocka_unit_test(a_life_is_counted_once_from_version_to_version),
        cmocka_unit_test(failures_and_restarts_are_counted_by_reason),
        cmocka_unit_test(a_suspension_and_a_later_attempt_are_no_restart_and_no_first_start),
        cmocka_unit_test(series_beyond_the_maximum_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
