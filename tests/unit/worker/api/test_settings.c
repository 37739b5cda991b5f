#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/api/settings.h"

/* An environment: name, value, name, value, ..., NULL. */
static const char *look_up(void *ctx, const char *name)
{
    for (const char **pair = ctx; *pair; pair += 2)
        if (strcmp(pair[0], name) == 0)
            return pair[1];
    return NULL;
}

/* A library that was built with two of them for one variable. */
static const char *provider(const char *variable, size_t i)
{
    static const char *const names[] = {"mpi", "other"};
    const size_t n = strcmp(variable, "HOROVOD_CPU_OPERATIONS") == 0 ? 2 : 1;

    return i < n ? names[i] : NULL;
}

static hvd_status_t read_pairs(const char **pairs, struct hvd_settings *out, struct hvd_err *err)
{
    const struct hvd_lookup from = {.get = look_up, .provider = provider, .ctx = pairs};

    return hvd_settings_read(&from, out, err);
}

static struct hvd_settings read_one(const char *name, const char *value)
{
    const char *pairs[] = {name, value, NULL};
    struct hvd_settings settings;
    struct hvd_err err = {0};

    assert_int_equal(read_pairs(pairs, &settings, &err), HVD_OK);
    return settings;
}

static void an_empty_environment_gives_the_defaults_of_horovod(void **state)
{
    struct hvd_settings s = read_one("HOROVOD_TIMELINE", "");

    (void)state;
    assert_int_equal(s.cycle_ns, 1000000);
    assert_int_equal(s.fusion_bytes, 128 * 1024 * 1024);
    assert_int_equal(s.cache_capacity, 1 << 14);
    assert_int_equal(s.stall_warning_ns, INT64_C(60000000000));
    assert_int_equal(s.stall_shutdown_ns, 0);
    assert_int_equal(s.adasum_chunk_bytes, 1 << 30);
    assert_int_equal(s.log_level, HVD_LOG_WARN);
    assert_int_equal(s.n_cores, 0);
    assert_false(s.log_hides_time || s.mpi_threads_disable || s.dynamic_process_sets ||
                 s.disable_group_fusion || s.timeline_marks_cycles || s.timeline_all_ranks);
    assert_string_equal(s.timeline, "");
    assert_false(s.autotune || s.is_cycle_given || s.is_fusion_given);
    assert_int_equal(s.autotune_warmup_samples, 3);
    assert_int_equal(s.autotune_steps_per_sample, 10);
    assert_int_equal(s.autotune_max_samples, 20);
    assert_true(s.autotune_noise > 0.79 && s.autotune_noise < 0.81);
}

