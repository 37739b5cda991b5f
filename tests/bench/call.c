/*
 * What an allreduce costs a C program: submitted and waited for, one rank, one element. Prints the
 * nanoseconds of each of several turns; call.py does the same from Python.
 */
#include <horovod/horovod.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

int main(int argc, char **argv)
{
    const int n_turns = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    const int n_calls = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 20000;
    float data[1] = {1};

    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    for (int turn = 0; turn < n_turns; turn++) {
        const double begin = now_ns();
        for (int i = 0; i < n_calls; i++)
            if (reduce(data) != 0)
                return 1;
        printf("%.1f\n", (now_ns() - begin) / n_calls);
    }
    horovod_shutdown();
    return 0;
}
