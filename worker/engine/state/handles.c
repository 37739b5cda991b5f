/*
 * Handles: numbers that the program holds for its pending tensors. The low half is the index of a
 * record. The high half counts the uses of the record, so a handle that has ended is recognised.
 *
 * Records are added under mu and never move, so a handle is looked up without a lock. The entry's
 * claim then shows whether the handle is still valid for it. Most waits are for tensors that have
 * ended simply. They end by one exchange of a slot entry's claim, handle -> 0, which succeeds once.
 * All other waits end under mu. Neither way can end a wait that the other has ended:
 *
 *     pending ──(owner, mu: no waiter registered)──> simple ──(any thread: exchange)──> idle
 *        │                                             └──────(mu: exchange)──────────> idle
 *        └──(owner, mu: a waiter is registered, or there is a result)──> ended ──(mu)──> idle
 *
 * A waiter registers under mu and only while the tensor is pending. The progress owner also holds
 * mu when it publishes the end, so it finds the waiter and wakes it.
 */
#include "worker/engine/state/handles.h"

#include "base/mem.h"
#include "worker/engine/state/state.h"

#define FIRST_CHUNK 16 /* records */

struct hvd_handle_record {
    struct hvd_entry *_Atomic entry; /* NULL: free */
    uint32_t generation;             /* of its last handle, while the record is free */
    uint32_t next_free;              /* index + 1; 0: none */
};

/* Returns the record of any index; NULL when there is none. Indices start at 1. */
static struct hvd_handle_record *record_at(const struct hvd_handles *h, uint32_t index)
{
    const uint32_t at = index - 1 + FIRST_CHUNK; /* chunk k begins at 16 << k */

    if (index == 0 || at < FIRST_CHUNK)
        return NULL;
    const unsigned k = 31 - (unsigned)__builtin_clz(at) - 4;
    if (k >= HVD_HANDLE_CHUNKS)
        return NULL;
    struct hvd_handle_record *chunk = atomic_load_explicit(&h->chunks[k], memory_order_acquire);
    return chunk ? &chunk[at - ((uint32_t)FIRST_CHUNK << k)] : NULL;
}

static hvd_status_t grow(struct hvd_handles *h)
{
    unsigned k = 0;

    while (k < HVD_HANDLE_CHUNKS && atomic_load(&h->chunks[k]))
        k++;
    if (k == HVD_HANDLE_CHUNKS)
        return HVD_ERR_NOMEM;
    const uint32_t n = (uint32_t)FIRST_CHUNK << k;
    struct hvd_handle_record *chunk = hvd_calloc(n, sizeof(*chunk));
    if (!chunk)
        return HVD_ERR_NOMEM;
    for (uint32_t i = 0; i + 1 < n; i++)
        chunk[i].next_free = h->n_records + i + 2;
    h->first_free = h->n_records + 1;
    h->n_records += n;
    atomic_store_explicit(&h->chunks[k], chunk, memory_order_release);
    return HVD_OK;
}

static int64_t make_handle(uint32_t generation, uint32_t index)
{
    return (int64_t)(generation & INT32_MAX) << 32 | index;
}

/* A thread that reads the claim also reads that the tensor is pending. */
static void begin(struct hvd_entry *entry, int64_t claim)
{
    atomic_store_explicit(&entry->end, HVD_ENTRY_PENDING, memory_order_relaxed);
    atomic_store_explicit(&entry->claim, claim, memory_order_release);
}

hvd_status_t hvd_handles_add(struct hvd_handles *h, struct hvd_entry *entry)
{
    hvd_status_t st = h->first_free ? HVD_OK : grow(h);

    if (st != HVD_OK)
        return st;
    struct hvd_handle_record *record = record_at(h, h->first_free);
    entry->handle = make_handle(record->generation + 1, h->first_free);
    begin(entry, entry->handle | HVD_TRANSIENT);
    h->first_free = record->next_free;
    atomic_store_explicit(&record->entry, entry, memory_order_release);
    return HVD_OK;
}

void hvd_handles_renew(struct hvd_entry *entry)
{
    const uint64_t handle = (uint64_t)entry->handle;

    entry->handle = make_handle((uint32_t)(handle >> 32) + 1, (uint32_t)handle);
    begin(entry, entry->handle);
}

/* Returns the entry to which the record's handles belong, even if this handle has ended. */
static struct hvd_entry *look_up(const struct hvd_handles *h, int64_t handle)
{
    struct hvd_handle_record *record = handle > 0 ? record_at(h, (uint32_t)handle) : NULL;

    return record ? atomic_load_explicit(&record->entry, memory_order_acquire) : NULL;
}

struct hvd_entry *hvd_handles_find(const struct hvd_handles *h, int64_t handle)
{
    struct hvd_entry *entry = look_up(h, handle);

    if (!entry)
        return NULL;
    const int64_t claim = atomic_load_explicit(&entry->claim, memory_order_acquire);
    return (claim & ~HVD_TRANSIENT) == handle ? entry : NULL;
}

bool hvd_handles_end_simply(const struct hvd_handles *h, int64_t handle)
{
    struct hvd_entry *entry = look_up(h, handle);
    int64_t claim = handle;

    /* Read the claim first: see begin. */
    return entry && atomic_load_explicit(&entry->claim, memory_order_acquire) == handle &&
           atomic_load_explicit(&entry->end, memory_order_acquire) == HVD_ENTRY_SIMPLE &&
           atomic_compare_exchange_strong_explicit(&entry->claim, &claim, 0, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

bool hvd_handles_end(struct hvd_entry *entry, int64_t handle, bool *is_transient)
{
    int64_t claim = atomic_load_explicit(&entry->claim, memory_order_relaxed);

    *is_transient = claim == (handle | HVD_TRANSIENT);
    if (claim != handle && !*is_transient)
        return false;
    /* Another thread can be faster without mu only if a slot entry has ended simply. */
    if (!*is_transient &&
        atomic_load_explicit(&entry->end, memory_order_relaxed) == HVD_ENTRY_SIMPLE)
        return atomic_compare_exchange_strong(&entry->claim, &claim, 0);
    atomic_store_explicit(&entry->claim, 0, memory_order_release);
    return true;
}

void hvd_handles_remove(struct hvd_handles *h, struct hvd_entry *entry)
{
    const uint64_t handle = (uint64_t)entry->handle;
    struct hvd_handle_record *record = record_at(h, (uint32_t)handle);

    atomic_store_explicit(&entry->claim, 0, memory_order_relaxed);
    record->generation = (uint32_t)(handle >> 32);
    record->next_free = h->first_free;
    h->first_free = (uint32_t)handle;
    atomic_store_explicit(&record->entry, NULL, memory_order_relaxed);
}

void hvd_handles_fini(struct hvd_handles *h)
{
    for (unsigned k = 0; k < HVD_HANDLE_CHUNKS; k++)
        hvd_free(atomic_load(&h->chunks[k]));
    *h = (struct hvd_handles){.n_records = 0};
}
