#ifndef HVD_BASE_SLAB_H
#define HVD_BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>

/*
 * An allocator for many small, long-lived blocks. They lie in pages apart from the short-lived
 * memory of requests, so that neither fragments the other. The slab takes several pages at a time,
 * and returns each page to the system with its last block. One thread.
 */

#define HVD_SLAB_CLASSES 64

/* A zeroed struct is an empty slab. Once all blocks were given back, it holds no memory. */
struct hvd_slab {
    struct hvd_slab_page *_partial[HVD_SLAB_CLASSES]; /* pages with free blocks, by block size */
    char *_fresh;                                     /* pages that were never used */
    size_t _n_fresh;
    size_t _n_used; /* pages with blocks */
};

/* Returns a block of that size, aligned for a pointer; if slab is NULL, one of hvd_malloc. NULL:
 * out of memory. */
void *hvd_slab_take(struct hvd_slab *slab, size_t size);

/* Frees a block that hvd_slab_take returned for the same slab (or NULL) and size. block may be
 * NULL. */
void hvd_slab_give(struct hvd_slab *slab, void *block, size_t size);

/* Returns whether moving the block would save memory, because another page of its size has a free
 * block. To compact the slab, ask for each block of that size, and replace those for which this is
 * true. */
bool hvd_slab_is_misplaced(const struct hvd_slab *slab, const void *block, size_t size);

#endif
