/*
 * Reducescatter: it reduces the inputs of all ranks as an allreduce does, but each rank gets only
 * its share of the rows. An allgather behind it makes an allreduce. Between the two, each rank can
 * work on its share alone, as an optimizer does that shards its state.
 *
 *     rank 0:  1 2 3   reducescatter   rank 0:  3 6
 *     rank 1:  2 4 6  --------------->  rank 1:  9
 *
 * If the rows do not divide evenly, each of the first ranks gets one more.
 */
#include <horovod/horovod.h>
#include <stdio.h>

enum { ROWS = 101, COLUMNS = 8 };

/* Returns whether the share, whose first row is row `first` of the whole, is the sum over the
 * ranks. */
static int is_share(float share[][COLUMNS], int64_t first, int64_t n_rows, int size)
{
    const int64_t ranks = (int64_t)size * (size - 1) / 2; /* 0 + 1 + ... */

    for (int64_t i = 0; i < n_rows; i++)
        for (int j = 0; j < COLUMNS; j++)
            if (share[i][j] != (float)(size * (first + i) + j * ranks))
                return 0;
    return 1;
}

int main(void)
{
    static float input[ROWS][COLUMNS], share[ROWS][COLUMNS];
    horovod_error_t err = {0};
    int64_t first = 0;
    int is_right = 0;

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int rank = horovod_rank(), size = horovod_size();
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            input[i][j] = (float)(i + j * rank);

    /* The tensor describes the input; the output has room for this rank's rows. */
    const int64_t n_rows = horovod_reducescatter_rows(ROWS, rank, size);
    for (int before = 0; before < rank; before++)
        first += horovod_reducescatter_rows(ROWS, before, size);
    if (horovod_reducescatter(input, share,
                              HOROVOD_TENSOR(.name = "input", .dtype = HOROVOD_FLOAT32, .ndim = 2,
                                             .shape = (const int64_t[]){ROWS, COLUMNS},
                                             .op = HOROVOD_SUM),
                              &err) == HOROVOD_OK)
        is_right = is_share(share, first, n_rows, size);

    if (is_right)
        printf("rank %d of %d: has the sums of rows %d to %d\n", rank, size, (int)first,
               (int)(first + n_rows - 1));
    else
        fprintf(stderr, "rank %d: wrong: %s\n", rank, err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
