#include "tests/unit/support.h"

#include <string.h>

#include "worker/device/cuda/pack_table.h"

#define TILE HVD_CUDA_TILE_BYTES

/* Tensors of these addresses are never accessed. */
static char memory[1 << 16];

static struct hvd_pack_shape measure(const struct hvd_pack_list *list)
{
    struct hvd_pack_shape shape = {0};

    assert_int_equal(hvd_pack_table_measure(list, &shape, NULL), HVD_OK);
    return shape;
}

static struct hvd_piece at(size_t offset, int64_t count)
{
    return (struct hvd_piece){.input = memory + offset, .output = memory + offset, .count = count};
}

static void a_table_has_each_piece_and_where_each_tile_begins(void **state)
{
    const struct hvd_piece pieces[] = {at(0, 3), at(64, 0), at(128, TILE / 4), at(8192, TILE / 2)};
    const struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 4, .dtype = HVD_FLOAT32};
    const struct hvd_pack_shape shape = measure(&list);
    const struct hvd_cuda_piece places[] = {{0, 12}, {12, TILE}, {TILE + 12, TILE * 2}};
    const uint32_t tiles[] = {0, 1, 2, 2, 2};
    _Alignas(8) char table[sizeof(places) + sizeof(tiles)];

    (void)state;
    assert_int_equal(shape.buffer_bytes, 3 * TILE + 12);
    assert_int_equal(shape.n_pieces, 3);
    assert_int_equal(shape.n_tiles, 4);
    assert_int_equal(shape.n_blocks, 1);
    assert_int_equal(shape.table_bytes, sizeof(table));
    hvd_pack_table_write(&list, &shape, table);
    assert_memory_equal(table, places, sizeof(places));
    assert_memory_equal(table + sizeof(places), tiles, sizeof(tiles));
}

static void padded_pieces_begin_at_multiples_of_16_bytes(void **state)
{
    const struct hvd_piece pieces[] = {at(0, 3), at(64, 17), at(128, TILE - 48), at(8192, 5)};
    const struct hvd_pack_list list = {
        .pieces = pieces, .n_pieces = 4, .dtype = HVD_INT8, .is_padded = true};
    const struct hvd_pack_shape shape = measure(&list);
    const struct hvd_cuda_piece places[] = {{0, 3}, {16, 17}, {48, TILE - 48}, {TILE, 5}};
    const uint32_t tiles[] = {0, 3, 3};
    _Alignas(8) char table[sizeof(places) + sizeof(tiles) + 4];

    (void)state;
    assert_int_equal(shape.buffer_bytes, TILE + 5);
    assert_int_equal(shape.n_tiles, 2);
    assert_int_equal(shape.table_bytes, sizeof(places) + sizeof(tiles));
    hvd_pack_table_write(&list, &shape, table);
    assert_memory_equal(table, places, sizeof(places));
    assert_memory_equal(table + sizeof(places), tiles, sizeof(tiles));
}

static void a_list_without_elements_needs_no_launch(void **state)
{
    const struct hvd_piece pieces[] = {at(0, 0), at(64, 0)};

    (void)state;
    for (int n = 0; n <= 2; n++) {
        const struct hvd_pack_list list = {.pieces = pieces, .n_pieces = n, .dtype = HVD_INT64};
        const struct hvd_pack_shape shape = measure(&list);
        struct hvd_piece whole;
        uint64_t none = 0;

        assert_int_equal(shape.buffer_bytes, 0);
        assert_int_equal(shape.table_bytes, 0);
        assert_int_equal(shape.n_blocks, 0);
        hvd_pack_table_write(&list, &shape, &none);
        assert_true(hvd_pack_table_fits(&list, &shape, &none));
        assert_false(hvd_pack_table_addresses(&list, false, &none));
        assert_false(hvd_pack_table_in_place(&list, &whole));
        assert_int_equal(hvd_pack_table_run(&list, 0, &whole), 0);
    }
}

