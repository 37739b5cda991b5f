/*
 * Every kind of collective through the public API: all element types, fused and in groups, factors,
 * scattered and exchanged rows, ranks that join early, tensors without names.
 */
#include <stdio.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define N_DTYPES 13
#define N_TENSORS 60

static void expect_ok(horovod_status_t st, const char *what, const horovod_error_t *err)
{
    check(st == HOROVOD_OK, what, err->message);
}

/* One of every type; small sums of ones are exact in all. */
static size_t store_ones(horovod_dtype_t dtype, void *data, int n, int value)
{
    static const size_t widths[N_DTYPES] = {1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2, 4, 8};
    static const uint16_t halves[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400,
                                      0x4500, 0x4600, 0x4700, 0x4800};
    static const uint16_t brains[] = {0,      0x3f80, 0x4000, 0x4040, 0x4080,
                                      0x40a0, 0x40c0, 0x40e0, 0x4100};
    const float single = (float)value;
    const double precise = value;
    const int64_t integer = dtype == HOROVOD_BOOL ? value != 0 : value;

    for (int i = 0; i < n; i++) {
        char *at = (char *)data + (size_t)i * widths[dtype];
        if (dtype == HOROVOD_FLOAT16)
            memcpy(at, &halves[value], 2);
        else if (dtype == HOROVOD_BFLOAT16)
            memcpy(at, &brains[value], 2);
        else if (dtype == HOROVOD_FLOAT32)
            memcpy(at, &single, 4);
        else if (dtype == HOROVOD_FLOAT64)
            memcpy(at, &precise, 8);
        else
            memcpy(at, &integer, widths[dtype]); /* little endian */
    }
    return (size_t)n * widths[dtype];
}

/* Tensors of all types at once, in an order of each rank's own: they fuse by type. */
static void reduce_all_types(void)
{
    static char data[N_TENSORS][64];
    char want[64];
    horovod_handle_t handles[N_TENSORS];
    horovod_error_t err = {0};
    char name[32];

    for (int i = 0; i < N_TENSORS; i++) {
        const int t = horovod_rank() % 2 ? N_TENSORS - 1 - i : i;
        const horovod_dtype_t dtype = (horovod_dtype_t)(t % N_DTYPES);
        store_ones(dtype, data[t], t % 7 + 1, 1);
        snprintf(name, sizeof(name), "type %d", t);
        expect_ok(horovod_allreduce_async(data[t], data[t],
                                          HOROVOD_TENSOR(.name = name, .dtype = dtype,
                                                         .op = HOROVOD_SUM, .ndim = 1,
                                                         .shape = (const int64_t[]){t % 7 + 1}),
                                          &handles[t], &err),
                  name, &err);
    }
    for (int t = 0; t < N_TENSORS; t++) {
        expect_ok(horovod_wait(handles[t], &err), "types", &err);
        const size_t bytes =
            store_ones((horovod_dtype_t)(t % N_DTYPES), want, t % 7 + 1, horovod_size());
        check(memcmp(data[t], want, bytes) == 0, "types", "a sum is wrong");
    }
}

static void scale(void)
{
    float data[3] = {1, 2, 3};
    horovod_error_t err = {0};

    expect_ok(horovod_allreduce(data, data,
                                HOROVOD_TENSOR(.name = "scaled", .dtype = HOROVOD_FLOAT32,
                                               .op = HOROVOD_AVERAGE, .ndim = 1,
                                               .shape = (const int64_t[]){3}, .prescale_factor = 4,
                                               .postscale_factor = 0.5),
                                &err),
              "scaled", &err);
    check(data[0] == 2 && data[1] == 4 && data[2] == 6, "scaled", "a value is wrong");
}

/* Where the output of a scatter lies: somewhere else, where the input is, right below it, and right
 * above it. */
enum { APART, IN_PLACE, BELOW, ABOVE, N_PLACES };

static void scatter_to(int place)
{
    int32_t memory[3 * 22];
    const int size = horovod_size();
    const int rank = horovod_rank();
    const int mine = (int)horovod_reducescatter_rows(11, rank, size) * 2;
    int32_t *input = memory + 22;
    int32_t *output = place == IN_PLACE ? input
                      : place == BELOW  ? input - mine
                      : place == ABOVE  ? input + 22
                                        : memory;
    horovod_error_t err = {0};

    for (int i = 0; i < 22; i++)
        input[i] = rank + i;
    expect_ok(horovod_reducescatter(input, output,
                                    HOROVOD_TENSOR(.name = "scatter", .dtype = HOROVOD_INT32,
                                                   .op = HOROVOD_SUM, .ndim = 2,
                                                   .shape = (const int64_t[]){11, 2},
                                                   .postscale_factor = 3),
                                    &err),
              "scatter", &err);
    int64_t first = 0;
    for (int r = 0; r < rank; r++)
        first += horovod_reducescatter_rows(11, r, size) * 2;
    for (int64_t i = 0; i < mine; i++)
        check(output[i] == 3 * (size * (size - 1) / 2 + size * (int)(first + i)), "scatter",
              "an element is wrong");
}

