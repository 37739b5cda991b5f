#include "tests/unit/support.h"

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
    return hvd_launch_options_parse(argc, argv, NULL, out, err);
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
    assert_non_null(strstr(hvd_launch_options_help(), "--hostfile"));
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
        {{"--verbose=1", "-np", "2", "p"}, "flag --verbose takes no value"},
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

static void the_start_timeout_comes_from_the_environment_unless_the_flag_is_there(void **state)
{
    char *argv[] = {"horovodrun", "-np", "1", "--start-timeout", "9", "p", NULL};
    char *without[] = {"horovodrun", "-np", "1", "p", NULL};
    struct hvd_launch_options o;
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_launch_options_parse(6, argv, "5", &o, NULL), HVD_OK);
    assert_int_equal(o.start_timeout_s, 9);
    hvd_launch_options_fini(&o);
    assert_int_equal(hvd_launch_options_parse(4, without, "5", &o, NULL), HVD_OK);
    assert_int_equal(o.start_timeout_s, 5);
    hvd_launch_options_fini(&o);
    assert_int_equal(hvd_launch_options_parse(4, without, "soon", &o, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "HOROVOD_START_TIMEOUT"));
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_launch_options o = {0};
        hvd_status_t st = parse((char *const[MAX_WORDS]){"-np", "1", "-x", "A=b", "p"}, &o, NULL);

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
        cmocka_unit_test(help_and_version_need_no_program),
        cmocka_unit_test(wrong_command_lines_are_refused_with_the_flag_named),
        cmocka_unit_test(the_start_timeout_comes_from_the_environment_unless_the_flag_is_there),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
