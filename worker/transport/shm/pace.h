#ifndef HVD_WORKER_TRANSPORT_SHM_PACE_H
#define HVD_WORKER_TRANSPORT_SHM_PACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The way of elements from one rank to the other: through the caches, or past them through memory.
 * The faster way depends on the two processors. Under one third-level cache the caches are faster
 * by half; otherwise memory is, by a factor of two. A virtual machine does not show where its
 * processors are, and may move them. So both ways are tried, again from time to time: 2 % of the
 * chunks take the slower way.
 *
 * Pure: the caller has the clock. A zeroed struct is a valid start.
 */
struct hvd_shm_pace {
    bool is_past;    /* the way now: past the caches */
    bool is_settled; /* no trial is under way */
    int n_samples;   /* chunks since the choice of this way */
    int n_others;    /* chunks meanwhile with another key */
    uint64_t key;    /* of the chunks that are compared; 0: none yet */
    int64_t best[2]; /* time per PER bytes, of each way */
};

/* Records one chunk and how long this rank worked on it, waiting not included. Only chunks of one
 * key are compared; it is not 0. spent_ns may be 0 while hvd_shm_pace_asks returns false. */
void hvd_shm_pace_sample(struct hvd_shm_pace *pace, uint64_t key, int64_t bytes, int64_t spent_ns);

/* Whether the next sample needs the clock. */
bool hvd_shm_pace_asks(const struct hvd_shm_pace *pace);

#endif
