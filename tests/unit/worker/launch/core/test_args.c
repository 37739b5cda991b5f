#include "tests/unit/support.h"

#include <string.h>

#include "worker/launch/core/args.h"

static void arguments_are_kept_in_order_and_end_with_null(void **state)
{
    struct hvd_args args = {0};

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(hvd_args_addf(&args, NULL, "argument %d", i), HVD_OK);
    assert_int_equal(args.n, 100);
    assert_string_equal(args.items[0], "argument 0");
    assert_string_equal(args.items[99], "argument 99");
    assert_null(args.items[100]);
    hvd_args_fini(&args);
    assert_int_equal(args.n, 0);
}

static void quoting_shows_what_a_shell_would_read_back(void **state)
{
    static const char *const cases[][2] = {
        {"plain-1.2_x/y:z,a=b", "plain-1.2_x/y:z,a=b"},
        {"", "''"},
        {"two words", "'two words'"},
        {"it's", "'it'\\''s'"},
        {"$HOME;`id`", "'$HOME;`id`'"},
        {"line\nbreak", "'line\nbreak'"},
        {"~", "'~'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_buf out = {0};

        hvd_buf_init(&out, 256);
        assert_int_equal(hvd_args_quote(&out, cases[i][0]), HVD_OK);
        assert_string_equal(out.data, cases[i][1]);
        hvd_buf_fini(&out);
    }
}

static void a_quoted_vector_is_separated_by_blanks(void **state)
{
    struct hvd_args args = {0};
    struct hvd_buf out = {0};

    (void)state;
    hvd_buf_init(&out, 256);
    assert_int_equal(hvd_args_add_all(&args, (const char *const[]){"a", "b c", NULL}, NULL),
                     HVD_OK);
    assert_int_equal(hvd_args_quote_all(&out, &args), HVD_OK);
    assert_string_equal(out.data, "a 'b c'");
    hvd_buf_fini(&out);
    hvd_args_fini(&args);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_args args = {0};
        struct hvd_err err = {0};
        hvd_status_t st = HVD_OK;

        for (int i = 0; i < 20 && st == HVD_OK; i++)
            st = i % 2 ? hvd_args_add(&args, "word", &err) : hvd_args_addf(&args, &err, "%d", i);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_args_fini(&args);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_kept_in_order_and_end_with_null),
        cmocka_unit_test(quoting_shows_what_a_shell_would_read_back),
        cmocka_unit_test(a_quoted_vector_is_separated_by_blanks),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
