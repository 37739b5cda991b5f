/*
 * pack_rate [CALLS [LISTS]]: how fast the kernels move lists of tensors on the first GPU, beside
 * the driver's own copy: one JSON line for each list, layout, direction and scaling. Exit status 77
 * where there is no GPU.
 *
 * A rate counts bytes read and written. Launches follow each other without a pause; so do the
 * copies of as many bytes that they are compared with.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tests/integration/cuda/machine_gpu.h"
#include "tests/integration/cuda/tensor_lists.h"

#define CEILING_BYTES ((size_t)1 << 30)

#define CHECK(CALL) machine_gpu_check(machine_gpu_api()->CALL, #CALL)

static int calls = 200; /* in a row, that are timed */

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one copy within the device, of n in a row. */
static double time_copy(hvd_cu_ptr_t to, hvd_cu_ptr_t from, size_t bytes, int n)
{
    double begin = 0;

    for (int i = -n / 4; i < n; i++) {
        if (i == 0) {
            CHECK(cuCtxSynchronize());
            begin = now();
        }
        CHECK(cuMemcpyDtoDAsync_v2(to, from, bytes, NULL));
    }
    CHECK(cuCtxSynchronize());
    return (now() - begin) / n;
}

static double time_launch(enum hvd_cuda_kernel kernel, const struct hvd_pack_shape *shape,
                          struct hvd_cuda_args *args)
{
    void *params[] = {args};
    double begin = 0;

    for (int i = -calls / 4; i < calls; i++) {
        if (i == 0) {
            CHECK(cuCtxSynchronize());
            begin = now();
        }
        CHECK(cuLaunchKernel(machine_gpu_kernel(kernel), shape->n_blocks, 1, 1, HVD_CUDA_BLOCK, 1,
                             1, 0, NULL, params, NULL));
    }
    CHECK(cuCtxSynchronize());
    return (now() - begin) / calls;
}

/* Tensors of the device, each at a multiple of 512 bytes as frameworks allocate them. */
static void place(struct hvd_piece *pieces, const struct tensor_list *t, hvd_cu_ptr_t memory)
{
    for (int i = 0; i < t->n; i++) {
        pieces[i] = (struct hvd_piece){.count = t->counts[i]};
        memcpy(&pieces[i].input, &memory, sizeof(memory));
        memcpy(&pieces[i].output, &memory, sizeof(memory));
        memory += ((uint64_t)t->counts[i] * 4 + 511) / 512 * 512;
    }
}

static void measure(const struct tensor_list *t, bool is_padded, double ceiling)
{
    static struct hvd_piece pieces[TENSOR_LIST_MAX];
    static uint64_t addresses[TENSOR_LIST_MAX];
    const struct hvd_scaling scaling = {.prescale = 0.5, .postscale = 1, .divisor = 3};
    const struct hvd_pack_list list = {
        .pieces = pieces, .n_pieces = t->n, .dtype = HVD_FLOAT32, .is_padded = is_padded};
    struct hvd_pack_shape shape;
    struct hvd_cuda_args args;

    place(pieces, t, 0);
    if (hvd_pack_table_measure(&list, &shape, NULL) != HVD_OK)
        abort();
    const size_t bytes = shape.buffer_bytes;
    const hvd_cu_ptr_t tensors = machine_gpu_alloc(bytes + (size_t)t->n * 512);
    args.buffer = machine_gpu_alloc(bytes);
    const double copy = time_copy(args.buffer, tensors, bytes, calls);
    void *table = hvd_malloc(shape.table_bytes, 1);
    if (!table)
        abort();
    place(pieces, t, tensors);
    hvd_pack_table_write(&list, &shape, table);
    (void)hvd_pack_table_addresses(&list, false, addresses);
    args.table = machine_gpu_alloc(shape.table_bytes);
    args.addresses = machine_gpu_alloc(sizeof(addresses));
    CHECK(cuMemcpyHtoD_v2(args.table, table, shape.table_bytes));
    CHECK(cuMemcpyHtoD_v2(args.addresses, addresses, (size_t)t->n * sizeof(*addresses)));
    for (int i = 0; i < 4; i++) {
        const bool is_unpack = i % 2 != 0;
        const enum hvd_cuda_kernel kernel =
            hvd_pack_table_prepare(&list, &shape, i < 2 ? NULL : &scaling, is_unpack, &args);
        const double seconds = time_launch(kernel, &shape, &args);
        printf("{\"list\": \"%s\", \"tensors\": %d, \"bytes\": %zu, \"layout\": \"%s\", "
               "\"does\": \"%s%s\", \"us\": %.2f, \"copy_us\": %.2f, \"TB_s\": %.3f, "
               "\"of_copy\": %.3f, \"of_ceiling\": %.3f}\n",
               t->name, t->n, bytes, is_padded ? "padded" : "tight", i < 2 ? "" : "scaled ",
               is_unpack ? "unpack" : "pack", 1e6 * seconds, 1e6 * copy,
               2e-12 * (double)bytes / seconds, copy / seconds,
               2 * (double)bytes / seconds / ceiling);
    }
    hvd_free(table);
}

int main(int argc, char **argv)
{
    const size_t wanted = argc > 2 ? strtoul(argv[2], NULL, 10) : TENSOR_LISTS;
    const char *missing = machine_missing();
    char name[256] = "";

    if (missing) {
        (void)fprintf(stderr, "%s\n", missing);
        return 77;
    }
    if (argc > 1)
        calls = (int)strtol(argv[1], NULL, 10);
    CHECK(cuDeviceGetName(name, sizeof(name), 0));
    const double ceiling =
        2 * (double)CEILING_BYTES /
        time_copy(machine_gpu_alloc(CEILING_BYTES), machine_gpu_alloc(CEILING_BYTES), CEILING_BYTES,
                  calls < 20 ? calls : 20);
    printf("{\"gpu\": \"%s\", \"ceiling_TB_s\": %.3f}\n", name, 1e-12 * ceiling);
    for (int i = 0; i < TENSOR_LISTS && (size_t)i < wanted; i++) {
        static struct tensor_list t;

        tensor_list_fill(&t, i);
        measure(&t, true, ceiling);
        measure(&t, false, ceiling);
    }
    return 0;
}
