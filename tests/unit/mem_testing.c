/*
 * The allocator that tests link instead of mem.c: counts what is live and can make the nth
 * allocation fail. Counters are atomic, so tests with threads may use it.
 */
#include "tests/unit/mem_testing.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

static atomic_ulong fail_in;
static atomic_bool fired;
static atomic_long live;
static atomic_ulong allocations;
static atomic_size_t pages_at_once = 1;

void hvd_mem_fail_nth(unsigned long nth)
{
    atomic_store(&fail_in, nth);
    atomic_store(&fired, false);
}

bool hvd_mem_fired(void)
{
    return atomic_load(&fired);
}

long hvd_mem_live(void)
{
    return atomic_load(&live);
}

unsigned long hvd_mem_allocations(void)
{
    return atomic_load(&allocations);
}

void hvd_mem_pages_at_once(size_t n)
{
    atomic_store(&pages_at_once, n);
}

static bool must_fail(void)
{
    unsigned long n = atomic_load(&fail_in);

    while (n != 0 && !atomic_compare_exchange_weak(&fail_in, &n, n - 1)) {
    }
    if (n == 1)
        atomic_store(&fired, true);
    return n == 1;
}

static void *counted(void *p)
{
    if (p) {
        atomic_fetch_add(&live, 1);
        atomic_fetch_add(&allocations, 1);
    }
    return p;
}

/* A block of no bytes still gets an address of its own. */
static size_t at_least_one(size_t size)
{
    return size > 0 ? size : 1;
}

void *hvd_malloc(size_t n, size_t size)
{
    if (must_fail() || (size != 0 && n > SIZE_MAX / size))
        return NULL;
    return counted(malloc(at_least_one(n * size)));
}

void *hvd_calloc(size_t n, size_t size)
{
    if (must_fail())
        return NULL;
    return counted(calloc(n ? n : 1, size ? size : 1));
}

void *hvd_realloc(void *p, size_t n, size_t size)
{
    if (must_fail() || (size != 0 && n > SIZE_MAX / size))
        return NULL;
    if (!p)
        return counted(malloc(at_least_one(n * size)));
    return realloc(p, at_least_one(n * size));
}

char *hvd_strdup(const char *s)
{
    return hvd_strndup(s, strlen(s));
}

char *hvd_strndup(const char *s, size_t len)
{
    char *p = len < SIZE_MAX ? hvd_malloc(len + 1, 1) : NULL;

    if (!p)
        return NULL;
    memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

void hvd_free(void *p)
{
    if (p)
        atomic_fetch_sub(&live, 1);
    free(p);
}

size_t hvd_page_size(void)
{
    return 4096;
}

/* One page is a block of the allocator, so that a sanitizer sees it. */
void *hvd_pages_take(size_t want, size_t *got)
{
    const size_t most = atomic_load(&pages_at_once);
    const size_t n = want < most ? want : most;
    void *first = NULL;

    if (n == 0 || must_fail())
        return NULL;
    if (most == 1)
        first = aligned_alloc(hvd_page_size(), hvd_page_size());
    else
        first = mmap(NULL, n * hvd_page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    if (!first || first == MAP_FAILED)
        return NULL;
    atomic_fetch_add(&live, (long)n);
    atomic_fetch_add(&allocations, n);
    *got = n;
    return first;
}

void hvd_pages_give(void *first, size_t n)
{
    if (n == 0)
        return;
    atomic_fetch_sub(&live, (long)n);
    if (atomic_load(&pages_at_once) == 1)
        free(first);
    else
        (void)munmap(first, n * hvd_page_size());
}
