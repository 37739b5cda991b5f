/*
 * The kernels of the CUDA adapter against the host's arithmetic: the same bits for every type,
 * scaling, size and alignment, and no byte is written beside the pieces. As a unit test they are
 * compiled as C; tests/integration/cuda runs the same tests on a GPU.
 */
#include "tests/unit/support.h"

#include <math.h>
#include <string.h>

#include "tests/unit/worker/device/cuda/machine.h"
#include "tests/unit/worker/reduce/reference.h"
#include "worker/device/cuda/pack_table.h"
#include "worker/reduce/reduce.h"

#define MOST_PIECES 1024
#define SPARE 48 /* bytes in front of and behind what a kernel may write */
#define CANARY 0x5a

/* Tensors one behind the other in one block, with gaps, and the buffer. All pointers are the
 * host's. */
struct scene {
    struct hvd_piece pieces[MOST_PIECES];
    struct hvd_pack_list list;
    size_t width;
    char *tensors;
    size_t tensors_bytes;
    char *block; /* of the buffer */
    char *buffer;
    size_t block_bytes;
    uint64_t random;
};

/* How tensors and buffer are aligned. */
enum placement { ALIGNED, TO_THE_TYPE, TO_BYTES };

struct wish {
    enum hvd_dtype dtype;
    const int64_t *counts;
    int n;
    bool is_padded;
    enum placement placement;
    int missing; /* one piece of so many has no memory; 0: none */
    uint64_t seed;
};

static uint64_t below(struct scene *s, uint64_t limit)
{
    return reference_random(&s->random) % limit;
}

/* Bytes by which something is off a multiple of 16. */
static size_t skew(struct scene *s, enum placement placement)
{
    switch (placement) {
    case ALIGNED:
        break;
    case TO_THE_TYPE:
        return below(s, 16) / s->width * s->width;
    case TO_BYTES:
        return below(s, 16);
    }
    return 0;
}

static uint64_t buffer_bytes(const struct scene *s)
{
    struct hvd_pack_shape shape;

    assert_int_equal(hvd_pack_table_measure(&s->list, &shape, NULL), HVD_OK);
    return shape.buffer_bytes;
}

/* The block is large enough for tensors of 16 more bytes each. */
static void create(struct scene *s, const struct wish *wish)
{
    size_t at = SPARE;

    s->random = wish->seed;
    s->width = hvd_dtype_size((int)wish->dtype);
    s->list = (struct hvd_pack_list){.pieces = s->pieces,
                                     .n_pieces = wish->n,
                                     .dtype = wish->dtype,
                                     .is_padded = wish->is_padded};
    s->tensors_bytes = 2 * SPARE;
    for (int i = 0; i < wish->n; i++)
        s->tensors_bytes += (size_t)wish->counts[i] * s->width + 64;
    s->tensors = hvd_malloc(s->tensors_bytes, 1);
    assert_non_null(s->tensors);
    for (int i = 0; i < wish->n; i++) {
        const bool is_missing = wish->missing && below(s, (uint64_t)wish->missing) == 0;
        char *tensor;

        at = (at + 15) / 16 * 16 + skew(s, wish->placement);
        tensor = is_missing ? NULL : s->tensors + at;
        s->pieces[i] =
            (struct hvd_piece){.input = tensor, .output = tensor, .count = wish->counts[i]};
        at += (size_t)wish->counts[i] * s->width + below(s, 2) * 16;
    }
    assert_in_range(at, 0, s->tensors_bytes - SPARE);
    s->block_bytes = buffer_bytes(s) + 2 * SPARE;
    s->block = hvd_malloc(s->block_bytes, 1);
    assert_non_null(s->block);
    s->buffer = s->block + SPARE + skew(s, wish->placement == ALIGNED ? ALIGNED : TO_THE_TYPE);
}

static void destroy(struct scene *s)
{
    hvd_free(s->tensors);
    hvd_free(s->block);
}

/* Packs or unpacks as a device does. */
static void launch(const struct scene *s, const struct hvd_scaling *scaling, bool is_unpack)
{
    machine_run(&(struct machine_launch){
        .list = &s->list,
        .scaling = scaling,
        .is_unpack = is_unpack,
        .buffer = s->buffer,
        .regions = {{s->tensors, s->tensors_bytes}, {s->block, s->block_bytes}}});
}

