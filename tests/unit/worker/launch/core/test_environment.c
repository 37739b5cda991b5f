#include "tests/unit/support.h"

#include <string.h>

#include "worker/launch/core/environment.h"

static char *const user[] = {"PATH=/bin:/usr/bin",
                             "HOROVOD_CYCLE_TIME=1",
                             "ODD=a;b\nc 'd' \"e\" %41&=\x01\xc3\xa9",
                             "EMPTY=",
                             "HOSTNAME=master",
                             "OLDPWD=/",
                             "CUDA_VISIBLE_DEVICES=3",
                             "OMPI_MCA_x=1",
                             "BASH_FUNC_f%%=() { :; }",
                             "HOROVOD_SECRET_KEY=s",
                             NULL};

static void what_belongs_to_this_host_and_to_open_mpi_stays(void **state)
{
    static const struct {
        const char *entry;
        bool is_passed;
    } cases[] = {
        {"PATH=x", true},
        {"LD_LIBRARY_PATH=", true},
        {"HOROVOD_FUSION_THRESHOLD=1", true},
        {"MYHOSTNAME=x", true},
        {"HOSTNAME=x", false},
        {"PWD=/", false},
        {"_=/bin/x", false},
        {"NVIDIA_CUDA_VISIBLE_DEVICES=0", false},
        {"CUDA_VISIBLE_DEVICES=0", false},
        {"OMPI_COMM_WORLD_RANK=0", false},
        {"PMIX_RANK=0", false},
        {"SSH_AUTH_SOCK=/x", false},
        {"HOROVOD_SECRET_KEY=x", false},
        {"HOROVOD_LAUNCH_ENV=x", false},
        {"BASH_FUNC_f%%=() { :; }", false},
        {"no equals sign", false},
        {"=C:=odd", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(hvd_environment_is_passed(cases[i].entry), cases[i].is_passed);
}

static void exports_come_last_and_pass_what_is_left_out(void **state)
{
    static const char *const exports[] = {"CUDA_VISIBLE_DEVICES", "PATH=/mine"};
    struct hvd_args out = {0};

    (void)state;
    assert_int_equal(hvd_environment_collect(user, exports, 2, &out, NULL), HVD_OK);
    assert_int_equal(out.n, 6);
    assert_string_equal(out.items[0], "PATH=/bin:/usr/bin");
    assert_string_equal(out.items[4], "CUDA_VISIBLE_DEVICES=3");
    assert_string_equal(out.items[5], "PATH=/mine");
    hvd_args_fini(&out);
}

static void an_export_that_is_not_set_is_an_error(void **state)
{
    static const char *const exports[] = {"ODDITY"};
    struct hvd_args out = {0};
    struct hvd_err err = {0};

    (void)state;
    assert_int_equal(hvd_environment_collect(user, exports, 1, &out, &err), HVD_ERR_INVALID);
    assert_string_equal(err.msg,
                        "flag -x: ODDITY is not set here: export it, or write -x ODDITY=VALUE");
    assert_int_equal(out.n, 0);
}

static void any_value_survives_the_way(void **state)
{
    struct hvd_args before = {0};
    struct hvd_args after = {0};
    struct hvd_buf text = {0};

    (void)state;
    hvd_buf_init(&text, HVD_LAUNCH_ENV_MAX);
    assert_int_equal(hvd_environment_collect(user, NULL, 0, &before, NULL), HVD_OK);
    assert_int_equal(hvd_environment_encode(&before, &text), HVD_OK);
    assert_null(strpbrk(text.data, ";\n '\"\x01"));
    assert_int_equal(hvd_environment_decode(text.data, &after, NULL), HVD_OK);
    assert_int_equal(after.n, before.n);
    for (size_t i = 0; i < after.n; i++)
        assert_string_equal(after.items[i], before.items[i]);
    hvd_buf_fini(&text);
    hvd_args_fini(&before);
    hvd_args_fini(&after);
}

static void broken_texts_are_refused(void **state)
{
    static const char *const cases[] = {"A=%4", "A=%", "A=%zz", "A=%00", "A", "=b", "A=1&&B=2"};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_args out = {0};

        assert_int_equal(hvd_environment_decode(cases[i], &out, NULL), HVD_ERR_INVALID);
        assert_int_equal(out.n, 0);
    }
}

static void every_allocation_may_fail(void **state)
{
    static const char *const exports[] = {"PATH", "A=b"};

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_args before = {0};
        struct hvd_args after = {0};
        struct hvd_buf text = {0};
        hvd_status_t st = hvd_environment_collect(user, exports, 2, &before, NULL);

        hvd_buf_init(&text, HVD_LAUNCH_ENV_MAX);
        if (st == HVD_OK)
            st = hvd_environment_encode(&before, &text);
        if (st == HVD_OK)
            st = hvd_environment_decode(text.data, &after, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&text);
        hvd_args_fini(&before);
        hvd_args_fini(&after);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_belongs_to_this_host_and_to_open_mpi_stays),
        cmocka_unit_test(exports_come_last_and_pass_what_is_left_out),
        cmocka_unit_test(an_export_that_is_not_set_is_an_error),
        cmocka_unit_test(any_value_survives_the_way),
        cmocka_unit_test(broken_texts_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
