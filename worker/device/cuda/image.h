#ifndef HVD_WORKER_DEVICE_CUDA_IMAGE_H
#define HVD_WORKER_DEVICE_CUDA_IMAGE_H

#include <stddef.h>

/*
 * What cuModuleLoadData takes: the kernels of kernels.h. script/kernels makes both images; the
 * build embeds them.
 */

/* kernels.ptx, terminated by 0. Every driver from CUDA 9.0 on compiles it for its GPU. */
extern const unsigned char hvd_cuda_ptx[];
extern const size_t hvd_cuda_ptx_bytes;

/* Machine code for the common GPUs, which loads faster: the file that the build was given as
 * HVD_CUDA_FATBIN. hvd_cuda_fatbin_bytes is 0 if it was given none. A GPU that it has no code for
 * is HVD_CU_NO_BINARY_FOR_GPU: the PTX serves it. */
extern const unsigned char hvd_cuda_fatbin[];
extern const size_t hvd_cuda_fatbin_bytes;

/* Drivers of an older version, as cuDriverGetVersion counts, cannot load the machine code. */
#define HVD_CUDA_FATBIN_DRIVER 13000

#endif
