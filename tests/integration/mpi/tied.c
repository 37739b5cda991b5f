/*
 * The same memory in several tensors that are pending together, as of tied weights: in a group, and
 * submitted again. Sizes around those at which data moves in another way.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define N_MAX 300000

static float own[N_MAX];
static float other[N_MAX];

static void fill(float *data, int n)
{
    for (int i = 0; i < n; i++)
        data[i] = (float)(horovod_rank() + 1 + i % 5);
}

/* The sum over all ranks, `times` in a row. */
static void expect(const float *data, int n, int times, const char *what)
{
    const int size = horovod_size();
    char text[96];

    for (int i = 0; i < n; i++) {
        double want = size * (size + 1) / 2.0 + size * (i % 5);
        for (int k = 1; k < times; k++)
            want *= size;
        if ((double)data[i] == want)
            continue;
        snprintf(text, sizeof(text), "element %d of %d is %g, not %g", i, n, (double)data[i], want);
        check(false, what, text);
        return;
    }
}

static const horovod_tensor_t *tensor(horovod_tensor_t *t, const char *name, const int64_t *n)
{
    *t = (horovod_tensor_t){.size = sizeof(*t),
                            .name = name,
                            .dtype = HOROVOD_FLOAT32,
                            .op = HOROVOD_SUM,
                            .ndim = 1,
                            .shape = n};
    return t;
}

/* All of a group are read before one is written. */
static void in_a_group(int n)
{
    const int64_t shape = n;
    float *const data[] = {own, other, own};
    horovod_tensor_t t[3];
    const horovod_tensor_t *tensors[3];
    horovod_handle_t handles[3];
    horovod_error_t err = {0};

    fill(own, n);
    fill(other, n);
    for (int i = 0; i < 3; i++)
        tensors[i] = tensor(&t[i], (const char *[]){"g.a", "g.b", "g.c"}[i], &shape);
    check(horovod_grouped_allreduce_async(3, (const void *const *)data, (void *const *)data,
                                          tensors, handles, &err) == HOROVOD_OK,
          "group", err.message);
    for (int i = 0; i < 3; i++)
        check(horovod_wait(handles[i], &err) == HOROVOD_OK, "group", err.message);
    expect(own, n, 1, "group");
    expect(other, n, 1, "group");
}

/* The first to be agreed on is reduced first, and the last one begins with what that has left. In
 * one flight they are reduced together. */
static void submitted_again(int n, bool may_be_fused)
{
    static const char *const names[] = {"s.a", "s.b"};
    const int64_t shape = n;
    horovod_handle_t handles[2];
    horovod_error_t err = {0};
    horovod_tensor_t t;

    fill(own, n);
    for (int i = 0; i < 2; i++)
        check(horovod_allreduce_async(own, own, tensor(&t, names[i], &shape), &handles[i], &err) ==
                  HOROVOD_OK,
              names[i], err.message);
    for (int i = 0; i < 2; i++)
        check(horovod_wait(handles[i], &err) == HOROVOD_OK, names[i], err.message);
    if (!may_be_fused)
        expect(own, n, 2, "submitted again");
}

void mode_tied(void)
{
    static const int sizes[] = {1, 100, 600, 4096, 20000, 50000, N_MAX};
    const char *fusion = getenv("HOROVOD_FUSION_THRESHOLD");

    must_init();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int turn = 0; turn < 4; turn++) {
            if (!fusion)
                in_a_group(sizes[i]);
            submitted_again(sizes[i], !fusion);
        }
    }
    horovod_shutdown();
}
