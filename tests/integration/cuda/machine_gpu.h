#ifndef HVD_TESTS_INTEGRATION_CUDA_MACHINE_GPU_H
#define HVD_TESTS_INTEGRATION_CUDA_MACHINE_GPU_H

#include "tests/unit/worker/device/cuda/machine.h"
#include "worker/device/cuda/driver_api.h"

/* The first GPU, for programs that use more of it than machine_run. One thread. */

/* Returns the driver's functions, once machine_missing has returned NULL; the thread has the
 * device's context then. */
const struct hvd_cu_driver_api *machine_gpu_api(void);

/* Returns a kernel of the image: that of the file HVD_KERNELS_IMAGE, or the embedded PTX. */
struct CUfunc_st *machine_gpu_kernel(enum hvd_cuda_kernel kernel);

/* Returns memory of the device, which stays to the end of the program. */
hvd_cu_ptr_t machine_gpu_alloc(size_t bytes);

/* Ends the program when a call of the driver has failed; what names the call. */
void machine_gpu_check(hvd_cu_result_t result, const char *what);

#endif
