#ifndef HVD_WORKER_TRANSPORT_SHM_PACE_H
#define HVD_WORKER_TRANSPORT_SHM_PACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How the chunks of a large allreduce get from one rank to the other: through the caches, or past
 * them through memory. Which one is faster depends on where the two processors are: under one
 * third-level cache the caches are, by half; otherwise memory is, by a factor of two. A virtual
 * machine neither says nor keeps where they are, so both are tried, and tried again from time to
 * time: 1 % of the chunks go the slower way.
 *
 * Pure: the caller has the clock. All zeroes is a good start; every collective is begun.
 */
struct hvd_shm_pace {
    bool is_past;    /* the way now: past the caches */
    bool is_settled; /* nothing is being tried */
    int n_chunks;    /* gone this way since it was taken */
    int64_t last_ns; /* when the last one ended; 0: it was another collective's */
    int64_t best_ns[2];
};

/* A chunk has ended; whether the next one goes past the caches. The clock may be 0 when
 * hvd_shm_pace_asks says so. */
bool hvd_shm_pace_step(struct hvd_shm_pace *pace, int64_t now_ns);

/* Whether the next step needs the clock. */
bool hvd_shm_pace_asks(const struct hvd_shm_pace *pace);

/* Chunks of another collective follow: both ways are tried with the same one. */
void hvd_shm_pace_begin(struct hvd_shm_pace *pace);

#endif
