/*
 * The GPU: its context, kernels, streams and memory, and the port that the engine sees. Kernels are
 * loaded at once: a load beside a running collective waits for the GPU, and would wait forever.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "worker/device/cuda/cuda_internal.h"
#include "worker/device/cuda/image.h"
#include "worker/device/cuda/route.h"

#define CAPABILITY_MIN 6
#define KEPT_BYTES ((uint64_t)128 << 20) /* as a fused operation, by default */

hvd_status_t hvd_cuda_enter(const struct hvd_cuda_device *g, struct hvd_err *err)
{
    return hvd_cuda_check(g, g->library->cu.cuCtxPushCurrent_v2(g->context), "cuCtxPushCurrent",
                          err);
}

void hvd_cuda_leave(const struct hvd_cuda_device *g)
{
    struct CUctx_st *context = NULL;

    (void)g->library->cu.cuCtxPopCurrent_v2(&context);
}

/* --- Streams ---------------------------------------------------------------------------------- */

/* Returns a slot for the number of a stream; -1: all are in use. */
static int take_number(struct hvd_cuda_device *g)
{
    int slot = -1;

    pthread_mutex_lock(&g->mu);
    if (g->n_free_numbers > 0)
        slot = g->free_numbers[--g->n_free_numbers];
    else if (g->n_numbers < HVD_CUDA_NUMBERS)
        slot = g->n_numbers++;
    pthread_mutex_unlock(&g->mu);
    return slot;
}

static void put_number(struct hvd_cuda_device *g, int slot)
{
    pthread_mutex_lock(&g->mu);
    g->free_numbers[g->n_free_numbers++] = slot;
    pthread_mutex_unlock(&g->mu);
}

hvd_status_t hvd_cuda_stream_create(struct hvd_cuda_device *g, struct hvd_cuda_stream *out,
                                    struct hvd_err *err)
{
    int least = 0;
    int greatest = 0;

    const int slot = take_number(g);
    if (slot < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: too many process sets", g->name);
    hvd_status_t st =
        hvd_cuda_check(g, g->library->cu.cuCtxGetStreamPriorityRange(&least, &greatest),
                       "cuCtxGetStreamPriorityRange", err);
    if (st == HVD_OK)
        st = hvd_cuda_check(g,
                            g->library->cu.cuStreamCreateWithPriority(
                                &out->stream, HVD_CU_STREAM_NON_BLOCKING, greatest),
                            "cuStreamCreateWithPriority", err);
    if (st != HVD_OK) {
        put_number(g, slot);
        return st;
    }
    out->slot = slot;
    out->done = &g->numbers[slot];
    out->done_at = g->numbers_at + (hvd_cu_ptr_t)slot * sizeof(uint32_t);
    out->n_launched = atomic_load(out->done); /* events of the slot's last stream stay done */
    return HVD_OK;
}

void hvd_cuda_stream_destroy(struct hvd_cuda_device *g, struct hvd_cuda_stream *s)
{
    if (!s->stream)
        return;
    (void)g->library->cu.cuStreamSynchronize(s->stream);
    (void)g->library->cu.cuStreamDestroy_v2(s->stream);
    s->stream = NULL;
    if (hvd_cuda_is_done(s->done, s->n_launched)) /* else the GPU has failed */
        put_number(g, s->slot);
}

hvd_status_t hvd_cuda_stream_count(struct hvd_cuda_device *g, struct hvd_cuda_stream *s,
                                   struct hvd_err *err)
{
    const hvd_status_t st =
        hvd_cuda_check(g,
                       g->library->cu.cuStreamWriteValue32_v2(
                           s->stream, s->done_at, s->n_launched + 1, HVD_CU_WRITE_VALUE_DEFAULT),
                       "cuStreamWriteValue32", err);

