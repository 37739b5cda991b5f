#include "tests/unit/support.h"

#include <math.h>
#include <string.h>

#include "tests/unit/worker/reduce/reference.h"
#include "worker/reduce/reduce_internal.h"

#define VALUES 65536

static uint16_t all[VALUES];
static uint16_t back[VALUES];
static float wide[VALUES];

/* Runs a check for float16 and bfloat16 with each variant that the processor has. */
static void for_each(void (*run)(enum hvd_dtype dtype, const struct hvd_half_kernels *kernels))
{
    for (int variant = 0; variant < HVD_REDUCE_VARIANTS; variant++) {
        if (!hvd_reduce_has_variant((enum hvd_reduce_variant)variant))
            continue;
        hvd_reduce_force_variant((enum hvd_reduce_variant)variant);
        run(HVD_FLOAT16, hvd_reduce_half(HVD_FLOAT16));
        run(HVD_BFLOAT16, hvd_reduce_half(HVD_BFLOAT16));
    }
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < VALUES; i++)
        all[i] = (uint16_t)i;
    return 0;
}

static void check_round_trip(enum hvd_dtype dtype, const struct hvd_half_kernels *kernels)
{
    uint16_t quiet = dtype == HVD_FLOAT16 ? 0x200 : 0x40;

    kernels->widen(wide, all, VALUES);
    kernels->narrow(back, wide, VALUES);
    for (int i = 0; i < VALUES; i++) {
        double want = reference_half_value(dtype, all[i]);

        if (isnan(want)) {
            assert_true(isnan(wide[i]));
            assert_int_equal(back[i], all[i] | quiet);
        } else {
            assert_true((double)wide[i] == want && !signbit(wide[i]) == !signbit(want));
            assert_int_equal(back[i], all[i]);
        }
    }
}

static void all_halves_survive_the_way_to_float_and_back(void **state)
{
    (void)state;
    for_each(check_round_trip);
}

/* Halfway between each half and the next, and the floats beside that. */
static void check_rounding(enum hvd_dtype dtype, const struct hvd_half_kernels *kernels)
{
    for (int side = -1; side <= 1; side++) {
        for (int i = 0; i < VALUES; i++) {
            float here = (float)reference_half_value(dtype, all[i]);
            float next = (float)reference_half_value(dtype, (uint16_t)(i + 1));
            float middle =
                isinf(next)
                    ? here + (here - (float)reference_half_value(dtype, (uint16_t)(i - 1))) / 2
                    : here + (next - here) / 2;

            wide[i] = side == 0 ? middle : nextafterf(middle, (float)side * INFINITY);
            wide[i] = isnan(middle) ? 0 : wide[i];
        }
        kernels->narrow(back, wide, VALUES);
        for (int i = 0; i < VALUES; i++)
            assert_int_equal(back[i], reference_half_bits(dtype, (double)wide[i]));
    }
}

static void floats_become_the_nearest_half_ties_to_even(void **state)
{
    (void)state;
    for_each(check_rounding);
}

static void check_random(enum hvd_dtype dtype, const struct hvd_half_kernels *kernels)
{
    uint64_t seed = 5;

    for (int i = 0; i < VALUES; i++) {
        uint32_t bits = (uint32_t)reference_random(&seed);

        memcpy(&wide[i], &bits, sizeof(bits));
        wide[i] = isnan(wide[i]) ? 1e-9f : wide[i];
    }
    kernels->narrow(back, wide, VALUES);
    for (int i = 0; i < VALUES; i++)
        assert_int_equal(back[i], reference_half_bits(dtype, (double)wide[i]));
}

static void any_float_becomes_the_nearest_half(void **state)
{
    (void)state;
    for_each(check_random);
}

static void overflow_is_infinite_and_nan_stays_nan(void **state)
{
    const uint16_t float16[] = {0x7bff, 0xfbff, 0x7c00, 0x7c00, 0xfe01, 0x0001};
    const uint16_t bfloat16[] = {0x7f7f, 0xff7f, 0x7f80, 0x7f80, 0xffc1, 0x0001};
    const uint16_t more16[] = {0x7bff, 0xfbff, 0x3c00, 0xfc00, 0x3c00, 0x8001};
    const uint16_t more[] = {0x7f7f, 0xff7f, 0x3f80, 0xff80, 0x3f80, 0x8001};
    uint16_t got[6];

    (void)state;
    hvd_reduce_combine_into(HVD_FLOAT16, HVD_SUM, got, float16, more16, 6);
    assert_memory_equal(got, ((uint16_t[]){0x7c00, 0xfc00, 0x7c00, 0x7e00, 0x7e00, 0}), 12);
    hvd_reduce_combine_into(HVD_BFLOAT16, HVD_SUM, got, bfloat16, more, 6);
    assert_memory_equal(got, ((uint16_t[]){0x7f80, 0xff80, 0x7f80, 0x7fc0, 0x7fc0, 0}), 12);
}

/* Every half with a few others, which the random samples do not do. */
static void check_operations(enum hvd_dtype dtype, const struct hvd_half_kernels *kernels)
{
    static const enum hvd_reduce ops[] = {HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT};
    static const uint16_t others[] = {0x0001, 0x8000, 0x3c01, 0x3f81, 0x7bff, 0xfc00, 0x7e01};
    static uint16_t other[VALUES];

    (void)kernels;
    for (size_t k = 0; k < sizeof(others) / sizeof(*others); k++)
        for (size_t o = 0; o < 4; o++) {
            for (int i = 0; i < VALUES; i++)
                other[i] = others[k];
            hvd_reduce_combine_into(dtype, ops[o], back, all, other, VALUES);
            for (int i = 0; i < VALUES; i++) {
                uint16_t want;

                reference_combine(dtype, ops[o], &want, &all[i], &others[k]);
                if (back[i] != want)
                    fail_msg("%s %s of %04x and %04x is %04x, not %04x",
                             dtype == HVD_FLOAT16 ? "float16" : "bfloat16",
                             hvd_reduce_name((int)ops[o]), all[i], others[k], back[i], want);
            }
        }
}

static void all_halves_are_combined_with_awkward_ones(void **state)
{
    (void)state;
    for_each(check_operations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_halves_survive_the_way_to_float_and_back),
        cmocka_unit_test(floats_become_the_nearest_half_ties_to_even),
        cmocka_unit_test(any_float_becomes_the_nearest_half),
        cmocka_unit_test(overflow_is_infinite_and_nan_stays_nan),
        cmocka_unit_test(all_halves_are_combined_with_awkward_ones),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
