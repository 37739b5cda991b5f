/*
 * Allgather: every rank gets the rows of all ranks, in rank order. Ranks may have different numbers
 * of rows; all other dimensions are the same.
 *
 *     rank 0:  a a                     a a
 *     rank 1:  b b      allgather      b b
 *              b b     ----------->    b b    on both
 *
 * The number of rows is known only after the collective, so the library allocates the output. The
 * caller releases it.
 */
#include <horovod/horovod.h>
#include <stdio.h>

enum { COLUMNS = 2, RANKS_MAX = 64 };

/* Rank r has r + 1 rows of its own number: for three ranks 0, 1 1, 2 2 2. */
static int is_gathered(const horovod_output_t *output, int size)
{
    const int32_t *row = horovod_output_data(output);

    if (horovod_output_rows(output) != (int64_t)size * (size + 1) / 2)
        return 0;
    for (int from = 0; from < size; from++) {
        if (horovod_output_rows_of(output, from) != from + 1)
            return 0;
        for (int i = 0; i < from + 1; i++, row += COLUMNS)
            if (row[0] != from || row[1] != -from)
                return 0;
    }
    return 1;
}

int main(void)
{
    static int32_t rows[RANKS_MAX][COLUMNS];
    horovod_output_t *output = NULL;
    horovod_error_t err = {0};
    int is_right = 0;

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int rank = horovod_rank(), size = horovod_size();
    const int64_t n_rows = rank % RANKS_MAX + 1;
    for (int64_t i = 0; i < n_rows; i++) {
        rows[i][0] = rank;
        rows[i][1] = -rank;
    }

    if (horovod_allgather(rows,
                          HOROVOD_TENSOR(.name = "rows", .dtype = HOROVOD_INT32, .ndim = 2,
                                         .shape = (const int64_t[]){n_rows, COLUMNS}),
                          &output, &err) == HOROVOD_OK) {
        is_right = is_gathered(output, size);
        horovod_output_release(output);
    }

    if (is_right)
        printf("rank %d of %d: all rows are here, in order\n", rank, size);
    else
        fprintf(stderr, "rank %d: wrong: %s\n", rank, err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
