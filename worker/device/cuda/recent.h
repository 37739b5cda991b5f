#ifndef HVD_WORKER_DEVICE_CUDA_RECENT_H
#define HVD_WORKER_DEVICE_CUDA_RECENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Memory that work of a process set uses while it may not be done. Work runs on two streams, and
 * whoever packs overtakes collectives, so it has to know whether an earlier one uses its memory.
 * Pure. Memory is known by its address; memory that overlaps in part is not found.
 *
 * The table is of a fixed size. If memory has to give way, then all later work counts as if it used
 * that memory, until the work that did is done.
 */
#define HVD_RECENT_SETS 512
#define HVD_RECENT_WAYS 4

struct hvd_recent_use {
    const void *at;  /* NULL: free */
    uint32_t number; /* of the last work that uses it */
    uint32_t before; /* of the last one in front of that */
    bool has_before;
    bool wrote;  /* work up to `before` writes it */
    bool writes; /* and so does work up to `number` */
};

struct hvd_recent {
    struct hvd_recent_use uses[HVD_RECENT_SETS][HVD_RECENT_WAYS]; /* by a hash of the address */
    uint32_t lost; /* the last work whose memory has given way */
    bool has_lost;
};

/* Records that work uses memory, and returns whether earlier work that may not be done conflicts:
 * at least one of the two writes. Work may use memory several times. Numbers grow by one each and
 * wrap; all work up to `done` is done. NULL is no memory. */
bool hvd_recent_add(struct hvd_recent *r, const void *at, bool writes, uint32_t number,
                    uint32_t done);

#endif
