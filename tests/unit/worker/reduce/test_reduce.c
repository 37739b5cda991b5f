#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/reduce/reference.h"
#include "worker/reduce/reduce_internal.h"

#define MOST 1000
#define SPARE 8 /* elements before and behind, that nobody may touch */
#define BYTES ((MOST + 2 * SPARE) * 8)

static const int64_t counts[] = {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 600, MOST};
static const enum hvd_reduce ops[] = {HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT};

#define COUNTS (sizeof(counts) / sizeof(*counts))

/* One combination of everything, and its buffers. */
struct sample {
    enum hvd_dtype dtype;
    enum hvd_reduce op;
    int64_t count;
    size_t size;
    size_t start; /* byte of the first element */
    _Alignas(64) char a[BYTES];
    _Alignas(64) char b[BYTES];
    _Alignas(64) char out[BYTES];
    _Alignas(64) char second[BYTES];
    _Alignas(64) char want[BYTES];
};

static void prepare(struct sample *s, enum hvd_dtype dtype, enum hvd_reduce op, int64_t count,
                    int offset)
{
    s->dtype = dtype;
    s->op = op;
    s->count = count;
    s->size = hvd_dtype_size((int)dtype);
    s->start = (size_t)(SPARE / 2 + offset) * s->size;
    reference_fill(dtype, s->a, MOST + 2 * SPARE, (uint64_t)offset);
    reference_fill(dtype, s->b, MOST + 2 * SPARE, 77);
    memset(s->out, 0x5a, BYTES);
    memset(s->second, 0x5a, BYTES);
    memset(s->want, 0x5a, BYTES);
    for (int64_t i = 0; i < count; i++) {
        size_t at = s->start + (size_t)i * s->size;

        reference_combine(dtype, op, s->want + at, s->a + at, s->b + at);
    }
}

/* got, and everything around it, is as wanted. around is what was there before. */
static void check(const struct sample *s, const char *got, const char *around, const char *what)
{
    size_t end = s->start + (size_t)s->count * s->size;

    for (size_t at = s->start; at < end; at += s->size) {
        if (memcmp(got + at, s->want + at, s->size) != 0)
            fail_msg("%s: variant %d, %s %s, %d elements: element %d is wrong", what,
                     (int)hvd_reduce_variant(), hvd_dtype_name((int)s->dtype),
                     hvd_reduce_name((int)s->op), (int)s->count, (int)((at - s->start) / s->size));
    }
    if (memcmp(got, around, s->start) != 0 || memcmp(got + end, around + end, BYTES - end) != 0)
        fail_msg("%s: variant %d, %s %s, %d elements: wrote outside", what,
                 (int)hvd_reduce_variant(), hvd_dtype_name((int)s->dtype),
                 hvd_reduce_name((int)s->op), (int)s->count);
}

typedef void (*way_fn)(struct sample *s);

static void into_itself(struct sample *s)
{
    static char before[BYTES];

    memcpy(before, s->a, BYTES);
    hvd_reduce_combine(s->dtype, s->op, s->a + s->start, s->b + s->start, s->count);
    check(s, s->a, before, "combine");
}

static void into_another(struct sample *s)
{
    static char before[BYTES];

    hvd_reduce_combine_into(s->dtype, s->op, s->out + s->start, s->a + s->start, s->b + s->start,
                            s->count);
    check(s, s->out, s->second, "combine_into");
    memcpy(before, s->b, BYTES);
    hvd_reduce_combine_into(s->dtype, s->op, s->b + s->start, s->a + s->start, s->b + s->start,
                            s->count);
    check(s, s->b, before, "combine_into b");
}

static void into_a_stream(struct sample *s)
{
    hvd_reduce_combine_into_stream(s->dtype, s->op, s->out + s->start, s->a + s->start,
                                   s->b + s->start, s->count);
    check(s, s->out, s->second, "combine_into_stream");
}

static void into_two(struct sample *s)
{
    static char around[BYTES];

    memset(around, 0x5a, BYTES);
    hvd_reduce_combine_into2(s->dtype, s->op,
                             (void *const[2]){s->out + s->start, s->second + s->start},
                             s->a + s->start, s->b + s->start, s->count);
    check(s, s->out, around, "combine_into2, first");
    check(s, s->second, around, "combine_into2, second");
}

static void into_two_one_a_stream(struct sample *s)
{
    static char around[BYTES];

    memset(around, 0x5a, BYTES);
    hvd_reduce_combine_into2_stream(s->dtype, s->op,
                                    (void *const[2]){s->out + s->start, s->second + s->start},
                                    s->a + s->start, s->b + s->start, s->count);
    check(s, s->out, around, "combine_into2_stream, first");
    check(s, s->second, around, "combine_into2_stream, second");
}

