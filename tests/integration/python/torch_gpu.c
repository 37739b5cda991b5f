/*
 * A GPU for PyTorch without a GPU. This library is preloaded into a Python program with a PyTorch
 * for CUDA; the driver and NCCL are the doubles of tests/fake/gpu. While a thread allocates for the
 * GPU, PyTorch's memory of the host comes from the double's device memory, at the alias at which
 * the bytes are accessible. torch_gpu/gpu.py makes such tensors look like tensors of a GPU.
 *
 * Each operation of PyTorch is a kernel here, which names the memory that the operation accesses,
 * on the thread's current stream. The operation itself runs on the CPU once that kernel has run.
 * The wait teaches the double nothing about the host, so accesses without an order are still found.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/gpu/alias.h"
#include "tests/fake/gpu/control.h"
#include "tests/fake/gpu/driver.h"
#include "tests/fake/gpu/machine.h"
#include "worker/python/core/dlpack.h"

#define EXPORT __attribute__((visibility("default")))
#define HEAD 256 /* bytes in front of what an allocation returns */
#define STREAMS_MAX 8

/* In front of each allocation, at the alias. */
struct head {
    struct CUstream_st *stream; /* on which it was allocated, and is freed */
    struct CUstream_st *users[STREAMS_MAX];
    int n_users;
};

struct range {
    void *at; /* at the alias */
    size_t bytes;
    bool is_write;
};

/* An operation of PyTorch. */
struct task {
    size_t n;
    struct range *ranges;
    bool is_awaited;
    bool is_done;
};

/* The double's lock is taken behind `beginning`, and in front of `mu`. */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards is_done of tasks */
static pthread_cond_t is_done = PTHREAD_COND_INITIALIZER;
static struct CUctx_st *context; /* guarded by beginning, then constant */
static struct CUfunc_st *kernel; /* the same */
static _Thread_local bool has_context;
static _Thread_local bool is_for_gpu; /* what the thread allocates */
static _Thread_local struct CUstream_st *current;

static void check(hvd_cu_result_t result, const char *call)
{
    if (result == HVD_CU_SUCCESS)
        return;
    fprintf(stderr, "the GPU for PyTorch: %s failed: %u\n", call, (unsigned)result);
    abort();
}

#define CHECK(call) check(call, #call)

/* --- The kernel ------------------------------------------------------------------------------- */

static void run_task(void **params)
{
    struct task *task = *(struct task **)params[0];

    if (!task->is_awaited) {
        free(task->ranges);
        free(task);
        return;
    }
    pthread_mutex_lock(&mu);
    task->is_done = true;
    pthread_cond_broadcast(&is_done);
    pthread_mutex_unlock(&mu);
}

static void show_ranges(void **params, fake_range_fn add, void *to)
{
    const struct task *task = *(struct task **)params[0];

    for (size_t i = 0; i < task->n; i++) {
        const struct range *range = &task->ranges[i];
        (void)add(to, (char *)range->at - FAKE_GPU_ALIAS, range->bytes, range->is_write);
    }
}

static void begin(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry torch_task(\n\t.param .u64 p\n)\n{\n}\n";
    static const struct fake_kernel kernels[] = {
        {.name = "torch_task",
         .call = run_task,
         .ranges = show_ranges,
         .param_bytes = {sizeof(struct task *)}},
        {0},
    };
    struct CUmod_st *module = NULL;

    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxPushCurrent_v2(context));
    fake_gpu_add_kernels(kernels);
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&kernel, module, "torch_task"));
}

/* Begins what the program does, in the context of the GPU, as PyTorch does. */
static void enter(void)
{
    fake_gpu_as_program(true);
    if (has_context)
        return;
    pthread_mutex_lock(&beginning);
    if (context)
        CHECK(cuCtxPushCurrent_v2(context));
    else
        begin();
    has_context = true;
    pthread_mutex_unlock(&beginning);
}

static void leave(void)
{
    fake_gpu_as_program(false);
}

