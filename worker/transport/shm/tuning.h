#ifndef HVD_WORKER_TRANSPORT_SHM_TUNING_H
#define HVD_WORKER_TRANSPORT_SHM_TUNING_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/transport/cpu_location.h"

/* Settings of a segment that depend on the locations of its ranks. The same on all ranks. */
struct hvd_shm_tuning {
    size_t exchange_bytes; /* a chunk of an allreduce of two ranks */
    size_t slices_bytes;   /* a chunk of an allreduce of more */
    size_t stream_bytes;   /* outputs of this size or more are written past the caches */
    bool is_crowded;       /* more ranks than cores: a waiting rank yields */
    bool is_apart;         /* two ranks without a common cache */
    int n_localities; /* of the same number of ranks, a package or node each; 1: no localities */
};

/*
 * Pure. Chunks stay in the second-level cache together with the data that they meet. Outputs are
 * written past the caches when those of all ranks and their inputs fill the third-level cache.
 * Localities are the packages, or else the nodes of memory, if the ranks span several evenly, two
 * or more in each. order receives the ranks, locality after locality, neighbours in a locality next
 * to each other; without localities in their order. stage_bytes limits a chunk.
 */
void hvd_shm_tune(const struct hvd_cpu_location *cpu_locations, int n_ranks, size_t stage_bytes,
                  struct hvd_shm_tuning *tuning, int *order);

#endif
