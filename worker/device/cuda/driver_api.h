#ifndef HVD_WORKER_DEVICE_CUDA_DRIVER_API_H
#define HVD_WORKER_DEVICE_CUDA_DRIVER_API_H

#include <stddef.h>

/*
 * What this project uses of the CUDA driver (libcuda.so.1), declared by itself: it builds without
 * CUDA's headers, and finds the library when it runs. tests/unit/worker/device/cuda compares these
 * declarations with the headers where they are installed.
 *
 * Enumerations of the driver are unsigned int here. So the types of all functions are the driver's
 * own, without the names of its enumerations.
 */
typedef unsigned int hvd_cu_result_t;
typedef int hvd_cu_device_t;
typedef unsigned long long hvd_cu_ptr_t; /* an address in the memory of a device */
typedef void (*hvd_cu_host_fn)(void *data);

struct CUctx_st;           /* a context */
struct CUmod_st;           /* a module: the kernels of one image */
struct CUfunc_st;          /* a kernel */
struct CUstream_st;        /* a stream; NULL is the legacy stream of the thread's current context */
struct CUevent_st;         /* an event */
struct CUgraph_st;         /* what a capture has recorded */
struct CUmemPoolHandle_st; /* the pool of a device, from which memory in stream order comes */

struct hvd_cu_uuid {
    char bytes[16];
};

enum hvd_cu_results {
    HVD_CU_SUCCESS = 0,
    HVD_CU_INVALID_VALUE = 1,
    HVD_CU_OUT_OF_MEMORY = 2,
    HVD_CU_NOT_INITIALIZED = 3,
    HVD_CU_DEINITIALIZED = 4,
    HVD_CU_NO_DEVICE = 100,
    HVD_CU_INVALID_DEVICE = 101,
    HVD_CU_INVALID_IMAGE = 200,
    HVD_CU_INVALID_CONTEXT = 201,
    HVD_CU_NO_BINARY_FOR_GPU = 209,
    HVD_CU_INVALID_PTX = 218,
    HVD_CU_UNSUPPORTED_PTX_VERSION = 222,
    HVD_CU_INVALID_HANDLE = 400,
    HVD_CU_NOT_FOUND = 500,
    HVD_CU_NOT_READY = 600,
    HVD_CU_ILLEGAL_ADDRESS = 700,
    HVD_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    HVD_CU_CONTEXT_IS_DESTROYED = 709,
    HVD_CU_LAUNCH_FAILED = 719,
    HVD_CU_NOT_SUPPORTED = 801,
    HVD_CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    HVD_CU_STREAM_CAPTURE_INVALIDATED = 901,
    HVD_CU_STREAM_CAPTURE_UNMATCHED = 903,
    HVD_CU_STREAM_CAPTURE_ISOLATION = 905,
    HVD_CU_STREAM_CAPTURE_IMPLICIT = 906,
    HVD_CU_CAPTURED_EVENT = 907,
    HVD_CU_STREAM_CAPTURE_WRONG_THREAD = 908,
    HVD_CU_UNKNOWN = 999
};

enum hvd_cu_device_attributes {
    HVD_CU_MAX_THREADS_PER_BLOCK = 1,
    HVD_CU_WARP_SIZE = 10,
    HVD_CU_MULTIPROCESSOR_COUNT = 16,
    HVD_CU_COMPUTE_MODE = 20,
    HVD_CU_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    HVD_CU_ASYNC_ENGINE_COUNT = 40,
    HVD_CU_UNIFIED_ADDRESSING = 41,
    HVD_CU_COMPUTE_CAPABILITY_MAJOR = 75,
    HVD_CU_COMPUTE_CAPABILITY_MINOR = 76,
    HVD_CU_MEMORY_POOLS_SUPPORTED = 115
};

