/*
 * Probes of the driver: each asserts one behaviour that the double imitates, by the
 * driver that dlopen finds. So the same program runs with the double and on a machine with a GPU.
 *
 *     fake-gpu-probe [NAME ...]      a line for each: "NAME passed" or "NAME failed: why"
 *
 * Each probe is a process, because some break their context. docs/gpu-doubles.md lists them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake/gpu/driver.h"
#include "worker/device/cuda/image.h"
#include "worker/device/cuda/kernels.h"

#define TIMEOUT_S 20
#define DELAY_MS 100
#define N_BYTES 4096

static struct hvd_cu_driver_api cu;
static struct CUctx_st *context;

static const struct {
    const char *name;
    void *slot;
} symbols[] = {
#define X(symbol, base, since, is_needed, result, params) {#symbol, &cu.symbol},
    HVD_CU_DRIVER_MAP(X)
#undef X
};

/* Ends the probe unless the call returned what is expected. */
static void expect(int line, const char *call, long long seen, long long expected)
{
    if (seen == expected)
        return;
    printf("failed: line %d: %s is %lld, not %lld\n", line, call, seen, expected);
    fflush(stdout);
    _exit(1);
}

#define EXPECT(call, expected) expect(__LINE__, #call, (long long)(call), (long long)(expected))
#define OK(call) EXPECT(call, HVD_CU_SUCCESS)

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    EXPECT(library != NULL, true);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        void *at = dlsym(library, symbols[i].name);
        EXPECT(at != NULL, true);
        memcpy(symbols[i].slot, &at, sizeof(at));
    }
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent_v2(context));
}

static struct CUstream_st *new_stream(unsigned flags)
{
    struct CUstream_st *stream = NULL;

    OK(cu.cuStreamCreateWithPriority(&stream, flags, 0));
    return stream;
}

static struct CUevent_st *new_event(void)
{
    struct CUevent_st *event = NULL;

    OK(cu.cuEventCreate(&event, HVD_CU_EVENT_DISABLE_TIMING));
    return event;
}

static hvd_cu_ptr_t new_memory(void)
{
    hvd_cu_ptr_t memory = 0;

    OK(cu.cuMemAlloc_v2(&memory, N_BYTES));
    return memory;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* --- Holding a stream ------------------------------------------------------------------------- */

/* A stream is held by a number in pinned memory, until the host changes it. */
static _Atomic uint32_t *number;
static hvd_cu_ptr_t number_at;

static void hold(struct CUstream_st *stream)
{
    void *memory = NULL;

    if (!number) {
        OK(cu.cuMemHostAlloc(&memory, sizeof(*number), HVD_CU_HOST_DEVICEMAP));
        number = memory;
        number_at = (hvd_cu_ptr_t)(uintptr_t)memory;
    }
    *number = 0;
    OK(cu.cuStreamWaitValue32_v2(stream, number_at, 1, HVD_CU_WAIT_VALUE_GEQ));
}

static void let_go(void)
{
    *number = 1;
}

static void *let_go_late(void *data)
{
    (void)data;
    usleep(DELAY_MS * 1000);
    let_go();
    return NULL;
}

/* Lets the stream go after some time; returns when that began. */
static uint64_t begin_late(void)
{
    pthread_t thread;
    const uint64_t begin_ms = now_ms();

    EXPECT(pthread_create(&thread, NULL, let_go_late, NULL), 0);
    pthread_detach(thread);
    return begin_ms;
}

#define EXPECT_LATE(begin_ms) EXPECT(now_ms() - (begin_ms) >= DELAY_MS - 5, true)

/* --- Streams and events ----------------------------------------------------------------------- */

static void probe_stream_order(void)
{
    struct CUstream_st *a = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUstream_st *b = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUevent_st *first = new_event();
    struct CUevent_st *second = new_event();

    hold(a);
    OK(cu.cuEventRecord(first, a));
    OK(cu.cuEventRecord(second, b));
    OK(cu.cuEventSynchronize(second)); /* overtakes */
    EXPECT(cu.cuEventQuery(first), HVD_CU_NOT_READY);
    let_go();
    OK(cu.cuEventSynchronize(first));
}

static void probe_event_record(void)
{
    struct CUstream_st *a = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUstream_st *b = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUevent_st *event = new_event();

    OK(cu.cuEventQuery(event));
    OK(cu.cuEventRecord(event, a));
    OK(cu.cuStreamWaitEvent(b, event, 0));
    hold(a);
    OK(cu.cuEventRecord(event, a)); /* b does not wait for this one */
    OK(cu.cuStreamSynchronize(b));
    EXPECT(cu.cuEventQuery(event), HVD_CU_NOT_READY);
    let_go();
    OK(cu.cuEventSynchronize(event));
}

static void probe_stream_destroy(void)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUevent_st *event = new_event();
    const hvd_cu_ptr_t memory = new_memory();
    unsigned char byte = 0;

    hold(stream);
    OK(cu.cuMemsetD8Async(memory, 7, N_BYTES, stream));
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamDestroy_v2(stream)); /* does not wait */
    let_go();
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuMemcpyDtoH_v2(&byte, memory, 1));
    EXPECT(byte, 7);
}

