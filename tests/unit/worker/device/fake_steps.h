#ifndef HVD_TESTS_UNIT_WORKER_DEVICE_FAKE_STEPS_H
#define HVD_TESTS_UNIT_WORKER_DEVICE_FAKE_STEPS_H

#include "worker/device/device.h"

/*
 * An allreduce in three steps on the fake device: alltoalls of the set, in which only ranks of one
 * host send to each other.
 */
#define FAKE_RANKS_MAX 64 /* of a set */

/* A rank of a set. */
struct fake_place {
    int hosts[FAKE_RANKS_MAX]; /* a number for each rank that those of its host share */
    int size;
    int rank;
};

/* Returns the place of this rank in a set. */
struct fake_place fake_place_of(const struct hvd_device_set *device_set);

/* The elements that a rank has of `count`; -1: it takes one step. */
int64_t fake_part(const struct fake_place *p, int64_t count);

/* The memory of a step. */
struct fake_step_memory {
    const char *part; /* of this rank, for the last step */
    int64_t *counts;  /* room for twice the size of the set */
    char *input;      /* from calloc; what an allreduce has is replaced */
    char *output;
};

/* Makes of *c, an allreduce of m->input, the alltoall of a step. */
void fake_step(const struct fake_place *p, enum hvd_device_work_kind kind, struct hvd_collective *c,
               struct fake_step_memory *m);

/* Reduces what the ranks of this host have sent in the first step of an allreduce into the part. */
void fake_combine(const struct fake_place *p, const struct hvd_collective *allreduce,
                  const char *received, char *part);

#endif
