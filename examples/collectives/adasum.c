/*
 * Adasum: a sum of gradients that depends on how much they agree. For two gradients a and b it is
 *
 *     (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
 *
 * This adds orthogonal parts and averages parallel ones, so that the learning rate needs no change
 * with the number of ranks. With more ranks, pairs of ranks do this, then pairs of pairs. So the
 * number of ranks must be a power of two. Other numbers get an error, as this program shows.
 */
#include <horovod/horovod.h>
#include <stdio.h>

enum { N = 64 };

static horovod_status_t adasum(const char *name, const float *gradient, float *result,
                               horovod_error_t *err)
{
    return horovod_allreduce(gradient, result,
                             HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                            .shape = (const int64_t[]){N}, .op = HOROVOD_ADASUM),
                             err);
}

static int is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* All ranks have the same gradient: the result is that gradient, not its multiple. */
static int parallel(horovod_error_t *err)
{
    float gradient[N], result[N];

    for (int i = 0; i < N; i++)
        gradient[i] = (float)(i + 1);
    if (adasum("parallel", gradient, result, err) != HOROVOD_OK)
        return 0;
    for (int i = 0; i < N; i++)
        if (result[i] != gradient[i])
            return 0;
    return 1;
}

/* Every rank has a gradient along an axis of its own: the result is the sum. */
static int orthogonal(int rank, int size, horovod_error_t *err)
{
    float gradient[N] = {0}, result[N];

    gradient[rank % N] = 2;
    if (adasum("orthogonal", gradient, result, err) != HOROVOD_OK)
        return 0;
    for (int i = 0; i < N; i++)
        if (result[i] != (i < size ? 2.0F : 0.0F))
            return 0;
    return 1;
}

/* Three ranks cannot be paired: every one gets an error, and the job continues. */
static int refused(horovod_error_t *err)
{
    float gradient[N] = {0}, result[N];

    return adasum("refused", gradient, result, err) != HOROVOD_OK && err->message[0] != '\0';
}

int main(void)
{
    horovod_error_t err = {0};

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    const int rank = horovod_rank(), size = horovod_size();
    const int is_right =
        is_power_of_two(size) ? parallel(&err) && orthogonal(rank, size, &err) : refused(&err);
    if (is_right)
        printf("rank %d of %d: %s\n", rank, size,
               is_power_of_two(size) ? "parallel and orthogonal gradients add up" : err.message);
    else
        fprintf(stderr, "rank %d: wrong: %s\n", rank, err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
