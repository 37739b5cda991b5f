/*
 * What the collectives compute, against closed forms: elements are small integers, exact in every
 * type.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define MAX_ELEMENTS 5000

static int value(int rank, int64_t i)
{
    return (int)((rank * 3 + i) % 7);
}

static void store(horovod_dtype_t dtype, void *data, int64_t i, int v)
{
    if (dtype == HOROVOD_UINT8)
        ((uint8_t *)data)[i] = (uint8_t)v;
    else if (dtype == HOROVOD_INT32)
        ((int32_t *)data)[i] = v;
    else if (dtype == HOROVOD_INT64)
        ((int64_t *)data)[i] = v;
    else if (dtype == HOROVOD_FLOAT32)
        ((float *)data)[i] = (float)v;
    else
        ((double *)data)[i] = v;
}

static double load(horovod_dtype_t dtype, const void *data, int64_t i)
{
    if (dtype == HOROVOD_UINT8)
        return ((const uint8_t *)data)[i];
    if (dtype == HOROVOD_INT32)
        return ((const int32_t *)data)[i];
    if (dtype == HOROVOD_INT64)
        return (double)((const int64_t *)data)[i];
    if (dtype == HOROVOD_FLOAT32)
        return (double)((const float *)data)[i];
    return ((const double *)data)[i];
}

static double reduced(horovod_dtype_t dtype, horovod_reduce_op_t op, int64_t i)
{
    int result = value(0, i);

    for (int rank = 1; rank < horovod_size(); rank++) {
        int v = value(rank, i);
        if (op == HOROVOD_SUM || op == HOROVOD_AVERAGE)
            result += v;
        else if (op == HOROVOD_MIN ? v < result : v > result)
            result = v;
    }
    if (op != HOROVOD_AVERAGE)
        return result;
    if (dtype == HOROVOD_FLOAT32)
        return (double)((float)result * (float)(1.0 / horovod_size()));
    if (dtype == HOROVOD_FLOAT64)
        return result * (1.0 / horovod_size());
    const int rounded = result / horovod_size();
    return rounded;
}

static void reduce_once(horovod_dtype_t dtype, horovod_reduce_op_t op, int64_t count, bool in_place)
{
    static int64_t input[MAX_ELEMENTS];
    static int64_t output[MAX_ELEMENTS];
    void *out = in_place ? input : output;
    horovod_error_t err = {0};

    for (int64_t i = 0; i < count; i++)
        store(dtype, input, i, value(horovod_rank(), i));
    horovod_status_t st =
        horovod_allreduce(input, out,
                          HOROVOD_TENSOR(.name = "reduce", .dtype = dtype, .op = op, .ndim = 1,
                                         .shape = (const int64_t[]){count}),
                          &err);
    check(st == HOROVOD_OK, "allreduce", err.message);
    bool good = true;
    for (int64_t i = 0; i < count; i++)
        good = good && load(dtype, out, i) == reduced(dtype, op, i);
    check(good, "allreduce", "an element is wrong");
}

static void broadcast_once(int root)
{
    float data[100];
    float copy[100];
    const bool is_root = horovod_rank() == root;
    const horovod_tensor_t *tensor =
        HOROVOD_TENSOR(.name = "cast", .dtype = HOROVOD_FLOAT32, .ndim = 2,
                       .shape = (const int64_t[]){4, 25}, .root_rank = root);
    horovod_error_t err = {0};

    for (int i = 0; i < 100; i++)
        data[i] = is_root ? (float)(root * 1000 + i) : -1;
    check(horovod_broadcast(data, data, tensor, &err) == HOROVOD_OK, "broadcast", err.message);
    check(horovod_broadcast(is_root ? data : NULL, copy, tensor, &err) == HOROVOD_OK, "broadcast",
          err.message);
    for (int i = 0; i < 100; i++)
        check(data[i] == (float)(root * 1000 + i) && copy[i] == data[i], "broadcast",
              "an element is wrong");
}

/* Where this rank is, as far as it follows from where the others are. LOCAL_SIZES is how many ranks
 * each host has, "2,1"; not set: all are on one host. Ranks fill hosts in their order. */
static void check_places(int size)
{
    const char *sizes = getenv("LOCAL_SIZES");
    int first[2] = {size, 0};
    char *end = NULL;

    if (sizes) {
        first[0] = (int)strtol(sizes, &end, 10);
        first[1] = (int)strtol(end + 1, NULL, 10);
    }
    const int host = horovod_rank() >= first[0];
    const int rank = horovod_rank() - (host ? first[0] : 0);
    check(horovod_local_size() == first[host] && horovod_local_rank() == rank, "local", "wrong");
    check(horovod_cross_size() == (rank < first[!host] ? 2 : 1), "cross size", "wrong");
    check(horovod_cross_rank() == (rank < first[!host] ? host : 0), "cross rank", "wrong");
    check(horovod_is_homogeneous() == (first[1] == 0 || first[0] == first[1]), "flags", "wrong");
    check(horovod_is_initialized() == 1, "flags", "wrong");
}

static void check_place(void)
{
    const int size = horovod_size();

    check(horovod_rank() >= 0 && horovod_rank() < size, "rank", "out of range");
    check_places(size);
    check(horovod_mpi_threads_supported() == 1, "threads", "not supported");
}