enum hvd_cu_pointer_attributes {
    HVD_CU_POINTER_CONTEXT = 1,
    HVD_CU_POINTER_MEMORY_TYPE = 2,
    HVD_CU_POINTER_DEVICE_POINTER = 3,
    HVD_CU_POINTER_HOST_POINTER = 4,
    HVD_CU_POINTER_IS_MANAGED = 8,
    HVD_CU_POINTER_DEVICE_ORDINAL = 9,
    HVD_CU_POINTER_RANGE_START = 11,
    HVD_CU_POINTER_RANGE_SIZE = 12
};

enum hvd_cu_memory_types { HVD_CU_MEMORY_HOST = 1, HVD_CU_MEMORY_DEVICE = 2 };

enum hvd_cu_pool_attributes {
    HVD_CU_POOL_RELEASE_THRESHOLD = 4, /* uint64_t: unused bytes that it keeps */
    HVD_CU_POOL_RESERVED_CURRENT = 5,  /* uint64_t: bytes that it has of the device */
    HVD_CU_POOL_USED_CURRENT = 7
};

enum hvd_cu_function_attributes {
    HVD_CU_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    HVD_CU_FUNCTION_LOCAL_SIZE_BYTES = 3,
    HVD_CU_FUNCTION_NUM_REGS = 4,
    HVD_CU_FUNCTION_BINARY_VERSION = 6
};

enum hvd_cu_jit_options { HVD_CU_JIT_ERROR_LOG = 5, HVD_CU_JIT_ERROR_LOG_BYTES = 6 };

enum hvd_cu_flags {
    HVD_CU_STREAM_DEFAULT = 0,
    HVD_CU_STREAM_NON_BLOCKING = 1,
    HVD_CU_EVENT_DEFAULT = 0,
    HVD_CU_EVENT_BLOCKING_SYNC = 1,
    HVD_CU_EVENT_DISABLE_TIMING = 2,
    HVD_CU_HOST_PORTABLE = 1,
    HVD_CU_HOST_DEVICEMAP = 2,
    HVD_CU_WAIT_VALUE_GEQ = 0,
    HVD_CU_WAIT_VALUE_EQ = 1,
    HVD_CU_WAIT_VALUE_AND = 2,
    HVD_CU_WRITE_VALUE_DEFAULT = 0
};

enum hvd_cu_capture_states {
    HVD_CU_CAPTURE_NONE = 0,
    HVD_CU_CAPTURE_ACTIVE = 1,
    HVD_CU_CAPTURE_INVALIDATED = 2
};

enum hvd_cu_capture_modes {
    HVD_CU_CAPTURE_GLOBAL = 0,
    HVD_CU_CAPTURE_THREAD_LOCAL = 1,
    HVD_CU_CAPTURE_RELAXED = 2
};

/* Handles that stand for special streams, as numbers to be cast. */
#define HVD_CU_STREAM_LEGACY 1
#define HVD_CU_STREAM_PER_THREAD 2

/*
 * X(symbol, base name, first version, whether the adapter needs it, result, parameters). The symbol
 * is what dlsym needs. The version is that of cuDriverGetVersion: 11020 is 11.2.
 */
#define HVD_CU_DEVICE_MAP(X)                                                                       \
    X(cuInit, cuInit, 2000, 1, hvd_cu_result_t, (unsigned int flags))                              \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, 1, hvd_cu_result_t, (int *version))            \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, 1, hvd_cu_result_t, (int *count))                  \
    X(cuDeviceGet, cuDeviceGet, 2000, 1, hvd_cu_result_t, (hvd_cu_device_t * device, int ordinal)) \
    X(cuDeviceGetName, cuDeviceGetName, 2000, 1, hvd_cu_result_t,                                  \
      (char *name, int len, hvd_cu_device_t device))                                               \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, 0, hvd_cu_result_t,                              \
      (struct hvd_cu_uuid * uuid, hvd_cu_device_t device))                                         \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, 1, hvd_cu_result_t,                        \
      (int *value, unsigned int attribute, hvd_cu_device_t device))                                \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, 1, hvd_cu_result_t,                          \
      (char *id, int len, hvd_cu_device_t device))                                                 \
    X(cuGetErrorName, cuGetErrorName, 6000, 1, hvd_cu_result_t,                                    \
      (hvd_cu_result_t result, const char **name))                                                 \
    X(cuGetErrorString, cuGetErrorString, 6000, 1, hvd_cu_result_t,                                \
      (hvd_cu_result_t result, const char **text))

