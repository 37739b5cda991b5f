#include "tests/unit/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/transport/algorithm.h"

#define MAX_RANKS 40
#define MAX_COUNT 1500
#define N(array) (sizeof(array) / sizeof((array)[0]))

static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33};
static const int64_t counts[] = {1, 2, 3, 7, 31, 64, 1001, MAX_COUNT};
static const enum hvd_algorithm algorithms[] = {HVD_ALGORITHM_DOUBLING, HVD_ALGORITHM_RABENSEIFNER,
                                                HVD_ALGORITHM_RING};

/* All ranks of a job, in step. */
struct world {
    int n;
    int64_t count;
    float data[MAX_RANKS][MAX_COUNT];
    int64_t sent[MAX_RANKS]; /* elements */
};

static struct world w;

/* What a rank is sent in a step, copied before anybody changes anything. */
static float mail[MAX_RANKS][MAX_COUNT];

static struct hvd_exchange step_of(enum hvd_algorithm algorithm, int rank, int i)
{
    const struct hvd_schedule s = {algorithm, w.n, rank, w.count};

    return hvd_algorithm_step(&s, i);
}

static void take_step(enum hvd_algorithm algorithm, int i)
{
    for (int rank = 0; rank < w.n; rank++) {
        const struct hvd_exchange x = step_of(algorithm, rank, i);
        if (x.from < 0)
            continue;
        const struct hvd_exchange theirs = step_of(algorithm, x.from, i);
        assert_int_equal(theirs.to, rank); /* who is waited for does send, and the same */
        assert_int_equal(theirs.send_at, x.receive_at);
        assert_int_equal(theirs.send_count, x.receive_count);
        assert_true(x.receive_at >= 0 && x.receive_at + x.receive_count <= w.count);
        memcpy(mail[rank], w.data[x.from] + x.receive_at, (size_t)x.receive_count * sizeof(float));
    }
    for (int rank = 0; rank < w.n; rank++) {
        const struct hvd_schedule s = {algorithm, w.n, rank, w.count};
        const struct hvd_exchange x = step_of(algorithm, rank, i);
        if (x.to >= 0) {
            assert_int_equal(step_of(algorithm, x.to, i).from, rank);
            w.sent[rank] += x.send_count;
        }
        for (int64_t k = 0; x.from >= 0 && k < x.receive_count; k++) {
            float *at = &w.data[rank][x.receive_at + k];
            *at = x.combines ? *at + mail[rank][k] : mail[rank][k];
        }
        if (x.from >= 0 && x.combines)
            assert_true(x.receive_count <= hvd_algorithm_room(&s));
    }
}

/* Values whose sum depends on the order. */
static float value(int rank, int64_t i)
{
    return ldexpf((float)((rank * 7919 + i * 104729) % 1000003) / 1000003.0f, (int)(rank * 5 % 17));
}

static void run(enum hvd_algorithm algorithm, int n, int64_t count, int64_t shift)
{
    const struct hvd_schedule s = {algorithm, n, 0, count};

    w.n = n;
    w.count = count;
    for (int rank = 0; rank < n; rank++) {
        w.sent[rank] = 0;
        for (int64_t i = 0; i < count; i++)
            w.data[rank][i] = value(rank, i + shift);
    }
    for (int i = 0; i < hvd_algorithm_steps(&s); i++)
        take_step(algorithm, i);
}

static void every_rank_ends_with_the_sum_in_the_same_bits(void **state)
{
    (void)state;
    for (size_t a = 0; a < N(algorithms); a++) {
        for (size_t k = 0; k < N(sizes) * N(counts); k++) {
            const int n = sizes[k % N(sizes)];
            run(algorithms[a], n, counts[k / N(sizes)], 0);
            for (int64_t i = 0; i < w.count; i++) {
                double sum = 0;
                for (int rank = 0; rank < n; rank++)
                    sum += (double)value(rank, i);
                assert_true(fabs((double)w.data[0][i] - sum) <= 1e-5 * sum + 1e-6);
            }
            for (int rank = 1; rank < n; rank++)
                assert_memory_equal(w.data[rank], w.data[0], (size_t)w.count * sizeof(float));
        }
    }
}

static bool are_same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* Elements that lie elsewhere in a payload of another size have the same bits; returns whether. */
static bool is_place_irrelevant(enum hvd_algorithm algorithm, enum hvd_algorithm other, int n)
{
    static float before[MAX_COUNT];

    run(algorithm, n, 1001, 400);
    memcpy(before, w.data[0], sizeof(before));
    run(other, n, MAX_COUNT, 0);
    return are_same_bits(before, w.data[0] + 400, 1001 * sizeof(float));
}

