#include "tests/unit/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/unit/worker/reduce/reference.h"
#include "worker/reduce/adasum.h"
#include "worker/reduce/reduce_internal.h"

#define MOST 1500

static const enum hvd_dtype types[] = {HVD_FLOAT16, HVD_BFLOAT16, HVD_FLOAT32, HVD_FLOAT64};
static const int64_t counts[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 511, 513, MOST};

#define COUNTS (sizeof(counts) / sizeof(*counts))

/* Writes numbers into an array of the type. */
static void put(enum hvd_dtype dtype, void *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        reference_set(dtype, to, i, from[i]);
}

static void fill(enum hvd_dtype dtype, void *to, uint64_t seed)
{
    double x[MOST];

    for (int i = 0; i < MOST; i++)
        x[i] = (double)(int64_t)reference_random(&seed) * 0x1p-63;
    put(dtype, to, x, MOST);
}

static bool close_to(double x, double want)
{
    return fabs(x - want) <= 1e-12 * (1 + fabs(want));
}

/* Calls run with each variant that the processor has, each type and number of elements. */
static void for_all(void (*run)(enum hvd_dtype dtype, int64_t count))
{
    for (int variant = 0; variant < HVD_REDUCE_VARIANTS; variant++) {
        if (!hvd_reduce_has_variant((enum hvd_reduce_variant)variant))
            continue;
        hvd_reduce_force_variant((enum hvd_reduce_variant)variant);
        for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
            for (size_t c = 0; c < COUNTS; c++)
                run(types[t], counts[c]);
    }
}

static void check_dots(enum hvd_dtype dtype, int64_t count)
{
    double a[MOST];
    double b[MOST];
    double dots[3];
    double ab = 0;
    double aa = 0;
    double bb = 0;

    fill(dtype, a, 1);
    fill(dtype, b, 2);
    for (int64_t i = 0; i < count; i++) {
        ab += reference_get(dtype, a, i) * reference_get(dtype, b, i);
        aa += reference_get(dtype, a, i) * reference_get(dtype, a, i);
        bb += reference_get(dtype, b, i) * reference_get(dtype, b, i);
    }
    hvd_adasum_dots(dtype, a, b, count, dots);
    assert_true(close_to(dots[0], ab));
    assert_true(close_to(dots[1], aa));
    assert_true(close_to(dots[2], bb));
}

static void dots_are_those_of_the_plain_loop(void **state)
{
    (void)state;
    for_all(check_dots);
}

static void check_same_dots(enum hvd_dtype dtype, int64_t count)
{
    enum hvd_reduce_variant variant = hvd_reduce_variant();
    double a[MOST];
    double b[MOST];
    double dots[3];
    double portable[3];

    fill(dtype, a, 3);
    fill(dtype, b, 4);
    hvd_adasum_dots(dtype, a, b, count, dots);
    hvd_reduce_force_variant(HVD_REDUCE_PORTABLE);
    hvd_adasum_dots(dtype, a, b, count, portable);
    hvd_reduce_force_variant(variant);
    assert_memory_equal(dots, portable, sizeof(dots));
}

static void all_variants_have_the_same_dots_to_the_bit(void **state)
{
    (void)state;
    for_all(check_same_dots);
}

static void check_combine(enum hvd_dtype dtype, int64_t count)
{
    double a[MOST];
    double b[MOST];
    double swapped[MOST];
    double before[MOST];
    double dots[3];
    size_t size = hvd_dtype_size((int)dtype);

    fill(dtype, a, 5);
    fill(dtype, b, 6);
    memcpy(before, a, sizeof(a));
    memcpy(swapped, b, sizeof(b));
    hvd_adasum_dots(dtype, a, b, count, dots);
    hvd_adasum_combine(dtype, a, b, count, dots);
    hvd_adasum_combine(dtype, swapped, before, count, (double[]){dots[0], dots[2], dots[1]});
    assert_memory_equal(a, swapped, (size_t)count * size);
    for (int64_t i = 0; i < count; i++) {
        double p = 1 - dots[0] / (2 * dots[1]);
        double q = 1 - dots[0] / (2 * dots[2]);
        double want = p * reference_get(dtype, before, i) + q * reference_get(dtype, b, i);
        double rounded[1];

        put(dtype, rounded, &want, 1);
        assert_true(reference_get(dtype, a, i) == reference_get(dtype, rounded, 0));
    }
    assert_memory_equal((char *)a + (size_t)count * size, (char *)before + (size_t)count * size,
                        sizeof(a) - (size_t)count * size);
}

