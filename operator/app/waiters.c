/*
 * Jobs that cannot create a child because another owner has an object of its name. The watch
 * reports the removal of such an object if it has our labels, often as another job's child. Then
 * the list of waiting jobs, which is short, is searched. A job that no longer waits may stay in it
 * until the next search. Pure but for the allocator.
 */
#include <string.h>

#include "operator/app/store.h"

static void link_waiter(struct hvd_store *store, struct hvd_entry *entry)
{
    if (entry->waiter_at)
        return;
    entry->next_waiter = store->waiters;
    if (entry->next_waiter)
        entry->next_waiter->waiter_at = &entry->next_waiter;
    entry->waiter_at = &store->waiters;
    store->waiters = entry;
}

void hvd_waiters_unlink(struct hvd_entry *entry)
{
    if (!entry->waiter_at)
        return;
    *entry->waiter_at = entry->next_waiter;
    if (entry->next_waiter)
        entry->next_waiter->waiter_at = entry->waiter_at;
    entry->next_waiter = NULL;
    entry->waiter_at = NULL;
}

hvd_status_t hvd_waiters_set_failure(struct hvd_store *store, struct hvd_entry *entry,
                                     const struct hvd_failure *failure)
{
    hvd_status_t st = hvd_notes_set_failure(entry, failure);

    if (st == HVD_OK && failure->type == HVD_FAILURE_FOREIGN)
        link_waiter(store, entry);
    return st;
}

/* Whether the job waits for the removal of that object; *is_waiting: of any object. */
static bool waits_for(const struct hvd_entry *entry, enum hvd_kind kind, const char *name,
                      bool *is_waiting)
{
    bool is_found = false;

    *is_waiting = false;
    for (size_t i = 0; i < entry->n_failures; i++) {
        const struct hvd_failure *failure = &entry->failures[i];

        if (failure->type != HVD_FAILURE_FOREIGN)
            continue;
        *is_waiting = true;
        is_found = is_found || (failure->kind == kind && strcmp(failure->name, name) == 0);
    }
    return is_found;
}

void hvd_waiters_wake(struct hvd_store *store, enum hvd_kind kind, const char *ns, const char *name)
{
    struct hvd_entry *entry = store->waiters, *next;

    for (; entry; entry = next) {
        bool is_waiting;
        bool is_found = waits_for(entry, kind, name, &is_waiting);

        next = entry->next_waiter;
        if (!is_waiting) {
            hvd_waiters_unlink(entry);
        } else if (is_found && strcmp(entry->_texts, ns) == 0) {
            hvd_notes_drop_failure(entry, kind, name);
            store->changed(store->ctx, entry);
        }
    }
}
