#ifndef HVD_WORKER_API_DEVICES_H
#define HVD_WORKER_API_DEVICES_H

#include "worker/api/api_internal.h"

/* A point on a stream of the program. Tensors that are submitted together share it. */
struct hvd_api_mark {
    void *stream;
    struct hvd_device_event *event; /* a user of it; NULL: it is done already */
    bool is_there;
};

/* Opens the GPU of a tensor that is not on the host, for the first one. HVD_ERR_INVALID when there
 * is no such GPU or no driver, or when the rank uses another one; HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t hvd_api_device_of(struct hvd_engine *engine, const horovod_tensor_t *tensor,
                               struct hvd_err *err);

/* HVD_ERR_INVALID unless this is memory of the tensor's GPU; `what` names it. */
hvd_status_t hvd_api_check_gpu_memory(const horovod_tensor_t *tensor, const void *memory,
                                      const char *what, struct hvd_err *err);

/* Makes *last a point on the tensor's stream. Keeps it if it is one already, and does nothing for a
 * tensor of the host. The engine has the tensor's device. HVD_ERR_INVALID when the stream is being
 * captured; else fails as the device does. */
hvd_status_t hvd_api_mark_input(struct hvd_engine *engine, const horovod_tensor_t *tensor,
                                struct hvd_api_mark *last, struct hvd_err *err);

/* Forgets the point. */
void hvd_api_mark_drop(struct hvd_api_mark *last);

#endif
