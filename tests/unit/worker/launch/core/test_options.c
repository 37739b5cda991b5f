#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/launch/core/options.h"

#define MAX_WORDS 16

/* Parses the words after the program's name, up to the first NULL. */
static hvd_status_t parse(char *const words[MAX_WORDS], struct hvd_launch_options *out,
                          struct hvd_err *err)
{
    static char *argv[MAX_WORDS + 2];
    int argc = 1;

    argv[0] = (char *)"horovodrun";
    while (words[argc - 1]) {
        argv[argc] = words[argc - 1];
        argc++;
    }
    argv[argc] = NULL;
    const struct hvd_launch_around nothing = {0};

    return hvd_launch_options_parse(argc, argv, &nothing, out, err);
}

static void the_program_begins_at_the_first_word_that_is_no_flag(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(parse((char *const[MAX_WORDS]){"-np", "4", "-H", "a:2,b:2", "-p", "2222",
                                                    "--verbose", "train", "-np", "9", "a b"},
                           &o, NULL),
                     HVD_OK);
    assert_int_equal(o.n_proc, 4);
    assert_string_equal(o.hosts, "a:2,b:2");
    assert_int_equal(o.ssh_port, 2222);
    assert_true(o.is_verbose);
    assert_int_equal(o.start_timeout_s, HVD_LAUNCH_START_TIMEOUT_S);
    assert_int_equal(o.n_command, 4);
    assert_string_equal(o.command[0], "train");
    assert_string_equal(o.command[1], "-np");
    assert_string_equal(o.command[3], "a b");
    assert_null(o.command[4]);
    hvd_launch_options_fini(&o);
}

static void every_flag_has_the_names_that_horovod_gives_it(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(
        parse((char *const[MAX_WORDS]){"--num-proc=3", "--hostfile=h", "--ssh-identity-file", "/k",
                                       "--ssh-port=1", "--start-timeout", "7", "--disable-cache",
                                       "--network-interfaces", "eth0", "--", "-odd"},
              &o, NULL),
        HVD_OK);
    assert_int_equal(o.n_proc, 3);
    assert_string_equal(o.hostfile, "h");
    assert_string_equal(o.ssh_identity, "/k");
    assert_int_equal(o.ssh_port, 1);
    assert_int_equal(o.start_timeout_s, 7);
    assert_true(o.is_cache_disabled);
    assert_string_equal(o.interfaces, "eth0");
    assert_string_equal(o.command[0], "-odd");
    hvd_launch_options_fini(&o);

    assert_int_equal(parse((char *const[MAX_WORDS]){"-n", "2", "-hostfile", "h",
                                                    "-prefix-timestamp", "--mpi", "p"},
                           &o, NULL),
                     HVD_OK);
    assert_int_equal(o.n_proc, 2);
    assert_string_equal(o.hostfile, "h");
    assert_true(o.has_timestamp);
    hvd_launch_options_fini(&o);
    assert_int_equal(parse((char *const[MAX_WORDS]){"--hosts", "a:1", "p"}, &o, NULL), HVD_OK);
    assert_string_equal(o.hosts, "a:1");
    hvd_launch_options_fini(&o);
}

static void exports_are_collected(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(
        parse((char *const[MAX_WORDS]){"-np", "1", "-x", "A", "-x", "B=c d=e", "p"}, &o, NULL),
        HVD_OK);
    assert_int_equal(o.n_exports, 2);
    assert_string_equal(o.exports[0], "A");
    assert_string_equal(o.exports[1], "B=c d=e");
    hvd_launch_options_fini(&o);
}