static void probe_legacy_stream(void)
{
    struct CUstream_st *blocking = new_stream(HVD_CU_STREAM_DEFAULT);
    struct CUstream_st *other = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUevent_st *event = new_event();
    const hvd_cu_ptr_t memory = new_memory();

    hold(blocking);
    OK(cu.cuMemsetD8Async(memory, 1, N_BYTES, NULL));
    OK(cu.cuEventRecord(event, NULL));
    OK(cu.cuStreamSynchronize(other));
    usleep(20000);
    EXPECT(cu.cuEventQuery(event), HVD_CU_NOT_READY);
    let_go();
    OK(cu.cuEventSynchronize(event));
}

static void probe_null_stream(void)
{
    struct CUctx_st *seen = NULL;

    OK(cu.cuStreamGetCtx(NULL, &seen));
    EXPECT(seen == context, true);
}

static atomic_long inner_result;

static void call_driver(void *event)
{
    inner_result = (long)cu.cuEventQuery(event);
}

static void probe_host_function(void)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);

    OK(cu.cuLaunchHostFunc(stream, call_driver, new_event()));
    OK(cu.cuStreamSynchronize(stream));
    EXPECT(inner_result, 800);
}

static void probe_stream_value(void)
{
    struct CUstream_st *a = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUstream_st *b = new_stream(HVD_CU_STREAM_NON_BLOCKING);

    hold(a);
    usleep(20000);
    EXPECT(cu.cuStreamQuery(a), HVD_CU_NOT_READY);
    OK(cu.cuStreamWriteValue32_v2(b, number_at, 1, HVD_CU_WRITE_VALUE_DEFAULT));
    OK(cu.cuStreamSynchronize(a));
    EXPECT(*number, 1);
}

static void probe_stream_value_order(void)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    volatile unsigned char *pinned = NULL;
    void *memory = NULL;

    OK(cu.cuMemHostAlloc(&memory, N_BYTES, HVD_CU_HOST_DEVICEMAP));
    pinned = memory;
    hold(stream);
    let_go();
    for (uint32_t i = 2; i < 200; i++) {
        OK(cu.cuMemsetD8Async((hvd_cu_ptr_t)(uintptr_t)memory, (unsigned char)i, N_BYTES, stream));
        OK(cu.cuStreamWriteValue32_v2(stream, number_at, i, HVD_CU_WRITE_VALUE_DEFAULT));
        while (*number != i)
            continue;
        EXPECT(pinned[N_BYTES - 1], (unsigned char)i);
    }
}