static bool is_of_gpu(const void *at)
{
    return at && !fake_is_pageable((const char *)at - FAKE_GPU_ALIAS);
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* PyTorch's functions of these names, in place of its own. */
EXPORT void *torch_gpu_alloc(size_t bytes) __asm__("_ZN3c109alloc_cpuEm");
EXPORT void torch_gpu_free(void *memory) __asm__("_ZN3c108free_cpuEPv");

static void *allocate(size_t bytes)
{
    hvd_cu_ptr_t at = 0;

    enter();
    CHECK(cuMemAllocAsync(&at, HEAD + bytes, current));
    leave();
    char *memory = FAKE_GPU_AT(fake_pointer(at));
    *(struct head *)(void *)memory = (struct head){.stream = current};
    return memory + HEAD;
}

void *torch_gpu_alloc(size_t bytes)
{
    void *memory = NULL;

    if (is_for_gpu)
        return allocate(bytes);
    if (bytes > 0 && posix_memalign(&memory, 64, bytes) != 0)
        abort();
    return memory;
}

/* Frees in the order of the stream of the allocation, as PyTorch gives memory to the next tensor of
 * that stream, and behind the other streams that record_stream() has named. */
void torch_gpu_free(void *memory)
{
    if (!is_of_gpu(memory)) {
        free(memory);
        return;
    }
    char *first = (char *)memory - HEAD;
    const struct head head = *(struct head *)(void *)first;
    enter();
    struct CUstream_st *behind = head.stream;
    if (head.n_users >
        0) { /* the caching allocator defers the reuse; the stream itself does not wait */
        struct CUevent_st *event = NULL;
        CHECK(cuStreamCreateWithPriority(&behind, HVD_CU_STREAM_NON_BLOCKING, 0));
        CHECK(cuEventCreate(&event, HVD_CU_EVENT_DISABLE_TIMING));
        CHECK(cuEventRecord(event, head.stream));
        CHECK(cuStreamWaitEvent(behind, event, 0));
        CHECK(cuEventDestroy_v2(event));
    }
    for (int i = 0; i < head.n_users; i++) {
        struct CUevent_st *event = NULL;
        CHECK(cuEventCreate(&event, HVD_CU_EVENT_DISABLE_TIMING));
        CHECK(cuEventRecord(event, head.users[i]));
        CHECK(cuStreamWaitEvent(behind, event, 0));
        CHECK(cuEventDestroy_v2(event));
    }
    CHECK(cuMemFreeAsync((hvd_cu_ptr_t)(uintptr_t)(first - FAKE_GPU_ALIAS), behind));
    if (behind != head.stream)
        CHECK(cuStreamDestroy_v2(behind));
    leave();
}

/* What the calling thread allocates from now on; returns what it was before. */
EXPORT bool torch_gpu_allocate(bool for_gpu);
bool torch_gpu_allocate(bool for_gpu)
{
    const bool before = is_for_gpu;

    is_for_gpu = for_gpu;
    return before;
}

/* Whether the memory is the GPU's. */
EXPORT bool torch_gpu_has(const void *memory);
bool torch_gpu_has(const void *memory)
{
    return is_of_gpu(memory);
}

static bool is_from_here(const void *at)
{
    fake_lock();
    const struct fake_block *block = fake_block_of(at);
    const bool is_start = block && block->at == at;
    fake_unlock();
    return is_start;
}

/* record_stream() of the allocation that begins there. */
EXPORT void torch_gpu_record(void *memory, struct CUstream_st *stream);
void torch_gpu_record(void *memory, struct CUstream_st *stream)
{
    struct head *head = (void *)((char *)memory - HEAD);

    if (!is_of_gpu(memory) || !is_from_here((char *)head - FAKE_GPU_ALIAS))
        return; /* PyTorch ignores memory that its allocator has not made */
    if (stream == head->stream)
        return;
    for (int i = 0; i < head->n_users; i++)
        if (head->users[i] == stream)
            return;
    if (head->n_users == STREAMS_MAX)
        abort();
    head->users[head->n_users++] = stream;
}

/* --- Streams ---------------------------------------------------------------------------------- */

EXPORT struct CUstream_st *torch_gpu_create_stream(void);
struct CUstream_st *torch_gpu_create_stream(void)
{
    struct CUstream_st *stream = NULL;

    enter();
    CHECK(cuStreamCreateWithPriority(&stream, HVD_CU_STREAM_NON_BLOCKING, 0));
    leave();
    return stream;
}

/* Waits for the thread's current stream. */
EXPORT void torch_gpu_synchronize(void);
void torch_gpu_synchronize(void)
{
    enter();
    CHECK(cuStreamSynchronize(current));
    leave();
}

/* The calling thread's current stream; NULL: the default stream. */
EXPORT struct CUstream_st *torch_gpu_stream(void);
struct CUstream_st *torch_gpu_stream(void)
{
    return current;
}

EXPORT void torch_gpu_set_stream(struct CUstream_st *stream);
void torch_gpu_set_stream(struct CUstream_st *stream)
{
    current = stream;
}

/* The current stream waits for the present work of another one. */
EXPORT void torch_gpu_wait_stream(struct CUstream_st *other);
void torch_gpu_wait_stream(struct CUstream_st *other)
{
    struct CUevent_st *event = NULL;

    enter();
    CHECK(cuEventCreate(&event, HVD_CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, other));
    CHECK(cuStreamWaitEvent(current, event, 0));
    CHECK(cuEventDestroy_v2(event));
    leave();
}

/* Begins or ends the capture of the current stream. */
EXPORT void torch_gpu_capture(bool begins);
void torch_gpu_capture(bool begins)
{
    struct CUgraph_st *graph = NULL;

    enter();
    if (begins)
        CHECK(cuStreamBeginCapture_v2(current, HVD_CU_CAPTURE_GLOBAL));
    else
        CHECK(cuStreamEndCapture(current, &graph));
    leave();
}

/* Puts an operation that accesses n ranges on the current stream; `is_awaited`: and waits until its
 * turn has come. */
EXPORT void torch_gpu_run(size_t n, void *const *at, const size_t *bytes, const bool *writes,
                          bool is_awaited);
void torch_gpu_run(size_t n, void *const *at, const size_t *bytes, const bool *writes,
                   bool is_awaited)
{
    struct task *task = calloc(1, sizeof(*task));
    void *params[] = {&task};

    task->ranges = calloc(n + 1, sizeof(*task->ranges));
    task->is_awaited = is_awaited;
    for (size_t i = 0; i < n; i++)
        if (is_of_gpu(at[i]) && bytes[i] > 0)
            task->ranges[task->n++] = (struct range){at[i], bytes[i], writes[i]};
    enter();
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, current, params, NULL));
    leave();
    if (!is_awaited)
        return;
    pthread_mutex_lock(&mu);
    while (!task->is_done)
        pthread_cond_wait(&is_done, &mu);
    pthread_mutex_unlock(&mu);
    free(task->ranges);
    free(task);
}