/* Where each piece is in the buffer. */
static size_t next_place(const struct scene *s, size_t end)
{
    return s->list.is_padded ? (end + 15) / 16 * 16 : end;
}

/* What the host makes of one piece, whose elements are aligned here. */
static void by_host(const struct scene *s, int64_t count, const char *from, char *to,
                    const struct hvd_scaling *scaling, bool is_unpack)
{
    const size_t bytes = (size_t)count * s->width;
    char *data = hvd_calloc(bytes, 1);

    assert_non_null(data);
    if (from)
        memcpy(data, from, bytes);
    if (from && scaling && is_unpack)
        hvd_reduce_finish(s->list.dtype, scaling, data, count);
    else if (from && scaling)
        hvd_reduce_prescale(s->list.dtype, scaling, data, data, count);
    memcpy(to, data, bytes);
    hvd_free(data);
}

static void same(const char *got, const char *want, size_t bytes, const struct wish *wish,
                 const char *what)
{
    if (memcmp(got, want, bytes) == 0)
        return;
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != want[i])
            fail_msg("%s, %s, seed %d: byte %d of %d is %#x, not %#x", what,
                     hvd_dtype_name((int)wish->dtype), (int)wish->seed, (int)i, (int)bytes,
                     (unsigned char)got[i], (unsigned char)want[i]);
}

static void check_pack(struct scene *s, const struct wish *wish, const struct hvd_scaling *scaling)
{
    char *want = hvd_malloc(s->block_bytes, 1);
    size_t at = 0;

    assert_non_null(want);
    reference_fill(HVD_UINT8, s->tensors, (int64_t)s->tensors_bytes, wish->seed);
    memset(s->block, CANARY, s->block_bytes);
    memset(want, CANARY, s->block_bytes);
    for (int i = 0; i < wish->n; i++) {
        struct hvd_piece *p = &s->pieces[i];
        if (p->count == 0)
            continue;
        if (p->input && (uintptr_t)p->input % s->width == 0)
            reference_fill(wish->dtype, p->output, p->count, wish->seed + (uint64_t)i);
        at = next_place(s, at);
        by_host(s, p->count, p->input, want + (s->buffer - s->block) + at, scaling, false);
        at += (size_t)p->count * s->width;
    }
    launch(s, scaling, false);
    same(s->block, want, s->block_bytes, wish, "pack");
    hvd_free(want);
}

static void check_unpack(struct scene *s, const struct wish *wish,
                         const struct hvd_scaling *scaling)
{
    char *want = hvd_malloc(s->tensors_bytes, 1);
    size_t at = 0;

    assert_non_null(want);
    memset(s->tensors, CANARY, s->tensors_bytes);
    memset(want, CANARY, s->tensors_bytes);
    reference_fill(HVD_UINT8, s->block, (int64_t)s->block_bytes, wish->seed);
    if (buffer_bytes(s) > 0)
        reference_fill(wish->dtype, s->buffer, (int64_t)(buffer_bytes(s) / s->width), wish->seed);
    for (int i = 0; i < wish->n; i++) {
        const struct hvd_piece *p = &s->pieces[i];
        if (p->count == 0)
            continue;
        at = next_place(s, at);
        if (p->output)
            by_host(s, p->count, s->buffer + at, want + ((char *)p->output - s->tensors), scaling,
                    true);
        at += (size_t)p->count * s->width;
    }
    launch(s, scaling, true);
    same(s->tensors, want, s->tensors_bytes, wish, "unpack");
    hvd_free(want);
}

static void check(const struct wish *wish, const struct hvd_scaling *scaling)
{
    static struct scene s;

    create(&s, wish);
    check_pack(&s, wish, scaling);
    check_unpack(&s, wish, scaling);
    destroy(&s);
}

