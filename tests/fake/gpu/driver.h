#ifndef HVD_TESTS_FAKE_GPU_DRIVER_H
#define HVD_TESTS_FAKE_GPU_DRIVER_H

#include "worker/device/cuda/driver_api.h"
#include "worker/device/cuda/nccl_api.h"

/* The address that a handle of device memory is. */
static inline void *fake_pointer(hvd_cu_ptr_t memory)
{
    const union {
        hvd_cu_ptr_t number;
        void *pointer;
    } both = {.number = memory};

    return both.pointer;
}

/* The functions of both doubles under their symbols, for the doubles and for what links them. */
#define X(symbol, base, since, is_needed, result, params)                                          \
    __attribute__((visibility("default"))) result symbol params;
HVD_CU_DRIVER_MAP(X)
#undef X
#define X(symbol, since, is_needed, result, params)                                                \
    __attribute__((visibility("default"))) result symbol params;
HVD_NCCL_MAP(X)
#undef X

#endif
