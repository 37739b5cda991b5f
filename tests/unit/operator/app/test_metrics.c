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
        cmocka_unit_test(series_beyond_the_maximum_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
