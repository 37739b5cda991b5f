#ifndef HVD_BASE_MEM_H
#define HVD_BASE_MEM_H

#include <stddef.h>

/*
 * The only allocator that this project's C code calls. Two implementations link against it: mem.c
 * for programs and libraries, tests/unit/mem_testing.c for tests (counts live blocks, fails on
 * demand). All functions are thread safe. NULL means out of memory; hvd_free(NULL) does nothing.
 */

/* Allocates n * size bytes, not initialised. Returns NULL also when the product overflows. */
void *hvd_malloc(size_t n, size_t size);

/* Allocates n * size zeroed bytes. Returns NULL also when the product overflows. */
void *hvd_calloc(size_t n, size_t size);

/* Grows or shrinks p (may be NULL) to n * size bytes. On failure p stays valid and the caller's. */
void *hvd_realloc(void *p, size_t n, size_t size);

/* Returns a copy of the string, which the caller frees. */
char *hvd_strdup(const char *s);

/* Returns a terminated copy of len bytes at s, which the caller frees. */
char *hvd_strndup(const char *s, size_t len);

/* Releases a block of this allocator. */
void hvd_free(void *p);

/* Returns the size of a page of memory, a power of two. */
size_t hvd_page_size(void);

/* Maps 1 to `want` contiguous pages of undefined content, aligned to the page size, and stores
 * their number in *got. Returns NULL if out of memory. */
void *hvd_pages_take(size_t want, size_t *got);

/* Returns n of those pages to the system. */
void hvd_pages_give(void *first, size_t n);

#endif
