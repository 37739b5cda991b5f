#include "tests/unit/support.h"

#include <math.h>
#include <string.h>

#include "tests/unit/worker/reduce/reference.h"
#include "worker/reduce/reduce_internal.h"

#define MOST 1000
#define SPARE 8
#define BYTES ((MOST + SPARE) * 8)

static const int64_t counts[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, MOST};
static const double factors[] = {1, 2, 0.25, 0.5, 1.0 / 3, -1.5, 1e10, 1e300, 0, -1e-40, 4.1e-44};
static const int divisors[] = {1, 2, 3, 4, 7, 300, 1024, 65536, 70000, 16777217, 2147483647};

#define COUNTS (sizeof(counts) / sizeof(*counts))
#define FACTORS (sizeof(factors) / sizeof(*factors))
#define DIVISORS (sizeof(divisors) / sizeof(*divisors))

static char in[BYTES];
static char got[BYTES];
static char want[BYTES];

static void check(enum hvd_dtype dtype, int64_t count, double factor, int divisor)
{
    size_t size = hvd_dtype_size((int)dtype);

    for (int64_t i = 0; i < count; i++)
        reference_scale(dtype, want + (size_t)i * size, factor, divisor);
    for (size_t at = 0; at < BYTES; at += size)
        if (memcmp(got + at, want + at, size) != 0)
            fail_msg("variant %d, %s * %g / %d, %d elements: element %d is wrong",
                     (int)hvd_reduce_variant(), hvd_dtype_name((int)dtype), factor, divisor,
                     (int)count, (int)(at / size));
}

static void check_prescale(enum hvd_dtype dtype, int64_t count, double factor)
{
    struct hvd_scaling s = {.prescale = factor, .postscale = 5, .divisor = 5};
    size_t bytes = (size_t)count * hvd_dtype_size((int)dtype);

    memset(got, 0x5a, BYTES);
    memset(want, 0x5a, BYTES);
    memcpy(want, in, bytes);
    hvd_reduce_prescale(dtype, &s, got, in, count);
    if (factor == 1)
        assert_memory_equal(got, want, BYTES);
    else
        check(dtype, count, factor, 1);
    memcpy(got, in, BYTES); /* once more in place */
    memcpy(want + bytes, in + bytes, BYTES - bytes);
    hvd_reduce_prescale(dtype, &s, got, got, count);
    assert_memory_equal(got, want, BYTES);
}

static void check_finish(enum hvd_dtype dtype, int64_t count, double factor, int divisor)
{
    struct hvd_scaling s = {.prescale = 5, .postscale = factor, .divisor = divisor};

    memcpy(got, in, BYTES);
    memcpy(want, in, BYTES);
    hvd_reduce_finish(dtype, &s, got, count);
    if (factor == 1 && divisor == 1)
        assert_memory_equal(got, want, BYTES);
    else
        check(dtype, count, factor, divisor);
}

/* Calls run for each variant that the processor has, type and number of elements. */
static void for_all(void (*run)(enum hvd_dtype dtype, int64_t count))
{
    for (int variant = 0; variant < HVD_REDUCE_VARIANTS; variant++) {
        if (!hvd_reduce_has_variant((enum hvd_reduce_variant)variant))
            continue;
        hvd_reduce_force_variant((enum hvd_reduce_variant)variant);
        for (int dtype = 0; dtype < HVD_DTYPES; dtype++)
            for (size_t c = 0; c < COUNTS; c++) {
                reference_fill((enum hvd_dtype)dtype, in, BYTES / (int64_t)hvd_dtype_size(dtype),
                               c);
                run((enum hvd_dtype)dtype, counts[c]);
            }
    }
}

static void prescale_all_factors(enum hvd_dtype dtype, int64_t count)
{
    for (size_t f = 0; f < FACTORS; f++)
        check_prescale(dtype, count, factors[f]);
}

static void every_type_is_scaled_before(void **state)
{
    (void)state;
    for_all(prescale_all_factors);
}

static void finish_all(enum hvd_dtype dtype, int64_t count)
{
    for (size_t f = 0; f < FACTORS; f++)
        check_finish(dtype, count, factors[f], divisors[f % 3]);
    for (size_t d = 0; d < DIVISORS; d++)
        check_finish(dtype, count, 1, divisors[d]);
}

static void every_type_is_scaled_and_divided_after(void **state)
{
    (void)state;
    for_all(finish_all);
}

static void divide(enum hvd_dtype dtype, void *data, int64_t count, int divisor)
{
    struct hvd_scaling s = {.prescale = 1, .postscale = 1, .divisor = divisor};

    hvd_reduce_finish(dtype, &s, data, count);
}

