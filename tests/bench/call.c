/*
 * What an allreduce costs a C program: submitted and waited for, one element. A library for
 * call.py, which does the same from Python in the same process, in turn.
 */
#include <horovod/horovod.h>
#include <time.h>

/* The mean of so many calls in nanoseconds; -1 when one failed. The job has begun. */
__attribute__((visibility("default"))) double bench_call(int n_calls);

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int reduce(float *data)
{
    const int64_t shape[] = {1};
    horovod_handle_t handle = 0;
    horovod_error_t err;

    if (horovod_allreduce_async(data, data,
                                HOROVOD_TENSOR(.name = "allreduce.call", .dtype = HOROVOD_FLOAT32,
                                               .ndim = 1, .shape = shape, .op = HOROVOD_SUM,
                                               .prescale_factor = 1, .postscale_factor = 1),
                                &handle, &err) != HOROVOD_OK)
        return -1;
    return horovod_wait(handle, &err) == HOROVOD_OK ? 0 : -1;
}

double bench_call(int n_calls)
{
    float data[1] = {1};
    const double begin = now_ns();

    for (int i = 0; i < n_calls; i++)
        if (reduce(data) != 0)
            return -1;
    return (now_ns() - begin) / n_calls;
}
