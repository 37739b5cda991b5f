#ifndef HVD_WORKER_API_BEGIN_H
#define HVD_WORKER_API_BEGIN_H

#include "worker/api/api_internal.h"
#include "worker/autotune/autotune.h"
#include "worker/transport/bootstrap.h"

/* A job in this process. It must not move while it runs: its parts hold the address of the log. */
struct hvd_job {
    struct hvd_engine *engine;       /* owned; NULL: none */
    struct hvd_telemetry *telemetry; /* owned; outlives the engine */
    struct hvd_autotune *autotune;   /* owned; outlives the engine; rank 0's; NULL: none */
    struct hvd_bootstrap *bootstrap; /* owned; its transport is the engine's */
    struct hvd_log log;
    struct hvd_cuda_options device_options; /* ordinal is unused */
    bool has_dynamic_sets;
    bool waits_on_host; /* horovod_wait_stream waits for the GPU */
};

/*
 * Begins a job, which must be empty. Collective over the ranks that take part. If one rank fails,
 * all fail: HVD_ERR_INVALID for arguments and settings, HVD_ERR_MISMATCH when the ranks differ,
 * HVD_ERR_STATE when MPI cannot be used, HVD_ERR_NOMEM, HVD_ERR_SYSTEM. The job is empty then.
 */
hvd_status_t hvd_api_begin(struct hvd_job *job, const struct hvd_api_start *from,
                           struct hvd_err *err);

/* Frees a job that was shut down, or is empty. */
void hvd_api_begin_fini(struct hvd_job *job);

#endif
