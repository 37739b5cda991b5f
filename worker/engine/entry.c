/*
 * Tensors from submission to the end of their wait. Entries are kept for the next tensor, with the
 * room for their names, so that a program in its loop takes no memory.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/engine/engine_internal.h"

void hvd_entry_destroy(struct hvd_entry *entry)
{
    if (!entry)
        return;
    hvd_output_destroy(entry->output);
    hvd_free(entry->splits);
    hvd_free(entry->message);
    hvd_free(entry->name);
    hvd_free(entry);
}

/* An entry with room for a name and nothing else set; NULL when out of memory. Holds mu. */
static struct hvd_entry *take_entry(struct hvd_engine *e, size_t name_room)
{
    struct hvd_entry *entry = e->pool;

    if (entry)
        e->pool = entry->next;
    else
        entry = hvd_calloc(1, sizeof(*entry));
    if (entry && entry->name_room < name_room) {
        char *name = hvd_realloc(entry->name, name_room, 1);
        if (!name) {
            hvd_entry_destroy(entry);
            return NULL;
        }
        entry->name = name;
        entry->name_room = name_room;
    }
    return entry;
}

static int64_t *copy_splits(const int64_t *splits, int size)
{
    int64_t *copy = hvd_malloc(2 * (size_t)size, sizeof(*copy));

    if (copy)
        memcpy(copy, splits, (size_t)size * sizeof(*copy));
    return copy;
}

struct hvd_entry *hvd_entry_create(struct hvd_engine *e, const struct hvd_submission *s)
{
    const struct hvd_request *req = &s->request;
    struct hvd_set *set = hvd_set_find(e, s->set);
    struct hvd_entry *entry = take_entry(e, req->name.len + 1);
    int64_t *splits = NULL;

    if (!entry)
        return NULL;
    if (s->splits) {
        splits = copy_splits(s->splits, set->place.size);
        if (!splits) {
            hvd_entry_destroy(entry);
            return NULL;
        }
    }
    char *name = entry->name;
    const size_t name_room = entry->name_room;
    memcpy(name, req->name.data, req->name.len);
    name[req->name.len] = '\0';
    *entry = (struct hvd_entry){.set = set,
                                .request = *req,
                                .input = s->input,
                                .ready = s->ready,
                                .data = s->output,
                                .splits = splits,
                                .changes_sets = s->changes_sets,
                                .name = name,
                                .name_room = name_room};
    entry->request.name.data = name;
    return entry;
}

void hvd_entry_recycle(struct hvd_engine *e, struct hvd_entry *entry)
{
    if (!entry)
        return;
    hvd_output_destroy(entry->output);
    hvd_free(entry->splits);
    hvd_free(entry->message);
    entry->output = NULL;
    entry->splits = NULL;
    entry->message = NULL;
    entry->next = e->pool;
    e->pool = entry;
}

struct hvd_watch *hvd_entry_watch(const struct hvd_engine *e, const struct hvd_entry *entry)
{
    return entry->changes_sets ? NULL : e->options.watch;
}

void hvd_entry_finish(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                      const char *message)
{
    const uint64_t bytes = (uint64_t)entry->count * hvd_dtype_size((int)entry->request.dtype);

    hvd_watch_done(hvd_entry_watch(e, entry), (uint64_t)entry->handle, &entry->request, bytes,
                   status);
    entry->status = status;
    if (status != HVD_OK)
        entry->message = hvd_strdup(message); /* without memory the status has to do */
    atomic_fetch_sub(&e->n_outstanding, 1);
    atomic_store_explicit(&entry->is_done, true, memory_order_release);
    if (entry->waiter)
        pthread_cond_signal(&entry->waiter->cond);
}

void hvd_entry_finish_unlocked(struct hvd_engine *e, struct hvd_entry *entry, hvd_status_t status,
                               const char *message)
{
    pthread_mutex_lock(&e->mu);
    hvd_entry_finish(e, entry, status, message);
    pthread_mutex_unlock(&e->mu);
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