/* --- Memory ----------------------------------------------------------------------------------- */

static void probe_unified_address(void)
{
    unsigned names[] = {HVD_CU_POINTER_DEVICE_POINTER, HVD_CU_POINTER_MEMORY_TYPE};
    hvd_cu_ptr_t at = 0;
    unsigned type = 0;
    void *values[] = {&at, &type};
    void *memory = NULL;

    OK(cu.cuMemHostAlloc(&memory, N_BYTES, HVD_CU_HOST_PORTABLE));
    OK(cu.cuPointerGetAttributes(2, names, values, (hvd_cu_ptr_t)(uintptr_t)memory));
    EXPECT(at == (hvd_cu_ptr_t)(uintptr_t)memory, true);
    EXPECT(type, HVD_CU_MEMORY_HOST);
}

static void probe_pageable_copy(void)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    const hvd_cu_ptr_t memory = new_memory();
    static char host[N_BYTES];

    hold(stream);
    const uint64_t begin_ms = begin_late();
    OK(cu.cuMemcpyDtoHAsync_v2(host, memory, N_BYTES, stream));
    EXPECT_LATE(begin_ms);
}

static void probe_free_waits(void)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    const hvd_cu_ptr_t memory = new_memory();
    void *pinned = NULL;

    OK(cu.cuMemHostAlloc(&pinned, N_BYTES, 0));
    hold(stream);
    uint64_t begin_ms = begin_late();
    OK(cu.cuMemFree_v2(memory));
    EXPECT_LATE(begin_ms);
    OK(cu.cuStreamSynchronize(stream));
    hold(stream);
    begin_ms = begin_late();
    OK(cu.cuMemFreeHost(pinned));
    EXPECT_LATE(begin_ms);
}

/* --- Modules ---------------------------------------------------------------------------------- */

static struct CUfunc_st *copy_kernel(void)
{
    struct CUmod_st *module = NULL;
    struct CUfunc_st *function = NULL;

    OK(cu.cuModuleLoadData(&module, hvd_cuda_ptx));
    OK(cu.cuModuleGetFunction(&function, module, "hvd_cuda_copy"));
    return function;
}

static hvd_cu_result_t launch(struct CUfunc_st *function, const struct hvd_cuda_args *args,
                              struct CUstream_st *stream)
{
    struct hvd_cuda_args copy = *args;
    void *params[] = {&copy};

    return cu.cuLaunchKernel(function, 1, 1, 1, HVD_CUDA_BLOCK, 1, 1, 0, stream, params, NULL);
}

static void probe_lazy_loading(void)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUstream_st *other = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUfunc_st *function = copy_kernel();
    const struct hvd_cuda_args nothing = {0};

    hold(stream);
    const uint64_t begin_ms = begin_late();
    OK(launch(function, &nothing, other));
    EXPECT_LATE(begin_ms);
}

static void probe_ptx_version(void)
{
    struct CUmod_st *module = NULL;

    EXPECT(cu.cuModuleLoadData(&module, ".version 99.0\n.target sm_75\n.address_size 64\n"),
           HVD_CU_UNSUPPORTED_PTX_VERSION);
}

static void probe_sticky_error(void)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    struct CUevent_st *event = new_event();
    hvd_cu_ptr_t memory = 0;
    const struct hvd_cuda_args bad = {
        .table = N_BYTES, .addresses = N_BYTES, .buffer = N_BYTES, .n_pieces = 1, .n_tiles = 1};

    OK(launch(copy_kernel(), &bad, stream));
    EXPECT(cu.cuStreamSynchronize(stream), HVD_CU_ILLEGAL_ADDRESS);
    EXPECT(cu.cuEventQuery(event), HVD_CU_ILLEGAL_ADDRESS);
    EXPECT(cu.cuMemAlloc_v2(&memory, N_BYTES), HVD_CU_ILLEGAL_ADDRESS);
}

