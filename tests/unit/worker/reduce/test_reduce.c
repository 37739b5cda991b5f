#include "tests/unit/support.h"

#include "worker/reduce/reduce.h"

#define N 37

/* Each type: combine two ramps with every operation, divide, and look at every element. */
#define CHECK_TYPE(TYPE, DTYPE)                                                                    \
    static void TYPE##_is_combined_and_divided(void **state)                                       \
    {                                                                                              \
        static const enum hvd_reduce ops[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX};             \
        (void)state;                                                                               \
        for (int o = 0; o < 4; o++) {                                                              \
            TYPE a[N + 1];                                                                         \
            TYPE b[N];                                                                             \
            a[N] = 99;                                                                             \
            for (int i = 0; i < N; i++) {                                                          \
                a[i] = (TYPE)i;                                                                    \
                b[i] = (TYPE)(N - i);                                                              \
            }                                                                                      \
            hvd_reduce_combine(DTYPE, ops[o], a, b, N);                                            \
            for (int i = 0; i < N; i++) {                                                          \
                int low = i < N - i ? i : N - i;                                                   \
                int want = ops[o] == HVD_MIN ? low : ops[o] == HVD_MAX ? N - low : N;              \
                assert_true(a[i] == (TYPE)want);                                                   \
            }                                                                                      \
            assert_true(a[N] == 99);                                                               \
            hvd_reduce_divide(DTYPE, a, 1, 2);                                                     \
            int first = ops[o] == HVD_MIN ? 0 : N;                                                 \
            assert_true(a[0] == (TYPE)((TYPE)first / (TYPE)2));                                    \
        }                                                                                          \
    }

CHECK_TYPE(uint8_t, HVD_UINT8)
CHECK_TYPE(int32_t, HVD_INT32)
CHECK_TYPE(int64_t, HVD_INT64)
CHECK_TYPE(float, HVD_FLOAT32)
CHECK_TYPE(double, HVD_FLOAT64)

static void integers_wrap_and_round_towards_zero(void **state)
{
    int32_t a[] = {INT32_MAX, -7};
    const int32_t b[] = {1, 0};
    uint8_t c = 200;
    const uint8_t d = 100;

    (void)state;
    hvd_reduce_combine(HVD_INT32, HVD_SUM, a, b, 2);
    assert_int_equal(a[0], INT32_MIN);
    hvd_reduce_divide(HVD_INT32, a, 2, 2);
    assert_int_equal(a[1], -3);
    hvd_reduce_combine(HVD_UINT8, HVD_SUM, &c, &d, 1);
    assert_int_equal(c, 44);
    hvd_reduce_divide(HVD_UINT8, &c, 1, 300); /* more ranks than a byte counts */
    assert_int_equal(c, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uint8_t_is_combined_and_divided),
        cmocka_unit_test(int32_t_is_combined_and_divided),
        cmocka_unit_test(int64_t_is_combined_and_divided),
        cmocka_unit_test(float_is_combined_and_divided),
        cmocka_unit_test(double_is_combined_and_divided),
        cmocka_unit_test(integers_wrap_and_round_towards_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
