#include "tests/unit/support.h"

#include <string.h>

#include "base/buf.h"
#include "worker/launch/config.h"

/* A file with every key of Horovod's. */
static const char every_key[] = "controller: mpi\n"
                                "params:\n"
                                "  fusion_threshold_mb: 32\n"
                                "  cycle_time_ms: 2.5\n"
                                "  cache_capacity: 512\n"
                                "  hierarchical_allreduce: true\n"
                                "  hierarchical_allgather: false\n"
                                "  torus_allreduce: no\n"
                                "autotune:\n"
                                "  enabled: yes\n"
                                "  log_file: \"a b.csv\"\n"
                                "  warmup_samples: 5\n"
                                "  steps_per_sample: 20\n"
                                "  bayes_opt_max_samples: 50\n"
                                "  gaussian_process_noise: 0.9\n"
                                "timeline:\n"
                                "  filename: /tmp/t.json\n"
                                "  mark_cycles: on\n"
                                "stall_check:\n"
                                "  enabled: false\n"
                                "  warning_time_seconds: 120\n"
                                "  shutdown_time_seconds: 240\n"
                                "library_options:\n"
                                "  mpi_threads_disable: true\n"
                                "  mpi_args: --mca a 'b c'\n"
                                "  num_nccl_streams: 2\n"
                                "  thread_affinity: 1\n"
                                "  gloo_timeout_seconds: 60\n"
                                "logging:\n"
                                "  level: info\n"
                                "  with_timestamp: False\n"
                                "  hide_timestamp: ~\n";

static void every_key_of_horovod_becomes_its_flag(void **state)
{
    struct hvd_args words = {0};
    struct hvd_buf text = {0};

    (void)state;
    hvd_buf_init(&text, 4096);
    assert_int_equal(hvd_launch_config_parse(hvd_strview_of(every_key), &words, NULL), HVD_OK);
    assert_int_equal(hvd_args_quote_all(&text, &words), HVD_OK);
    assert_string_equal(
        text.data,
        "--fusion-threshold-mb=32 --cycle-time-ms=2.5 --cache-capacity=512 "
        "--hierarchical-allreduce --no-hierarchical-allgather --no-torus-allreduce --autotune "
        "'--autotune-log-file=a b.csv' --autotune-warmup-samples=5 --autotune-steps-per-sample=20 "
        "--autotune-bayes-opt-max-samples=50 --autotune-gaussian-process-noise=0.9 "
        "--timeline-filename=/tmp/t.json --timeline-mark-cycles --no-stall-check "
        "--stall-check-warning-time-seconds=120 --stall-check-shutdown-time-seconds=240 "
        "--mpi-threads-disable '--mpi-args=--mca a '\\''b c'\\''' --num-nccl-streams=2 "
        "--thread-affinity=1 --gloo-timeout-seconds=60 --log-level=info --log-without-timestamp");
    hvd_buf_fini(&text);
    hvd_args_fini(&words);
}

static void a_controller_that_is_not_here_becomes_the_flag_that_warns(void **state)
{
    struct hvd_args words = {0};

    (void)state;
    assert_int_equal(hvd_launch_config_parse(hvd_strview_of("controller: Gloo\n"), &words, NULL),
                     HVD_OK);
    assert_int_equal(words.n, 1);
    assert_string_equal(words.items[0], "--gloo");
    hvd_args_fini(&words);
}

static void a_file_may_say_nothing(void **state)
{
    static const char *const texts[] = {"", "# a comment\n", "params:\nautotune: {}\n", "~"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hvd_args words = {0};

        assert_int_equal(hvd_launch_config_parse(hvd_strview_of(texts[i]), &words, NULL), HVD_OK);
        assert_int_equal(words.n, 0);
    }
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const char *const cases[][2] = {
        {"params:\n  cycle_time: 1\n", "line 2: params has no key \"cycle_time\""},
        {"\nparam:\n  cycle_time_ms: 1\n", "line 2: there is no section \"param\""},
        {"params:\n  cycle_time_ms: soon\n", "line 2: params.cycle_time_ms: flag --cycle-time-ms"},
        {"autotune:\n  enabled: maybe\n", "line 2: autotune.enabled: \"maybe\" is neither"},
        {"autotune:\n  log_file: [a, b]\n", "line 2: autotune.log_file is not a single value"},
        {"autotune: 3\n", "line 1: autotune is not a section with keys"},
        {"- a\n", "line 1: there are no sections with keys"},
        {"controller: ddl\n", "line 1: controller: \"ddl\" is not here"},
        {"library_options:\n  mpi_args: \"a 'b\"\n", "line 2: library_options.mpi_args: a quote"},
        {"params: {\n", "no YAML"},
        {"params:\n  cycle_time_ms: \"1\\0002\"\n", "line 2: params.cycle_time_ms is not a single"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_args words = {0};
        struct hvd_err err = {0};

        assert_int_equal(hvd_launch_config_parse(hvd_strview_of(cases[i][0]), &words, &err),
                         HVD_ERR_INVALID);
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i][1]);
        hvd_args_fini(&words);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_args words = {0};
        hvd_status_t st = hvd_launch_config_parse(hvd_strview_of(every_key), &words, NULL);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_args_fini(&words);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_horovod_becomes_its_flag),
        cmocka_unit_test(a_controller_that_is_not_here_becomes_the_flag_that_warns),
        cmocka_unit_test(a_file_may_say_nothing),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