static void two_algorithms_add_up_in_the_same_order_wherever_an_element_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(sizes); i++) {
        const int n = sizes[i];
        assert_true(is_place_irrelevant(HVD_ALGORITHM_DOUBLING, HVD_ALGORITHM_DOUBLING, n));
        assert_true(is_place_irrelevant(HVD_ALGORITHM_RABENSEIFNER, HVD_ALGORITHM_RABENSEIFNER, n));
        assert_true(is_place_irrelevant(HVD_ALGORITHM_DOUBLING, HVD_ALGORITHM_RABENSEIFNER, n));
    }
    assert_false(is_place_irrelevant(HVD_ALGORITHM_RING, HVD_ALGORITHM_RING, 5));
}

/* Elements the busiest rank sends, per element of the payload. */
static double sent_at_most(enum hvd_algorithm algorithm, int n)
{
    int64_t most = 0;

    run(algorithm, n, 1200, 0);
    for (int rank = 0; rank < n; rank++)
        most = w.sent[rank] > most ? w.sent[rank] : most;
    return (double)most / 1200;
}

static void bytes_sent_per_byte_are_those_of_the_algorithm(void **state)
{
    (void)state;
    for (int n = 2; n <= 32; n *= 2) {
        assert_true(fabs(sent_at_most(HVD_ALGORITHM_DOUBLING, n) - log2(n)) < 0.01);
        assert_true(fabs(sent_at_most(HVD_ALGORITHM_RABENSEIFNER, n) - 2.0 * (n - 1) / n) < 0.02);
    }
    for (size_t i = 1; i < N(sizes); i++)
        assert_true(fabs(sent_at_most(HVD_ALGORITHM_RING, sizes[i]) -
                         2.0 * (sizes[i] - 1) / sizes[i]) < 0.06);
    /* beyond a power of two: folding sends the payload once more, to get the result back */
    assert_true(fabs(sent_at_most(HVD_ALGORITHM_DOUBLING, 5) - 3) < 0.01);
    assert_true(fabs(sent_at_most(HVD_ALGORITHM_RABENSEIFNER, 5) - 2.5) < 0.02);
}

static const struct hvd_algorithm_table none;

/* What ranks take to send each other so many bytes, and one to the other: algorithm.c says where it
 * was measured. In ns. */
static double exchange(double bytes)
{
    return bytes < 65536 ? 12.7e3 + 0.35 * bytes : 45e3 + 0.327 * bytes;
}

static double one_way(double bytes)
{
    return bytes < 65536 ? 11.6e3 + 0.284 * bytes : 39.2e3 + 0.234 * bytes;
}

static double modelled(enum hvd_algorithm algorithm, int n, double bytes)
{
    const double add = 0.032;
    const int steps = (int)floor(log2(n));
    const double fold = n > 1 << steps ? 2 * one_way(bytes) + add * bytes : 0;
    double sum = fold;

    if (algorithm == HVD_ALGORITHM_RING)
        return (n - 1) * (2 * exchange(bytes / n) + add * bytes / n);
    if (algorithm == HVD_ALGORITHM_DOUBLING)
        return steps * (exchange(bytes) + add * bytes) + fold;
    for (int i = 1; i <= steps; i++)
        sum += 2 * exchange(bytes / (1 << i)) + add * bytes / (1 << i);
    return sum;
}

static void the_choice_is_near_the_best_of_the_model(void **state)
{
    static const int many[] = {2,  3,  4,  5,   6,   7,   8,   9,   12,  16,   17,   24,   31,
                               32, 33, 64, 100, 127, 128, 200, 256, 500, 1000, 1024, 3000, 27360};

    (void)state;
    for (size_t i = 0; i < N(many); i++) {
        const bool is_power = (many[i] & (many[i] - 1)) == 0;
        const int64_t longest = many[i] > 16 ? (int64_t)many[i] << 16 : 1 << 20; /* of one run */
        for (int64_t bytes = 4; bytes < longest; bytes = bytes * 5 / 4 + 1) {
            double best = INFINITY;
            for (size_t a = 0; a < N(algorithms) - is_power; a++) /* a power never takes the ring */
                best = fmin(best, modelled(algorithms[a], many[i], (double)bytes));
            const double chosen = modelled(hvd_algorithm_choose(&none, bytes, many[i], false),
                                           many[i], (double)bytes);
            if (chosen > 1.4 * best)
                fail_msg("%d ranks, %lld bytes: %.0f us instead of %.0f", many[i], (long long)bytes,
                         chosen / 1e3, best / 1e3);
        }
    }
}

static void a_deterministic_choice_is_never_the_ring(void **state)
{
    (void)state;
    for (int n = 1; n < 2000; n++)
        for (int64_t bytes = 1; bytes < INT64_C(1) << 40; bytes *= 7)
            assert_int_not_equal(hvd_algorithm_choose(&none, bytes, n, true), HVD_ALGORITHM_RING);
    assert_int_equal(hvd_algorithm_choose(&none, INT64_C(1) << 30, 5, false), HVD_ALGORITHM_RING);
}