static void every_variable_reaches_its_field(void **state)
{
    (void)state;
    assert_int_equal(read_one("HOROVOD_CYCLE_TIME", "0.5").cycle_ns, 500000);
    assert_int_equal(read_one("HOROVOD_FUSION_THRESHOLD", "0").fusion_bytes, 0);
    assert_int_equal(read_one("HOROVOD_CACHE_CAPACITY", "7").cache_capacity, 7);
    assert_true(read_one("HOROVOD_CYCLE_TIME", "1").is_cycle_given);
    assert_true(read_one("HOROVOD_FUSION_THRESHOLD", "1").is_fusion_given);
    assert_true(read_one("HOROVOD_AUTOTUNE", "1").autotune);
    assert_string_equal(read_one("HOROVOD_AUTOTUNE_LOG", "a.csv").autotune_log, "a.csv");
    assert_int_equal(read_one("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1").autotune_warmup_samples, 1);
    assert_int_equal(read_one("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "2").autotune_steps_per_sample,
                     2);
    assert_int_equal(read_one("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "9").autotune_max_samples,
                     9);
    assert_true(read_one("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.25").autotune_noise < 0.3);
    assert_true(read_one("HOROVOD_DISABLE_GROUP_FUSION", "1").disable_group_fusion);
    assert_true(read_one("HOROVOD_DYNAMIC_PROCESS_SETS", "1").dynamic_process_sets);
    assert_true(read_one("HOROVOD_MPI_THREADS_DISABLE", "1").mpi_threads_disable);
    assert_true(read_one("HOROVOD_DETERMINISTIC", "1").deterministic);
    assert_int_equal(read_one("HOROVOD_MPI_ALLREDUCE", "ring").mpi_allreduce, HVD_ALGORITHM_RING);
    assert_int_equal(read_one("HOROVOD_COORDINATOR_FANOUT", "16").coordinator_fanout, 16);
    assert_int_equal(read_one("HOROVOD_CONTROLLER", "mpi").mpi_allreduce_table.n, 0);
    const struct hvd_algorithm_table table =
        read_one("HOROVOD_MPI_ALLREDUCE_TABLE", "2:4096:-, *:100:2000").mpi_allreduce_table;
    assert_int_equal(table.n, 2);
    assert_int_equal(table.rows[1].ring_min, 2000);
    assert_int_equal(read_one("HOROVOD_ADASUM_MPI_CHUNK_SIZE", "4096").adasum_chunk_bytes, 4096);
    assert_int_equal(read_one("HOROVOD_LOG_LEVEL", "TRACE").log_level, HVD_LOG_DEBUG);
    assert_int_equal(read_one("HOROVOD_LOG_LEVEL", "fatal").log_level, HVD_LOG_ERROR);
    assert_true(read_one("HOROVOD_LOG_HIDE_TIME", "1").log_hides_time);
    assert_true(read_one("HOROVOD_LOG_TIMESTAMP", "0").log_hides_time);
    assert_false(read_one("HOROVOD_LOG_TIMESTAMP", "1").log_hides_time);
    assert_string_equal(read_one("HOROVOD_TIMELINE", "/tmp/t.json").timeline, "/tmp/t.json");
    assert_true(read_one("HOROVOD_TIMELINE_MARK_CYCLES", "1").timeline_marks_cycles);
    assert_true(read_one("HOROVOD_TIMELINE_ALL_RANKS", "1").timeline_all_ranks);
    assert_int_equal(read_one("HOROVOD_TIMELINE_MAX_BYTES", "99").timeline_max_bytes, 99);
    assert_string_equal(read_one("HOROVOD_METRICS_FILE", "m.prom").metrics_file, "m.prom");
    assert_string_equal(read_one("HOROVOD_FLIGHT_RECORDER", "f").flight_recorder, "f");
    assert_int_equal(read_one("HOROVOD_CONTROLLER", "MPI").n_cores, 0);
    assert_int_equal(read_one("HOROVOD_CPU_OPERATIONS", "Gloo").n_cores, 0);
    assert_int_equal(read_one("HOROVOD_CPU_OPERATIONS", "Other").n_cores, 0);
    assert_int_equal(read_one("HOROVOD_GPU_OPERATIONS", "mpi").gpu_operations, HVD_GPU_OVER_HOST);
    assert_int_equal(read_one("HOROVOD_GPU_OPERATIONS", "NCCL").gpu_operations, HVD_GPU_OVER_NCCL);
    assert_true(read_one("HOROVOD_TORUS_ALLREDUCE", "1").torus_allreduce);
    assert_true(read_one("HOROVOD_HIERARCHICAL_ALLREDUCE", "1").hierarchical_allreduce);
    assert_true(read_one("HOROVOD_TORUS_ALLREDUCE", "0").async_completion);
    assert_false(read_one("HOROVOD_ENABLE_ASYNC_COMPLETION", "0").async_completion);
}

static void a_switch_is_a_number_or_a_word_that_says_it(void **state)
{
    static const char *const on[] = {"1", "2", "true", "TRUE", "yes", "on"};
    static const char *const off[] = {"0", "false", "No", "off", ""};

    (void)state;
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++)
        assert_true(read_one("HOROVOD_DYNAMIC_PROCESS_SETS", on[i]).dynamic_process_sets);
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
        assert_false(read_one("HOROVOD_DYNAMIC_PROCESS_SETS", off[i]).dynamic_process_sets);
}

static void a_sum_that_depends_on_its_place_is_not_deterministic(void **state)
{
    const char *wrong[] = {"HOROVOD_MPI_ALLREDUCE", "ring", "HOROVOD_DETERMINISTIC", "1", NULL};
    const char *right[] = {"HOROVOD_MPI_ALLREDUCE", "doubling", "HOROVOD_DETERMINISTIC", "1", NULL};
    struct hvd_settings settings;
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(read_pairs(right, &settings, &err), HVD_OK);
    assert_int_equal(read_pairs(wrong, &settings, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "HOROVOD_MPI_ALLREDUCE=ring"));
    assert_non_null(strstr(err.msg, "HOROVOD_DETERMINISTIC"));
}

static void a_list_of_cores_keeps_its_order(void **state)
{
    struct hvd_settings s = read_one("HOROVOD_THREAD_AFFINITY", "3, 0,12");

    (void)state;
    assert_int_equal(s.n_cores, 3);
    assert_int_equal(s.cores[0], 3);
    assert_int_equal(s.cores[1], 0);
    assert_int_equal(s.cores[2], 12);
}

static void a_value_that_is_none_names_the_variable_and_what_is_allowed(void **state)
{
    static const char *const wrong[][3] = {
        {"HOROVOD_CYCLE_TIME", "fast", "a number of milliseconds"},
        {"HOROVOD_CYCLE_TIME", "-1", "from 0 to 60000"},
        {"HOROVOD_CYCLE_TIME", "nan", "a number of milliseconds"},
        {"HOROVOD_CYCLE_TIME", "(None,)", "a number of milliseconds"},
        {"HOROVOD_CACHE_CAPACITY", "1.5", "a whole number of tensors"},
        {"HOROVOD_CACHE_CAPACITY", "(None,)", "a whole number of tensors"},
        {"HOROVOD_FUSION_THRESHOLD", "64MB", "a whole number of bytes"},
        {"HOROVOD_FUSION_THRESHOLD", "99999999999999999999", "a whole number of bytes"},
        {"HOROVOD_DYNAMIC_PROCESS_SETS", "maybe", "0 or 1"},
        {"HOROVOD_DYNAMIC_PROCESS_SETS", "-1", "0 or 1"},
        {"HOROVOD_STALL_CHECK_DISABLE", "x", "0 or 1"},
        {"HOROVOD_LOG_TIMESTAMP", "x", "0 or 1"},
        {"HOROVOD_STALL_CHECK_TIME_SECONDS", "1m", "a number of seconds"},
        {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "1e9", "from 0 to 1e+06"},
        {"HOROVOD_LOG_LEVEL", "loud", "trace, debug, info"},
        {"HOROVOD_MPI_ALLREDUCE", "fast", "auto, doubling, rabenseifner, ring or mpi"},
        {"HOROVOD_MPI_ALLREDUCE_TABLE", "2:4096", "row \"2:4096\" is not RANKS:DOUBLING:RING"},
        {"HOROVOD_MPI_ALLREDUCE_TABLE", "2:4096:-", "let the last one begin with *"},
        {"HOROVOD_COORDINATOR_FANOUT", "many", "a whole number of children from 0 to"},
        {"HOROVOD_THREAD_AFFINITY", "0,,1", "processor numbers"},
        {"HOROVOD_THREAD_AFFINITY", "0-3", "processor numbers"},
        {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "1.5", "is not a number from 0 to 1"},
        {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "nan", "is not a number from 0 to 1"},
        {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "201", "from 0 to 200"},
        {"HOROVOD_CONTROLLER", "ddl", "is not mpi"},
        {"HOROVOD_CONTROLLER", "ccl", "is not mpi, which is all"},
        {"HOROVOD_CPU_OPERATIONS", "ccl", "is not mpi or other, which is all"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *pairs[] = {wrong[i][0], wrong[i][1], NULL};
        struct hvd_settings s = {.cycle_ns = 42};
        struct hvd_err err = {0};
        char assignment[128];
        assert_int_equal(read_pairs(pairs, &s, &err), HVD_ERR_INVALID);
        snprintf(assignment, sizeof(assignment), "%s=%s", wrong[i][0], wrong[i][1]);
        assert_non_null(strstr(err.msg, assignment));
        assert_non_null(strstr(err.msg, wrong[i][2]));
        assert_int_equal(s.cycle_ns, 42);
    }
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    char path[HVD_SETTING_MAX + 1];
    const char *pairs[] = {"HOROVOD_METRICS_FILE", path, NULL};
    struct hvd_settings s;
    struct hvd_err err = {0};

    (void)state;
    memset(path, 'p', sizeof(path));
    path[HVD_SETTING_MAX] = '\0';
    assert_int_equal(read_pairs(pairs, &s, &err), HVD_ERR_INVALID);
    path[HVD_SETTING_MAX - 1] = '\0';
    assert_int_equal(read_pairs(pairs, &s, &err), HVD_OK);
}

static void stall_times_that_contradict_each_other_mean_no_shutdown(void **state)
{
    const char *good[] = {"HOROVOD_STALL_CHECK_TIME_SECONDS", "2",
                          "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "3", NULL};
    const char *below[] = {"HOROVOD_STALL_CHECK_TIME_SECONDS", "4",
                           "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "3", NULL};
    const char *off[] = {"HOROVOD_STALL_CHECK_DISABLE", "1", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                         "300", NULL};
    struct hvd_settings s;

    (void)state;
    assert_int_equal(read_pairs(good, &s, NULL), HVD_OK);
    assert_int_equal(s.stall_warning_ns, INT64_C(2000000000));
    assert_int_equal(s.stall_shutdown_ns, INT64_C(3000000000));
    assert_int_equal(read_pairs(below, &s, NULL), HVD_OK);
    assert_int_equal(s.stall_shutdown_ns, 0);
    assert_int_equal(read_pairs(off, &s, NULL), HVD_OK);
    assert_int_equal(s.stall_warning_ns, 0);
    assert_int_equal(s.stall_shutdown_ns, 0);
}

static void collect(void *ctx, const char *name, const char *why)
{
    char *said = ctx;

    assert_true(strlen(why) > 10);
    strncat(said, name, 255 - strlen(said));
    strncat(said, " ", 255 - strlen(said));
}

static void what_has_no_effect_is_said_once_each(void **state)
{
    const char *pairs[] = {"HOROVOD_BATCH_D2D_MEMCOPIES",
                           "1",
                           "HOROVOD_GLOO_IFACE",
                           "",
                           "HOROVOD_NUM_NCCL_STREAMS",
                           "2",
                           "HOROVOD_CONTROLLER",
                           "gloo",
                           "HOROVOD_CPU_OPERATIONS",
                           "mpi",
                           "HOROVOD_CYCLE_TIME",
                           "3",
                           "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                           "3",
                           "HOROVOD_MPI_ALLREDUCE",
                           "doubling",
                           "HOROVOD_MPI_ALLREDUCE_TABLE",
                           "*:1:2",
                           NULL};
    const struct hvd_lookup from = {.get = look_up, .provider = provider, .ctx = pairs};
    char said[256] = "";

    (void)state;
    hvd_settings_remarks(&from, collect, said);
    assert_string_equal(said,
                        "HOROVOD_BATCH_D2D_MEMCOPIES HOROVOD_NUM_NCCL_STREAMS HOROVOD_CONTROLLER "
                        "HOROVOD_MPI_ALLREDUCE_TABLE HOROVOD_STALL_SHUTDOWN_TIME_SECONDS ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_environment_gives_the_defaults_of_horovod),
        cmocka_unit_test(every_variable_reaches_its_field),
        cmocka_unit_test(a_switch_is_a_number_or_a_word_that_says_it),
        cmocka_unit_test(a_sum_that_depends_on_its_place_is_not_deterministic),
        cmocka_unit_test(a_list_of_cores_keeps_its_order),
        cmocka_unit_test(a_value_that_is_none_names_the_variable_and_what_is_allowed),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
        cmocka_unit_test(stall_times_that_contradict_each_other_mean_no_shutdown),
        cmocka_unit_test(what_has_no_effect_is_said_once_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