static void a_block_has_eight_tiles(void **state)
{
    (void)state;
    for (int64_t tiles = 1; tiles < 40; tiles++) {
        const struct hvd_piece piece = at(0, tiles * TILE);
        const struct hvd_pack_list list = {.pieces = &piece, .n_pieces = 1};

        assert_int_equal(measure(&list).n_tiles, tiles);
        assert_int_equal(measure(&list).n_blocks, (tiles + 7) / 8);
    }
}

static void a_buffer_that_tiles_cannot_number_is_too_large(void **state)
{
    const int64_t most = (int64_t)TILE * (UINT32_MAX - 8);
    const int64_t counts[][2] = {{most + 1, 0}, {most, 1}, {INT64_MAX, 1}, {1, INT64_MAX}};
    struct hvd_pack_shape shape = {.n_tiles = 7};
    struct hvd_err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        const struct hvd_piece pieces[] = {at(0, counts[i][0]), at(64, counts[i][1])};
        const struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 2, .dtype = HVD_UINT8};

        hvd_err_clear(&err);
        assert_int_equal(hvd_pack_table_measure(&list, &shape, &err), HVD_ERR_TOO_LARGE);
        assert_string_equal(err.msg, "fused buffer of 2 tensors exceeds 17592186007552 bytes");
        assert_int_equal(shape.n_tiles, 7);
    }
    const struct hvd_piece piece = at(0, most / 8);
    const struct hvd_pack_list list = {.pieces = &piece, .n_pieces = 1, .dtype = HVD_INT64};
    assert_int_equal(measure(&list).n_tiles, UINT32_MAX - 8);
}

static void a_table_fits_lists_of_the_same_sizes_alone(void **state)
{
    struct hvd_piece pieces[] = {at(0, 3), at(64, 0), at(128, 100)};
    struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 3, .dtype = HVD_FLOAT32};
    const struct hvd_pack_shape shape = measure(&list);
    _Alignas(8) char table[2 * sizeof(struct hvd_cuda_piece) + 2 * sizeof(uint32_t)];

    (void)state;
    assert_int_equal(shape.table_bytes, sizeof(table));
    hvd_pack_table_write(&list, &shape, table);
    pieces[0].input = NULL;
    pieces[2].output = memory;
    assert_true(hvd_pack_table_fits(&list, &shape, table));
    list.is_padded = true;
    assert_false(hvd_pack_table_fits(&list, &shape, table));
    list.is_padded = false;
    list.dtype = HVD_INT32;
    assert_true(hvd_pack_table_fits(&list, &shape, table));
    list.dtype = HVD_FLOAT64;
    assert_false(hvd_pack_table_fits(&list, &shape, table));
    list.dtype = HVD_FLOAT32;
    pieces[1].count = 1;
    assert_false(hvd_pack_table_fits(&list, &shape, table));
    pieces[1].count = 0;
    list.n_pieces = 2;
    assert_false(hvd_pack_table_fits(&list, &shape, table));
    list.n_pieces = 3;
    pieces[2].count = 99;
    assert_false(hvd_pack_table_fits(&list, &shape, table));
}

static void addresses_report_whether_they_changed(void **state)
{
    struct hvd_piece pieces[] = {
        at(0, 3), at(64, 0), {.input = NULL, .output = memory, .count = 1}};
    const struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 3, .dtype = HVD_FLOAT32};
    uint64_t addresses[3] = {1, 1, 77};

    (void)state;
    assert_true(hvd_pack_table_addresses(&list, false, addresses));
    assert_int_equal(addresses[0], (uintptr_t)memory);
    assert_int_equal(addresses[1], 0);
    assert_int_equal(addresses[2], 77);
    assert_false(hvd_pack_table_addresses(&list, false, addresses));
    assert_true(hvd_pack_table_addresses(&list, true, addresses));
    assert_int_equal(addresses[1], (uintptr_t)memory);
    pieces[1].output = NULL; /* empty pieces take no part */
    assert_false(hvd_pack_table_addresses(&list, true, addresses));
    pieces[0].output = memory + 4;
    assert_true(hvd_pack_table_addresses(&list, true, addresses));
}