/* Each rank in a place of its own. */
static void scatter(void)
{
    for (int i = 0; i < N_PLACES; i++)
        scatter_to((i + horovod_rank()) % N_PLACES);
}

/* Rank a sends (a + b) % 3 rows to rank b. */
static void exchange(void)
{
    int16_t input[64];
    int64_t splits[16];
    int64_t rows = 0;
    horovod_error_t err = {0};
    horovod_output_t *output = NULL;
    const int rank = horovod_rank();

    for (int to = 0; to < horovod_size(); to++) {
        splits[to] = (rank + to) % 3;
        for (int64_t i = 0; i < splits[to]; i++)
            input[rows++] = (int16_t)(rank * 100 + to);
    }
    const horovod_status_t st =
        horovod_alltoall(input,
                         HOROVOD_TENSOR(.name = "exchange", .dtype = HOROVOD_INT16, .ndim = 1,
                                        .shape = (const int64_t[]){rows}, .splits = splits,
                                        .n_splits = horovod_size()),
                         &output, &err);
    expect_ok(st, "exchange", &err);
    if (st != HOROVOD_OK)
        return;
    const int16_t *data = horovod_output_data(output);
    for (int from = 0; from < horovod_size(); from++) {
        check(horovod_output_rows_of(output, from) == (from + rank) % 3, "exchange", "rows");
        for (int i = 0; i < (from + rank) % 3; i++)
            check(*data++ == from * 100 + rank, "exchange", "an element is wrong");
    }
    horovod_output_release(output);
    splits[0] += rows + 1;
    check(horovod_alltoall(input,
                           HOROVOD_TENSOR(.name = "exchange", .dtype = HOROVOD_INT16, .ndim = 1,
                                          .shape = (const int64_t[]){rows}, .splits = splits,
                                          .n_splits = horovod_size()),
                           NULL, &err) == HOROVOD_INVALID_ARGUMENT &&
              strstr(err.message, "Sum of splits entries is greater"),
          "splits", err.message);
}

static void group(void)
{
    int64_t a = 1;
    int64_t b = 2;
    horovod_handle_t handles[2];
    horovod_error_t err = {0};
    const horovod_tensor_t *tensors[] = {
        HOROVOD_TENSOR(.name = "group a", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM),
        HOROVOD_TENSOR(.name = "group b", .dtype = HOROVOD_INT64, .op = HOROVOD_PRODUCT)};

    expect_ok(horovod_grouped_allreduce_async(2, (const void *const[]){&a, &b},
                                              (void *const[]){&a, &b}, tensors, handles, &err),
              "group", &err);
    for (int i = 0; i < 2; i++)
        expect_ok(horovod_wait(handles[i], &err), "group", &err);
    check(a == horovod_size() && b == 1 << horovod_size(), "group", "a value is wrong");
}

static void unnamed(void)
{
    int32_t value = 7;
    horovod_error_t err = {0};

    for (int i = 1; i < 4; i++) {
        value = 7;
        expect_ok(horovod_allreduce(&value, &value,
                                    HOROVOD_TENSOR(.dtype = HOROVOD_INT32, .op = HOROVOD_MAX),
                                    &err),
                  "unnamed", &err);
        check(value == 7, "unnamed", "a value is wrong");
    }
}

/* Rank r has r sums, then joins; the last rank is last. */
static void join(void)
{
    int last = -1;
    horovod_error_t err = {0};

    for (int i = 0; i < horovod_rank(); i++) {
        int64_t one = 1;
        expect_ok(horovod_allreduce(
                      &one, &one,
                      HOROVOD_TENSOR(.name = "uneven", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM),
                      &err),
                  "join", &err);
        check(one == horovod_size() - 1 - i, "join", "zeros of joined ranks are missing");
    }
    expect_ok(horovod_join(&last, &err), "join", &err);
    check(last == horovod_size() - 1, "join", "the last rank is wrong");
}

void mode_kinds(void)
{
    must_init();
    for (int round = 0; round < 3; round++) { /* by name, then by bits */
        reduce_all_types();
        scale();
        scatter();
        exchange();
        group();
        unnamed();
        join();
        check_sum("in between");
    }
    horovod_shutdown();
}
