#include "tests/unit/support.h"

#include <string.h>

#include "worker/telemetry/core/program.h"

struct a_process {
    const char *exe;
    struct hvd_strview cmdline;
    const char *name;
};

#define ARGS(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text)                                                                         \
    }

static void check(const struct a_process *processes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[64] = "before";

        hvd_program_name(processes[i].exe, processes[i].cmdline, name, sizeof(name));
        assert_string_equal(name, processes[i].name);
    }
}

static void a_program_is_named_for_its_file(void **state)
{
    static const struct a_process processes[] = {
        {"/opt/bin/train", ARGS("./train\0--token\0secret"), "train"},
        {"/opt/bin/train (deleted)", ARGS("./train"), "train"},
        {"/opt/bin/train", ARGS("a title with a secret"), "train"},
        {"/opt/bin/trainpython", ARGS("x\0train.py"), "trainpython"},
        {"", ARGS("./train"), ""},
        {"", {NULL, 0}, ""},
    };

    (void)state;
    check(processes, sizeof(processes) / sizeof(*processes));
}

static void a_python_program_is_named_for_its_script_or_module(void **state)
{
    static const char py[] = "/usr/bin/python3.11";
    const struct a_process processes[] = {
        {py, ARGS("python\0/home/me/train.py\0--token\0secret"), "train.py"},
        {py, ARGS("python\0train.py"), "train.py"},
        {py, ARGS("python\0package/"), "package"},
        {py, ARGS("python\0-u\0-W\0ignore\0-Xdev\0-X\0utf8\0train.py\0-m\0x"), "train.py"},
        {py, ARGS("python\0-uWignore\0--check-hash-based-pycs\0never\0train.py"), "train.py"},
        {py, ARGS("python\0-m\0my.training\0--token=secret"), "my.training"},
        {py, ARGS("python\0-um\0my.training"), "my.training"},
        {py, ARGS("python\0-mmy.training"), "my.training"},
        {"/usr/bin/pypy3", ARGS("pypy3\0train.py"), "train.py"},
    };

    (void)state;
    check(processes, sizeof(processes) / sizeof(*processes));
}

static void a_python_program_without_a_script_is_named_for_python(void **state)
{
    static const char py[] = "/usr/bin/python3";
    const struct a_process processes[] = {
        {py, ARGS("python"), "python3"},
        {py, ARGS("python\0-c\0import secret"), "python3"},
        {py, ARGS("python\0-Ec\0import secret"), "python3"},
        {py, ARGS("python\0-cimport secret"), "python3"},
        {py, ARGS("python\0-\0secret"), "python3"},
        {py, ARGS("python\0-m"), "python3"},
        {py, ARGS("python\0-W"), "python3"},
        {py, ARGS("python\0--version"), "python3"},
        {py, ARGS("a title over all arguments, and a secret\0\0\0"), "python3"},
        /* The script's name is not all there. */
        {py, {"python\0/home/me/tra", sizeof("python\0/home/me/tra") - 1}, "python3"},
        {py, {"pyth", 4}, "python3"},
        {py, {NULL, 0}, "python3"},
    };

    (void)state;
    check(processes, sizeof(processes) / sizeof(*processes));
}

static void a_long_name_is_cut(void **state)
{
    const struct hvd_strview none = {NULL, 0};
    char name[6];

    (void)state;
    hvd_program_name("/bin/training", none, name, sizeof(name));
    assert_string_equal(name, "train");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_named_for_its_file),
        cmocka_unit_test(a_python_program_is_named_for_its_script_or_module),
        cmocka_unit_test(a_python_program_without_a_script_is_named_for_python),
        cmocka_unit_test(a_long_name_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
