/*
 * A page holds blocks of one size. Pages are aligned to their size, so that a block's address
 * yields its page. A free block holds the address of the next free one. Large blocks come from
 * hvd_malloc. With AddressSanitizer free blocks are poisoned, so it finds errors as in malloc's.
 */
#include "base/slab.h"

#include <stdint.h>

#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#define HVD_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HVD_POISONS 1
#endif
#endif
#ifdef HVD_POISONS
#include <sanitizer/asan_interface.h>
#define POISON(at, n) __asan_poison_memory_region(at, n)
#define UNPOISON(at, n) __asan_unpoison_memory_region(at, n)
#else
#define POISON(at, n) ((void)(at), (void)(n))
#define UNPOISON(at, n) ((void)(at), (void)(n))
#endif

#define UNIT 16
#define PAGES_AT_ONCE 16
#define SIZE_MAX_BYTES ((size_t)HVD_SLAB_CLASSES * UNIT)

struct free_block {
    struct free_block *next;
};

struct hvd_slab_page {
    struct hvd_slab_page *prev, *next; /* in the list of its class's pages with free blocks */
    struct free_block *free;
    uint32_t n_used;
    uint32_t n_fresh; /* never used yet: at the end */
};

static size_t class_of(size_t size)
{
    return size ? (size - 1) / UNIT : 0;
}

static size_t n_blocks(size_t class)
{
    return (hvd_page_size() - sizeof(struct hvd_slab_page)) / ((class + 1) * UNIT);
}

static struct hvd_slab_page *page_of(const void *block)
{
    return (struct hvd_slab_page *)((char *)block - ((uintptr_t)block & (hvd_page_size() - 1)));
}

static bool is_full(const struct hvd_slab_page *page)
{
    return !page->free && !page->n_fresh;
}

static void link_page(struct hvd_slab *slab, size_t class, struct hvd_slab_page *page)
{
    page->prev = NULL;
    page->next = slab->_partial[class];
    if (page->next)
        page->next->prev = page;
    slab->_partial[class] = page;
}

static void unlink_page(struct hvd_slab *slab, size_t class, struct hvd_slab_page *page)
{
    if (page->prev)
        page->prev->next = page->next;
    else
        slab->_partial[class] = page->next;
    if (page->next)
        page->next->prev = page->prev;
}

/* Takes one page; asks the system for several at once. */
static struct hvd_slab_page *take_page(struct hvd_slab *slab)
{
    char *page;

    if (!slab->_n_fresh) {
        slab->_fresh = hvd_pages_take(PAGES_AT_ONCE, &slab->_n_fresh);
        if (!slab->_fresh)
            return NULL;
    }
    page = slab->_fresh;
    slab->_fresh += hvd_page_size();
    slab->_n_fresh--;
    slab->_n_used++;
    return (struct hvd_slab_page *)page;
}

static void give_page(struct hvd_slab *slab, struct hvd_slab_page *page)
{
    hvd_pages_give(page, 1);
    if (--slab->_n_used)
        return;
    hvd_pages_give(slab->_fresh, slab->_n_fresh);
    slab->_fresh = NULL;
    slab->_n_fresh = 0;
}

/* Adds a page to its class's list of pages with free blocks. */
static struct hvd_slab_page *add_page(struct hvd_slab *slab, size_t class)
{
    struct hvd_slab_page *page = take_page(slab);

    if (!page)
        return NULL;
    *page = (struct hvd_slab_page){.n_fresh = (uint32_t)n_blocks(class)};
    POISON(page + 1, hvd_page_size() - sizeof(*page));
    link_page(slab, class, page);
    return page;
}

/* Cuts a block from the page, which must have room. */
static void *cut(struct hvd_slab_page *page, size_t class)
{
    const size_t size = (class + 1) * UNIT;
    struct free_block *block = page->free;

    page->n_used++;
    if (!block) {
        size_t at = (n_blocks(class) - page->n_fresh--) * size;
        return (char *)(page + 1) + at;
    }
    UNPOISON(block, sizeof(*block));
    page->free = block->next;
    POISON(block, sizeof(*block));
    return block;
}

void *hvd_slab_take(struct hvd_slab *slab, size_t size)
{
    size_t class = class_of(size);
    struct hvd_slab_page *page;
    void *block;

    if (!slab || size > SIZE_MAX_BYTES)
        return hvd_malloc(size, 1);
    page = slab->_partial[class] ? slab->_partial[class] : add_page(slab, class);
    if (!page)
        return NULL;
    block = cut(page, class);
    if (is_full(page))
        unlink_page(slab, class, page);
    UNPOISON(block, size);
    return block;
}

bool hvd_slab_is_misplaced(const struct hvd_slab *slab, const void *block, size_t size)
{
    const struct hvd_slab_page *page = page_of(block);
    const struct hvd_slab_page *first =
        size > SIZE_MAX_BYTES ? NULL : slab->_partial[class_of(size)];

    return first && page != first && !is_full(page);
}

void hvd_slab_give(struct hvd_slab *slab, void *block, size_t size)
{
    struct hvd_slab_page *page = page_of(block);
    struct free_block *freed = block;
    const size_t class = class_of(size);

    if (!block || !slab || size > SIZE_MAX_BYTES) {
        hvd_free(block);
        return;
    }
    if (is_full(page))
        link_page(slab, class, page);
    UNPOISON(freed, sizeof(*freed));
    freed->next = page->free;
    page->free = freed;
    POISON(block, (class + 1) * UNIT);
    if (--page->n_used)
        return;
    unlink_page(slab, class, page);
    UNPOISON(page, hvd_page_size());
    give_page(slab, page);
}
