/* Names of a group's tensors: which are ones, and which of them are one tensor to every table. */
#include "tests/unit/support.h"

#include <string.h>

#include "worker/core/group_name.h"

static void names_of_groups_are_taken_apart(void **state)
{
    static const struct {
        const char *name;
        const char *base; /* NULL: no name of a group's tensor */
        uint32_t i;
        uint32_t n;
    } rows[] = {
        {"grouped_allreduce.x_1of3", "grouped_allreduce.x", 1, 3},
        {"grouped_allreduce.x_3of3", "grouped_allreduce.x", 3, 3},
        {"grouped_x_1of0", "grouped_x", 1, 0},
        {"grouped_a_1of2_12of123456789", "grouped_a_1of2", 12, 123456789},
        {"grouped_x_2of0", NULL, 0, 0},
        {"grouped_x_0of0", NULL, 0, 0},
        {"grouped_x_0of3", NULL, 0, 0},
        {"grouped_x_4of3", NULL, 0, 0},
        {"grouped_x_01of3", NULL, 0, 0},
        {"grouped_x_1of03", NULL, 0, 0},
        {"grouped_x_1of1234567890", NULL, 0, 0},
        {"grouped_x_1of", NULL, 0, 0},
        {"grouped_x_of3", NULL, 0, 0},
        {"grouped_x1of3", NULL, 0, 0},
        {"grouped_1of3", NULL, 0, 0},
        {"grouped__1of3", NULL, 0, 0},
        {"grouped_", NULL, 0, 0},
        {"allreduce.x_1of3", NULL, 0, 0},
        {"", NULL, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_group_name got = {.n = 77};
        const bool is_name = hvd_group_name_parse(hvd_strview_of(rows[i].name), &got);
        if (is_name != (rows[i].base != NULL))
            fail_msg("%s", rows[i].name);
        if (!is_name) {
            assert_int_equal(got.n, 77);
            continue;
        }
        assert_true(hvd_strview_equal(got.base, rows[i].base));
        assert_int_equal(got.i, rows[i].i);
        assert_int_equal(got.n, rows[i].n);
    }
}

static void heads_of_one_name_have_one_key_and_nothing_else_does(void **state)
{
    static const char *const heads[] = {"grouped_x_1of0", "grouped_x_1of1", "grouped_x_1of23"};
    static const char *const others[] = {"grouped_x_2of3", "grouped_x_2of2", "x_1of3",
                                         "grouped_x_1of", "grouped_y_12of12"};

    (void)state;
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        assert_true(hvd_group_name_is_head(hvd_strview_of(heads[i])));
        assert_true(
            hvd_strview_equal(hvd_group_name_key(hvd_strview_of(heads[i])), "grouped_x_1of"));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(hvd_group_name_is_head(hvd_strview_of(others[i])));
        assert_true(hvd_strview_equal(hvd_group_name_key(hvd_strview_of(others[i])), others[i]));
    }
}

static void names_of_other_tensors_are_written_where_they_fit(void **state)
{
    struct hvd_group_name group;
    char text[32];

    (void)state;
    assert_true(hvd_group_name_parse(hvd_strview_of("grouped_x_1of3"), &group));
    assert_true(
        hvd_strview_equal(hvd_group_name_of(&group, 2, 3, text, sizeof(text)), "grouped_x_2of3"));
    assert_int_equal(hvd_group_name_of(&group, 2, 3, text, sizeof("grouped_x_2of3") - 1).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_groups_are_taken_apart),
        cmocka_unit_test(heads_of_one_name_have_one_key_and_nothing_else_does),
        cmocka_unit_test(names_of_other_tensors_are_written_where_they_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
