/*
 * Tensors from submission to the end of their wait. Entries are kept with their names: that of a
 * cached tensor in its slot, others in a pool for any next tensor. So a program in its loop
 * allocates nothing and copies little.
 */
#include "worker/engine/state/entry.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/state/slot_trace.h"

#define FIRST_BLOCK 16 /* entries */
#define LARGEST_BLOCK 512

/* Adds entries to the pool; false when out of memory. */
static bool add_block(struct hvd_engine *e)
{
    const size_t align = _Alignof(struct hvd_entry);
    const uint32_t twice = e->locked.blocks ? e->locked.blocks->n * 2 : FIRST_BLOCK;
    const uint32_t n = twice < LARGEST_BLOCK ? twice : LARGEST_BLOCK;
    struct hvd_entry_block *block =
        hvd_calloc(1, sizeof(*block) + align + n * sizeof(struct hvd_entry));

    if (!block)
        return false;
    const uintptr_t past = (uintptr_t)(block + 1) % align;
    void *entries = (char *)(block + 1) + (past ? align - past : 0);
    block->entries = entries;
    block->n = n;
    block->next = e->locked.blocks;
    e->locked.blocks = block;
    for (uint32_t i = n; i > 0; i--) {
        block->entries[i - 1].next = e->locked.pool;
        e->locked.pool = &block->entries[i - 1];
    }
    return true;
}

void hvd_entry_refusal_destroy(struct hvd_refusal *refusal)
{
    if (!refusal)
        return;
    hvd_free(refusal->reason);
    hvd_free(refusal->last_reason);
    hvd_free(refusal);
}

void hvd_entries_destroy(struct hvd_engine *e)
{
    while (e->locked.blocks) {
        struct hvd_entry_block *block = e->locked.blocks;
        for (uint32_t i = 0; i < block->n; i++) {
            struct hvd_entry *entry = &block->entries[i];
            hvd_output_destroy(entry->output);
            hvd_device_event_release(entry->ready);
            hvd_device_event_release(entry->event);
            hvd_free(entry->splits);
            hvd_free(entry->message);
            hvd_entry_refusal_destroy(entry->refusal);
            hvd_free(entry->name);
        }
        e->locked.blocks = block->next;
        hvd_free(block);
    }
    e->locked.pool = NULL;
}

void hvd_entry_put(struct hvd_engine *e, struct hvd_entry *entry)
{
    entry->numbered_size = 0;
    entry->next = e->locked.pool;
    e->locked.pool = entry;
}

struct hvd_entry *hvd_entry_take(struct hvd_engine *e, size_t name_room)
{
    if (!e->locked.pool && !add_block(e))
        return NULL;
    struct hvd_entry *entry = e->locked.pool;
    if (entry && entry->name_room < name_room) {
        char *name = hvd_realloc(entry->name, name_room, 1);
        if (!name)
            return NULL;
        entry->name = name;
        entry->name_room = name_room;
    }
    if (entry)
        e->locked.pool = entry->next;
    return entry;
}

static int64_t *copy_splits(const int64_t *splits, int size)
{
    int64_t *copy = hvd_malloc(2 * (size_t)size, sizeof(*copy));

    if (copy)
        memcpy(copy, splits, (size_t)size * sizeof(*copy));
    return copy;
}

/* Sets the fields that differ between two submissions of a tensor. */
static void describe(struct hvd_entry *entry, const struct hvd_submission *s)
{
    entry->input = s->input;
    entry->ready = hvd_device_event_retain(s->ready);
    entry->data = s->output;
    entry->agreement = s->agreement;
    entry->is_own = s->agreement != NULL;
    entry->completion = s->completion ? *s->completion : (struct hvd_completion){0};
    entry->has_completion = entry->completion.call != NULL;
    entry->request.group = s->request.group;
    entry->request.group_size = s->request.group_size;
}

/* Creates a transient entry; NULL when out of memory. Holds mu. */
static struct hvd_entry *create_transient(struct hvd_engine *e, const struct hvd_submission *s)
{
    const struct hvd_request *req = &s->request;
    struct hvd_set *set = hvd_set_find(e, s->set);
    struct hvd_entry *entry = hvd_entry_take(e, req->name.len + 1);