static void for_all(way_fn way)
{
    static struct sample s;

    for (int variant = 0; variant < HVD_REDUCE_VARIANTS; variant++) {
        if (!hvd_reduce_has_variant((enum hvd_reduce_variant)variant))
            continue;
        hvd_reduce_force_variant((enum hvd_reduce_variant)variant);
        for (int dtype = 0; dtype < HVD_DTYPES; dtype++)
            for (size_t o = 0; o < 4; o++)
                for (size_t c = 0; c < COUNTS; c++) {
                    prepare(&s, (enum hvd_dtype)dtype, ops[o], counts[c], (int)c % 4);
                    way(&s);
                }
    }
}

static void every_type_is_reduced_in_place(void **state)
{
    (void)state;
    for_all(into_itself);
}

static void every_type_is_reduced_into_another_buffer(void **state)
{
    (void)state;
    for_all(into_another);
}

static void every_type_is_reduced_past_the_caches(void **state)
{
    (void)state;
    for_all(into_a_stream);
}

static void every_type_is_reduced_into_two_buffers(void **state)
{
    (void)state;
    for_all(into_two);
}

static void every_type_is_reduced_into_two_buffers_one_past_the_caches(void **state)
{
    (void)state;
    for_all(into_two_one_a_stream);
}

static void integers_wrap_around(void **state)
{
    int32_t a[] = {INT32_MAX, INT32_MIN, 65537};
    const int32_t b[] = {1, -1, 65537};
    uint16_t c = 0xffff;
    uint8_t d = 200;

    (void)state;
    hvd_reduce_combine(HVD_INT32, HVD_SUM, a, b, 2);
    assert_int_equal(a[0], INT32_MIN);
    assert_int_equal(a[1], INT32_MAX);
    hvd_reduce_combine(HVD_INT32, HVD_PRODUCT, a + 2, b + 2, 1);
    assert_int_equal(a[2], 131073); /* 2^32 + 131073 */
    hvd_reduce_combine(HVD_UINT16, HVD_PRODUCT, &c, &c, 1);
    assert_int_equal(c, 1);
    hvd_reduce_combine(HVD_UINT8, HVD_SUM, &d, &d, 1);
    assert_int_equal(d, 144);
}

static void truth_is_or_and_and(void **state)
{
    const uint8_t a[] = {0, 0, 2, 255};
    const uint8_t b[] = {0, 4, 0, 1};
    uint8_t got[4];

    (void)state;
    hvd_reduce_combine_into(HVD_BOOL, HVD_SUM, got, a, b, 4);
    assert_memory_equal(got, ((uint8_t[]){0, 1, 1, 1}), 4);
    hvd_reduce_combine_into(HVD_BOOL, HVD_MAX, got, a, b, 4);
    assert_memory_equal(got, ((uint8_t[]){0, 1, 1, 1}), 4);
    hvd_reduce_combine_into(HVD_BOOL, HVD_PRODUCT, got, a, b, 4);
    assert_memory_equal(got, ((uint8_t[]){0, 0, 0, 1}), 4);
    hvd_reduce_combine_into(HVD_BOOL, HVD_MIN, got, a, b, 4);
    assert_memory_equal(got, ((uint8_t[]){0, 0, 0, 1}), 4);
}

static void an_average_is_added_up(void **state)
{
    float a = 3;
    const float b = 4;

    (void)state;
    hvd_reduce_combine(HVD_FLOAT32, HVD_AVERAGE, &a, &b, 1);
    assert_true(a == 7);
}

static void a_large_copy_past_the_caches_is_exact(void **state)
{
    static char in[5000];
    static char out[5100];

    (void)state;
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (char)(i * 7);
    for (size_t offset = 0; offset < 70; offset += 3)
        for (size_t size = 0; size < sizeof(in) - 70; size += 1 + size / 2) {
            memset(out, 0x5a, sizeof(out));
            hvd_reduce_copy_stream(out + offset, in + offset / 2, size);
            assert_memory_equal(out + offset, in + offset / 2, size);
            assert_int_equal(out[offset + size], 0x5a);
            assert_true(offset == 0 || out[offset - 1] == 0x5a);
        }
}

static void the_best_variant_is_one_that_the_processor_has(void **state)
{
    enum hvd_reduce_variant best = hvd_reduce_variant();

    (void)state;
    assert_true(hvd_reduce_has_variant(best));
    assert_true(hvd_reduce_has_variant(HVD_REDUCE_PORTABLE));
    for (int better = (int)best + 1; better < HVD_REDUCE_VARIANTS; better++)
        assert_false(hvd_reduce_has_variant((enum hvd_reduce_variant)better));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            the_best_variant_is_one_that_the_processor_has), /* first: none is forced */
        cmocka_unit_test(every_type_is_reduced_in_place),
        cmocka_unit_test(every_type_is_reduced_into_another_buffer),
        cmocka_unit_test(every_type_is_reduced_past_the_caches),
        cmocka_unit_test(every_type_is_reduced_into_two_buffers),
        cmocka_unit_test(every_type_is_reduced_into_two_buffers_one_past_the_caches),
        cmocka_unit_test(integers_wrap_around),
        cmocka_unit_test(truth_is_or_and_and),
        cmocka_unit_test(an_average_is_added_up),
        cmocka_unit_test(a_large_copy_past_the_caches_is_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
