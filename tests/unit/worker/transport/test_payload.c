#include "tests/unit/support.h"

#include <string.h>

#include "worker/transport/payload.h"

enum { N = 3000, N_PIECES = 4 };

static int32_t input[N];
static int32_t output[N];
static int32_t stage[N];

/* Pieces of one, of none, of a few and of many elements, apart from each other and not in order. */
static const struct hvd_piece pieces[N_PIECES] = {
    {.input = input + 2900, .output = output + 7, .count = 1},
    {.input = input, .output = output, .count = 0},
    {.input = input + 1, .output = output + 2990, .count = 5},
    {.input = input + 100, .output = output + 50, .count = 2500},
};

static const struct hvd_collective fused = {
    .dtype = HVD_INT32, .pieces = pieces, .n_pieces = N_PIECES, .count = 2506};

/* Where element i of the run lies among the inputs, or the outputs. */
static size_t place(int i, bool is_output)
{
    if (i == 0)
        return is_output ? 7 : 2900;
    if (i < 6)
        return (size_t)(is_output ? 2990 : 1) + (size_t)i - 1;
    return (size_t)(is_output ? 50 : 100) + (size_t)i - 6;
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        input[i] = i;
        output[i] = -1;
        stage[i] = 10000 + i;
    }
    return 0;
}

static void one_tensor_is_one_stretch(void **state)
{
    const struct hvd_collective c = {
        .dtype = HVD_INT32, .input = input, .output = output, .count = 100};
    struct hvd_payload p;
    struct hvd_piece found;

    (void)state;
    hvd_payload_init(&p, &c);
    assert_int_equal(hvd_payload_stretch(&p, 10, 90, &found), 90);
    assert_ptr_equal(found.input, input + 10);
    assert_ptr_equal(found.output, output + 10);
    assert_int_equal(hvd_payload_stretch(&p, 20, 5, &found), 5);
    assert_ptr_equal(found.input, input + 20);
}

static void a_stretch_ends_where_its_piece_does(void **state)
{
    struct hvd_payload p;
    struct hvd_piece found;

    (void)state;
    hvd_payload_init(&p, &fused);
    assert_int_equal(hvd_payload_stretch(&p, 0, 2506, &found), 1);
    assert_ptr_equal(found.input, input + 2900);
    assert_ptr_equal(found.output, output + 7);
    assert_int_equal(hvd_payload_stretch(&p, 1, 2505, &found), 5); /* past the empty piece */
    assert_ptr_equal(found.input, input + 1);
    assert_int_equal(hvd_payload_stretch(&p, 2505, 1, &found), 1);
    assert_ptr_equal(found.output, output + 50 + 2499);
    assert_int_equal(hvd_payload_stretch(&p, 3, 2503, &found), 3); /* and back */
    assert_ptr_equal(found.input, input + 3);
}

static void a_piece_without_memory_is_found_as_such(void **state)
{
    const struct hvd_piece absent[] = {{.output = output, .count = 2},
                                       {.input = input, .count = 2}};
    const struct hvd_collective c = {
        .dtype = HVD_INT32, .pieces = absent, .n_pieces = 2, .count = 4};
    struct hvd_payload p;
    struct hvd_piece found;

    (void)state;
    hvd_payload_init(&p, &c);
    assert_int_equal(hvd_payload_stretch(&p, 1, 9, &found), 1);
    assert_null(found.input);
    assert_int_equal(hvd_payload_stretch(&p, 3, 9, &found), 1);
    assert_null(found.output);
}

static void elements_are_gathered_from_any_place(void **state)
{
    static const int from[] = {0, 1, 3, 6, 1500, 2505, 0};
    struct hvd_payload p;

    (void)state;
    hvd_payload_init(&p, &fused);
    for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
        const int count = 2506 - from[i];

        (void)set_up(NULL);
        hvd_payload_gather(&p, from[i], count, stage);
        for (int k = 0; k < count; k++)
            assert_int_equal(stage[k], input[place(from[i] + k, false)]);
        assert_int_equal(stage[count], 10000 + count); /* and no more */
    }
}

static void elements_are_scattered_to_any_place(void **state)
{
    (void)state;
    for (int streams = 0; streams < 2; streams++) {
        struct hvd_payload p;

        (void)set_up(NULL);
        hvd_payload_init(&p, &fused);
        hvd_payload_scatter(&p, 1000, 1506, stage + 1000, streams);
        hvd_payload_scatter(&p, 0, 1000, stage, streams);
        for (int i = 0; i < 2506; i++) {
            assert_int_equal(output[place(i, true)], 10000 + i);
            output[place(i, true)] = -1;
        }
        for (int i = 0; i < N; i++)
            assert_int_equal(output[i], -1);
    }
}

static void copies_of_any_length_are_whole(void **state)
{
    static const size_t lengths[] = {0, 1, 4, 1023, 1024, 1025, 4096, 5000};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        (void)set_up(NULL);
        hvd_payload_copy(output, input, lengths[i]);
        assert_memory_equal(output, input, lengths[i]);
        assert_int_equal(((unsigned char *)output)[lengths[i]], 0xff);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_tensor_is_one_stretch, set_up),
        cmocka_unit_test_setup(a_stretch_ends_where_its_piece_does, set_up),
        cmocka_unit_test_setup(a_piece_without_memory_is_found_as_such, set_up),
        cmocka_unit_test_setup(elements_are_gathered_from_any_place, set_up),
        cmocka_unit_test_setup(elements_are_scattered_to_any_place, set_up),
        cmocka_unit_test_setup(copies_of_any_length_are_whole, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
