/*
 * Grouped allreduce: tensors that belong together complete together, or all fail with the first
 * that does. So a rank never has one half of them reduced and the other half not.
 *
 * Here a group averages a layer's weight and bias, and the reduction applies a factor.
 */
#include <horovod/horovod.h>
#include <stdio.h>

enum { ROWS = 20, COLUMNS = 30 };

static double weight[ROWS][COLUMNS], bias[COLUMNS];

static void fill(int rank)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            weight[i][j] = rank + i;
    for (int j = 0; j < COLUMNS; j++)
        bias[j] = rank + j;
}

/* Checks that each is averaged over the ranks, and halved by the factor. */
static int is_reduced(int size)
{
    const double average_rank = (size - 1) / 2.0;

    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            if (weight[i][j] != (average_rank + i) / 2)
                return 0;
    for (int j = 0; j < COLUMNS; j++)
        if (bias[j] != (average_rank + j) / 2)
            return 0;
    return 1;
}

static int reduce(horovod_error_t *err)
{
    const horovod_tensor_t *tensors[] = {
        HOROVOD_TENSOR(.name = "dense.weight", .dtype = HOROVOD_FLOAT64, .ndim = 2,
                       .shape = (const int64_t[]){ROWS, COLUMNS}, .op = HOROVOD_AVERAGE,
                       .postscale_factor = 0.5),
        HOROVOD_TENSOR(.name = "dense.bias", .dtype = HOROVOD_FLOAT64, .ndim = 1,
                       .shape = (const int64_t[]){COLUMNS}, .op = HOROVOD_AVERAGE,
                       .postscale_factor = 0.5),
    };
    horovod_handle_t handles[2];

    if (horovod_grouped_allreduce_async(2, (const void *[]){weight, bias}, (void *[]){weight, bias},
                                        tensors, handles, err) != HOROVOD_OK)
        return 0;
    /* Waits for every handle, also when another one has failed. */
    const horovod_status_t first = horovod_wait(handles[0], err);
    const horovod_status_t second = horovod_wait(handles[1], err);
    return first == HOROVOD_OK && second == HOROVOD_OK;
}

int main(void)
{
    horovod_error_t err = {0};

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    fill(horovod_rank());
    const int is_right = reduce(&err) && is_reduced(horovod_size());
    if (is_right)
        printf("rank %d of %d: weight and bias are averaged\n", horovod_rank(), horovod_size());
    else
        fprintf(stderr, "rank %d: wrong: %s\n", horovod_rank(), err.message);
    horovod_shutdown();
    return is_right ? 0 : 1;
}
