/*
 * The allocator that tests link instead of mem.c: counts what is live and can make the nth
 * allocation fail. Counters are atomic, so tests with threads may use it.
 */
#include "base/mem_testing.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static atomic_ulong fail_in;
static atomic_bool fired;
static atomic_long live;
static atomic_ulong allocations;

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

void *hvd_page_take(void)
{
    return must_fail() ? NULL : counted(aligned_alloc(hvd_page_size(), hvd_page_size()));
}

void hvd_page_give(void *page)
{
    hvd_free(page);
}
