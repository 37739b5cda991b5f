#ifndef HVD_TESTS_INTEGRATION_CUDA_GPU_H
#define HVD_TESTS_INTEGRATION_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The GPU of a test program, over the doubles or a real driver. A call that fails ends the program.
 * One thread.
 */

/* Opens a GPU and makes its context current; returns a stream of the program. */
void *gpu_open(int ordinal);

/* Allocates memory of the GPU; it is usable on the stream. 0 bytes: NULL. */
void *gpu_alloc(void *stream, size_t bytes);

/* Frees it in the order of the stream. NULL is allowed. */
void gpu_free(void *stream, void *memory);

/* Copies from the host, behind the work on the stream, and without a wait for the GPU. */
void gpu_put(void *stream, void *to, const void *from, size_t bytes);

/* Copies to the host, behind the work on the stream, and waits for it. */
void gpu_get(void *stream, void *to, const void *from, size_t bytes);

/* Waits for the work on the stream. */
void gpu_synchronize(void *stream);

/* Frees what copies have used, when the stream is idle. */
void gpu_finish(void *stream);

/* Makes the stream wait until gpu_release is called with what this returns. */
volatile uint32_t *gpu_hold(void *stream);

/* Lets the stream go on. Any thread. */
void gpu_release(volatile uint32_t *held);

/* Begins the capture of a stream into a graph, or ends it. */
void gpu_capture(void *stream, bool begins);

#endif