static void every_small_integer_is_divided_exactly_by_many_divisors(void **state)
{
    static int16_t signed_values[65536];
    static uint16_t unsigned_values[65536];

    (void)state;
    for (int divisor = 1; divisor < 70000; divisor += 1 + divisor / 7) {
        for (int i = 0; i < 65536; i++) {
            signed_values[i] = (int16_t)(i - 32768);
            unsigned_values[i] = (uint16_t)i;
        }
        divide(HVD_INT16, signed_values, 65536, divisor);
        divide(HVD_UINT16, unsigned_values, 65536, divisor);
        for (int i = 0; i < 65536; i++) {
            if (signed_values[i] != (i - 32768) / divisor || unsigned_values[i] != i / divisor)
                fail_msg("%d or %d / %d is wrong", i - 32768, i, divisor);
        }
    }
}

static void integers_next_to_a_multiple_are_divided_exactly(void **state)
{
    (void)state;
    for (int divisor = 1; divisor > 0 && divisor < INT32_MAX / 2; divisor += 1 + divisor / 3) {
        int32_t multiple = INT32_MAX / divisor * divisor;
        int32_t values[] = {multiple, multiple - 1, -multiple, -(multiple - 1), INT32_MIN};
        uint32_t large[] = {UINT32_MAX / (uint32_t)divisor * (uint32_t)divisor, 0, UINT32_MAX};
        uint32_t quotient = UINT32_MAX / (uint32_t)divisor;

        large[1] = large[0] - 1;
        divide(HVD_INT32, values, 5, divisor);
        assert_int_equal(values[0], multiple / divisor);
        assert_int_equal(values[1], (multiple - 1) / divisor);
        assert_int_equal(values[2], -(multiple / divisor));
        assert_int_equal(values[3], -((multiple - 1) / divisor));
        assert_int_equal(values[4], INT32_MIN / divisor);
        divide(HVD_UINT32, large, 3, divisor);
        assert_int_equal(large[0], quotient);
        assert_int_equal(large[1], quotient - 1);
        assert_int_equal(large[2], quotient);
    }
}

static void integers_that_do_not_fit_become_the_limit(void **state)
{
    struct hvd_scaling s = {.prescale = 1e30, .postscale = 1, .divisor = 1};
    int64_t a[] = {1, -1, 0};
    uint64_t b[] = {1, 0};
    int8_t c[] = {100, -100, 85};

    (void)state;
    hvd_reduce_prescale(HVD_INT64, &s, a, a, 3);
    assert_true(a[0] == INT64_MAX && a[1] == INT64_MIN && a[2] == 0);
    hvd_reduce_prescale(HVD_UINT64, &s, b, b, 2);
    assert_true(b[0] == UINT64_MAX && b[1] == 0);
    s.prescale = 1.5;
    hvd_reduce_prescale(HVD_INT8, &s, c, c, 3);
    assert_true(c[0] == INT8_MAX && c[1] == INT8_MIN && c[2] == 127);
    s.prescale = (double)INFINITY;
    a[0] = 1;
    hvd_reduce_prescale(HVD_INT64, &s, a, a, 3);
    assert_true(a[0] == INT64_MAX && a[1] == INT64_MIN && a[2] == 0);
}

/* A float that is not the nearest to a third, and a sum that a third as double would round up. */
static void a_factor_is_rounded_to_the_type_before_it_multiplies(void **state)
{
    struct hvd_scaling third = {.prescale = 1.0 / 3, .postscale = 1, .divisor = 3};
    struct hvd_scaling undone = {.prescale = 1, .postscale = 3, .divisor = 3};
    float before[] = {7, 17};
    float after[] = {7, 17};
    int8_t whole[] = {100, -100};

    (void)state;
    hvd_reduce_prescale(HVD_FLOAT32, &third, before, before, 2);
    hvd_reduce_finish(HVD_FLOAT32, &third, after, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(before[i] == (i ? 17.0F : 7.0F) * (float)(1.0 / 3));
        assert_true(before[i] != (i ? 17.0F : 7.0F) / 3.0F);
        assert_true(after[i] == before[i]);
    }
    hvd_reduce_finish(HVD_INT8, &undone, whole, 2); /* no step in between that does not fit */
    assert_true(whole[0] == 100 && whole[1] == -100);
}

static void identity_is_recognised(void **state)
{
    struct hvd_scaling s = {.prescale = 1, .postscale = 1, .divisor = 1};

    (void)state;
    assert_true(hvd_scale_is_identity(&s));
    s.divisor = 2;
    assert_false(hvd_scale_is_identity(&s));
    s = (struct hvd_scaling){.prescale = 0.5, .postscale = 1, .divisor = 1};
    assert_false(hvd_scale_is_identity(&s));
    s = (struct hvd_scaling){.prescale = 1, .postscale = 0.5, .divisor = 1};
    assert_false(hvd_scale_is_identity(&s));
}

