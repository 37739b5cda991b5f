#ifndef HVD_WORKER_ENGINE_OUTPUT_H
#define HVD_WORKER_ENGINE_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "worker/device/device.h"

/* The result of an allgather or alltoall; the public header knows it by its tag alone. */
struct horovod_output {
    void *data;                     /* owned; NULL when bytes is 0 */
    struct hvd_device_port *device; /* whose memory it is; borrowed; NULL: the host's */
    bool is_borrowed;               /* the data: memory of the program's */
    size_t bytes;
    int64_t n_rows;
    int n_ranks;
    struct horovod_output *next_orphan; /* the engine's, see hvd_job_end_abort */
    int64_t *counts;                    /* elements by rank, behind rows in the same block */
    int64_t rows[];                     /* by rank */
};

/* An output without data, for n_ranks ranks. HVD_ERR_NOMEM. */
hvd_status_t hvd_output_create(int n_ranks, struct horovod_output **out);

/* Makes room for the data. HVD_ERR_NOMEM. */
hvd_status_t hvd_output_reserve(struct horovod_output *output, size_t bytes);

/* NULL is fine. */
void hvd_output_destroy(struct horovod_output *output);

#endif
