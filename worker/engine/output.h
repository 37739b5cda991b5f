#ifndef HVD_WORKER_ENGINE_OUTPUT_H
#define HVD_WORKER_ENGINE_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "worker/device/device.h"

/* The result of an allgather or alltoall; opaque in the public header. */
struct horovod_output {
    void *data;                     /* owned; NULL when bytes is 0 */
    struct hvd_device_port *device; /* the owner of the memory, a user of it; NULL: the host */
    struct hvd_device_event *after; /* a user of the event after which the device may free the
                                       memory; NULL: at once */
    bool is_borrowed;               /* data is the program's memory */
    bool has_stream;                /* the program uses the memory on `stream` */
    void *stream;
    size_t bytes;
    int64_t n_rows;
    int n_ranks;
    struct horovod_output *next_orphan; /* the engine's: see hvd_job_end_abort */
    int64_t *counts;                    /* elements by rank; in this block, after rows */
    int64_t rows[];                     /* by rank */
};

/* Creates an output without data, for n_ranks ranks. HVD_ERR_NOMEM. */
hvd_status_t hvd_output_create(int n_ranks, struct horovod_output **out);

/* Allocates the data. HVD_ERR_NOMEM. */
hvd_status_t hvd_output_reserve(struct horovod_output *output, size_t bytes);

/* Frees the output and its data. NULL is allowed. */
void hvd_output_destroy(struct horovod_output *output);

#endif