    s->n_launched += st == HVD_OK; /* else nobody could wait for that number */
    return st;
}

bool hvd_cuda_is_done(const _Atomic uint32_t *done, uint32_t number)
{
    return (int32_t)(atomic_load_explicit(done, memory_order_acquire) - number) >= 0;
}

/* --- Memory ----------------------------------------------------------------------------------- */

static hvd_status_t gpu_alloc(struct hvd_device_port *d, size_t bytes, void **out,
                              struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    hvd_cu_ptr_t memory = 0;
    hvd_status_t st = hvd_cuda_enter(g, err);

    if (st != HVD_OK)
        return st;
    pthread_mutex_lock(&g->side_mu);
    st = hvd_cuda_check(g, g->library->cu.cuMemAllocAsync(&memory, bytes, g->side),
                        "cuMemAllocAsync", err);
    if (st == HVD_OK)
        st = hvd_cuda_check(g, g->library->cu.cuEventRecord(g->alloc_event, g->side),
                            "cuEventRecord", err);
    if (st == HVD_OK)
        atomic_fetch_add(&g->n_allocations, 1);
    else if (memory)
        (void)g->library->cu.cuMemFreeAsync(memory, g->side);
    pthread_mutex_unlock(&g->side_mu);
    hvd_cuda_leave(g);
    if (st != HVD_OK)
        return HVD_WRAP(err, st, "%s: %zu bytes", g->name, bytes);
    *out = hvd_cuda_pointer(memory);
    return HVD_OK;
}

static void gpu_free(struct hvd_device_port *d, void *memory, struct hvd_device_event *after)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);

    if (!memory || hvd_cuda_enter(g, NULL) != HVD_OK)
        return;
    pthread_mutex_lock(&g->side_mu);
    if (after)
        (void)g->library->cu.cuStreamWaitEvent(g->side, ((struct hvd_cuda_event *)after)->event, 0);
    (void)g->library->cu.cuMemFreeAsync((hvd_cu_ptr_t)(uintptr_t)memory, g->side);
    pthread_mutex_unlock(&g->side_mu);
    hvd_cuda_leave(g);
}

static bool gpu_owns(struct hvd_device_port *d, const void *memory)
{
    return hvd_cuda_ordinal_of(memory) == d->ordinal;
}

static hvd_status_t gpu_alloc_host(struct hvd_device_port *d, size_t bytes, void **out,
                                   struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    hvd_status_t st = hvd_cuda_enter(g, err);

    if (st != HVD_OK)
        return st;
    st = hvd_cuda_pinned_take(g, bytes, out, err);
    hvd_cuda_leave(g);
    return st == HVD_OK ? st : HVD_WRAP(err, st, "%s: %zu bytes", g->name, bytes);
}

/* The engine frees host memory that nothing moves, or after an abort. */
static void gpu_free_host(struct hvd_device_port *d, void *memory)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);

    if (!memory || hvd_cuda_is_stuck(g) || hvd_cuda_enter(g, NULL) != HVD_OK)
        return;
    (void)g->library->cu.cuStreamSynchronize(g->in.stream);
    (void)g->library->cu.cuStreamSynchronize(g->out.stream);
    hvd_cuda_pinned_put(g, memory);
    hvd_cuda_leave(g);
}

/* --- Start and end ---------------------------------------------------------------------------- */

static hvd_status_t load_image(struct hvd_cuda_device *g, const unsigned char *image,
                               struct hvd_err *err)
{
    static const char *const names[] = {
#define NAME(ENUMERATOR, NAME, STEP) #NAME,
        HVD_CUDA_KERNELS(NAME)
#undef NAME
    };
    const struct hvd_cu_driver_api *cu = &g->library->cu;
    hvd_status_t st =
        hvd_cuda_check(g, cu->cuModuleLoadData(&g->module, image), "cuModuleLoadData", err);

    for (int i = 0; i < HVD_CUDA_N_KERNELS && st == HVD_OK; i++) {
        int n_registers = 0;
        st = hvd_cuda_check(g, cu->cuModuleGetFunction(&g->kernels[i], g->module, names[i]),
                            names[i], err);
        /* with lazy loading, this is what loads the kernel */
        if (st == HVD_OK)
            st = hvd_cuda_check(
                g, cu->cuFuncGetAttribute(&n_registers, HVD_CU_FUNCTION_NUM_REGS, g->kernels[i]),
                names[i], err);
    }
    return st;
}