static void pieces_behind_each_other_need_no_packing(void **state)
{
    struct hvd_piece pieces[] = {at(0, 0), at(0, 3), at(640, 0), at(12, 5), at(32, 8), at(0, 0)};
    struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 6, .dtype = HVD_FLOAT32};
    struct hvd_piece whole = {0};

    (void)state;
    assert_true(hvd_pack_table_in_place(&list, &whole));
    assert_ptr_equal(whole.input, memory);
    assert_ptr_equal(whole.output, memory);
    assert_int_equal(whole.count, 16);
    for (int i = 1; i < 5; i++) /* other results, one behind the other as well */
        pieces[i].output = (char *)pieces[i].output + 1024;
    assert_true(hvd_pack_table_in_place(&list, &whole));
    assert_ptr_equal(whole.input, memory);
    assert_ptr_equal(whole.output, memory + 1024);
    pieces[4].output = (char *)pieces[4].output + 4; /* a gap in the results alone */
    assert_false(hvd_pack_table_in_place(&list, &whole));
    pieces[4] = at(36, 8);
    pieces[3] = at(12, 5);
    pieces[1] = at(0, 3);
    whole.count = 5;
    assert_false(hvd_pack_table_in_place(&list, &whole));
    assert_int_equal(whole.count, 5);
    pieces[4] = at(32, 8);
    pieces[3].input = NULL; /* zeros */
    assert_false(hvd_pack_table_in_place(&list, &whole));
    pieces[1].output = NULL; /* not needed */
    assert_false(hvd_pack_table_in_place(&list, &whole));
}

static void a_padded_buffer_is_in_place_only_without_gaps(void **state)
{
    struct hvd_piece pieces[] = {at(0, 4), at(16, 8), at(48, 3)};
    struct hvd_pack_list list = {
        .pieces = pieces, .n_pieces = 3, .dtype = HVD_FLOAT32, .is_padded = true};
    struct hvd_piece whole = {0};

    (void)state;
    assert_true(hvd_pack_table_in_place(&list, &whole));
    assert_int_equal(whole.count, 15);
    assert_int_equal(whole.count * 4, measure(&list).buffer_bytes);
    pieces[1].count = 7;
    pieces[2] = at(44, 3);
    assert_false(hvd_pack_table_in_place(&list, &whole));
    pieces[2] = at(48, 3); /* where the buffer has it, but the gap belongs to somebody else */
    assert_false(hvd_pack_table_in_place(&list, &whole));
}

static void runs_cover_a_list(void **state)
{
    const struct hvd_piece pieces[] = {at(0, 2),  at(8, 3),  at(0, 0),
                                       at(40, 1), at(44, 1), at(0, 2)};
    const struct hvd_pack_list list = {.pieces = pieces, .n_pieces = 6, .dtype = HVD_FLOAT32};
    struct hvd_piece whole = {0};

    (void)state;
    assert_int_equal(hvd_pack_table_run(&list, 0, &whole), 2);
    assert_int_equal(whole.count, 5);
    assert_int_equal(hvd_pack_table_run(&list, 2, &whole), 3); /* an empty one in front */
    assert_int_equal(whole.count, 2);
    assert_ptr_equal(whole.input, memory + 40);
    assert_int_equal(hvd_pack_table_run(&list, 5, &whole), 1);
    assert_int_equal(whole.count, 2);
    assert_false(hvd_pack_table_in_place(&list, &whole));
}

