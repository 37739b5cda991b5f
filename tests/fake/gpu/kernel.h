#ifndef HVD_TESTS_FAKE_GPU_KERNEL_H
#define HVD_TESTS_FAKE_GPU_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/fake/gpu/alias.h"

/*
 * What a kernel that is compiled as C sees, and the table by which the double of the driver finds
 * it. tests/fake/gpu/kernels.c defines the table for what worker/device/cuda launches.
 *
 * A launch calls `call` once for each thread of the grid, one after the other, blocks in order. So
 * a kernel may not wait for another thread of its grid: no __syncthreads, no shared memory that
 * another thread fills, no shuffles.
 */
struct fake_dim3 {
    unsigned x;
    unsigned y;
    unsigned z;
};

/* Set for each thread before `call`. Each thread of the host that runs a stream has its own. */
extern _Thread_local struct fake_dim3 threadIdx;
extern _Thread_local struct fake_dim3 blockIdx;
extern _Thread_local struct fake_dim3 blockDim;
extern _Thread_local struct fake_dim3 gridDim;

/* Takes one range of device or pinned memory that a launch reads or writes; `at` is the pointer as
 * the program has it, without the alias. Returns false if it is no such memory: it cannot be read
 * then. */
typedef bool (*fake_range_fn)(void *to, const void *at, size_t bytes, bool is_write);

#define FAKE_KERNEL_PARAMS 8

struct fake_kernel {
    const char *name; /* of the .entry in the PTX text */

    /* Runs one thread. params[i] points at the i-th parameter, as in cuLaunchKernel. */
    void (*call)(void **params);

    /*
     * Reports to `add` each range that the whole launch reads or writes. Runs when the launch
     * starts, behind everything in front of it on the stream, so it may read tables in device
     * memory (FAKE_GPU_AT). blockDim and gridDim are set. What it reads there it reports, too.
     */
    void (*ranges)(void **params, fake_range_fn add, void *to);

    size_t param_bytes[FAKE_KERNEL_PARAMS]; /* sizes of the parameters; 0 ends them */
};

/* All kernels; an entry without name ends the table. */
extern const struct fake_kernel fake_kernels[];

#endif