static void probe_attributes(void)
{
    int value = 0;

    OK(cu.cuDeviceGetAttribute(&value, HVD_CU_UNIFIED_ADDRESSING, 0));
    EXPECT(value, 1);
    OK(cu.cuDeviceGetAttribute(&value, HVD_CU_MEMORY_POOLS_SUPPORTED, 0));
    EXPECT(value, 1);
    OK(cu.cuDeviceGetAttribute(&value, HVD_CU_MULTIPROCESSOR_COUNT, 0));
    EXPECT(value, 132);
}

/* Allocates in stream order, frees, and waits; returns what the pool still has of the device. */
static uint64_t kept_by(struct CUmemPoolHandle_st *pool, size_t bytes)
{
    struct CUstream_st *stream = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    hvd_cu_ptr_t memory = 0;
    uint64_t kept = 0;

    OK(cu.cuMemAllocAsync(&memory, bytes, stream));
    OK(cu.cuMemPoolGetAttribute(pool, HVD_CU_POOL_USED_CURRENT, &kept));
    EXPECT(kept >= bytes, true);
    OK(cu.cuMemFreeAsync(memory, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemPoolGetAttribute(pool, HVD_CU_POOL_RESERVED_CURRENT, &kept));
    return kept;
}

static void probe_pool_threshold(void)
{
    struct CUmemPoolHandle_st *pool = NULL;
    const size_t bytes = (size_t)4 << 20;
    uint64_t threshold = 1;

    OK(cu.cuDeviceGetMemPool(&pool, 0));
    OK(cu.cuMemPoolGetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &threshold));
    EXPECT(threshold, 0);
    EXPECT(kept_by(pool, bytes), 0);
    threshold = 16 * bytes;
    OK(cu.cuMemPoolSetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &threshold));
    EXPECT(kept_by(pool, bytes) >= bytes, true);
}

/* --- Captures --------------------------------------------------------------------------------- */

struct capture {
    struct CUstream_st *stream;
    unsigned mode;
};

static void *begin_capture(void *at)
{
    const struct capture *capture = at;

    OK(cu.cuCtxPushCurrent_v2(context));
    OK(cu.cuStreamBeginCapture_v2(capture->stream, capture->mode));
    return NULL;
}

/* Begins a capture on another thread, as a program does. */
static struct capture capture_elsewhere(unsigned mode)
{
    struct capture capture = {.stream = new_stream(HVD_CU_STREAM_NON_BLOCKING), .mode = mode};
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, begin_capture, &capture), 0);
    EXPECT(pthread_join(thread, NULL), 0);
    return capture;
}

static unsigned state_of(struct CUstream_st *stream)
{
    unsigned state = 9;

    OK(cu.cuStreamIsCapturing(stream, &state));
    return state;
}

static void probe_capture_query(void)
{
    struct CUevent_st *event = new_event();
    const struct capture capture = capture_elsewhere(HVD_CU_CAPTURE_GLOBAL);

    EXPECT(state_of(capture.stream), HVD_CU_CAPTURE_ACTIVE);
    EXPECT(cu.cuEventQuery(event), HVD_CU_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(state_of(capture.stream), HVD_CU_CAPTURE_INVALIDATED);
}

static void probe_capture_relaxed(void)
{
    struct CUevent_st *event = new_event();
    const struct capture capture = capture_elsewhere(HVD_CU_CAPTURE_GLOBAL);
    unsigned mode = HVD_CU_CAPTURE_RELAXED;

    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode, HVD_CU_CAPTURE_GLOBAL);
    OK(cu.cuEventQuery(event));
    (void)new_memory();
    EXPECT(state_of(capture.stream), HVD_CU_CAPTURE_ACTIVE);
}

