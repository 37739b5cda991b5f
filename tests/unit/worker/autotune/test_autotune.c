#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/autotune/autotune.h"

static int n_lines_logged;
static char last_line[256];

static void sink(void *ctx, const struct hvd_log_record *record)
{
    (void)ctx;
    n_lines_logged++;
    snprintf(last_line, sizeof(last_line), "%s", record->msg);
}

static const struct hvd_log capture = {.level = HVD_LOG_INFO, .sink = sink};

static struct hvd_autotune_options options_of(const char *path)
{
    return (struct hvd_autotune_options){
        .tuner = {.start = {.fusion_bytes = 1 << 20, .cycle_us = 1000},
                  .warmup_samples = 1,
                  .steps_per_sample = 2,
                  .points = 5,
                  .noise = 0.8},
        .log_file = path,
        .log = &capture};
}

static void the_log_has_a_header_units_and_a_best_line(void **state)
{
    char path[] = "/tmp/autotune-test-XXXXXX";
    const int fd = mkstemp(path);
    const struct hvd_autotune_options options = options_of(path);
    struct hvd_autotune *a = NULL;
    struct hvd_tuning tuning = options.tuner.start;
    char line[256];
    char best[256] = "";
    int n_lines = 0;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    n_lines_logged = 0;
    assert_int_equal(hvd_autotune_create(&options, &a, NULL), HVD_OK);
    for (int step = 0; step < 1000; step++)
        if (hvd_autotune_count(a, hvd_strview_of("t"), 4000))
            tuning = hvd_autotune_next(a, step * (int64_t)1000000);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(
        line, "phase,point,fusion_threshold_bytes,cycle_time_ms,bytes,seconds,score_mb_per_s\n");
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, "warmup,0,1048576,1.000,8000,0.002000,4.000\n");
    while (fgets(line, sizeof(line), file)) {
        n_lines++;
        memcpy(best, line, sizeof(best));
    }
    fclose(file);
    unlink(path);
    assert_int_equal(n_lines, 5 * 5 + 5 + 1);
    snprintf(line, sizeof(line), ",%lld,%.3f,,,", (long long)tuning.fusion_bytes,
             (double)tuning.cycle_us / 1000);
    assert_int_equal(strncmp(best, "best,", 5), 0);
    assert_non_null(strstr(best, line));
    assert_int_equal(n_lines_logged, 1);
    assert_non_null(strstr(last_line, "settled on HOROVOD_FUSION_THRESHOLD="));
    hvd_autotune_destroy(a);
}

static void a_log_that_cannot_be_written_is_a_warning(void **state)
{
    const struct hvd_autotune_options options = options_of("/nowhere/at/all");
    struct hvd_autotune *a = NULL;

    (void)state;
    n_lines_logged = 0;
    assert_int_equal(hvd_autotune_create(&options, &a, NULL), HVD_OK);
    assert_int_equal(n_lines_logged, 1);
    assert_non_null(strstr(last_line, "HOROVOD_AUTOTUNE_LOG is not written"));
    assert_true(hvd_autotune_count(a, hvd_strview_of("t"), 1));
    hvd_autotune_destroy(a);
}

static void nothing_to_tune_is_said(void **state)
{
    struct hvd_autotune_options options = options_of(NULL);
    struct hvd_autotune *a = NULL;

    (void)state;
    options.tuner.is_fusion_fixed = true;
    options.tuner.is_cycle_fixed = true;
    n_lines_logged = 0;
    assert_int_equal(hvd_autotune_create(&options, &a, NULL), HVD_OK);
    assert_non_null(strstr(last_line, "nothing to tune"));
    assert_false(hvd_autotune_count(a, hvd_strview_of("t"), 1));
    hvd_autotune_destroy(a);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        const struct hvd_autotune_options options = options_of(NULL);
        struct hvd_autotune *a = NULL;
        hvd_status_t st = hvd_autotune_create(&options, &a, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_autotune_destroy(a);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_has_a_header_units_and_a_best_line),
        cmocka_unit_test(a_log_that_cannot_be_written_is_a_warning),
        cmocka_unit_test(nothing_to_tune_is_said),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