void mode_values(void)
{
    static const horovod_dtype_t dtypes[] = {HOROVOD_UINT8, HOROVOD_INT32, HOROVOD_INT64,
                                             HOROVOD_FLOAT32, HOROVOD_FLOAT64};
    static const horovod_reduce_op_t ops[] = {HOROVOD_AVERAGE, HOROVOD_SUM, HOROVOD_MIN,
                                              HOROVOD_MAX};
    static const int64_t counts[] = {0, 1, 13, MAX_ELEMENTS};

    must_init();
    check_place();
    for (int n = 0; n < 5 * 4 * 4 * 2; n++)
        reduce_once(dtypes[n % 5], ops[n / 5 % 4], counts[n / 20 % 4], n / 80);
    for (int root = 0; root < horovod_size(); root++)
        broadcast_once(root);
    for (int i = 0; i < 3; i++)
        check(horovod_barrier(NULL) == HOROVOD_OK, "barrier", "failed");
    horovod_shutdown();
    check(horovod_rank() == -1 && horovod_is_initialized() == 0, "shutdown", "not over");
}

/* Rank r contributes rows_of(r, n) rows of 3 doubles. */
static int64_t rows_of(int rank, int n)
{
    return n == 0 ? 0 : (rank + n) % 3 * n;
}

static void gather_once(int n)
{
    double input[600];
    const int64_t mine = rows_of(horovod_rank(), n);
    horovod_output_t *output = NULL;
    horovod_error_t err = {0};
    int64_t at = 0;

    for (int64_t i = 0; i < mine * 3; i++)
        input[i] = horovod_rank() * 1000 + (double)i;
    horovod_status_t st =
        horovod_allgather(mine ? input : NULL,
                          HOROVOD_TENSOR(.name = "gather", .dtype = HOROVOD_FLOAT64, .ndim = 2,
                                         .shape = (const int64_t[]){mine, 3}),
                          &output, &err);
    check(st == HOROVOD_OK, "allgather", err.message);
    if (st != HOROVOD_OK)
        return;
    const double *data = horovod_output_data(output);
    for (int rank = 0; rank < horovod_size(); rank++) {
        check(horovod_output_rows_of(output, rank) == rows_of(rank, n), "allgather", "rows");
        for (int64_t i = 0; i < rows_of(rank, n) * 3; i++, at++)
            check(data[at] == rank * 1000 + (double)i, "allgather", "an element is wrong");
    }
    check(horovod_output_rows(output) * 3 == at, "allgather", "the number of rows is wrong");
    check(horovod_output_bytes(output) == (size_t)at * sizeof(double), "allgather", "bytes");
    check(horovod_output_rows_of(output, horovod_size()) == -1, "allgather", "a rank too many");
    horovod_output_release(output);
}

void mode_gather(void)
{
    must_init();
    for (int n = 0; n < 100; n = n * 2 + 1)
        gather_once(n);
    horovod_shutdown();
}

#define N_THREADS 4
#define N_TENSORS 40

/* The place of tensor i in this rank's and thread's own order. */
static int permute(int i, int thread)
{
    static const int steps[] = {1, 3, 7, 9, 11, 13, 17, 19}; /* coprime to N_TENSORS */

    return (i * steps[(horovod_rank() + thread) % 8] + horovod_rank()) % N_TENSORS;
}

static void *submit_and_wait(void *arg)
{
    const int thread = *(const int *)arg;
    horovod_handle_t handles[N_TENSORS] = {0};
    int64_t data[N_TENSORS];
    horovod_error_t err = {0};
    char name[32];

    for (int i = 0; i < N_TENSORS; i++) {
        int t = permute(i, thread);
        snprintf(name, sizeof(name), "thread %d tensor %d", thread, t);
        data[t] = horovod_rank() + t;
        horovod_status_t st = horovod_allreduce_async(
            &data[t], &data[t],
            HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_INT64, .op = HOROVOD_SUM), &handles[t],
            &err);
        check(st == HOROVOD_OK, name, err.message);
    }
    const int64_t size = horovod_size();
    for (int t = 0; t < N_TENSORS; t++) {
        if (t % 2)
            while (horovod_poll(handles[t]) == 0)
                sched_yield();
        check(horovod_wait(handles[t], &err) == HOROVOD_OK, "wait", err.message);
        check(data[t] == size * (size - 1) / 2 + size * t, "threads", "a sum is wrong");
    }
    return NULL;
}

void mode_threads(void)
{
    pthread_t threads[N_THREADS];
    int numbers[N_THREADS];

    must_init();
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N_THREADS; i++) {
            numbers[i] = i;
            check(pthread_create(&threads[i], NULL, submit_and_wait, &numbers[i]) == 0, "thread",
                  "not created");
        }
        for (int i = 0; i < N_THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    horovod_shutdown();
}

void mode_large(void)
{
    const int64_t count = ((int64_t)1 << 31) + 5;
    horovod_error_t err = {0};
    uint8_t *data = malloc((size_t)count);

    must_init();
    check(data != NULL, "large", "out of memory");
    if (data) {
        memset(data, horovod_rank() + 1, (size_t)count);
        horovod_status_t st = horovod_allreduce(
            data, data,
            HOROVOD_TENSOR(.name = "large", .dtype = HOROVOD_UINT8, .op = HOROVOD_SUM, .ndim = 1,
                           .shape = (const int64_t[]){count}),
            &err);
        const int size = horovod_size();
        bool good = true;
        for (int64_t i = 0; i < count; i++)
            good = good && data[i] == size * (size + 1) / 2;
        check(st == HOROVOD_OK && good, "large", err.message);
    }
    horovod_shutdown();
    free(data);
}