    if (!entry)
        return NULL;
    entry->splits = s->splits ? copy_splits(s->splits, set->self.size) : NULL;
    if ((s->splits && !entry->splits) || hvd_handles_add(&e->locked.handles, entry) != HVD_OK) {
        hvd_free(entry->splits);
        entry->splits = NULL;
        hvd_entry_put(e, entry);
        return NULL;
    }
    memcpy(entry->name, req->name.data, req->name.len);
    entry->name[req->name.len] = '\0';
    entry->slot = NULL;
    entry->index = HVD_CACHE_NO_SLOT;
    entry->set = set;
    entry->request = *req;
    entry->request.name.data = entry->name;
    entry->count = 0;
    entry->is_behind = false;
    entry->is_part = false;
    entry->n_parts = 0;
    describe(entry, s);
    return entry;
}

struct hvd_entry *hvd_entry_create(struct hvd_engine *e, const struct hvd_submission *s,
                                   struct hvd_cache_slot *slot)
{
    struct hvd_entry *slot_entry = slot ? slot->slot_entry : NULL;

    if (!slot_entry || s->splits ||
        atomic_load_explicit(&slot_entry->claim, memory_order_acquire) != 0)
        return create_transient(e, s);
    describe(slot_entry, s);
    hvd_handles_renew(slot_entry);
    return slot_entry;
}

void hvd_entry_recycle(struct hvd_engine *e, struct hvd_entry *entry, bool is_transient)
{
    hvd_output_destroy(entry->output);
    hvd_free(entry->splits);
    hvd_free(entry->message);
    hvd_device_event_release(entry->ready);
    hvd_device_event_release(entry->event);
    entry->ready = NULL;
    entry->event = NULL;
    entry->output = NULL;
    entry->splits = NULL;
    entry->message = NULL;
    entry->number = 0;
    entry->is_listed = false;
    entry->status = HVD_OK;
    entry->waiter = NULL;
    if (!is_transient)
        return;
    hvd_handles_remove(&e->locked.handles, entry);
    hvd_entry_put(e, entry);
}

void hvd_entry_settle(struct hvd_entry *entry, struct hvd_cache_slot *slot)
{
    slot->slot_entry = entry;
    entry->slot = slot;
    entry->index = slot->index;
    atomic_store_explicit(&entry->claim, entry->handle, memory_order_release);
}

void hvd_entry_unsettle(struct hvd_engine *e, struct hvd_cache_slot *slot)
{
    struct hvd_entry *entry = slot->slot_entry;

    slot->slot_entry = NULL;
    if (!entry)
        return;
    int64_t claim = entry->handle;
    if (!atomic_compare_exchange_strong(&entry->claim, &claim, entry->handle | HVD_TRANSIENT))
        hvd_entry_recycle(e, entry, true); /* it was idle */
    entry->slot = NULL;
}

void hvd_entry_finish(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                      const char *message)
{
    const uint64_t bytes = (uint64_t)entry->count * hvd_dtype_size((int)entry->request.dtype);

    hvd_telemetry_done(hvd_entry_telemetry(e, entry), (uint64_t)entry->handle, &entry->request,
                       bytes, status);
    hvd_slot_trace_ended(e, entry, status);
    entry->status = status;
    if (status != HVD_OK)
        entry->message = hvd_strdup(message); /* without memory, the status must suffice */
    hvd_add(&e->n_outstanding, (size_t)-1);
    hvd_entry_publish(e, entry);
}

void hvd_entry_finish_unlocked(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                               const char *message)
{
    pthread_mutex_lock(&e->mu);
    hvd_entry_finish(e, entry, status, message);
    pthread_mutex_unlock(&e->mu);
}

void hvd_entry_list_completed(struct hvd_engine *e, struct hvd_entry *entry)
{
    entry->next_completed = NULL;
    *(e->locked.completed ? e->locked.completed_end : &e->locked.completed) = entry;
    e->locked.completed_end = &entry->next_completed;
    hvd_add(&e->n_completed, 1);
}

struct hvd_entry *hvd_entry_take_completed(struct hvd_engine *e)
{
    struct hvd_entry *entry = e->locked.completed;

    if (!entry)
        return NULL;
    e->locked.completed = entry->next_completed;
    hvd_add(&e->n_completed, (size_t)-1);
    return entry;
}

void hvd_entry_list_add(struct hvd_entry_list *list, struct hvd_entry *entry)
{
    entry->next = NULL;
    if (list->last)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
}

struct hvd_entry *hvd_entry_list_take(struct hvd_entry_list *list)
{
    struct hvd_entry *entry = list->first;

    if (!entry)
        return NULL;
    list->first = entry->next;
    if (!list->first)
        list->last = NULL;
    return entry;
}