static void a_table_says_what_is_chosen(void **state)
{
    struct hvd_algorithm_table t;

    (void)state;
    assert_int_equal(hvd_algorithm_table_parse("2:100:-, 4:100:200,*:-:-", &t, NULL), HVD_OK);
    assert_int_equal(t.n, 3);
    assert_int_equal(hvd_algorithm_choose(&t, 100, 2, false), HVD_ALGORITHM_DOUBLING);
    assert_int_equal(hvd_algorithm_choose(&t, 101, 2, false), HVD_ALGORITHM_RABENSEIFNER);
    assert_int_equal(hvd_algorithm_choose(&t, INT64_C(1) << 50, 2, false),
                     HVD_ALGORITHM_RABENSEIFNER);
    assert_int_equal(hvd_algorithm_choose(&t, 199, 3, false), HVD_ALGORITHM_RABENSEIFNER);
    assert_int_equal(hvd_algorithm_choose(&t, 200, 4, false), HVD_ALGORITHM_RING);
    assert_int_equal(hvd_algorithm_choose(&t, 200, 4, true), HVD_ALGORITHM_RABENSEIFNER);
    assert_int_equal(hvd_algorithm_choose(&t, INT64_C(1) << 50, 5, false), HVD_ALGORITHM_DOUBLING);
}

static void a_row_that_is_none_is_named(void **state)
{
    static const char *const wrong[][2] = {{"", "row \"\""},
                                           {"2:100", "row \"2:100\""},
                                           {"1:100:200,*:1:2", "row \"1:100:200\""},
                                           {"2:100:-:,*:1:2", "row \"2:100:-:\""},
                                           {"4:1:2,4:1:2,*:1:2", "row \"4:1:2\""},
                                           {"*:1:2,4:1:2", "row \"4:1:2\""},
                                           {"*:200:100", "row \"*:200:100\""},
                                           {"*:1k:2k", "row \"*:1k:2k\""},
                                           {"*:-1:2", "row \"*:-1:2\""},
                                           {"2:100:200", "let the last one begin with *"}};
    struct hvd_algorithm_table t = {.n = 42};

    (void)state;
    for (size_t i = 0; i < N(wrong); i++) {
        struct hvd_err err = {0};
        assert_int_equal(hvd_algorithm_table_parse(wrong[i][0], &t, &err), HVD_ERR_INVALID);
        assert_non_null(strstr(err.msg, wrong[i][1]));
        assert_int_equal(t.n, 42);
    }
}

static void a_table_has_so_many_rows_at_most(void **state)
{
    char text[16 * (HVD_ALGORITHM_ROWS + 1)] = "";
    struct hvd_algorithm_table t;
    struct hvd_err err = {0};

    (void)state;
    for (int i = 0; i < HVD_ALGORITHM_ROWS; i++)
        snprintf(text + strlen(text), 16, "%d:1:2,", i + 2);
    snprintf(text + strlen(text), 16, "*:1:2");
    assert_int_equal(hvd_algorithm_table_parse(text, &t, &err), HVD_ERR_TOO_LARGE);
    assert_int_equal(hvd_algorithm_table_parse(strchr(text, ',') + 1, &t, &err), HVD_OK);
    assert_int_equal(t.n, HVD_ALGORITHM_ROWS);
}

static void tables_that_differ_have_different_digests(void **state)
{
    static const char *const texts[] = {"*:1:2", "*:1:3", "*:2:3", "2:1:2,*:1:2", "3:1:2,*:1:2"};
    uint64_t digests[N(texts) + 1] = {hvd_algorithm_table_digest(&none)};

    (void)state;
    for (size_t i = 0; i < N(texts); i++) {
        struct hvd_algorithm_table t;
        assert_int_equal(hvd_algorithm_table_parse(texts[i], &t, NULL), HVD_OK);
        digests[i + 1] = hvd_algorithm_table_digest(&t);
        for (size_t k = 0; k <= i; k++)
            assert_true(digests[k] != digests[i + 1]);
    }
}

static void algorithms_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < HVD_ALGORITHMS; i++)
        assert_int_equal(hvd_algorithm_parse(hvd_algorithm_name(i)), i);
    assert_int_equal(hvd_algorithm_parse("best"), -1);
    assert_string_equal(hvd_algorithm_name(-1), "unknown");
    assert_string_equal(hvd_algorithm_name(HVD_ALGORITHMS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_ends_with_the_sum_in_the_same_bits),
        cmocka_unit_test(two_algorithms_add_up_in_the_same_order_wherever_an_element_lies),
        cmocka_unit_test(bytes_sent_per_byte_are_those_of_the_algorithm),
        cmocka_unit_test(the_choice_is_near_the_best_of_the_model),
        cmocka_unit_test(a_deterministic_choice_is_never_the_ring),
        cmocka_unit_test(a_table_says_what_is_chosen),
        cmocka_unit_test(a_row_that_is_none_is_named),
        cmocka_unit_test(a_table_has_so_many_rows_at_most),
        cmocka_unit_test(tables_that_differ_have_different_digests),
        cmocka_unit_test(algorithms_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
