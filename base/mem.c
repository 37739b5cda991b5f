/*
 * The allocator of programs and libraries: the C library's, with overflow checks.
 * Tests link tests/unit/mem_testing.c in its place. Any thread.
 */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* An empty block, too, needs an address of its own. */
static size_t at_least_one(size_t size)
{
    return size > 0 ? size : 1;
}

void *hvd_malloc(size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / size)
        return NULL;
    return malloc(at_least_one(n * size));
}

void *hvd_calloc(size_t n, size_t size)
{
    return calloc(n ? n : 1, size ? size : 1);
}

void *hvd_realloc(void *p, size_t n, size_t size)
{
    if (size != 0 && n > SIZE_MAX / size)
        return NULL;
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
    free(p);
}

size_t hvd_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Maps and populates all pages at once, because a page fault for each takes far longer. */
void *hvd_pages_take(size_t want, size_t *got)
{
    void *first = mmap(NULL, want * hvd_page_size(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (first == MAP_FAILED)
        return NULL;
    *got = want;
    return first;
}

void hvd_pages_give(void *first, size_t n)
{
    if (n)
        (void)munmap(first, n * hvd_page_size());
}
