/*
 * Broadcast: every rank gets the data of one rank, the root. A training begins so: rank 0 makes or
 * loads the weights, and all others receive them.
 *
 * In place, the same memory is the input on the root and the output everywhere. Out of place, the
 * root keeps its input; the others need none.
 */
#include <horovod/horovod.h>
#include <stdio.h>

enum { N = 500 };

static int in_place(horovod_error_t *err)
{
    static float weights[N];

    if (horovod_rank() == 0)
        for (int i = 0; i < N; i++)
            weights[i] = (float)i / 2;
    if (horovod_broadcast(weights, weights,
                          HOROVOD_TENSOR(.name = "weights", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                         .shape = (const int64_t[]){N}, .root_rank = 0),
                          err) != HOROVOD_OK)
        return 0;
    for (int i = 0; i < N; i++)
        if (weights[i] != (float)i / 2)
            return 0;
    return 1;
}

/* The last rank is the root; only it has an input. A single number has no dimensions. */
static int out_of_place(horovod_error_t *err)
{
    const int root = horovod_size() - 1;
    const int64_t seed = 20170801;
    int64_t shared = 0;

    if (horovod_broadcast(
            horovod_rank() == root ? &seed : NULL, &shared,
            HOROVOD_TENSOR(.name = "seed", .dtype = HOROVOD_INT64, .ndim = 0, .root_rank = root),
            err) != HOROVOD_OK)
        return 0;
    return shared == seed;
}

int main(void)
{
    horovod_error_t err = {0};

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int is_right = in_place(&err) && out_of_place(&err);
    if (is_right)
        printf("rank %d of %d: has the weights and the seed\n", horovod_rank(), horovod_size());
    else
        fprintf(stderr, "rank %d: wrong: %s\n", horovod_rank(), err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
