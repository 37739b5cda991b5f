/*
 * Handles: small numbers that the program holds for its pending tensors. The low half is a slot,
 * the high half counts how often the slot was used, so a handle that was ended is recognised. The
 * caller serialises.
 */
#include "base/mem.h"
#include "worker/engine/engine_internal.h"

struct hvd_handle_slot {
    struct hvd_entry *entry; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1; 0: none */
};

static hvd_status_t grow(struct hvd_handles *h)
{
    const uint32_t n = h->n_slots ? h->n_slots * 2 : 16;

    if (n > UINT32_MAX / 4)
        return HVD_ERR_NOMEM;
    struct hvd_handle_slot *slots = hvd_realloc(h->slots, n, sizeof(*slots));
    if (!slots)
        return HVD_ERR_NOMEM;
    for (uint32_t i = h->n_slots; i < n; i++)
        slots[i] = (struct hvd_handle_slot){.next_free = i + 1 < n ? i + 2 : 0};
    h->first_free = h->n_slots + 1;
    h->slots = slots;
    h->n_slots = n;
    return HVD_OK;
}

hvd_status_t hvd_handles_add(struct hvd_handles *h, struct hvd_entry *entry)
{
    hvd_status_t st = h->first_free ? HVD_OK : grow(h);

    if (st != HVD_OK)
        return st;
    struct hvd_handle_slot *slot = &h->slots[h->first_free - 1];
    slot->generation = (slot->generation + 1) & INT32_MAX;
    entry->handle = (int64_t)slot->generation << 32 | h->first_free;
    h->first_free = slot->next_free;
    slot->entry = entry;
    return HVD_OK;
}

struct hvd_entry *hvd_handles_find(const struct hvd_handles *h, int64_t handle)
{
    const uint32_t index = (uint32_t)handle;

    if (handle <= 0 || index == 0 || index > h->n_slots)
        return NULL;
    struct hvd_entry *entry = h->slots[index - 1].entry;
    return entry && entry->handle == handle ? entry : NULL;
}

void hvd_handles_remove(struct hvd_handles *h, const struct hvd_entry *entry)
{
    const uint32_t index = (uint32_t)entry->handle;
    struct hvd_handle_slot *slot = &h->slots[index - 1];

    slot->entry = NULL;
    slot->next_free = h->first_free;
    h->first_free = index;
}

struct hvd_entry *hvd_handles_any(const struct hvd_handles *h)
{
    for (uint32_t i = 0; i < h->n_slots; i++)
        if (h->slots[i].entry)
            return h->slots[i].entry;
    return NULL;
}

void hvd_handles_fini(struct hvd_handles *h)
{
    hvd_free(h->slots);
    *h = (struct hvd_handles){0};
}
