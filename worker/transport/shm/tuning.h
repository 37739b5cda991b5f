#ifndef HVD_WORKER_TRANSPORT_SHM_TUNING_H
#define HVD_WORKER_TRANSPORT_SHM_TUNING_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/transport/cpu_location.h"

/* How the ranks of a segment go about it, by where they are. The same on all ranks. */
struct hvd_shm_tuning {
    size_t exchange_bytes; /* a chunk of an allreduce of two ranks */
    size_t slices_bytes;   /* a chunk of an allreduce of more */
    size_t stream_bytes;   /* outputs of so much are written past the caches */
    bool is_crowded;       /* more ranks than cores: who waits gives way */
    bool is_apart;         /* two ranks without a common cache */
    int n_localities; /* of as many ranks each, a package or node each; 1: they are not parted */
};

/*
 * Pure. Chunks stay in the second-level cache together with what they meet there; outputs go past
 * the caches when those of all ranks and their inputs fill the third. Ranks that span several
 * packages evenly, or else nodes of memory, two or more in each, are localities. order gets the
 * ranks, locality after locality, neighbours in a locality next to each other; without localities
 * in their order. stage_bytes is the most that a chunk may have.
 */
void hvd_shm_tune(const struct hvd_cpu_location *cpu_locations, int n_ranks, size_t stage_bytes,
                  struct hvd_shm_tuning *tuning, int *order);

#endif
