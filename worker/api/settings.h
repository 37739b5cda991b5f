#ifndef HVD_WORKER_API_SETTINGS_H
#define HVD_WORKER_API_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "base/status.h"
#include "worker/transport/algorithm.h"

/* The values of HOROVOD_GPU_OPERATIONS. */
enum hvd_gpu_operations {
    HVD_GPU_OVER_NCCL, /* where there is NCCL */
    HVD_GPU_OVER_HOST, /* through the memory of the host */
};

#define HVD_SETTING_MAX 1024  /* bytes of a path, terminator included */
#define HVD_AFFINITY_MAX 1024 /* entries of HOROVOD_THREAD_AFFINITY */

/* The settings from the environment; docs/environment.md describes each. */
struct hvd_settings {
    int64_t cycle_ns;
    int64_t fusion_bytes; /* 0: no fusion */
    bool is_cycle_given;  /* set in the environment: autotune does not change these two then */
    bool is_fusion_given;
    int64_t cache_capacity;     /* 0: no plan cache */
    int64_t coordinator_fanout; /* 0: chosen */
    bool disable_group_fusion;
    bool dynamic_process_sets;
    bool mpi_threads_disable;
    bool shm; /* ranks of one host share memory */
    enum hvd_algorithm mpi_allreduce;
    struct hvd_algorithm_table mpi_allreduce_table; /* without rows: the built-in one */
    bool deterministic; /* sums do not depend on timing; restricts mpi_allreduce */
    int64_t adasum_chunk_bytes;
    enum hvd_gpu_operations gpu_operations;
    bool torus_allreduce; /* of tensors on GPUs; both mean the torus */
    bool hierarchical_allreduce;
    bool async_completion; /* horovod_wait_stream does not wait for the GPU */
    bool autotune;
    char autotune_log[HVD_SETTING_MAX]; /* empty: not set */
    int64_t autotune_warmup_samples;
    int64_t autotune_steps_per_sample;
    int64_t autotune_max_samples;
    double autotune_noise;     /* 0 to 1 */
    int64_t stall_warning_ns;  /* 0: off */
    int64_t stall_shutdown_ns; /* 0: never; else >= stall_warning_ns */
    enum hvd_log_level log_level;
    bool log_hides_time;
    int n_cores; /* 0: not set */
    int cores[HVD_AFFINITY_MAX];
    char timeline[HVD_SETTING_MAX]; /* empty: not set */
    bool timeline_marks_cycles;
    bool timeline_all_ranks;
    int64_t timeline_max_bytes; /* 0: no limit */
    char metrics_file[HVD_SETTING_MAX];
    char flight_recorder[HVD_SETTING_MAX];
};

/* Returns the value of a variable, NULL when it is not set; like getenv. Borrowed for the call. */
typedef const char *(*hvd_lookup_fn)(void *ctx, const char *name);

/* The source of variables. */
struct hvd_lookup {
    hvd_lookup_fn get;
    /* Returns the i-th provider that a variable may name, from 0; NULL: there are no more.
     * Borrowed. */
    const char *(*provider)(const char *variable, size_t i);
    void *ctx;
};

/*
 * Reads every variable that is honoured; an empty value counts as not set. On HVD_ERR_INVALID err
 * names the variable, its value and the allowed values; *settings is untouched then. Any thread.
 */
hvd_status_t hvd_settings_read(const struct hvd_lookup *from, struct hvd_settings *settings,
                               struct hvd_err *err);

/*
 * Calls the given function once for each variable that is set and has no effect here, with the
 * reason, and for each combination of variables that the library overrides.
 */
void hvd_settings_remarks(const struct hvd_lookup *from,
                          void (*say)(void *ctx, const char *name, const char *why), void *ctx);

#endif
