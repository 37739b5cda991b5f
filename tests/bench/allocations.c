/*
 * Stands in front of the C library's allocator: the program's own malloc comes first in the search
 * order of every library. When counting is off, a call costs one load more than it did.
 */
#include "tests/bench/allocations.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define EVERYBODYS __attribute__((visibility("default")))

/* The C library's own, under the names that it keeps for this purpose. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_bool is_counting;
static atomic_ulong n_calls;

static void note(void)
{
    if (atomic_load_explicit(&is_counting, memory_order_relaxed))
        atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
}

void allocations_count(bool is_on)
{
    if (is_on)
        atomic_store(&n_calls, 0);
    atomic_store(&is_counting, is_on);
}

unsigned long allocations_counted(void)
{
    return atomic_load(&n_calls);
}

EVERYBODYS void *malloc(size_t size)
{
    note();
    return __libc_malloc(size);
}

EVERYBODYS void *calloc(size_t n, size_t size)
{
    note();
    return __libc_calloc(n, size);
}

EVERYBODYS void *realloc(void *old, size_t size)
{
    note();
    return __libc_realloc(old, size);
}

EVERYBODYS void *aligned_alloc(size_t alignment, size_t size)
{
    note();
    return __libc_memalign(alignment, size);
}

EVERYBODYS int posix_memalign(void **out, size_t alignment, size_t size)
{
    note();
    void *found = __libc_memalign(alignment, size);
    if (!found)
        return ENOMEM;
    *out = found;
    return 0;
}
