/*
 * Process sets: collectives among some of the ranks. A set does not wait for ranks outside it, and
 * two sets may move data at the same time. A model that is split over groups of ranks needs that.
 *
 * Here the even ranks are one set and the odd ones another. Every rank adds both sets, in the same
 * order, also the one that it is not in. HOROVOD_DYNAMIC_PROCESS_SETS allows that after
 * horovod_init. (A single rank is the whole job already, so it adds no sets.)
 */
#include <horovod/horovod.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS_MAX = 64 };

/* Adds the set of the ranks first, first + 2, ...; returns its number, or a negative error. */
static int add_every_other(int first, int size)
{
    int ranks[RANKS_MAX], n = 0;

    for (int rank = first; rank < size && n < RANKS_MAX; rank += 2)
        ranks[n++] = rank;
    return horovod_add_process_set(ranks, n);
}

/* Adds up the ranks of this set. */
static int sum_of_ranks(int set, int64_t *sum, horovod_error_t *err)
{
    *sum = horovod_rank();
    return horovod_allreduce(sum, sum,
                             HOROVOD_TENSOR(.name = "rank", .dtype = HOROVOD_INT64, .ndim = 0,
                                            .op = HOROVOD_SUM, .process_set = set),
                             err) == HOROVOD_OK;
}

static int64_t expected(int first, int size)
{
    int64_t sum = 0;

    for (int rank = first; rank < size; rank += 2)
        sum += rank;
    return sum;
}

int main(void)
{
    horovod_error_t err = {0};
    int64_t sum = 0;
    int sets[2] = {0, 0}, is_right = 1;

    setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1", 0);
    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int rank = horovod_rank(), size = horovod_size(), parity = rank % 2;

    for (int first = 0; first < 2 && size > 1; first++) {
        sets[first] = add_every_other(first, size);
        is_right = is_right && sets[first] > 0;
    }
    is_right = is_right && horovod_process_set_included(sets[parity]) == 1 &&
               horovod_process_set_rank(sets[parity]) == rank / 2;

    /* Both sets use the same name; names are separate in each set. */
    is_right = is_right && sum_of_ranks(sets[parity], &sum, &err) && sum == expected(parity, size);

    for (int first = 0; first < 2 && size > 1; first++)
        is_right = horovod_remove_process_set(sets[first]) == sets[first] && is_right;

    if (is_right)
        printf("rank %d of %d: the %s ranks add up to %lld\n", rank, size, parity ? "odd" : "even",
               (long long)sum);
    else
        fprintf(stderr, "rank %d: wrong: %s\n", rank, err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