static const struct hvd_scaling scalings[] = {
    {1, 1, 1},       {2.5, 1, 3}, {-0.1, 0.3, 4},       {1e300, -1e300, 7}, {0, 1, 1024},
    {1e-40, 1, 300}, {NAN, 2, 2}, {INFINITY, NAN, 1},   {1, 1, 2147483647}, {0.5, 1e-6, 1},
    {1.0 / 3, 1, 2}, {-1, -1, 1}, {1 + 0x1p-40, 1.5, 3}};

#define SCALINGS (sizeof(scalings) / sizeof(*scalings))

static void every_type_scaling_and_alignment_is_the_hosts(void **state)
{
    int64_t counts[24];

    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        const enum hvd_dtype dtype = (enum hvd_dtype)(seed % HVD_DTYPES);
        const uint64_t variant = seed / HVD_DTYPES;
        struct wish wish = {.dtype = dtype,
                            .counts = counts,
                            .n = (int)(seed % 24) + 1,
                            .is_padded = variant % 2 == 0,
                            .placement = (enum placement)(variant % 3),
                            .missing = variant % 5 == 4 ? 3 : 0,
                            .seed = seed};
        uint64_t random = seed;

        for (int i = 0; i < wish.n; i++)
            counts[i] = (int64_t)(reference_random(&random) % (variant % 4 == 3 ? 4096 : 40));
        check(&wish, NULL);
        for (size_t k = 0; k < SCALINGS; k++)
            check(&wish, &scalings[k]);
    }
}