static hvd_status_t load_kernels(struct hvd_cuda_device *g, struct hvd_err *err)
{
    struct hvd_err first = {0};

    if (hvd_cuda_fatbin_bytes > 0 && g->library->driver_version >= HVD_CUDA_FATBIN_DRIVER &&
        load_image(g, hvd_cuda_fatbin, &first) == HVD_OK)
        return HVD_OK;
    if (g->module)
        (void)g->library->cu.cuModuleUnload(g->module);
    g->module = NULL;
    return load_image(g, hvd_cuda_ptx, err);
}

/* The kernels are made for GPUs from Pascal on. */
static hvd_status_t check_capability(const struct hvd_cuda_device *g, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;
    int major = 0;
    int minor = 0;
    hvd_status_t st = hvd_cuda_check(
        g, cu->cuDeviceGetAttribute(&major, HVD_CU_COMPUTE_CAPABILITY_MAJOR, g->device),
        "cuDeviceGetAttribute", err);

    if (st == HVD_OK)
        st = hvd_cuda_check(
            g, cu->cuDeviceGetAttribute(&minor, HVD_CU_COMPUTE_CAPABILITY_MINOR, g->device),
            "cuDeviceGetAttribute", err);
    if (st != HVD_OK || major >= CAPABILITY_MIN)
        return st;
    return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                    "%s has compute capability %d.%d, and this library needs %d.0", g->name, major,
                    minor, CAPABILITY_MIN);
}

static hvd_status_t describe(struct hvd_cuda_device *g, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;
    char model[100] = "";
    int count = 0;
    hvd_status_t st = hvd_cuda_check(g, cu->cuDeviceGetCount(&count), "cuDeviceGetCount", err);

    if (st == HVD_OK && (g->ordinal < 0 || g->ordinal >= count))
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "there is no GPU %d: this process sees %d",
                        g->ordinal, count);
    if (st == HVD_OK)
        st = hvd_cuda_check(g, cu->cuDeviceGet(&g->device, g->ordinal), "cuDeviceGet", err);
    if (st == HVD_OK)
        st = hvd_cuda_check(g, cu->cuDeviceGetName(model, sizeof(model), g->device),
                            "cuDeviceGetName", err);
    if (st == HVD_OK)
        st = hvd_cuda_check(
            g,
            cu->cuDeviceGetAttribute(&g->n_multiprocessors, HVD_CU_MULTIPROCESSOR_COUNT, g->device),
            "cuDeviceGetAttribute", err);
    snprintf(g->name, sizeof(g->name), "GPU %d (%s)", g->ordinal, model);
    return st == HVD_OK ? check_capability(g, err) : st;
}

/* Lets the pool of the GPU keep memory for the next results. A pool that is new returns all that is
 * unused to the driver whenever the program waits for the GPU, and getting it back takes long. A
 * program that lets it keep more is left alone. */
static hvd_status_t keep_memory(const struct hvd_cuda_device *g, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;
    struct CUmemPoolHandle_st *pool = NULL;
    uint64_t kept = 0;
    hvd_status_t st =
        hvd_cuda_check(g, cu->cuDeviceGetMemPool(&pool, g->device), "cuDeviceGetMemPool", err);

    if (st == HVD_OK)
        st =
            hvd_cuda_check(g, cu->cuMemPoolGetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &kept),
                           "cuMemPoolGetAttribute", err);
    if (st != HVD_OK || kept >= KEPT_BYTES)
        return st;
    kept = KEPT_BYTES;
    return hvd_cuda_check(g, cu->cuMemPoolSetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &kept),
                          "cuMemPoolSetAttribute", err);
}

