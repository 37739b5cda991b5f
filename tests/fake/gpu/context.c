/*
 * Devices and their primary contexts. The stack of current contexts belongs to the thread.
 */
#include "tests/fake/gpu/machine.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 64

static bool is_init;
static int n_devices;
static struct CUctx_st contexts[FAKE_MAX_DEVICES];

static _Thread_local struct CUctx_st *stack[MAX_DEPTH];
static _Thread_local int depth;

bool fake_is_init(void)
{
    return is_init;
}

struct CUctx_st *fake_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

struct CUctx_st *fake_context(int device)
{
    return &contexts[device];
}

int fake_gpu_context_depth(void)
{
    return depth;
}

int fake_context_leaks(void)
{
    int n = 0;

    for (int i = 0; i < n_devices; i++) {
        if (contexts[i].n_retained == 0)
            continue;
        n++;
        fake_report(FAKE_GPU_LEAK, "the primary context of device %d is retained %d times", i,
                    contexts[i].n_retained);
    }
    return n;
}

/* --- Devices ---------------------------------------------------------------------------------- */

static hvd_cu_result_t initialize(void)
{
    const long asked = fake_option(FAKE_GPU_GPUS);

    if (is_init)
        return HVD_CU_SUCCESS;
    if (asked < 1)
        return HVD_CU_NO_DEVICE;
    n_devices = asked > FAKE_MAX_DEVICES ? FAKE_MAX_DEVICES : (int)asked;
    for (int i = 0; i < n_devices; i++)
        contexts[i] = (struct CUctx_st){.device = i, .host_agent = fake_agent()};
    is_init = true;
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuInit(unsigned int flags)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuInit);

    if (result == 0)
        result = flags ? HVD_CU_INVALID_VALUE : initialize();
    return fake_end(result);
}

hvd_cu_result_t cuDriverGetVersion(int *version)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDriverGetVersion);

    if (result == 0)
        *version = (int)fake_option(FAKE_GPU_DRIVER_VERSION);
    return fake_end(result);
}

hvd_cu_result_t cuDeviceGetCount(int *count)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDeviceGetCount);

    if (result == 0)
        *count = n_devices;
    return fake_end(result);
}

static hvd_cu_result_t check_device(int device)
{
    return device >= 0 && device < n_devices ? HVD_CU_SUCCESS : HVD_CU_INVALID_DEVICE;
}

hvd_cu_result_t cuDeviceGet(hvd_cu_device_t *device, int ordinal)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDeviceGet);

    if (result == 0)
        result = check_device(ordinal);
    if (result == 0)
        *device = ordinal;
    return fake_end(result);
}

hvd_cu_result_t cuDeviceGetName(char *name, int len, hvd_cu_device_t device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDeviceGetName);

    if (result == 0)
        result = check_device(device);
    if (result == 0)
        snprintf(name, (size_t)len, "Fake H100");
    return fake_end(result);
}

hvd_cu_result_t cuDeviceGetUuid_v2(struct hvd_cu_uuid *uuid, hvd_cu_device_t device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDeviceGetUuid_v2);

    if (result == 0)
        result = check_device(device);
    if (result == 0) {
        *uuid = (struct hvd_cu_uuid){"fake gpu"};
        uuid->bytes[15] = (char)(device + fake_option(FAKE_GPU_FIRST_GPU));
    }
    return fake_end(result);
}

hvd_cu_result_t cuDeviceGetPCIBusId(char *id, int len, hvd_cu_device_t device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDeviceGetPCIBusId);

    if (result == 0)
        result = check_device(device);
    if (result == 0)
        snprintf(id, (size_t)len, "0000:%02X:00.0",
                 0x10 + device + (int)fake_option(FAKE_GPU_FIRST_GPU));
    return fake_end(result);
}

static hvd_cu_result_t attribute_of(int *value, unsigned int attribute)
{
    const long capability = fake_option(FAKE_GPU_CAPABILITY);
    const struct {
        unsigned attribute;
        long value;
    } values[] = {
        {HVD_CU_MAX_THREADS_PER_BLOCK, 1024},
        {HVD_CU_WARP_SIZE, 32},
        {HVD_CU_MULTIPROCESSOR_COUNT, fake_option(FAKE_GPU_MULTIPROCESSORS)},
        {HVD_CU_COMPUTE_MODE, 0},
        {HVD_CU_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {HVD_CU_ASYNC_ENGINE_COUNT, 3},
        {HVD_CU_UNIFIED_ADDRESSING, 1},
        {HVD_CU_COMPUTE_CAPABILITY_MAJOR, capability / 10},
        {HVD_CU_COMPUTE_CAPABILITY_MINOR, capability % 10},
        {HVD_CU_MEMORY_POOLS_SUPPORTED, 1},
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        if (values[i].attribute == attribute) {
            *value = (int)values[i].value;
            return HVD_CU_SUCCESS;
        }
    }
    return HVD_CU_INVALID_VALUE;
}

hvd_cu_result_t cuDeviceGetAttribute(int *value, unsigned int attribute, hvd_cu_device_t device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDeviceGetAttribute);

    if (result == 0)
        result = check_device(device);
    if (result == 0)
        result = attribute_of(value, attribute);
    return fake_end(result);
}

hvd_cu_result_t cuDeviceGetMemPool(struct CUmemPoolHandle_st **pool, hvd_cu_device_t device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDeviceGetMemPool);

    if (result == 0)
        result = check_device(device);
    if (result == 0)
        *pool = &contexts[device].pool;
    return fake_end(result);
}