static void scaling_chooses_kernel_step_and_factor(void **state)
{
    static const struct {
        enum hvd_dtype dtype;
        struct hvd_scaling scaling;
        bool is_unpack;
        enum hvd_cuda_kernel kernel;
        enum hvd_cuda_step step;
        double factor;
    } rows[] = {
        {HVD_FLOAT32, {1, 3, 4}, false, HVD_CUDA_KERNEL_COPY, HVD_CUDA_COPY, 1},
        {HVD_FLOAT32, {2, 1, 1}, true, HVD_CUDA_KERNEL_COPY, HVD_CUDA_COPY, 1},
        {HVD_FLOAT32, {2, 3, 4}, false, HVD_CUDA_KERNEL_FLOAT32, HVD_CUDA_SCALE_FLOAT32, 2},
        {HVD_FLOAT32, {2, 3, 4}, true, HVD_CUDA_KERNEL_FLOAT32, HVD_CUDA_SCALE_FLOAT32, 0.75},
        {HVD_FLOAT16, {1, 1, 4}, true, HVD_CUDA_KERNEL_FLOAT16, HVD_CUDA_SCALE_FLOAT16, 0.25},
        {HVD_BFLOAT16, {1, 1, 4}, true, HVD_CUDA_KERNEL_BFLOAT16, HVD_CUDA_SCALE_BFLOAT16, 0.25},
        {HVD_FLOAT64, {5, 1, 1}, false, HVD_CUDA_KERNEL_FLOAT64, HVD_CUDA_SCALE_FLOAT64, 5},
        {HVD_BOOL, {5, 1, 1}, false, HVD_CUDA_KERNEL_COPY, HVD_CUDA_COPY, 1},
        {HVD_BOOL, {1, 5, 2}, true, HVD_CUDA_KERNEL_COPY, HVD_CUDA_COPY, 1},
        {HVD_INT32, {1, 1, 3}, true, HVD_CUDA_KERNEL_INTEGERS, HVD_CUDA_DIVIDE_INT32, 1.0 / 3},
        {HVD_INT32, {1, 6, 3}, true, HVD_CUDA_KERNEL_INTEGERS, HVD_CUDA_SCALE_INT32, 2},
        {HVD_UINT8, {6, 1, 1}, false, HVD_CUDA_KERNEL_INTEGERS, HVD_CUDA_SCALE_UINT8, 6},
    };
    const struct hvd_pack_shape shape = {.n_pieces = 3, .n_tiles = 9};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct hvd_pack_list list = {.dtype = rows[i].dtype};
        struct hvd_cuda_args args = {.table = 1, .addresses = 2, .buffer = 3};

        assert_int_equal(
            hvd_pack_table_prepare(&list, &shape, &rows[i].scaling, rows[i].is_unpack, &args),
            rows[i].kernel);
        assert_int_equal(args.step, rows[i].step);
        assert_true(args.factor == rows[i].factor);
        assert_int_equal(args.divisor, rows[i].step ? rows[i].scaling.divisor : 1);
        assert_int_equal(args.n_pieces, 3);
        assert_int_equal(args.n_tiles, 9);
        assert_int_equal(args.is_unpack, rows[i].is_unpack);
        assert_int_equal(args.table + args.addresses + args.buffer, 6);
        assert_int_equal(hvd_pack_table_prepare(&list, &shape, NULL, rows[i].is_unpack, &args),
                         HVD_CUDA_KERNEL_COPY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_each_piece_and_where_each_tile_begins),
        cmocka_unit_test(padded_pieces_begin_at_multiples_of_16_bytes),
        cmocka_unit_test(a_list_without_elements_needs_no_launch),
        cmocka_unit_test(a_block_has_eight_tiles),
        cmocka_unit_test(a_buffer_that_tiles_cannot_number_is_too_large),
        cmocka_unit_test(a_table_fits_lists_of_the_same_sizes_alone),
        cmocka_unit_test(addresses_report_whether_they_changed),
        cmocka_unit_test(pieces_behind_each_other_need_no_packing),
        cmocka_unit_test(a_padded_buffer_is_in_place_only_without_gaps),
        cmocka_unit_test(runs_cover_a_list),
        cmocka_unit_test(scaling_chooses_kernel_step_and_factor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