static void probe_capture_modes(void)
{
    struct CUevent_st *event = new_event();
    const struct capture capture = capture_elsewhere(HVD_CU_CAPTURE_THREAD_LOCAL);
    struct CUgraph_st *graph = NULL;

    OK(cu.cuEventQuery(event));
    EXPECT(state_of(capture.stream), HVD_CU_CAPTURE_ACTIVE);
    EXPECT(cu.cuStreamEndCapture(capture.stream, &graph), HVD_CU_STREAM_CAPTURE_WRONG_THREAD);
}

static void probe_capture_event(void)
{
    struct CUevent_st *event = new_event();
    struct CUstream_st *ours = new_stream(HVD_CU_STREAM_NON_BLOCKING);
    const struct capture capture = capture_elsewhere(HVD_CU_CAPTURE_RELAXED);

    OK(cu.cuEventRecord(event, capture.stream));
    OK(cu.cuStreamWaitEvent(ours, event, 0)); /* joins the capture */
    EXPECT(state_of(ours), HVD_CU_CAPTURE_ACTIVE);
    EXPECT(cu.cuEventQuery(event), HVD_CU_CAPTURED_EVENT);
}

static void probe_capture_isolation(void)
{
    struct CUevent_st *event = new_event();
    struct CUstream_st *ours = new_stream(HVD_CU_STREAM_NON_BLOCKING);

    OK(cu.cuEventRecord(event, ours));
    const struct capture capture = capture_elsewhere(HVD_CU_CAPTURE_RELAXED);
    EXPECT(cu.cuStreamWaitEvent(capture.stream, event, 0), HVD_CU_STREAM_CAPTURE_ISOLATION);
}

static void probe_capture_legacy(void)
{
    struct CUevent_st *event = new_event();
    struct CUstream_st *blocking = new_stream(HVD_CU_STREAM_DEFAULT);
    unsigned state = 9;

    OK(cu.cuStreamBeginCapture_v2(blocking, HVD_CU_CAPTURE_RELAXED));
    EXPECT(cu.cuStreamIsCapturing(NULL, &state), HVD_CU_STREAM_CAPTURE_IMPLICIT);
    EXPECT(cu.cuEventRecord(event, NULL), HVD_CU_STREAM_CAPTURE_IMPLICIT);
    EXPECT(state_of(blocking), HVD_CU_CAPTURE_INVALIDATED);
}

/* --- The program ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(void);
} probes[] = {
    {"stream-order", probe_stream_order},       {"event-record", probe_event_record},
    {"stream-destroy", probe_stream_destroy},   {"legacy-stream", probe_legacy_stream},
    {"null-stream", probe_null_stream},         {"host-function", probe_host_function},
    {"stream-value", probe_stream_value},       {"stream-value-order", probe_stream_value_order},
    {"unified-address", probe_unified_address}, {"pageable-copy", probe_pageable_copy},
    {"free-waits", probe_free_waits},           {"lazy-loading", probe_lazy_loading},
    {"ptx-version", probe_ptx_version},         {"sticky-error", probe_sticky_error},
    {"attributes", probe_attributes},           {"capture-query", probe_capture_query},
    {"capture-relaxed", probe_capture_relaxed}, {"capture-modes", probe_capture_modes},
    {"capture-event", probe_capture_event},     {"capture-isolation", probe_capture_isolation},
    {"capture-legacy", probe_capture_legacy},   {"pool-threshold", probe_pool_threshold},
};

/* Runs the probe in a process of its own; returns whether it passed. */
static bool run(const char *name, void (*probe)(void))
{
    int status = 0;

    printf("%s ", name);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(TIMEOUT_S);
        load();
        probe();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("failed: %s\n",
               WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 0)
        printf("passed\n");
    return status == 0;
}

static bool is_asked(const char *name, int n_names, char **names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n_names == 0;
}

int main(int argc, char **argv)
{
    int n_failed = 0;

    for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++)
        if (is_asked(probes[i].name, argc - 1, argv + 1))
            n_failed += !run(probes[i].name, probes[i].run);
    return n_failed ? 1 : 0;
}