/* Creates what belongs to the context, which is current. */
static hvd_status_t open_streams(struct hvd_cuda_device *g, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;
    void *numbers = NULL;
    hvd_status_t st =
        hvd_cuda_check(g,
                       cu->cuMemHostAlloc(&numbers, 2 * HVD_CUDA_NUMBERS * sizeof(uint32_t),
                                          HVD_CU_HOST_PORTABLE | HVD_CU_HOST_DEVICEMAP),
                       "cuMemHostAlloc", err);

    if (st != HVD_OK)
        return st;
    memset(numbers, 0, 2 * HVD_CUDA_NUMBERS * sizeof(uint32_t));
    g->numbers = numbers;
    g->numbers_at = (hvd_cu_ptr_t)(uintptr_t)numbers; /* addresses are unified */
    st = hvd_cuda_check(g, cu->cuStreamCreateWithPriority(&g->side, HVD_CU_STREAM_NON_BLOCKING, 0),
                        "cuStreamCreateWithPriority", err);
    if (st == HVD_OK)
        st = hvd_cuda_check(g, cu->cuEventCreate(&g->alloc_event, HVD_CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate", err);
    if (st == HVD_OK)
        st = hvd_cuda_events_create(g, err);
    if (st == HVD_OK)
        st = hvd_cuda_stream_create(g, &g->in, err);
    if (st == HVD_OK)
        st = hvd_cuda_stream_create(g, &g->out, err);
    return st == HVD_OK ? load_kernels(g, err) : st;
}

/* Frees what belongs to the context, which is current. */
static void close_streams(struct hvd_cuda_device *g)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;

    hvd_cuda_sets_destroy(g);
    hvd_cuda_stream_destroy(g, &g->in);
    hvd_cuda_stream_destroy(g, &g->out);
    if (g->side) {
        (void)cu->cuStreamSynchronize(g->side);
        (void)cu->cuStreamDestroy_v2(g->side);
    }
    if (g->alloc_event)
        (void)cu->cuEventDestroy_v2(g->alloc_event);
    hvd_cuda_events_destroy(g);
    hvd_cuda_pinned_destroy(g);
    if (g->module)
        (void)cu->cuModuleUnload(g->module);
    if (g->numbers)
        (void)cu->cuMemFreeHost(hvd_cuda_pointer(g->numbers_at));
}

static void close_device(struct hvd_cuda_device *g)
{
    if (g->context && hvd_cuda_enter(g, NULL) == HVD_OK) {
        close_streams(g);
        hvd_cuda_leave(g);
    }
    if (g->context)
        (void)g->library->cu.cuDevicePrimaryCtxRelease_v2(g->device);
    hvd_cuda_items_destroy(g);
    hvd_cuda_queue_fini(&g->queue);
    pthread_mutex_destroy(&g->mu);
    pthread_mutex_destroy(&g->side_mu);
    pthread_mutex_destroy(&g->comms_mu);
    pthread_mutex_destroy(&g->pinned_mu);
    hvd_free(g);
}

static hvd_status_t open_device(struct hvd_cuda_device *g, struct hvd_err *err)
{
    hvd_status_t st = describe(g, err);

    if (st == HVD_OK)
        st = hvd_cuda_check(g, g->library->cu.cuDevicePrimaryCtxRetain(&g->context, g->device),
                            "cuDevicePrimaryCtxRetain", err);
    if (st == HVD_OK)
        st = hvd_cuda_enter(g, err);
    if (st != HVD_OK)
        return st;
    st = keep_memory(g, err);
    if (st == HVD_OK)
        st = open_streams(g, err);
    hvd_cuda_leave(g);
    return st == HVD_OK ? hvd_cuda_launcher_start(g, err) : st;
}

#define COMMON_OPS                                                                                 \
    .alloc = gpu_alloc, .free = gpu_free, .owns = gpu_owns, .alloc_host = gpu_alloc_host,          \
    .free_host = gpu_free_host, .mark = hvd_cuda_mark, .order = hvd_cuda_order,                    \
    .query = hvd_cuda_query, .wait = hvd_cuda_wait, .recycle = hvd_cuda_recycle,                   \
    .launch = hvd_cuda_launch, .test = hvd_cuda_test, .forget = hvd_cuda_forget,                   \
    .abort = hvd_cuda_abort

static const struct hvd_device_ops staged_ops = {COMMON_OPS};

#define MOVING_OPS                                                                                 \
    COMMON_OPS, .name = "nccl", .moves = hvd_route_moves, .make_key = hvd_cuda_make_key,           \
                .connect = hvd_cuda_connect, .connected = hvd_cuda_connected,                      \
                .progress = hvd_cuda_progress, .has_room = hvd_cuda_has_room,                      \
                .settle = hvd_cuda_settle, .disconnect = hvd_cuda_disconnect

static const struct hvd_device_ops moving_ops = {MOVING_OPS};

static const struct hvd_device_ops stepping_ops = {MOVING_OPS, .part = hvd_cuda_part};

hvd_status_t hvd_cuda_create(const struct hvd_cuda_options *options, struct hvd_device_port **out,
                             struct hvd_err *err)
{
    const struct hvd_cuda_library *library = NULL;
    hvd_status_t st = hvd_cuda_library(&library, err);

    if (st != HVD_OK)
        return st;
    struct hvd_cuda_device *g = hvd_calloc(1, sizeof(*g));
    if (!g)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a GPU");
    g->library = library;
    g->ordinal = options->ordinal;
    g->has_torus = options->has_torus;
    g->has_hierarchy = options->has_hierarchy;
    g->has_nccl = library->nccl_version > 0 && !options->has_no_nccl;
    g->port = (struct hvd_device_port){.ops = !g->has_nccl             ? &staged_ops
                                              : options->has_hierarchy ? &stepping_ops
                                                                       : &moving_ops,
                                       .name = g->name,
                                       .ordinal = g->ordinal,
                                       .destroy = hvd_cuda_destroy};
    pthread_mutex_init(&g->mu, NULL);
    pthread_mutex_init(&g->side_mu, NULL);
    pthread_mutex_init(&g->comms_mu, NULL);
    pthread_mutex_init(&g->pinned_mu, NULL);
    hvd_cuda_queue_init(&g->queue, g);
    st = open_device(g, err);
    if (st == HVD_OK)
        *out = &g->port;
    else
        close_device(g);
    return st;
}

void hvd_cuda_destroy(struct hvd_device_port *d)
{
    struct hvd_cuda_device *g = d ? hvd_cuda_gpu(d) : NULL;

    if (!g)
        return;
    hvd_cuda_settle(d);
    if (hvd_cuda_is_stuck(g) || atomic_load(&g->n_leaving) > 0) {
        /* to free what work uses would wait for ever */
        hvd_cuda_queue_abandon(&g->queue);
        return;
    }
    hvd_cuda_queue_stop(&g->queue);
    close_device(g);
}

int hvd_cuda_ordinal_of(const void *memory)
{
    const struct hvd_cuda_library *library = NULL;
    unsigned int type = 0;
    int ordinal = -1;
    unsigned int attributes[] = {HVD_CU_POINTER_MEMORY_TYPE, HVD_CU_POINTER_DEVICE_ORDINAL};
    void *values[] = {&type, &ordinal};

    if (hvd_cuda_library(&library, NULL) != HVD_OK ||
        library->cu.cuPointerGetAttributes(2, attributes, values,
                                           (hvd_cu_ptr_t)(uintptr_t)memory) != HVD_CU_SUCCESS)
        return -1;
    return type == HVD_CU_MEMORY_DEVICE ? ordinal : -1;
}

const char *hvd_cuda_nccl_problem(void)
{
    const struct hvd_cuda_library *library = NULL;

    return hvd_cuda_library(&library, NULL) == HVD_OK ? library->nccl_problem : "";
}

int hvd_cuda_driver_version(void)
{
    const struct hvd_cuda_library *library = NULL;

    return hvd_cuda_library(&library, NULL) == HVD_OK ? library->driver_version : 0;
}
