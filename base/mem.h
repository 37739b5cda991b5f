#ifndef HVD_BASE_MEM_H
#define HVD_BASE_MEM_H

#include <stddef.h>

/*
 * The only allocator that this project's C code calls. Two implementations link against it: mem.c
 * for programs and libraries, tests/unit/mem_testing.c for tests (counts live blocks, fails on
 * demand). All functions are thread safe. NULL means out of memory; hvd_free(NULL) does nothing.
 */

/* n * size bytes, not initialised; NULL also when the product overflows. */
void *hvd_malloc(size_t n, size_t size);

/* n * size zeroed bytes; NULL also when the product overflows. */
void *hvd_calloc(size_t n, size_t size);

/* Grows or shrinks p (may be NULL) to n * size bytes. On failure p stays valid and the caller's. */
void *hvd_realloc(void *p, size_t n, size_t size);

/* A copy of the string, the caller's to free. */
char *hvd_strdup(const char *s);

/* A terminated copy of len bytes at s, the caller's to free. */
char *hvd_strndup(const char *s, size_t len);

/* Releases a block of this allocator. */
void hvd_free(void *p);

/* The size of a page of memory, a power of two. */
size_t hvd_page_size(void);

/* Pages one behind the other, aligned to their size, their content undefined: at least one, up to
 * want, and how many in *got. NULL: out of memory. */
void *hvd_pages_take(size_t want, size_t *got);

/* Gives so many of them back to the system. */
void hvd_pages_give(void *first, size_t n);

#endif
