/*
 * Join: for ranks whose data ends early. They join, and contribute zeros until the last rank has
 * joined. The others continue unchanged.
 *
 *     batch      0       1       2
 *     rank 0     1       -       -      joins after its only batch
 *     rank 1     1       1       -      joins after its second
 *     rank 2     1       1       1      joins last, and every rank gets its number
 *     sum        3       2       1
 */
#include <horovod/horovod.h>
#include <stdio.h>

/* Returns how many ranks have this batch: the result of a sum of ones. */
static int ranks_with_batch(int batch, int size)
{
    return size - batch;
}

static int train(int n_batches, int size, horovod_error_t *err)
{
    for (int batch = 0; batch < n_batches; batch++) {
        double sum = 1;
        if (horovod_allreduce(&sum, &sum,
                              HOROVOD_TENSOR(.name = "loss", .dtype = HOROVOD_FLOAT64, .ndim = 0,
                                             .op = HOROVOD_SUM),
                              err) != HOROVOD_OK)
            return 0;
        if (sum != ranks_with_batch(batch, size))
            return 0;
    }
    return 1;
}

int main(void)
{
    horovod_error_t err = {0};
    int last_rank = -1;

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int rank = horovod_rank(), size = horovod_size();
    int is_right = train(rank + 1, size, &err);

    /* Returns once every rank has joined; then all can submit again. */
    is_right = horovod_join(&last_rank, &err) == HOROVOD_OK && is_right;
    is_right = is_right && last_rank == size - 1;

    if (is_right)
        printf("rank %d of %d: trained %d batches, rank %d was the last\n", rank, size, rank + 1,
               last_rank);
    else
        fprintf(stderr, "rank %d: wrong: %s\n", rank, err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
