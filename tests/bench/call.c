/*
 * What an allreduce of one element costs a C program: as one call, or submitted and waited for. A
 * library for call.py, which does the same from Python in the same process, in turn.
 */
#include <horovod/horovod.h>
#include <time.h>

/* The mean of so many calls in nanoseconds; -1 when one failed. The job has begun. */
__attribute__((visibility("default"))) double bench_call(int n_calls);

/* The same for calls that submit, and others that wait. */
__attribute__((visibility("default"))) double bench_call_async(int n_calls);

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#define TENSOR(dims)                                                                               \
    HOROVOD_TENSOR(.name = "allreduce.call", .dtype = HOROVOD_FLOAT32, .ndim = 1, .shape = (dims), \
                   .op = HOROVOD_SUM, .prescale_factor = 1, .postscale_factor = 1)

static int reduce(float *data)
{
    const int64_t shape[] = {1};
    horovod_error_t err;

    return horovod_allreduce(data, data, TENSOR(shape), &err) == HOROVOD_OK ? 0 : -1;
}

static int submit_and_wait(float *data)
{
    const int64_t shape[] = {1};
    horovod_handle_t handle = 0;
    horovod_error_t err;

    if (horovod_allreduce_async(data, data, TENSOR(shape), &handle, &err) != HOROVOD_OK)
        return -1;
    return horovod_wait(handle, &err) == HOROVOD_OK ? 0 : -1;
}

static double timed(int (*function)(float *), int n_calls)
{
    float data[1] = {1};
    const double begin = now_ns();

    for (int i = 0; i < n_calls; i++)
        if (function(data) != 0)
            return -1;
    return (now_ns() - begin) / n_calls;
}

double bench_call(int n_calls)
{
    return timed(reduce, n_calls);
}

double bench_call_async(int n_calls)
{
    return timed(submit_and_wait, n_calls);
}
