/*
 * Keeps the texts of specs, at most HVD_SPECS_MAX bytes for all jobs together. Any user who may
 * create a HorovodJob chooses the size of its spec, so the memory for them must not grow with their
 * number. A text beyond the bound is dropped, and read again when a pass needs it. The largest is
 * dropped first, and among texts of similar size the oldest, so that large specs of one tenant cost
 * the others nothing. Pure but for the allocator.
 *
 *            put                    planned
 *   dropped  ---> held, in a list <---------- pinned <--- read on demand
 *      ^               |                        |
 *      +---------------+------------------------+  at rest; beyond the bound
 */
#include "operator/app/specs.h"

#include <string.h>

#include "operator/app/store.h"

#define UNIT_BITS                                                                                  \
    10 /* texts of up to 1 KiB are of the first class, those of up to 2 of the next                \
        */

/* In steps of a factor of two. */
static size_t class_of(size_t size)
{
    size_t class = 0;

    for (size >>= UNIT_BITS; size > 0 && class < HVD_SPECS_CLASSES - 1; size >>= 1)
        class ++;
    return class;
}

/* The list that the entry is in. */
static struct hvd_specs_list *list_of(struct hvd_specs *specs, const struct hvd_entry *entry)
{
    return entry->spec.is_pinned ? &specs->pinned : &specs->lists[class_of(entry->spec.size)];
}

static void link_entry(struct hvd_specs *specs, struct hvd_entry *entry)
{
    struct hvd_specs_list *list = list_of(specs, entry);

    entry->spec.older = list->newest;
    entry->spec.newer = NULL;
    if (list->newest)
        list->newest->spec.newer = entry;
    else
        list->oldest = entry;
    list->newest = entry;
}

static void unlink_entry(struct hvd_specs *specs, struct hvd_entry *entry)
{
    struct hvd_specs_list *list = list_of(specs, entry);

    if (entry->spec.older)
        entry->spec.older->spec.newer = entry->spec.newer;
    else
        list->oldest = entry->spec.newer;
    if (entry->spec.newer)
        entry->spec.newer->spec.older = entry->spec.older;
    else
        list->newest = entry->spec.older;
    entry->spec.older = entry->spec.newer = NULL;
}

void hvd_specs_drop(struct hvd_store *store, struct hvd_entry *entry)
{
    struct hvd_specs *specs = &store->specs;

    if (!entry->job.spec.text)
        return;
    unlink_entry(specs, entry);
    specs->bytes -= entry->spec.size;
    hvd_slab_give(&store->slab, entry->job.spec.text, entry->spec.size);
    entry->job.spec.text = NULL;
    entry->spec = (struct hvd_spec_place){0};
}

/* The text to drop first; NULL: none. */
static struct hvd_entry *first_to_go(const struct hvd_specs *specs)
{
    if (specs->bytes <= HVD_SPECS_MAX)
        return NULL;
    for (size_t i = HVD_SPECS_CLASSES; i > 0; i--) {
        if (specs->lists[i - 1].oldest)
            return specs->lists[i - 1].oldest;
    }
    return specs->bytes > HVD_SPECS_PINNED_MAX ? specs->pinned.oldest : NULL;
}

static void keep_bound(struct hvd_store *store)
{
    struct hvd_entry *entry = NULL;

    while ((entry = first_to_go(&store->specs)) != NULL)
        hvd_specs_drop(store, entry);
}

hvd_status_t hvd_specs_hold(struct hvd_store *store, struct hvd_entry *entry, const char *text,
                            bool is_pinned)
{
    const size_t size = strlen(text) + 1;
    char *copy;

    if (!is_pinned && hvd_job_is_idle(&entry->job))
        return HVD_OK;
    copy = size <= UINT32_MAX ? hvd_slab_take(&store->slab, size) : NULL;
    if (!copy)
        return HVD_ERR_NOMEM;
    memcpy(copy, text, size);
    hvd_specs_drop(store, entry);
    entry->job.spec.text = copy;
    entry->spec = (struct hvd_spec_place){.size = (uint32_t)size, .is_pinned = is_pinned};
    store->specs.bytes += size;
    link_entry(&store->specs, entry);
    keep_bound(store);
    return HVD_OK;
}

void hvd_specs_tidy(struct hvd_store *store, struct hvd_entry *entry)
{
    char *const text = entry->job.spec.text;
    char *moved;

    if (!text || !hvd_slab_is_misplaced(&store->slab, text, entry->spec.size))
        return;
    moved = hvd_slab_take(&store->slab, entry->spec.size);
    if (!moved)
        return;
    memcpy(moved, text, entry->spec.size);
    hvd_slab_give(&store->slab, text, entry->spec.size);
    entry->job.spec.text = moved;
}

void hvd_specs_planned(struct hvd_store *store, struct hvd_entry *entry)
{
    if (!entry->job.spec.text)
        return;
    if (hvd_job_is_idle(&entry->job)) {
        hvd_specs_drop(store, entry);
        return;
    }
    if (!entry->spec.is_pinned)
        return;
    unlink_entry(&store->specs, entry);
    entry->spec.is_pinned = false;
    link_entry(&store->specs, entry);
    keep_bound(store);
}
