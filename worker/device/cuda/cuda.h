#ifndef HVD_WORKER_DEVICE_CUDA_CUDA_H
#define HVD_WORKER_DEVICE_CUDA_CUDA_H

#include "worker/device/device.h"

/*
 * A GPU behind the port device.h, by the CUDA driver and NCCL. Both libraries are opened at run
 * time, so the same build runs on machines without them. docs/device.md describes streams and
 * threads.
 */

struct hvd_cuda_options {
    int ordinal;      /* of the GPU, among those that this process sees */
    bool has_no_nccl; /* ignore NCCL: every collective goes through host memory */
    /* Long allreduces on several equal hosts take three steps (torus.h): with NCCL alone, or with
     * the second one in host memory. At most one of the two; the same on all ranks. */
    bool has_torus;
    bool has_hierarchy;
};

/*
 * Opens a GPU, whose primary context the program shares, and starts a thread for it. The caller
 * destroys the port. HVD_ERR_NOT_FOUND: there is no driver, or no such GPU; err names what is
 * missing. HVD_ERR_NOMEM, HVD_ERR_SYSTEM.
 */
hvd_status_t hvd_cuda_create(const struct hvd_cuda_options *options, struct hvd_device_port **out,
                             struct hvd_err *err);

/* Waits for the work of the GPU, for some seconds at most, and frees the port. NULL is allowed.
 * After an abort or a connection use hvd_device_release: threads may be users of the port. */
void hvd_cuda_destroy(struct hvd_device_port *d);

/* Returns the ordinal of the GPU whose memory this is; -1: it is not memory of a GPU, or there is
 * no driver. Any thread. */
int hvd_cuda_ordinal_of(const void *memory);

/* Returns the version of NCCL, such as 22809 for 2.28.9, whether there is a driver or not; 0: there
 * is none that can be used. Any thread. */
int hvd_cuda_nccl_version(void);

/* Returns the reason why there is no NCCL that can be used; "" if there is one. Any thread. */
const char *hvd_cuda_nccl_problem(void);

/* Returns the version of CUDA that the driver supports, such as 13000 for 13.0; 0: there is none
 * that can be used. Any thread. */
int hvd_cuda_driver_version(void);

#endif