static void flags_that_set_a_variable_are_exports_in_their_order(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(
        parse((char *const[MAX_WORDS]){"-np", "1", "--autotune", "-x", "A",
                                       "--autotune-log-file=a b.csv", "--fusion-threshold-mb", "64",
                                       "--cycle-time-ms", "2.5", "--no-autotune", "p"},
              &o, NULL),
        HVD_OK);
    static const char *const expected[] = {
        "HOROVOD_AUTOTUNE=1",           "A",
        "HOROVOD_AUTOTUNE_LOG=a b.csv", "HOROVOD_FUSION_THRESHOLD=67108864",
        "HOROVOD_CYCLE_TIME=2.5",       "HOROVOD_AUTOTUNE=0"};
    assert_int_equal(o.n_exports, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(o.exports[i], expected[i]);
    hvd_launch_options_fini(&o);
}

static void a_value_may_stand_behind_an_equals_sign_of_any_flag(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(parse((char *const[MAX_WORDS]){"-np=2", "-H=a:1,b:1", "-x=A=b=c", "-p=7",
                                                    "--log-level=TRACE", "--", "-p=7"},
                           &o, NULL),
                     HVD_OK);
    assert_int_equal(o.n_proc, 2);
    assert_string_equal(o.hosts, "a:1,b:1");
    assert_string_equal(o.exports[0], "A=b=c");
    assert_int_equal(o.ssh_port, 7);
    assert_string_equal(o.command[0], "-p=7");
    hvd_launch_options_fini(&o);
}

static void the_grace_is_the_flags_the_environments_or_the_places(void **state)
{
    static const struct {
        const char *text;
        bool is_pod;
        const char *flag;
        int64_t expected; /* -1: refused */
    } cases[] = {{NULL, false, NULL, 0},   {NULL, true, NULL, 30}, {"5", true, NULL, 5},
                 {"5", true, "0", 0},      {"", true, NULL, 30},   {"x", false, NULL, -1},
                 {"5", false, "86401", -1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct hvd_launch_around around = {.stop_grace = cases[i].text,
                                                 .is_pod = cases[i].is_pod};
        char *argv[] = {"horovodrun", "-np", "1", "--stop-grace", (char *)cases[i].flag, "p", NULL};
        char *plain[] = {"horovodrun", "-np", "1", "p", NULL};
        struct hvd_launch_options o;
        struct hvd_err err = {0};
        const hvd_status_t st = hvd_launch_options_parse(
            cases[i].flag ? 6 : 4, cases[i].flag ? argv : plain, &around, &o, &err);

        assert_int_equal(st, cases[i].expected < 0 ? HVD_ERR_INVALID : HVD_OK);
        if (st < 0)
            continue;
        assert_int_equal(o.stop_grace_s, cases[i].expected);
        hvd_launch_options_fini(&o);
    }
}

static void each_flag_of_a_setting_names_its_variable(void **state)
{
    static const char *const cases[][3] = {
        {"--cache-capacity", "7", "HOROVOD_CACHE_CAPACITY=7"},
        {"--autotune-warmup-samples", "1", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES=1"},
        {"--autotune-steps-per-sample", "2", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=2"},
        {"--autotune-bayes-opt-max-samples", "9", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=9"},
        {"--autotune-gaussian-process-noise", "0.5", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.5"},
        {"--timeline-filename", "t.json", "HOROVOD_TIMELINE=t.json"},
        {"--timeline-mark-cycles", "", "HOROVOD_TIMELINE_MARK_CYCLES=1"},
        {"--no-timeline-mark-cycles", "", "HOROVOD_TIMELINE_MARK_CYCLES=0"},
        {"--no-stall-check", "", "HOROVOD_STALL_CHECK_DISABLE=1"},
        {"--stall-check", "", "HOROVOD_STALL_CHECK_DISABLE=0"},
        {"--stall-check-warning-time-seconds", "3", "HOROVOD_STALL_CHECK_TIME_SECONDS=3"},
        {"--stall-check-shutdown-time-seconds", "9", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=9"},
        {"--mpi-threads-disable", "", "HOROVOD_MPI_THREADS_DISABLE=1"},
        {"--no-mpi-threads-disable", "", "HOROVOD_MPI_THREADS_DISABLE=0"},
        {"--thread-affinity", "0,1", "HOROVOD_THREAD_AFFINITY=0,1"},
        {"--log-level", "debug", "HOROVOD_LOG_LEVEL=debug"},
        {"--log-without-timestamp", "", "HOROVOD_LOG_HIDE_TIME=1"},
        {"--log-with-timestamp", "", "HOROVOD_LOG_HIDE_TIME=0"},
        {"--log-hide-timestamp", "", "HOROVOD_LOG_HIDE_TIME=1"},
        {"--no-log-hide-timestamp", "", "HOROVOD_LOG_HIDE_TIME=0"},
        {"--hierarchical-allreduce", "", "HOROVOD_HIERARCHICAL_ALLREDUCE=1"},
        {"--no-hierarchical-allreduce", "", "HOROVOD_HIERARCHICAL_ALLREDUCE=0"},
        {"--hierarchical-allgather", "", "HOROVOD_HIERARCHICAL_ALLGATHER=1"},
        {"--no-hierarchical-allgather", "", "HOROVOD_HIERARCHICAL_ALLGATHER=0"},
        {"--torus-allreduce", "", "HOROVOD_TORUS_ALLREDUCE=1"},
        {"--no-torus-allreduce", "", "HOROVOD_TORUS_ALLREDUCE=0"},
        {"--num-nccl-streams", "2", "HOROVOD_NUM_NCCL_STREAMS=2"},
        {"--gloo-timeout-seconds", "5", "HOROVOD_GLOO_TIMEOUT_SECONDS=5"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool has_value = cases[i][1][0] != '\0';
        struct hvd_launch_options o;
        assert_int_equal(
            parse((char *const[MAX_WORDS]){"-np", "1", (char *)cases[i][0],
                                           (char *)(has_value ? cases[i][1] : "p"), "q"},
                  &o, NULL),
            HVD_OK);
        assert_int_equal(o.n_exports, 1);
        assert_string_equal(o.exports[0], cases[i][2]);
        assert_string_equal(o.command[0], has_value ? "q" : "p");
        hvd_launch_options_fini(&o);
    }
}

static void a_flag_that_asks_for_gloo_warns_and_changes_nothing(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(parse((char *const[MAX_WORDS]){"--gloo", "-np", "2", "p", "q"}, &o, NULL),
                     HVD_OK);
    assert_int_equal(o.n_exports, 0);
    assert_int_equal(o.settings.n, 0);
    assert_string_equal(o.command[0], "p");
    assert_int_equal(o.warnings.n, 1);
    assert_non_null(strstr(o.warnings.items[0], "flag --gloo changes nothing: there is no Gloo"));
    hvd_launch_options_fini(&o);
}

static void help_and_version_need_no_program(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(parse((char *const[MAX_WORDS]){"--help"}, &o, NULL), HVD_OK);
    assert_true(o.wants_help);
    hvd_launch_options_fini(&o);
    assert_int_equal(parse((char *const[MAX_WORDS]){"-v"}, &o, NULL), HVD_OK);
    assert_true(o.wants_version);
    hvd_launch_options_fini(&o);
    assert_int_equal(parse((char *const[MAX_WORDS]){"-cb"}, &o, NULL), HVD_OK);
    assert_true(o.wants_build);
    hvd_launch_options_fini(&o);
    assert_non_null(strstr(hvd_launch_help(), "--hostfile"));
}

static void wrong_command_lines_are_refused_with_the_flag_named(void **state)
{
    static const struct {
        char *const words[MAX_WORDS];
        const char *says;
    } cases[] = {
        {{"--gloo-timeout", "3", "p"}, "unknown flag \"--gloo-timeout\""},
        {{"-np", "0", "p"}, "flag -np: \"0\" is not an integer from 1 to 1000000"},
        {{"-np", "two", "p"}, "flag -np: \"two\""},
        {{"-np"}, "flag -np needs a value"},
        {{"-np", "2"}, "no program"},
        {{"p"}, "flag -np is missing"},
        {{"-np", "2", "-H", "a:2", "--hostfile", "f", "p"}, "exclude each other"},
        {{"-H", "", "p"}, "flag -H: the value is empty"},
        {{"-p", "65536", "p"}, "flag -p: \"65536\" is not an integer from 1 to 65535"},
        {{"-np", "2", "-x", "1A=b", "p"}, "flag -x: \"1A=b\" is not NAME or NAME=VALUE"},
        {{"-np", "2", "-x", "=b", "p"}, "flag -x"},
        {{"-np", "2", "-i", "/my key", "p"}, "flag -i"},
        {{"--autotune=1", "-np", "2", "p"}, "flag --autotune takes no value"},
        {{"-np", "2", "--autotune-log-file"}, "flag --autotune-log-file needs a value"},
        {{"-np=0", "p"}, "flag -np: \"0\" is not an integer"},
        {{"-nq=2", "p"}, "unknown flag \"-nq=2\""},
        {{"-h=1", "p"}, "flag -h takes no value"},
        {{"-np", "2", "--log-level", "foo", "p"}, "flag --log-level: \"foo\" is not trace, debug"},
        {{"-np", "2", "--thread-affinity", "0,x", "p"}, "flag --thread-affinity: \"0,x\" is not"},
        {{"-np", "2", "--thread-affinity", "0,,1", "p"}, "flag --thread-affinity: \"0,,1\" is not"},
        {{"-np", "2", "--log-level", "", "p"}, "flag --log-level: the value is empty"},
        {{"-np", "2", "--cycle-time-ms", "soon", "p"}, "flag --cycle-time-ms: \"soon\" is not a"},
        {{"-np", "2", "--fusion-threshold-mb", "-1", "p"}, "flag --fusion-threshold-mb: \"-1\""},
        {{"--verbose=1", "-np", "2", "p"}, "flag --verbose takes no value"},
        {{"--config-file", "a", "--config-file", "b", "-np", "2", "p"}, "one file only"},
        {{"--mpi-args", "--x 'y", "-np", "2", "p"}, "flag --mpi-args: a quote is not closed"},
        {{"--timeline-report", "r.html"}, "no timeline"},
        {{"--gloo=1", "-np", "2", "p"}, "flag --gloo takes no value"},
        {{"--jsrun", "-np", "2", "p"}, "flag --jsrun: jsrun is not supported"},
        {{"--min-np", "1", "p"}, "flag --min-np: the ranks of a job over Open MPI are fixed"},
        {{"--min-num-proc=1", "p"}, "flag --min-num-proc: the ranks"},
        {{"--max-np", "4", "p"}, "flag --max-np: the ranks"},
        {{"--max-num-proc", "4", "p"}, "flag --max-num-proc: the ranks"},
        {{"--slots-per-host", "4", "p"}, "flag --slots-per-host: the ranks"},
        {{"--elastic-timeout", "4", "p"}, "flag --elastic-timeout: the ranks"},
        {{"--reset-limit", "4", "p"}, "flag --reset-limit: the ranks"},
        {{"--blacklist-cooldown-range", "4", "9", "p"}, "flag --blacklist-cooldown-range: the"},
        {{"--host-discovery-script", "./s", "p"}, "flag --host-discovery-script: the ranks"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_launch_options o;
        struct hvd_err err = {0};

        assert_int_equal(parse(cases[i].words, &o, &err), HVD_ERR_INVALID);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].says);
    }
}

static void flags_of_mpirun_are_cut_into_words(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(
        parse((char *const[MAX_WORDS]){"-np", "1", "--mpi-args=--mca a 'b c' \"d\\\"e\" f\\ g",
                                       "--binding-args", "--bind-to core", "--tcp",
                                       "--network-interface", "eth0", "--network-interface", "eth1",
                                       "p"},
              &o, NULL),
        HVD_OK);
    static const char *const expected[] = {"--mca", "a", "b c", "d\"e", "f g"};
    assert_int_equal(o.mpi_args.n, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(o.mpi_args.items[i], expected[i]);
    assert_int_equal(o.binding.n, 2);
    assert_string_equal(o.interfaces, "eth0,eth1");
    assert_true(o.is_tcp);
    hvd_launch_options_fini(&o);
}

static void a_flag_that_changes_nothing_is_told(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(parse((char *const[MAX_WORDS]){"-np", "1", "--num-nccl-streams=2",
                                                    "--no-torus-allreduce", "p"},
                           &o, NULL),
                     HVD_OK);
    assert_int_equal(o.warnings.n, 1);
    assert_string_equal(
        o.warnings.items[0],
        "flag --num-nccl-streams changes nothing: each process set has streams of its own");
    hvd_launch_options_fini(&o);
}

/* Tries the flags of a paragraph of the help, alone: whether each has the warning. Returns their
 * number. */
static int try_flags(const char *title, bool has_warning)
{
    char help[8192], *at, *end, *rest = NULL;
    int n = 0;

    (void)snprintf(help, sizeof(help), "%s", hvd_launch_help());
    at = strstr(help, title);
    assert_non_null(at);
    at += strlen(title);
    end = strstr(at, "\n  Of no effect");
    if (!end)
        end = strstr(at, "\n\n");
    assert_non_null(end);
    *end = '\0';
    for (char *word = strtok_r(at, " ,\n", &rest); word; word = strtok_r(NULL, " ,\n", &rest)) {
        struct hvd_launch_options o;

        if (word[0] != '-')
            continue;
        assert_null(strchr(word, '['));
        assert_int_equal(parse((char *const[MAX_WORDS]){"-np", "1", word, "1", "p"}, &o, NULL),
                         HVD_OK);
        assert_int_equal(o.warnings.n, has_warning);
        hvd_launch_options_fini(&o);
        n++;
    }
    return n;
}

static void the_help_knows_which_flags_have_a_warning(void **state)
{
    (void)state;
    assert_int_equal(try_flags("Of no effect, with a warning:", true), 4);
    assert_int_equal(try_flags("Of no effect:", false), 1);
}

static void a_configuration_file_is_named_with_its_place(void **state)
{
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(
        parse((char *const[MAX_WORDS]){"-np", "1", "--config-file", "c.yaml", "--autotune", "p"},
              &o, NULL),
        HVD_OK);
    assert_string_equal(o.config_file, "c.yaml");
    assert_int_equal(o.config_at, 5);
    hvd_launch_options_fini(&o);
}

static void within_an_allocation_no_number_is_needed(void **state)
{
    char *argv[] = {"horovodrun", "p", NULL};
    const struct hvd_launch_around around = {.has_allocation = true};
    struct hvd_launch_options o;

    (void)state;
    assert_int_equal(hvd_launch_options_parse(2, argv, &around, &o, NULL), HVD_OK);
    assert_true(o.has_allocation);
    hvd_launch_options_fini(&o);
}

static void the_start_timeout_comes_from_the_environment_unless_the_flag_is_there(void **state)
{
    char *argv[] = {"horovodrun", "-np", "1", "--start-timeout", "9", "p", NULL};
    char *without[] = {"horovodrun", "-np", "1", "p", NULL};
    const struct hvd_launch_around five = {.start_timeout = "5"};
    const struct hvd_launch_around soon = {.start_timeout = "soon"};
    struct hvd_launch_options o;
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_launch_options_parse(6, argv, &five, &o, NULL), HVD_OK);
    assert_int_equal(o.start_timeout_s, 9);
    hvd_launch_options_fini(&o);
    assert_int_equal(hvd_launch_options_parse(4, without, &five, &o, NULL), HVD_OK);
    assert_int_equal(o.start_timeout_s, 5);
    hvd_launch_options_fini(&o);
    assert_int_equal(hvd_launch_options_parse(4, without, &soon, &o, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "HOROVOD_START_TIMEOUT"));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_launch_options o = {0};
        hvd_status_t st =
            parse((char *const[MAX_WORDS]){"-np", "1", "-x", "A=b", "--num-nccl-streams", "1",
                                           "--mpi-args", "a b", "--network-interface", "e", "p"},
                  &o, NULL);

        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_launch_options_fini(&o);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_begins_at_the_first_word_that_is_no_flag),
        cmocka_unit_test(every_flag_has_the_names_that_horovod_gives_it),
        cmocka_unit_test(exports_are_collected),
        cmocka_unit_test(flags_that_set_a_variable_are_exports_in_their_order),
        cmocka_unit_test(a_value_may_stand_behind_an_equals_sign_of_any_flag),
        cmocka_unit_test(the_grace_is_the_flags_the_environments_or_the_places),
        cmocka_unit_test(each_flag_of_a_setting_names_its_variable),
        cmocka_unit_test(a_flag_that_asks_for_gloo_warns_and_changes_nothing),
        cmocka_unit_test(help_and_version_need_no_program),
        cmocka_unit_test(wrong_command_lines_are_refused_with_the_flag_named),
        cmocka_unit_test(flags_of_mpirun_are_cut_into_words),
        cmocka_unit_test(a_flag_that_changes_nothing_is_told),
        cmocka_unit_test(the_help_knows_which_flags_have_a_warning),
        cmocka_unit_test(a_configuration_file_is_named_with_its_place),
        cmocka_unit_test(within_an_allocation_no_number_is_needed),
        cmocka_unit_test(the_start_timeout_comes_from_the_environment_unless_the_flag_is_there),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