/* What hvd_reduce_run has to give, stage by stage over the whole buffers. */
static void run_by_hand(const struct hvd_reduce_pass *p, void *out)
{
    static char a[BYTES];
    static char b[BYTES];
    size_t bytes = (size_t)p->count * hvd_dtype_size((int)p->dtype);

    memcpy(a, p->a, bytes);
    if (p->prescale_a)
        hvd_reduce_prescale(p->dtype, p->scaling, a, a, p->count);
    if (p->b) {
        memcpy(b, p->b, bytes);
        if (p->prescale_b)
            hvd_reduce_prescale(p->dtype, p->scaling, b, b, p->count);
        hvd_reduce_combine(p->dtype, p->op, a, b, p->count);
    }
    if (p->finish)
        hvd_reduce_finish(p->dtype, p->scaling, a, p->count);
    memcpy(out, a, bytes);
}

/* flags: which parts of a pass are asked for. */
static void check_pass(enum hvd_dtype dtype, int64_t count, struct hvd_scaling scaling,
                       unsigned flags)
{
    static _Alignas(64) char out[BYTES];
    static _Alignas(64) char second[BYTES];
    static char other[BYTES];
    static char next[BYTES];
    static _Alignas(64) char moved[BYTES];
    size_t start = (size_t)(count % 5) * hvd_dtype_size((int)dtype);
    size_t size = (size_t)count * hvd_dtype_size((int)dtype);
    struct hvd_reduce_pass p = {
        .dtype = dtype,
        .op = flags & 128 ? HVD_MAX : HVD_AVERAGE,
        .a = in + start,
        .b = flags & 1 ? other + start : NULL,
        .out = flags & 64 ? in + start : out + start,
        .second = flags & 2 ? second + start : NULL,
        .count = count,
        .scaling = flags & 60 ? &scaling : NULL,
        .prescale_a = flags & 4,
        .prescale_b = flags & 8,
        .finish = flags & 16,
        .stream = flags & 32,
        .next = flags & 256 ? next + start : NULL,
        .next_to = flags & 256 ? moved + start : NULL,
        .next_streams = flags & 512,
    };

    reference_fill(dtype, in, count + SPARE, flags);
    reference_fill(dtype, other, count + SPARE, 12345);
    for (size_t i = 0; i < BYTES && flags & 256; i++)
        next[i] = (char)(i * 7 + flags);
    memset(moved, 0x5a, BYTES);
    memset(out, 0x5a, BYTES);
    memset(second, 0x5a, BYTES);
    memset(want, 0x5a, BYTES);
    run_by_hand(&p, want + start);
    hvd_reduce_run(&p);
    p.is_open = true; /* twice gives the same */
    if (p.next_streams && p.out != p.a)
        hvd_reduce_run(&p);
    hvd_reduce_stream_end();
    if (flags & 64)
        assert_memory_equal(in + start, want + start, (size_t)count * hvd_dtype_size((int)dtype));
    else
        assert_memory_equal(out, want, BYTES);
    if (flags & 2)
        assert_memory_equal(second, want, BYTES);
    if (flags & 256)
        assert_memory_equal(moved + start, next + start, size);
    assert_int_equal(moved[start + (flags & 256 ? size : 0)], 0x5a);
    assert_true(start == 0 || moved[start - 1] == 0x5a);
}

static void pass_with_all_parts(enum hvd_dtype dtype, int64_t count)
{
    static const struct hvd_scaling scalings[] = {
        {.prescale = 0.75, .postscale = 3, .divisor = 3},
        {.prescale = 1, .postscale = 1, .divisor = 4},
        {.prescale = 1, .postscale = 0.3, .divisor = 1},
        {.prescale = 1, .postscale = 0.5, .divisor = 1},
    };

    if (count == 3 || count == 33 || count == MOST)
        for (unsigned s = 0; s < 4; s++)
            for (unsigned flags = 0; flags < (s == 1 && count != 3 ? 1024 : 256); flags++)
                check_pass(dtype, count, scalings[s], flags);
}

static void a_pass_is_its_stages_one_after_the_other(void **state)
{
    (void)state;
    for_all(pass_with_all_parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_scaled_before),
        cmocka_unit_test(every_type_is_scaled_and_divided_after),
        cmocka_unit_test(every_small_integer_is_divided_exactly_by_many_divisors),
        cmocka_unit_test(integers_next_to_a_multiple_are_divided_exactly),
        cmocka_unit_test(integers_that_do_not_fit_become_the_limit),
        cmocka_unit_test(a_factor_is_rounded_to_the_type_before_it_multiplies),
        cmocka_unit_test(identity_is_recognised),
        cmocka_unit_test(a_pass_is_its_stages_one_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
