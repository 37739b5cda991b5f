#ifndef HVD_TESTS_FAKE_GPU_ALIAS_H
#define HVD_TESTS_FAKE_GPU_ALIAS_H

#include <stddef.h>

/*
 * Where the memory of the fake GPU is. A device pointer that the program holds lies in pages that
 * nobody can access. The same bytes are readable and writable FAKE_GPU_ALIAS bytes behind it, for
 * threads of the double alone. Memory of cuMemHostAlloc lies in the same arena: the program
 * accesses it at its own address, and kernels at the alias. So a kernel that is compiled as C adds
 * the distance to every pointer into device or pinned memory:
 *
 *     #define DEVICE(type, p) ((type *)FAKE_GPU_AT(p))
 *
 * Pageable memory of the host has no alias: a kernel that uses a pointer to it faults.
 */
#define FAKE_GPU_ALIAS ((ptrdiff_t)1 << 38)

/* The address at which a kernel that runs on the host accesses what the device pointer p names. */
#define FAKE_GPU_AT(p) ((void *)((char *)(p) + FAKE_GPU_ALIAS))

#endif