/* --- Contexts --------------------------------------------------------------------------------- */

hvd_cu_result_t cuDevicePrimaryCtxRetain(struct CUctx_st **context, hvd_cu_device_t device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDevicePrimaryCtxRetain);

    if (result == 0)
        result = check_device(device);
    if (result == 0) {
        contexts[device].n_retained++;
        *context = &contexts[device];
    }
    return fake_end(result);
}

static hvd_cu_result_t release(struct CUctx_st *context)
{
    if (context->n_retained == 0)
        return HVD_CU_INVALID_CONTEXT;
    if (--context->n_retained > 0)
        return HVD_CU_SUCCESS;
    for (struct CUstream_st *s = context->streams; s; s = s->next) {
        if (s->done == s->enqueued)
            continue;
        fake_report(FAKE_GPU_WRONG_CONTEXT,
                    "cuDevicePrimaryCtxRelease destroys the context of device %d, where stream %d "
                    "has work",
                    context->device, s->number);
        break;
    }
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuDevicePrimaryCtxRelease_v2(hvd_cu_device_t device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDevicePrimaryCtxRelease_v2);

    if (result == 0)
        result = check_device(device);
    if (result == 0)
        result = release(&contexts[device]);
    return fake_end(result);
}

hvd_cu_result_t cuDevicePrimaryCtxGetState(hvd_cu_device_t device, unsigned int *flags, int *active)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuDevicePrimaryCtxGetState);

    if (result == 0)
        result = check_device(device);
    if (result == 0) {
        *flags = 0;
        *active = contexts[device].n_retained > 0;
    }
    return fake_end(result);
}

static hvd_cu_result_t push(struct CUctx_st *context)
{
    if (!context || context->n_retained == 0 || depth == MAX_DEPTH) {
        fake_report(FAKE_GPU_WRONG_CONTEXT, "cuCtxPushCurrent of a context that is not retained");
        return HVD_CU_INVALID_CONTEXT;
    }
    stack[depth++] = context;
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuCtxPushCurrent_v2);

    if (result == 0)
        result = push(context);
    return fake_end(result);
}

hvd_cu_result_t cuCtxPopCurrent_v2(struct CUctx_st **context)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuCtxPopCurrent_v2);

    if (result == 0 && depth == 0)
        result = HVD_CU_INVALID_CONTEXT;
    if (result == 0) {
        depth--;
        if (context)
            *context = stack[depth];
    }
    return fake_end(result);
}

hvd_cu_result_t cuCtxGetCurrent(struct CUctx_st **context)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuCtxGetCurrent);

    if (result == 0)
        *context = fake_current();
    return fake_end(result);
}

hvd_cu_result_t cuCtxGetDevice(hvd_cu_device_t *device)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuCtxGetDevice);

    if (result == 0)
        *device = fake_current()->device;
    return fake_end(result);
}

hvd_cu_result_t cuCtxSynchronize(void)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuCtxSynchronize);

    if (result == 0) {
        struct CUctx_st *context = fake_current();
        fake_wait_idle(context);
        fake_pool_trim(context);
        result = context->broken;
    }
    return fake_end(result);
}

hvd_cu_result_t cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuCtxGetStreamPriorityRange);

    if (result == 0) {
        *least = 0;
        *greatest = -5;
    }
    return fake_end(result);
}

/* --- Control ---------------------------------------------------------------------------------- */

void fake_gpu_break_device(int device, unsigned code)
{
    fake_lock();
    contexts[device].broken = code;
    fake_wake();
    fake_unlock();
}

void fake_gpu_stop_device(int device, bool is_stopped)
{
    fake_lock();
    contexts[device].is_stopped = is_stopped;
    fake_wake();
    fake_unlock();
}

int fake_gpu_occupied(int device)
{
    fake_lock();
    const int n = contexts[device].n_multiprocessors_used;
    fake_unlock();
    return n;
}

void fake_gpu_set_async_error(int device, unsigned code)
{
    fake_lock();
    contexts[device].async_error = code;
    fake_unlock();
}

/* --- Errors ----------------------------------------------------------------------------------- */

static const struct {
    hvd_cu_result_t result;
    const char *name;
    const char *text;
} errors[] = {
    {HVD_CU_SUCCESS, "CUDA_SUCCESS", "no error"},
    {HVD_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {HVD_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {HVD_CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {HVD_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {HVD_CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {HVD_CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {HVD_CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {HVD_CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {HVD_CU_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {HVD_CU_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {HVD_CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {HVD_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {HVD_CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {HVD_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {HVD_CU_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {HVD_CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {HVD_CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {HVD_CU_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {HVD_CU_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {HVD_CU_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {HVD_CU_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {HVD_CU_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {HVD_CU_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {HVD_CU_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

hvd_cu_result_t cuGetErrorName(hvd_cu_result_t result, const char **name)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].result == result) {
            *name = errors[i].name;
            return HVD_CU_SUCCESS;
        }
    }
    *name = NULL;
    return HVD_CU_INVALID_VALUE;
}

hvd_cu_result_t cuGetErrorString(hvd_cu_result_t result, const char **text)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (errors[i].result == result) {
            *text = errors[i].text;
            return HVD_CU_SUCCESS;
        }
    }
    *text = NULL;
    return HVD_CU_INVALID_VALUE;
}
