/*
 * Adasum through the public API, of vectors whose result is known: ranks that are orthogonal to
 * each other add up, ranks that are parallel average, and zeros change nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define N_TENSORS 5

static const int64_t lengths[N_TENSORS] = {1, 1000, 7, 70001, 64};

/* Tensor t of a rank: t even, ranks own every size-th element; odd, all have the same. */
static double value_of(int t, int64_t i, int rank, int size)
{
    const double value = (double)(i % 50 + 1);

    if (t % 2 == 0)
        return i % size == rank ? value : 0;
    return value;
}

static double result_of(int t, int64_t i, int size)
{
    /* Everything of one element is on rank 0. */
    return t % 2 == 0 || lengths[t] == 1 ? value_of(t, i, (int)(i % size), size)
                                         : (double)(i % 50 + 1);
}

static void submit_all(float *const *data, horovod_handle_t *handles, int step)
{
    char names[N_TENSORS][32];
    horovod_tensor_t tensors[N_TENSORS];
    const horovod_tensor_t *pointers[N_TENSORS];
    const void *inputs[N_TENSORS];
    void *outputs[N_TENSORS];
    horovod_error_t err = {0};

    for (int t = 0; t < N_TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "gradient%d", t);
        tensors[t] = (horovod_tensor_t){.size = sizeof(tensors[t]),
                                        .name = names[t],
                                        .dtype = HOROVOD_FLOAT32,
                                        .ndim = 1,
                                        .shape = &lengths[t],
                                        .op = HOROVOD_ADASUM,
                                        .prescale_factor = 2,
                                        .postscale_factor = 0.5};
        pointers[t] = &tensors[t];
        inputs[t] = data[t];
        outputs[t] = data[t];
        for (int64_t i = 0; i < lengths[t]; i++)
            data[t][i] = (float)value_of(t, i, horovod_rank(), horovod_size());
    }
    if (step % 2 == 0) {
        check(horovod_grouped_allreduce_async(N_TENSORS, inputs, outputs, pointers, handles,
                                              &err) == HOROVOD_OK,
              "group", err.message);
        return;
    }
    for (int t = 0; t < N_TENSORS; t++)
        check(horovod_allreduce_async(inputs[t], outputs[t], pointers[t], &handles[t], &err) ==
                  HOROVOD_OK,
              names[t], err.message);
}

/* Two of three ranks can do what three cannot. */
static void reduce_in_two(void)
{
    horovod_error_t err = {0};
    float data[2] = {horovod_rank() == 0, horovod_rank() == 2};

    if (horovod_process_set_included(1) != 1)
        return;
    check(horovod_allreduce(data, data,
                            HOROVOD_TENSOR(.name = "of two", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                           .shape = (const int64_t[]){2}, .op = HOROVOD_ADASUM,
                                           .process_set = 1),
                            &err) == HOROVOD_OK,
          "of two", err.message);
    check(data[0] > 0.99F && data[0] < 1.01F && data[1] > 0.99F && data[1] < 1.01F, "of two",
          "is wrong");
}

static void reduce_all(float *const *data, int step)
{
    horovod_handle_t handles[N_TENSORS];

    submit_all(data, handles, step);
    for (int t = 0; t < N_TENSORS; t++) {
        horovod_error_t err = {0};
        int64_t n_wrong = 0;
        check(horovod_wait(handles[t], &err) == HOROVOD_OK, "adasum", err.message);
        for (int64_t i = 0; i < lengths[t]; i++) {
            const double off = (double)data[t][i] - result_of(t, i, horovod_size());
            n_wrong += off > 1e-3 || off < -1e-3;
        }
        check(n_wrong == 0, "adasum", "an element is wrong");
    }
}

void mode_adasum(void)
{
    float *data[N_TENSORS];
    horovod_error_t err = {0};

    const char *told = getenv("OMPI_COMM_WORLD_SIZE");
    const int pair[] = {0, 2};
    const int pair_size = 2;

    if (!horovod_init(NULL, 0, pair, &pair_size, told && atoi(told) == 3)) {
        horovod_init_error(&err);
        check(false, "init", err.message);
        return;
    }
    const int size = horovod_size();
    for (int t = 0; t < N_TENSORS; t++)
        data[t] = malloc((size_t)lengths[t] * sizeof(float));
    if ((size & (size - 1)) == 0) {
        for (int step = 0; step < 6; step++)
            reduce_all(data, step);
    } else {
        const horovod_tensor_t *t =
            HOROVOD_TENSOR(.name = "gradient", .dtype = HOROVOD_FLOAT32, .op = HOROVOD_ADASUM);
        check(horovod_allreduce(data[0], data[0], t, &err) == HOROVOD_INVALID_ARGUMENT, "adasum",
              "not refused");
        check(strstr(err.message,
                     "Running Adasum with non-power of 2 ranks is not supported yet.") != NULL,
              "adasum", err.message);
        if (size == 3)
            reduce_in_two();
    }
    check_sum("the job goes on");
    for (int t = 0; t < N_TENSORS; t++)
        free(data[t]);
    horovod_shutdown();
}
