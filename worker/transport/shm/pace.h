#ifndef HVD_WORKER_TRANSPORT_SHM_PACE_H
#define HVD_WORKER_TRANSPORT_SHM_PACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How elements get from one rank to the other: through the caches, or past them through memory.
 * Which one is faster depends on where the two processors are: under one third-level cache the
 * caches are, by half; otherwise memory is, by a factor of two. A virtual machine neither says nor
 * keeps where they are, so both ways are tried, and tried again from time to time: 2 % of the
 * chunks go the slower way.
 *
 * Pure: the caller has the clock. All zeroes is a good start.
 */
struct hvd_shm_pace {
    bool is_past;    /* the way now: past the caches */
    bool is_settled; /* nothing is being tried */
    int n_samples;   /* taken this way since it was chosen */
    int n_others;    /* meanwhile, that cannot be compared */
    uint64_t key;    /* what is being compared; 0: nothing yet */
    int64_t best[2]; /* time per byte, of each way */
};

/* One chunk, for which this rank worked so long, waiting not included. Only chunks of one key are
 * compared; it is not 0. spent_ns may be 0 while hvd_shm_pace_asks says no. */
void hvd_shm_pace_sample(struct hvd_shm_pace *pace, uint64_t key, int64_t bytes, int64_t spent_ns);

/* Whether the next sample needs the clock. */
bool hvd_shm_pace_asks(const struct hvd_shm_pace *pace);

#endif
