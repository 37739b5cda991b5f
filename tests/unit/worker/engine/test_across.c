/* The step of an allreduce across hosts: alltoalls that this test performs itself. */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/reduce/reference.h"
#include "worker/core/local_ranks.h"
#include "worker/engine/execute/across.h"

#define RANKS_MAX 6

/* All ranks of a set. */
struct job {
    int size;
    struct hvd_across *across[RANKS_MAX];
    char *memory[RANKS_MAX];
    struct hvd_collective moves[RANKS_MAX];
    char sent[RANKS_MAX][4096];
};

/* Returns the elements that a rank has to send to another, and that this one expects of it. */
static int64_t agreed(const struct job *j, int from, int to)
{
    assert_int_equal(j->moves[from].counts[to], j->moves[to].received[from]);
    return j->moves[from].counts[to];
}

/* Moves what every rank sends. The inputs are read before any output is written. */
static void alltoall(struct job *j, size_t width)
{
    for (int rank = 0; rank < j->size; rank++) {
        const struct hvd_collective *c = &j->moves[rank];
        int64_t total = 0;
        for (int i = 0; i < j->size; i++)
            total += c->counts[i];
        assert_int_equal(c->op, HVD_ALLTOALL);
        assert_int_equal(c->count, total);
        assert_true((size_t)total * width <= sizeof(j->sent[rank]));
        memcpy(j->sent[rank], c->input, (size_t)total * width);
    }
    size_t read[RANKS_MAX] = {0};
    for (int to = 0; to < j->size; to++) {
        char *output = j->moves[to].output;
        for (int from = 0; from < j->size; from++) {
            const size_t bytes = (size_t)agreed(j, from, to) * width;
            memcpy(output, j->sent[from] + read[from], bytes);
            output += bytes;
            read[from] += bytes;
        }
    }
}

static double value_of(int rank, int64_t i)
{
    return (double)((rank + i) % 3 + 1);
}

/* Whether two ranks are as far from the first rank of their hosts. */
static bool are_peers(const int *hosts, int a, int b)
{
    int place[2] = {0};

    for (int i = 0; i < a; i++)
        place[0] += hosts[i] == hosts[a];
    for (int i = 0; i < b; i++)
        place[1] += hosts[i] == hosts[b];
    return place[0] == place[1];
}

static double reduced(const int *hosts, int size, int rank, int64_t i, enum hvd_reduce reduce)
{
    double result = reduce == HVD_SUM ? 0 : 1;

    for (int other = 0; other < size; other++)
        if (are_peers(hosts, rank, other))
            result = reduce == HVD_SUM ? result + value_of(other, i) : result * value_of(other, i);
    return result;
}

static void reduce_parts(const int *hosts, int size, int64_t count, enum hvd_dtype dtype,
                         enum hvd_reduce reduce)
{
    static struct job j;
    const size_t width = hvd_dtype_size((int)dtype);
    struct hvd_collective of = {.op = HVD_ALLREDUCE, .dtype = dtype, .reduce = reduce, .set = 3};
    int *local_ranks = NULL;

    j.size = size;
    assert_int_equal(hvd_local_ranks_of(hosts, size, &local_ranks), HVD_OK);
    for (int rank = 0; rank < size; rank++) {
        assert_int_equal(hvd_across_create(local_ranks, size, rank, &j.across[rank]), HVD_OK);
        /* exactly as much as it asks for: AddressSanitizer finds what is beyond */
        j.memory[rank] = malloc(hvd_across_bytes(j.across[rank], count, dtype) + 1);
        assert_non_null(j.memory[rank]);
        for (int64_t i = 0; i < count; i++)
            reference_set(dtype, j.memory[rank], i, value_of(rank, i));
        hvd_across_exchange(j.across[rank], &of, j.memory[rank], count, &j.moves[rank]);
        assert_int_equal(j.moves[rank].set, 3);
        assert_int_equal(j.moves[rank].dtype, dtype);
    }
    alltoall(&j, width);
    for (int rank = 0; rank < size; rank++)
        hvd_across_distribute(j.across[rank], reduce, &j.moves[rank]);
    alltoall(&j, width);
    for (int rank = 0; rank < size; rank++) {
        for (int64_t i = 0; i < count; i++)
            assert_true(reference_get(dtype, j.memory[rank], i) ==
                        reduced(hosts, size, rank, i, reduce));
        hvd_across_destroy(j.across[rank]);
        free(j.memory[rank]);
    }
    hvd_free(local_ranks);
}

static void peers_have_the_reduction_of_their_parts(void **state)
{
    static const int hosts[][RANKS_MAX] = {
        {7, 7, 3, 3}, {0, 1, 0, 1}, {0, 0, 1, 1, 2, 2}, {5, 5, 5, 1, 1, 1}, {0, 1, 2, 2, 0, 1}};
    static const int sizes[] = {4, 4, 6, 6, 6};

    (void)state;
    for (size_t h = 0; h < sizeof(sizes) / sizeof(*sizes); h++)
        for (int64_t count = 0; count < 40; count++)
            for (int dtype = 0; dtype < HVD_DTYPES; dtype++)
                if (dtype != HVD_BOOL)
                    reduce_parts(hosts[h], sizes[h], count, (enum hvd_dtype)dtype,
                                 count % 2 ? HVD_SUM : HVD_PRODUCT);
    assert_int_equal(hvd_mem_live(), 0);
}

/* A peer sends and receives all stretches but its own, twice. */
static void each_rank_sends_twice_its_part_but_for_its_own_stretch(void **state)
{
    const int local_ranks[] = {0, 1, 0, 1, 0, 1};
    const struct hvd_collective of = {.op = HVD_ALLREDUCE, .dtype = HVD_FLOAT32};
    struct hvd_across *across = NULL;
    struct hvd_collective move;
    float memory[200];

    (void)state;
    memset(memory, 0, sizeof(memory));
    assert_int_equal(hvd_across_create(local_ranks, 6, 3, &across), HVD_OK);
    assert_true(hvd_across_bytes(across, 90, HVD_FLOAT32) <= sizeof(memory));
    hvd_across_exchange(across, &of, memory, 90, &move);
    for (int step = 0; step < 2; step++) {
        for (int rank = 0; rank < 6; rank++)
            assert_int_equal(move.counts[rank], rank % 2 ? 30 : 0);
        hvd_across_distribute(across, HVD_SUM, &move);
    }
    hvd_across_destroy(across);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_have_the_reduction_of_their_parts),
        cmocka_unit_test(each_rank_sends_twice_its_part_but_for_its_own_stretch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
