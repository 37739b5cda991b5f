/* Names of tensors, from those of nodes. */
#include "tests/unit/support.h"

#include <string.h>

#include "worker/python/tensorflow/core/names.h"

static void a_name_comes_from_the_attribute_or_the_node(void **state)
{
    static const struct {
        const char *node;
        const char *given;
        bool is_scope_ignored;
        bool is_eager;
        const char *name;
    } rows[] = {
        {"a/b/grad", "", false, false, "a/b/grad"},
        {"a/b/grad", "", true, false, "grad"},
        {"grad", "", true, false, "grad"},
        {"a/", "", true, false, ""},
        {"/a", "", true, false, "a"},
        {"a/b", "given/name", true, false, "given/name"},
        {"a/b", "given", false, false, "given"},
        {"HorovodAllreduce", "", false, true, ""},
        {"HorovodAllreduce", "x", true, true, "x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct hvd_tf_naming from = {.node = hvd_strview_of(rows[i].node),
                                           .given = hvd_strview_of(rows[i].given),
                                           .is_scope_ignored = rows[i].is_scope_ignored,
                                           .is_eager = rows[i].is_eager};
        const struct hvd_strview name = hvd_tf_name_of(&from);
        if (name.len != strlen(rows[i].name) ||
            memcmp(name.data ? name.data : "", rows[i].name, name.len) != 0)
            fail_msg("row %zu: %.*s", i, (int)name.len, name.data);
    }
}

static void tensors_of_a_group_are_numbered(void **state)
{
    static const struct {
        const char *name;
        int i;
        int n;
        const char *text;
    } rows[] = {
        {"x", 0, 0, "x"},
        {"grouped_x", 0, 0, "grouped_x"},
        {"x", 0, 1, "grouped_x_1of1"},
        {"x", 0, 12, "grouped_x_1of12"},
        {"x", 11, 12, "grouped_x_12of12"},
        {"grouped_x", 1, 3, "grouped_x_2of3"},
        {"group", 1, 3, "grouped_group_2of3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        const size_t size = hvd_tf_name_member_size(hvd_strview_of(rows[i].name), rows[i].n);
        assert_in_range(size, strlen(rows[i].text) + 1, sizeof(text));
        memset(text, '#', sizeof(text));
        hvd_tf_name_write(hvd_strview_of(rows[i].name), rows[i].i, rows[i].n, text, size);
        assert_string_equal(text, rows[i].text);
    }
}

static void the_longest_name_fits_and_a_longer_one_is_refused(void **state)
{
    static char long_name[HVD_TF_NAME_MAX + 2];
    const size_t with_group = HVD_TF_NAME_MAX - strlen("grouped__12of12");
    struct hvd_strview view = {.data = long_name};

    (void)state;
    memset(long_name, 'x', sizeof(long_name) - 1);
    view.len = HVD_TF_NAME_MAX;
    assert_int_equal(hvd_tf_name_member_size(view, 0), HVD_TF_NAME_MAX + 1);
    view.len = HVD_TF_NAME_MAX + 1;
    assert_int_equal(hvd_tf_name_member_size(view, 0), 0);
    view.len = with_group;
    assert_int_equal(hvd_tf_name_member_size(view, 12), HVD_TF_NAME_MAX + 1);
    view.len = with_group + 1;
    assert_int_equal(hvd_tf_name_member_size(view, 12), 0);
    view.len = (size_t)INT32_MAX * 4;
    assert_int_equal(hvd_tf_name_member_size(view, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_comes_from_the_attribute_or_the_node),
        cmocka_unit_test(tensors_of_a_group_are_numbered),
        cmocka_unit_test(the_longest_name_fits_and_a_longer_one_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
