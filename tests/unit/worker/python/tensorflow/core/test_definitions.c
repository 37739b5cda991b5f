/* The table of operations: what its users rely on. */
#include "tests/unit/support.h"

#include <string.h>

#include "worker/python/tensorflow/core/definitions.h"

static bool has(const char *const *list, const char *item)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], item) == 0)
            return true;
    return false;
}

static size_t count_of(const char *const *list)
{
    size_t n = 0;

    while (list[n])
        n++;
    return n;
}

static void each_collective_has_our_attributes_with_defaults_last(void **state)
{
    size_t n_collectives = 0;

    (void)state;
    for (size_t i = 0; i < hvd_tf_n_definitions; i++) {
        const struct hvd_tf_definition *d = &hvd_tf_definitions[i];
        const size_t n = count_of(d->attributes);
        if (d->kind > HVD_TF_REDUCESCATTER) {
            assert_false(has(d->attributes, "tensor_name: string = ''"));
            continue;
        }
        n_collectives++;
        assert_in_range(n, 5, HVD_TF_ARGS_MAX - 1);
        assert_string_equal(d->attributes[n - 2], "tensor_name: string = ''");
        assert_string_equal(d->attributes[n - 1], "blocking: bool = false");
        assert_true(has(d->attributes, "process_set_id: int = 0"));
        assert_true(has(d->attributes, "ignore_name_scope: bool = False"));
        assert_int_equal(has(d->attributes, "num_tensors: int"),
                         strstr(d->type, "Grouped") != NULL);
    }
    assert_int_equal(n_collectives, 8);
}

static void types_are_different_and_each_output_has_its_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < hvd_tf_n_definitions; i++) {
        const struct hvd_tf_definition *d = &hvd_tf_definitions[i];
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(d->type, hvd_tf_definitions[k].type);
        assert_memory_equal(d->type, "Horovod", 7);
        if (d->shapes == HVD_TF_SHAPES_SAME || d->shapes == HVD_TF_SHAPES_ROWS)
            assert_int_equal(count_of(d->inputs), count_of(d->outputs));
        if (d->shapes == HVD_TF_SHAPES_NONE)
            assert_int_equal(count_of(d->outputs), 0);
    }
    assert_int_equal(hvd_tf_n_definitions, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_collective_has_our_attributes_with_defaults_last),
        cmocka_unit_test(types_are_different_and_each_output_has_its_input),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