static void sizes_next_to_words_and_tiles(void **state)
{
    static const int64_t sizes[] = {0,    1,    2,    7,    8,    9,     15,    16,   17,
                                    31,   32,   33,   511,  512,  513,   4080,  4095, 4096,
                                    4097, 4112, 8191, 8192, 8193, 32767, 32768, 32769};

    (void)state;
    for (int dtype = 0; dtype < HVD_DTYPES; dtype++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
            for (int placement = 0; placement <= TO_BYTES; placement++) {
                const int64_t width = (int64_t)hvd_dtype_size(dtype);
                const int64_t counts[] = {sizes[i] / width, 1, sizes[i] / width, sizes[i]};
                const struct wish wish = {.dtype = (enum hvd_dtype)dtype,
                                          .counts = counts,
                                          .n = i % 2 ? 4 : 1,
                                          .is_padded = i % 3 == 0,
                                          .placement = (enum placement)placement,
                                          .seed = i + 1};

                check(&wish, NULL);
                check(&wish, &scalings[1]);
            }
}

static void seven_hundred_tensors_with_one_of_8_mib(void **state)
{
    static int64_t counts[700];
    static const enum hvd_dtype dtypes[] = {HVD_FLOAT32, HVD_BFLOAT16, HVD_UINT8};
    uint64_t random = 9;

    (void)state;
    for (int k = 0; k < 3; k++) {
        const struct wish wish = {.dtype = dtypes[k],
                                  .counts = counts,
                                  .n = 700,
                                  .is_padded = k != 1,
                                  .placement = k == 0 ? ALIGNED : TO_THE_TYPE,
                                  .missing = 50,
                                  .seed = 700 + (uint64_t)k};

        for (int i = 0; i < 700; i++)
            counts[i] = (int64_t)(reference_random(&random) % 2000);
        counts[400] = (8 << 20) / (int64_t)hvd_dtype_size((int)dtypes[k]);
        check(&wish, NULL);
        check(&wish, &scalings[1]);
    }
}

static void a_thousand_tensors_of_4_kib_and_of_one_element(void **state)
{
    static int64_t counts[1024];
    static const int64_t each[] = {1024, 1};

    (void)state;
    for (int k = 0; k < 2; k++)
        for (int padded = 0; padded < 2; padded++) {
            const struct wish wish = {.dtype = HVD_FLOAT32,
                                      .counts = counts,
                                      .n = 1024,
                                      .is_padded = padded != 0,
                                      .seed = 3};

            for (int i = 0; i < 1024; i++)
                counts[i] = each[k];
            check(&wish, NULL);
            check(&wish, &scalings[2]);
        }
}

/* A scene of one tensor and a buffer in memory of the caller. */
static struct scene scene_of(enum hvd_dtype dtype, void *tensor, void *buffer, int64_t count)
{
    struct scene s = {.tensors = tensor, .block = buffer, .buffer = buffer};

    s.pieces[0] = (struct hvd_piece){.input = tensor, .output = tensor, .count = count};
    s.list = (struct hvd_pack_list){.n_pieces = 1, .dtype = dtype};
    s.tensors_bytes = (size_t)count * hvd_dtype_size((int)dtype);
    s.block_bytes = tensor == buffer ? 0 : s.tensors_bytes;
    return s;
}

/* Every float16 and bfloat16, NaNs of any payload included. */
static void every_half_is_scaled_like_by_the_host(void **state)
{
    static const enum hvd_dtype dtypes[] = {HVD_FLOAT16, HVD_BFLOAT16};
    static uint16_t all[65536];
    static uint16_t got[65536];
    static uint16_t want[65536];

    (void)state;
    for (unsigned i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t k = 0; k < 2 * SCALINGS; k++) {
        struct scene s = scene_of(dtypes[k % 2], all, got, 65536);

        s.list.pieces = s.pieces;
        launch(&s, &scalings[k / 2], false);
        hvd_reduce_prescale(dtypes[k % 2], &scalings[k / 2], want, all, 65536);
        assert_memory_equal(got, want, sizeof(got));
    }
}

static void a_tensor_is_scaled_in_place(void **state)
{
    static float data[5000];
    static float want[5000];

    (void)state;
    for (size_t off = 0; off < 4; off++) {
        struct scene s = scene_of(HVD_FLOAT32, data + off, data + off, 4990);

        s.list.pieces = s.pieces;
        reference_fill(HVD_FLOAT32, data, 5000, off + 1);
        memcpy(want, data, sizeof(want));
        hvd_reduce_prescale(HVD_FLOAT32, &scalings[1], want + off, want + off, 4990);
        launch(&s, &scalings[1], false);
        assert_memory_equal(data, want, sizeof(want));
    }
}

/* Tensors and table entries in blocks of their own: AddressSanitizer sees an access beside them. */
static void nothing_is_read_beside_a_tensor(void **state)
{
    static struct scene s;

    (void)state;
    if (!machine_is_host())
        skip();
    for (uint64_t seed = 1; seed <= 2 * HVD_DTYPES; seed++) {
        const enum hvd_dtype dtype = (enum hvd_dtype)(seed % HVD_DTYPES);
        struct hvd_pack_shape shape;

        s.random = seed;
        s.width = hvd_dtype_size((int)dtype);
        s.list = (struct hvd_pack_list){
            .pieces = s.pieces, .n_pieces = 30, .dtype = dtype, .is_padded = seed % 3 == 0};
        for (int i = 0; i < 30; i++) {
            const int64_t count = (int64_t)below(&s, 3000) + 1;
            char *tensor = hvd_calloc((size_t)count, s.width);

            assert_non_null(tensor);
            s.pieces[i] = (struct hvd_piece){.input = tensor, .output = tensor, .count = count};
        }
        assert_int_equal(hvd_pack_table_measure(&s.list, &shape, NULL), HVD_OK);
        s.buffer = hvd_calloc(shape.buffer_bytes, 1);
        assert_non_null(s.buffer);
        for (int is_unpack = 0; is_unpack < 2; is_unpack++) {
            launch(&s, NULL, is_unpack != 0);
            launch(&s, &scalings[1], is_unpack != 0);
        }
        hvd_free(s.buffer);
        for (int i = 0; i < 30; i++)
            hvd_free(s.pieces[i].output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_scaling_and_alignment_is_the_hosts),
        cmocka_unit_test(sizes_next_to_words_and_tiles),
        cmocka_unit_test(seven_hundred_tensors_with_one_of_8_mib),
        cmocka_unit_test(a_thousand_tensors_of_4_kib_and_of_one_element),
        cmocka_unit_test(every_half_is_scaled_like_by_the_host),
        cmocka_unit_test(a_tensor_is_scaled_in_place),
        cmocka_unit_test(nothing_is_read_beside_a_tensor),
    };
    const char *missing = machine_missing();

    if (missing) {
        print_message("nothing to run kernels on: %s\n", missing);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