#define HVD_CU_CONTEXT_MAP(X)                                                                      \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, 1, hvd_cu_result_t,                \
      (struct CUctx_st * *context, hvd_cu_device_t device))                                        \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, 1, hvd_cu_result_t,          \
      (hvd_cu_device_t device))                                                                    \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, 1, hvd_cu_result_t,            \
      (hvd_cu_device_t device, unsigned int *flags, int *active))                                  \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, 1, hvd_cu_result_t,                             \
      (struct CUctx_st * context))                                                                 \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, 1, hvd_cu_result_t, (struct CUctx_st * *context)) \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, 1, hvd_cu_result_t, (struct CUctx_st * *context))    \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, 1, hvd_cu_result_t, (hvd_cu_device_t * device))        \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, 1, hvd_cu_result_t, (void))                        \
    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, 1, hvd_cu_result_t,          \
      (int *least, int *greatest))

#define HVD_CU_MEMORY_MAP(X)                                                                       \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, 1, hvd_cu_result_t, (hvd_cu_ptr_t * out, size_t bytes))     \
    X(cuMemFree_v2, cuMemFree, 3020, 1, hvd_cu_result_t, (hvd_cu_ptr_t memory))                    \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, 1, hvd_cu_result_t,                                 \
      (hvd_cu_ptr_t * out, size_t bytes, struct CUstream_st * stream))                             \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, 1, hvd_cu_result_t,                                   \
      (hvd_cu_ptr_t memory, struct CUstream_st * stream))                                          \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, 1, hvd_cu_result_t,                           \
      (struct CUmemPoolHandle_st * *pool, hvd_cu_device_t device))                                 \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, 1, hvd_cu_result_t,                     \
      (struct CUmemPoolHandle_st * pool, unsigned int attribute, void *value))                     \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, 1, hvd_cu_result_t,                     \
      (struct CUmemPoolHandle_st * pool, unsigned int attribute, void *value))                     \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, 1, hvd_cu_result_t,                                    \
      (void **out, size_t bytes, unsigned int flags))                                              \
    X(cuMemFreeHost, cuMemFreeHost, 2000, 1, hvd_cu_result_t, (void *memory))                      \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, 1, hvd_cu_result_t,                                     \
      (size_t * free_bytes, size_t * total_bytes))                                                 \
    X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, 1, hvd_cu_result_t,                           \
      (hvd_cu_ptr_t to, const void *from, size_t bytes, struct CUstream_st *stream))               \
    X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, 1, hvd_cu_result_t,                           \
      (void *to, hvd_cu_ptr_t from, size_t bytes, struct CUstream_st *stream))                     \
    X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, 1, hvd_cu_result_t,                           \
      (hvd_cu_ptr_t to, hvd_cu_ptr_t from, size_t bytes, struct CUstream_st * stream))             \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, 1, hvd_cu_result_t,                                     \
      (void *to, hvd_cu_ptr_t from, size_t bytes))                                                 \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, 1, hvd_cu_result_t,                                     \
      (hvd_cu_ptr_t to, const void *from, size_t bytes))                                           \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, 1, hvd_cu_result_t,                                  \
      (hvd_cu_ptr_t to, unsigned char value, size_t bytes, struct CUstream_st *stream))            \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, 1, hvd_cu_result_t,                    \
      (unsigned int n, unsigned int *attributes, void **values, hvd_cu_ptr_t memory))

