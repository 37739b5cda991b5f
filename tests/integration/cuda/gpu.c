/*
 * The GPU of a test program. Copies from the host use pinned memory, which stays until gpu_finish,
 * so that they do not wait for the stream.
 */
#include "tests/integration/cuda/gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/device/cuda/library.h"

#define PINNED_MAX 4096
#define CAPTURE_RELAXED 2

static const struct hvd_cuda_library *library;
static void *pinned[PINNED_MAX];
static int n_pinned;

static void must(hvd_cu_result_t result, const char *what)
{
    struct hvd_err err = {0};

    if (result == HVD_CU_SUCCESS)
        return;
    (void)hvd_cuda_library_failure(library, result, what, &err);
    (void)fprintf(stderr, "%s\n", err.msg);
    exit(1);
}

static hvd_cu_ptr_t at(const void *memory)
{
    return (hvd_cu_ptr_t)(uintptr_t)memory;
}

/* Tells the double that calls of this thread are the program's. */
static void act_as_program(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*as_program)(bool) = NULL;

    if (driver)
        *(void **)&as_program = dlsym(driver, "fake_gpu_as_program");
    if (as_program)
        as_program(true);
}

void *gpu_open(int ordinal)
{
    struct hvd_err err = {0};
    struct CUctx_st *context = NULL;
    struct CUstream_st *stream = NULL;
    int device = 0;

    if (hvd_cuda_library(&library, &err) != HVD_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(77);
    }
    act_as_program();
    must(library->cu.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    must(library->cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(library->cu.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
    must(library->cu.cuStreamCreateWithPriority(&stream, HVD_CU_STREAM_NON_BLOCKING, 0),
         "cuStreamCreateWithPriority");
    return stream;
}

void *gpu_alloc(void *stream, size_t bytes)
{
    hvd_cu_ptr_t memory = 0;

    if (bytes > 0)
        must(library->cu.cuMemAllocAsync(&memory, bytes, stream), "cuMemAllocAsync");
    return (void *)(uintptr_t)memory; /* NOLINT(performance-no-int-to-ptr) */
}

void gpu_free(void *stream, void *memory)
{
    if (memory)
        must(library->cu.cuMemFreeAsync(at(memory), stream), "cuMemFreeAsync");
}

static void *pin(size_t bytes)
{
    void *memory = NULL;

    if (n_pinned == PINNED_MAX) {
        (void)fprintf(stderr, "too many copies without gpu_finish\n");
        exit(1);
    }
    must(library->cu.cuMemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc");
    pinned[n_pinned++] = memory;
    return memory;
}

void gpu_put(void *stream, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return;
    void *memory = pin(bytes);
    memcpy(memory, from, bytes);
    must(library->cu.cuMemcpyHtoDAsync_v2(at(to), memory, bytes, stream), "cuMemcpyHtoDAsync");
}

void gpu_get(void *stream, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return;
    void *memory = pin(bytes);
    must(library->cu.cuMemcpyDtoHAsync_v2(memory, at(from), bytes, stream), "cuMemcpyDtoHAsync");
    must(library->cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
    memcpy(to, memory, bytes);
}

void gpu_synchronize(void *stream)
{
    must(library->cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void gpu_finish(void *stream)
{
    gpu_synchronize(stream);
    while (n_pinned > 0)
        must(library->cu.cuMemFreeHost(pinned[--n_pinned]), "cuMemFreeHost");
}

volatile uint32_t *gpu_hold(void *stream)
{
    uint32_t *held = pin(sizeof(*held));

    *held = 0;
    must(library->cu.cuStreamWaitValue32_v2(stream, at(held), 1, HVD_CU_WAIT_VALUE_GEQ),
         "cuStreamWaitValue32");
    return held;
}

void gpu_release(volatile uint32_t *held)
{
    *held = 1;
}

/* Graphs are the program's own, so the library has no functions for them. */
void gpu_capture(void *stream, bool begins)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    hvd_cu_result_t (*begin)(struct CUstream_st *, unsigned) = NULL;
    hvd_cu_result_t (*end)(struct CUstream_st *, void **) = NULL;
    void *graph = NULL;

    *(void **)&begin = dlsym(driver, "cuStreamBeginCapture_v2");
    *(void **)&end = dlsym(driver, "cuStreamEndCapture");
    must(begins ? begin(stream, CAPTURE_RELAXED) : end(stream, &graph), "capture");
}
