#ifndef HVD_BASE_SLAB_H
#define HVD_BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Memory for what stays: many small blocks that live long lie in pages of their own, apart from
 * what requests need for a moment, so that neither leaves holes in the other's memory. Pages come
 * some at a time, and each goes back to the system with its last block. One thread.
 */

#define HVD_SLAB_CLASSES 64

/* Zeroed: empty. Nothing is left of one whose blocks were all given back. */
struct hvd_slab {
    struct hvd_slab_page *_partial[HVD_SLAB_CLASSES]; /* pages with room, by the size of blocks */
    char *_fresh;                                     /* pages that were never used */
    size_t _n_fresh;
    size_t _n_used; /* pages with blocks */
};

/* A block of that size, as aligned as a pointer; without a slab (NULL) the allocator's. NULL: out
 * of memory. */
void *hvd_slab_take(struct hvd_slab *slab, size_t size);

/* Frees a block of that size, taken from that slab, or without one. A block of NULL is legal. */
void hvd_slab_give(struct hvd_slab *slab, void *block, size_t size);

/* Whether memory is gained when the blocks of that size that are like this one are taken anew and
 * then given back, each of which this has to be asked for: another page has room for it. */
bool hvd_slab_is_misplaced(const struct hvd_slab *slab, const void *block, size_t size);

#endif