#define HVD_CU_STREAM_MAP(X)                                                                       \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, 1, hvd_cu_result_t,            \
      (struct CUstream_st * *out, unsigned int flags, int priority))                               \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000, 1, hvd_cu_result_t,                               \
      (struct CUstream_st * stream))                                                               \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, 1, hvd_cu_result_t,                          \
      (struct CUstream_st * stream))                                                               \
    X(cuStreamQuery, cuStreamQuery, 2000, 1, hvd_cu_result_t, (struct CUstream_st * stream))       \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, 1, hvd_cu_result_t,                              \
      (struct CUstream_st * stream, struct CUevent_st * event, unsigned int flags))                \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, 1, hvd_cu_result_t,                                    \
      (struct CUstream_st * stream, struct CUctx_st * *context))                                   \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, 1, hvd_cu_result_t,                         \
      (struct CUstream_st * stream, unsigned int *state))                                          \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, 0, hvd_cu_result_t,                    \
      (struct CUstream_st * stream, unsigned int mode))                                            \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, 0, hvd_cu_result_t,                           \
      (struct CUstream_st * stream, struct CUgraph_st * *graph))                                   \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, 1,              \
      hvd_cu_result_t, (unsigned int *mode))                                                       \
    X(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, 0, hvd_cu_result_t,                    \
      (struct CUstream_st * stream, hvd_cu_ptr_t at, unsigned int value, unsigned int flags))      \
    X(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, 0, hvd_cu_result_t,                      \
      (struct CUstream_st * stream, hvd_cu_ptr_t at, unsigned int value, unsigned int flags))      \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, 0, hvd_cu_result_t,                               \
      (struct CUstream_st * stream, hvd_cu_host_fn call, void *data))

#define HVD_CU_EVENT_MAP(X)                                                                        \
    X(cuEventCreate, cuEventCreate, 2000, 1, hvd_cu_result_t,                                      \
      (struct CUevent_st * *out, unsigned int flags))                                              \
    X(cuEventRecord, cuEventRecord, 2000, 1, hvd_cu_result_t,                                      \
      (struct CUevent_st * event, struct CUstream_st * stream))                                    \
    X(cuEventQuery, cuEventQuery, 2000, 1, hvd_cu_result_t, (struct CUevent_st * event))           \
    X(cuEventSynchronize, cuEventSynchronize, 2000, 1, hvd_cu_result_t,                            \
      (struct CUevent_st * event))                                                                 \
    X(cuEventDestroy_v2, cuEventDestroy, 4000, 1, hvd_cu_result_t, (struct CUevent_st * event))

#define HVD_CU_KERNEL_MAP(X)                                                                       \
    X(cuModuleLoadData, cuModuleLoadData, 2000, 1, hvd_cu_result_t,                                \
      (struct CUmod_st * *out, const void *image))                                                 \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, 1, hvd_cu_result_t,                            \
      (struct CUmod_st * *out, const void *image, unsigned int n_options, unsigned int *options,   \
       void **values))                                                                             \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, 1, hvd_cu_result_t,                          \
      (struct CUfunc_st * *out, struct CUmod_st * module, const char *name))                       \
    X(cuModuleUnload, cuModuleUnload, 2000, 1, hvd_cu_result_t, (struct CUmod_st * module))        \
    X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, 1, hvd_cu_result_t,                            \
      (int *value, unsigned int attribute, struct CUfunc_st *function))                            \
    X(cuLaunchKernel, cuLaunchKernel, 4000, 1, hvd_cu_result_t,                                    \
      (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, struct CUstream_st *stream, void **params, void **extra))

#define HVD_CU_DRIVER_MAP(X)                                                                       \
    HVD_CU_DEVICE_MAP(X)                                                                           \
    HVD_CU_CONTEXT_MAP(X)                                                                          \
    HVD_CU_MEMORY_MAP(X)                                                                           \
    HVD_CU_STREAM_MAP(X)                                                                           \
    HVD_CU_EVENT_MAP(X)                                                                            \
    HVD_CU_KERNEL_MAP(X)

/* One pointer per function, under the name of its symbol. */
struct hvd_cu_driver_api {
#define X(symbol, base, since, is_needed, result, params) result(*symbol) params;
    HVD_CU_DRIVER_MAP(X)
#undef X
};

#endif