static void vectors_are_combined_by_the_formula_in_either_order(void **state)
{
    (void)state;
    for_all(check_combine);
}

static void orthogonal_vectors_are_added_and_parallel_ones_averaged(void **state)
{
    float a[] = {3, 0, 0, 0};
    const float b[] = {0, 4, 0, 0};
    float c[] = {2, 4, -6, 8};
    const float d[] = {2, 4, -6, 8};
    double dots[3];

    (void)state;
    hvd_adasum_dots(HVD_FLOAT32, a, b, 4, dots);
    hvd_adasum_combine(HVD_FLOAT32, a, b, 4, dots);
    assert_memory_equal(a, ((float[]){3, 4, 0, 0}), sizeof(a));
    hvd_adasum_dots(HVD_FLOAT32, c, d, 4, dots);
    hvd_adasum_combine(HVD_FLOAT32, c, d, 4, dots);
    assert_memory_equal(c, d, sizeof(c));
}

static void a_vector_of_zeros_changes_nothing(void **state)
{
    double a[] = {0, 0};
    const double b[] = {1, -2};
    double tiny[] = {1e-90, 0};
    double dots[3];

    (void)state;
    hvd_adasum_dots(HVD_FLOAT64, a, b, 2, dots);
    hvd_adasum_combine(HVD_FLOAT64, a, b, 2, dots);
    assert_memory_equal(a, b, sizeof(a));
    hvd_adasum_dots(HVD_FLOAT64, tiny, b, 2, dots);
    assert_true(dots[1] > 0 && dots[1] < sqrt(DBL_MIN));
    hvd_adasum_combine(HVD_FLOAT64, tiny, b, 2, dots);
    assert_memory_equal(tiny, b, sizeof(tiny));
}

static void a_nan_or_an_overflow_shows_in_the_result(void **state)
{
    float a[] = {1, NAN};
    const float b[] = {1, 1};
    double large[] = {1e200, 1};
    const double other[] = {1e200, 1};
    double dots[3];

    (void)state;
    hvd_adasum_dots(HVD_FLOAT32, a, b, 2, dots);
    hvd_adasum_combine(HVD_FLOAT32, a, b, 2, dots);
    assert_true(isnan(a[0]) && isnan(a[1]));
    hvd_adasum_dots(HVD_FLOAT64, large, other, 2, dots);
    assert_true(isinf(dots[0]));
    hvd_adasum_combine(HVD_FLOAT64, large, other, 2, dots);
    assert_true(isnan(large[0]));
}

static void floating_types_have_an_adasum(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < HVD_DTYPES; dtype++) {
        bool want = false;

        for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
            want = want || (int)types[t] == dtype;
        assert_true(hvd_adasum_supports((enum hvd_dtype)dtype) == want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dots_are_those_of_the_plain_loop),
        cmocka_unit_test(all_variants_have_the_same_dots_to_the_bit),
        cmocka_unit_test(vectors_are_combined_by_the_formula_in_either_order),
        cmocka_unit_test(orthogonal_vectors_are_added_and_parallel_ones_averaged),
        cmocka_unit_test(a_vector_of_zeros_changes_nothing),
        cmocka_unit_test(a_nan_or_an_overflow_shows_in_the_result),
        cmocka_unit_test(floating_types_have_an_adasum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
