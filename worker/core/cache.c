/*
 * A rank's side of the cache: it maps names to slots, and slots to the agreed tensors. Pure. A
 * lookup allocates nothing; only a new tensor does.
 */
#include "worker/core/cache.h"

#include <string.h>

#include "base/mem.h"
#include "worker/core/fusion.h"
#include "worker/core/group_name.h"

hvd_status_t hvd_cache_create(struct hvd_cache **out, struct hvd_err *err)
{
    struct hvd_cache *c = hvd_calloc(1, sizeof(*c));

    if (!c)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the cache of tensors");
    *out = c;
    return HVD_OK;
}

void hvd_cache_remove(struct hvd_cache *c, uint32_t index)
{
    struct hvd_cache_slot *slot = hvd_cache_at(c, index);

    if (!slot)
        return;
    hvd_names_remove(&c->_names, &slot->named);
    c->_slots[index] = NULL;
    hvd_cache_own(c, index, NULL);
    hvd_free(slot->rows);
    hvd_free(slot);
}

void hvd_cache_destroy(struct hvd_cache *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->_end; i++)
        hvd_cache_remove(c, i);
    hvd_free(c->_slots);
    hvd_free(c->_owners);
    hvd_free(c);
}

struct hvd_cache_slot *hvd_cache_find(const struct hvd_cache *c, struct hvd_strview name)
{
    struct hvd_named *found = hvd_names_find(&c->_names, hvd_group_name_key(name));
    char *at = (char *)found;

    return found ? (struct hvd_cache_slot *)(void *)(at - offsetof(struct hvd_cache_slot, named))
                 : NULL;
}

static bool make_room(struct hvd_cache *c, uint32_t index)
{
    uint32_t capacity = c->_capacity ? c->_capacity : 16;

    while (capacity <= index)
        capacity *= 2;
    if (capacity > c->_capacity) {
        struct hvd_cache_slot **slots =
            hvd_realloc(c->_slots, capacity, sizeof(struct hvd_cache_slot *));
        if (!slots)
            return false;
        c->_slots = slots;
        void **owners = hvd_realloc(c->_owners, capacity, sizeof(void *));
        if (!owners)
            return false;
        c->_owners = owners;
        c->_capacity = capacity;
    }
    for (; c->_end <= index; c->_end++) {
        c->_slots[c->_end] = NULL;
        c->_owners[c->_end] = NULL;
    }
    return true;
}

static struct hvd_cache_slot *create_slot(const struct hvd_request *req,
                                          const struct hvd_step *step)
{
    struct hvd_cache_slot *slot = hvd_malloc(1, sizeof(*slot) + req->name.len + 1);

    if (!slot)
        return NULL;
    char *name = (char *)(slot + 1);
    memcpy(name, req->name.data, req->name.len);
    name[req->name.len] = '\0';
    *slot = (struct hvd_cache_slot){.index = step->slot,
                                    .follower = HVD_CACHE_NO_SLOT,
                                    .group = step->group,
                                    .group_size = step->group_size,
                                    .request = *req};
    if (!hvd_shape_count(req->shape, req->ndim, &slot->count))
        slot->count = 0;
    slot->kind = hvd_fusion_kind(req, slot->count);
    slot->request.name.data = name;
    if (step->n_rows > 0) {
        slot->rows = hvd_malloc(step->n_rows, sizeof(*slot->rows));
        if (!slot->rows) {
            hvd_free(slot);
            return NULL;
        }
        for (uint32_t i = 0; i < step->n_rows; i++)
            slot->rows[i] = hvd_message_step_row(step, i);
    }
    return slot;
}

hvd_status_t hvd_cache_put(struct hvd_cache *c, const struct hvd_request *req,
                           const struct hvd_step *step, struct hvd_err *err)
{
    struct hvd_cache_slot *slot = make_room(c, step->slot) ? create_slot(req, step) : NULL;

    if (!slot || !hvd_names_add(&c->_names, hvd_group_name_key(slot->request.name), &slot->named)) {
        if (slot)
            hvd_free(slot->rows);
        hvd_free(slot);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a cached tensor");
    }
    c->_slots[step->slot] = slot;
    return HVD_OK;
}