/* --- DLPack ----------------------------------------------------------------------------------- */

static struct hvd_dl_exchange table;
static const struct hvd_dl_exchange *own;
static int (*is_empty_of_gpu)(
    void *object); /* for tensors without elements, which have no address */

static int read_tensor(void *object, struct hvd_dl_tensor *out)
{
    const int result = own->tensor_from_object(object, out);

    if (result != 0)
        return result;
    if (is_of_gpu(out->data)) {
        out->data = (char *)out->data - FAKE_GPU_ALIAS;
        out->device = (struct hvd_dl_device){.type = HVD_DL_CUDA};
    } else if (!out->data && is_empty_of_gpu(object)) {
        out->device = (struct hvd_dl_device){.type = HVD_DL_CUDA};
    }
    return 0;
}

static int read_stream(int32_t type, int32_t device, void **stream)
{
    if (type != HVD_DL_CUDA)
        return own->current_stream(type, device, stream);
    *stream = current;
    return 0;
}

/* Returns a table in place of PyTorch's own. */
EXPORT const struct hvd_dl_exchange *torch_gpu_exchange(const struct hvd_dl_exchange *torch,
                                                        int (*is_empty)(void *object));
const struct hvd_dl_exchange *torch_gpu_exchange(const struct hvd_dl_exchange *torch,
                                                 int (*is_empty)(void *object))
{
    own = torch;
    is_empty_of_gpu = is_empty;
    table = *torch;
    table.tensor_from_object = read_tensor;
    table.current_stream = read_stream;
    return &table;
}

/* Makes a description of device memory one of the alias, which PyTorch reads. */
EXPORT bool torch_gpu_open(struct hvd_dl_managed *managed);
bool torch_gpu_open(struct hvd_dl_managed *managed)
{
    struct hvd_dl_tensor *tensor = &managed->tensor;

    if (tensor->device.type != HVD_DL_CUDA)
        return false;
    tensor->device = (struct hvd_dl_device){.type = HVD_DL_CPU};
    tensor->data = tensor->data ? FAKE_GPU_AT(tensor->data) : allocate(0); /* for its device */
    return true;
}

/* --- What PyTorch links and the double of NCCL lacks -------------------------------------------
 */

#define MISSING(name)                                                                              \
    EXPORT void name(void);                                                                        \
    void name(void)                                                                                \
    {                                                                                              \
        check(HVD_CU_UNKNOWN, #name);                                                              \
    }

MISSING(ncclAlltoAll)
MISSING(ncclBcast)
MISSING(ncclCommDeregister)
MISSING(ncclCommGetUniqueId)
MISSING(ncclCommGrow)
MISSING(ncclCommInitAll)
MISSING(ncclCommInitRankScalable)
MISSING(ncclCommMemStats)
MISSING(ncclCommRegister)
MISSING(ncclCommResume)
MISSING(ncclCommRevoke)
MISSING(ncclCommShrink)
MISSING(ncclCommSuspend)
MISSING(ncclCommWindowDeregister)
MISSING(ncclCommWindowRegister)
MISSING(ncclDevCommCreate)
MISSING(ncclDevCommDestroy)
MISSING(ncclGather)
MISSING(ncclGetLsaMultimemDevicePointer)
MISSING(ncclGetPeerDevicePointer)
MISSING(ncclGroupSimulateEnd)
MISSING(ncclMemAlloc)
MISSING(ncclMemFree)
MISSING(ncclPutSignal)
MISSING(ncclSignal)
MISSING(ncclWaitSignal)
MISSING(ncclWinGetUserPtr)
