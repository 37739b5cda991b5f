/*
 * Allreduce: every rank has a vector of its own, and all get the same result: the sum, average,
 * minimum, maximum or product, element by element.
 *
 *     rank 0:  1 2 3          sum          3 6 9
 *     rank 1:  2 4 6        ------->       3 6 9   on both
 *
 * Training averages gradients this way. This program first reduces one tensor and waits for it.
 * Then it submits several tensors, which move together. Their order may differ between ranks,
 * because the names pair them.
 */
#include <horovod/horovod.h>
#include <stdio.h>

enum { N = 1000, LAYERS = 4 };

/* One tensor: horovod_allreduce returns the result. In place: input is output. */
static int sum_one(horovod_error_t *err)
{
    static int64_t values[N];
    const int size = horovod_size();

    for (int i = 0; i < N; i++)
        values[i] = (int64_t)(horovod_rank() + 1) * i;
    if (horovod_allreduce(values, values,
                          HOROVOD_TENSOR(.name = "values", .dtype = HOROVOD_INT64, .ndim = 1,
                                         .shape = (const int64_t[]){N}, .op = HOROVOD_SUM),
                          err) != HOROVOD_OK)
        return 0;
    for (int i = 0; i < N; i++)
        if (values[i] != (int64_t)i * size * (size + 1) / 2)
            return 0;
    return 1;
}

/* A step of training: submit each gradient as soon as it is known, wait for all of them later. */
static int average_many(horovod_error_t *err)
{
    static float gradients[LAYERS][N], averages[LAYERS][N];
    static const char *names[LAYERS] = {"layer.0", "layer.1", "layer.2", "layer.3"};
    horovod_handle_t handles[LAYERS];
    const int rank = horovod_rank(), size = horovod_size();

    for (int k = 0; k < LAYERS; k++) {
        const int layer = (k + rank) % LAYERS; /* every rank begins with another layer */
        for (int i = 0; i < N; i++)
            gradients[layer][i] = (float)(layer + 2 * rank);
        if (horovod_allreduce_async(gradients[layer], averages[layer],
                                    HOROVOD_TENSOR(.name = names[layer], .dtype = HOROVOD_FLOAT32,
                                                   .ndim = 1, .shape = (const int64_t[]){N},
                                                   .op = HOROVOD_AVERAGE),
                                    &handles[layer], err) != HOROVOD_OK)
            return 0;
    }
    for (int layer = 0; layer < LAYERS; layer++)
        if (horovod_wait(handles[layer], err) != HOROVOD_OK ||
            averages[layer][N - 1] != (float)(layer + size - 1))
            return 0;
    return 1;
}

int main(void)
{
    horovod_error_t err = {0};

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1; /* the reason was logged */
    const int is_right = sum_one(&err) && average_many(&err);
    if (is_right)
        printf("rank %d of %d: the sum and the averages are right\n", horovod_rank(),
               horovod_size());
    else
        fprintf(stderr, "rank %d: wrong: %s\n", horovod_rank(), err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
