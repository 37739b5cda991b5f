/* Element types of TensorFlow and of the runtime. */
#include "tests/unit/support.h"

#include "worker/python/tensorflow/core/elements.h"

static const struct {
    int tf_type;
    horovod_dtype_t dtype;
    size_t size;
} rows[] = {
    {1, HOROVOD_FLOAT32, 4}, {2, HOROVOD_FLOAT64, 8},  {3, HOROVOD_INT32, 4},
    {4, HOROVOD_UINT8, 1},   {5, HOROVOD_INT16, 2},    {6, HOROVOD_INT8, 1},
    {9, HOROVOD_INT64, 8},   {10, HOROVOD_BOOL, 1},    {14, HOROVOD_BFLOAT16, 2},
    {17, HOROVOD_UINT16, 2}, {19, HOROVOD_FLOAT16, 2}, {22, HOROVOD_UINT32, 4},
    {23, HOROVOD_UINT64, 8},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void each_type_of_the_runtime_has_one_of_tensorflow(void **state)
{
    bool is_seen[HOROVOD_UINT64 + 1] = {false};

    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        horovod_dtype_t dtype = HOROVOD_UINT8;
        assert_true(hvd_tf_element_of(rows[i].tf_type, &dtype));
        assert_int_equal(dtype, rows[i].dtype);
        assert_int_equal(hvd_tf_element_size(dtype), rows[i].size);
        assert_false(is_seen[dtype]);
        is_seen[dtype] = true;
    }
    assert_int_equal(N_ROWS, HOROVOD_UINT64 + 1);
}

static void other_types_of_tensorflow_are_refused(void **state)
{
    (void)state;
    for (int tf_type = -2; tf_type < 128; tf_type++) {
        horovod_dtype_t dtype = HOROVOD_BOOL;
        bool is_known = false;
        for (size_t i = 0; i < N_ROWS; i++)
            is_known = is_known || rows[i].tf_type == tf_type;
        if (is_known)
            continue;
        assert_false(hvd_tf_element_of(tf_type, &dtype));
        assert_int_equal(dtype, HOROVOD_BOOL);
    }
    assert_int_equal(hvd_tf_element_size((horovod_dtype_t)99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_of_the_runtime_has_one_of_tensorflow),
        cmocka_unit_test(other_types_of_tensorflow_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
