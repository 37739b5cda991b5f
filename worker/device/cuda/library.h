#ifndef HVD_WORKER_DEVICE_CUDA_LIBRARY_H
#define HVD_WORKER_DEVICE_CUDA_LIBRARY_H

#include "base/status.h"
#include "worker/device/cuda/driver_api.h"
#include "worker/device/cuda/nccl_api.h"

/* The functions of both libraries, opened once and never closed. Constant afterwards. */
struct hvd_cuda_library {
    struct hvd_cu_driver_api cu;
    struct hvd_nccl_api nccl;
    int driver_version;
    int nccl_version; /* 0: NCCL is missing or too old */
    char nccl_problem[256];
};

/* Returns the functions of the driver, and those of NCCL if there is one that can be used. Any
 * thread. HVD_ERR_NOT_FOUND: there is no driver, or it is too old; err names the reason. */
hvd_status_t hvd_cuda_library(const struct hvd_cuda_library **out, struct hvd_err *err);

/* Converts a failure of the driver; `what` names the call. HVD_ERR_NOMEM or HVD_ERR_SYSTEM. */
hvd_status_t hvd_cuda_library_failure(const struct hvd_cuda_library *library,
                                      hvd_cu_result_t result, const char *what,
                                      struct hvd_err *err);

/* Converts a failure of NCCL. HVD_ERR_UNAVAILABLE: the peer of a collective is lost. */
hvd_status_t hvd_cuda_library_nccl_failure(const struct hvd_cuda_library *library,
                                           hvd_nccl_result_t result, const char *what,
                                           struct hvd_err *err);

#endif
