/*
 * Alltoall: every rank sends rows to every rank. splits holds how many of them, in order, go to
 * each.
 *
 *     rank 0, splits 1 2:  A b b                         rank 0 gets  A C C
 *     rank 1, splits 2 1:  C C d        alltoall         rank 1 gets  b b d
 *                                      ---------->
 *
 * Without splits each rank gets the same number of rows. The output holds how many rows came from
 * each rank, so the receivers need not know these numbers beforehand.
 */
#include <horovod/horovod.h>
#include <stdio.h>

enum { RANKS_MAX = 64 };

/* Returns how many rows go from one rank to another: 1, 2 or 3. */
static int64_t rows_between(int from, int to)
{
    return 1 + (from + 2 * to) % 3;
}

/* Returns the content of a row: its sender and its receiver. */
static int32_t label(int from, int to)
{
    return 1000 * from + to;
}

static int is_received(const horovod_output_t *output, int rank, int size)
{
    const int32_t *row = horovod_output_data(output);

    for (int from = 0; from < size; from++) {
        if (horovod_output_rows_of(output, from) != rows_between(from, rank))
            return 0;
        for (int64_t i = 0; i < rows_between(from, rank); i++)
            if (*row++ != label(from, rank))
                return 0;
    }
    return 1;
}

int main(void)
{
    static int32_t rows[3 * RANKS_MAX];
    int64_t splits[RANKS_MAX], n_rows = 0;
    horovod_output_t *output = NULL;
    horovod_error_t err = {0};
    int is_right = 0;

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int rank = horovod_rank(), size = horovod_size();
    for (int to = 0; to < size && to < RANKS_MAX; to++) {
        splits[to] = rows_between(rank, to);
        for (int64_t i = 0; i < splits[to]; i++)
            rows[n_rows++] = label(rank, to);
    }

    if (horovod_alltoall(rows,
                         HOROVOD_TENSOR(.name = "rows", .dtype = HOROVOD_INT32, .ndim = 1,
                                        .shape = &n_rows, .splits = splits, .n_splits = size),
                         &output, &err) == HOROVOD_OK) {
        is_right = is_received(output, rank, size);
        horovod_output_release(output);
    }

    if (is_right)
        printf("rank %d of %d: got its rows from everybody\n", rank, size);
    else
        fprintf(stderr, "rank %d: wrong: %s\n", rank, err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
