#ifndef HVD_WORKER_DEVICE_CUDA_TORUS_H
#define HVD_WORKER_DEVICE_CUDA_TORUS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/core/collective.h"

/*
 * The torus: an allreduce in three steps, with a communicator for the ranks of a host, and one for
 * those of equal local rank on all hosts. Pure: all ranks decide from the same arguments alike.
 *
 *     host 0    rank 0   rank 1     1. the ranks of a host reduce and scatter: each has a chunk
 *                 │        │        2. equal chunks are reduced across hosts
 *     host 1    rank 2   rank 3     3. the ranks of a host gather the chunks
 *
 * What remains behind equal chunks belongs to the last local rank.
 */

/* The place of a rank. */
struct hvd_torus {
    int host; /* a number of the own host that all its ranks have */
    int local_rank;
    int local_size; /* 0: there is no torus */
};

/* How the elements of a message are shared out. */
struct hvd_torus_share {
    size_t chunk; /* of each local rank; a multiple of 256 bytes */
    size_t rest;  /* behind the last chunk */
};

/* Returns the place of a rank. hosts and local_ranks are those of struct hvd_device_set; NULL: all
 * ranks are on one host. There is a torus if the set is on several hosts, and has the same number
 * of ranks on each, more than one. */
struct hvd_torus hvd_torus_of(const int *hosts, const int *local_ranks, int size, int rank);

/* Whether an allreduce of so many bytes moves over the torus. Not so: short ones, for which three
 * steps take longer, and averages of integers, which are divided once, behind the whole sum. */
bool hvd_torus_moves(size_t bytes, enum hvd_dtype dtype, bool is_averaged);

/* Returns the shares of a message for so many local ranks. */
struct hvd_torus_share hvd_torus_share_of(size_t count, size_t width, int local_size);

/* Returns the elements of a message that a local rank has. */
size_t hvd_torus_part(struct hvd_torus_share share, const struct hvd_torus *t);

/* Writes 1 / size in a type of floats, rounded to the nearest: the factor of an average. */
void hvd_torus_factor(enum hvd_dtype dtype, int size, void *factor);

#endif
