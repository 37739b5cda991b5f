/*
 * Memory that several tensors share, such as tied weights: a tensor that is twice in a group, or
 * that is submitted again while it is pending. Runs in the progress owner.
 *
 * Fused operations of a set with memory at the same address move one after the other, in the agreed
 * order. Within a fused operation all members are read before any is written. That includes
 * operations of device tensors that go through host memory. Those on the device's stream keep their
 * order there.
 *
 * Sharing concerns only this rank. Other ranks may start sooner, and then wait for its data.
 */
#include "worker/engine/execute/sharing.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/staging.h"

static struct hvd_use **bucket_of(struct hvd_set *set, const void *at)
{
    const uint64_t hash = (uint64_t)(uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15);

    return &set->own.uses[hash >> (64 - HVD_USES_BITS)];
}

/* Whether two fused operations need no ordering here. Host memory and device memory are
 * distinct, and operations between devices keep their order there. */
static bool is_apart(const struct hvd_fused_op *a, const struct hvd_fused_op *b)
{
    if (a == b)
        return false;
    if (!a->staging || !b->staging)
        return a->staging != b->staging;
    return hvd_staging_is_direct(a->staging) && hvd_staging_is_direct(b->staging);
}

/* Returns a use of the memory that conflicts with this one; NULL when there is none. */
static const struct hvd_use *find_conflict(struct hvd_set *set, const struct hvd_fused_op *f,
                                           const void *at, bool writes)
{
    for (const struct hvd_use *u = *bucket_of(set, at); u; u = u->next)
        if (u->at == at && (writes || u->writes) && !is_apart(u->fused_op, f))
            return u;
    return NULL;
}

static void add_use(struct hvd_set *set, struct hvd_fused_op *f, const void *at, bool writes)
{
    struct hvd_use **bucket = bucket_of(set, at);
    struct hvd_use *use = &f->uses[f->n_uses++];

    *use = (struct hvd_use){.next = *bucket, .at = at, .fused_op = f, .writes = writes};
    *bucket = use;
}

void hvd_sharing_release(struct hvd_set *set, struct hvd_fused_op *f)
{
    while (f->n_uses > 0) {
        const struct hvd_use *use = &f->uses[--f->n_uses];
        struct hvd_use **at = bucket_of(set, use->at);
        while (*at != use)
            at = &(*at)->next;
        *at = use->next;
    }
    hvd_free(f->copies);
    f->copies = NULL;
}

static size_t bytes_of(const struct hvd_fused_op *f, const struct hvd_member *m)
{
    return (size_t)m->count * hvd_dtype_size((int)f->request.dtype);
}

/* Records the memory of a member. HVD_INPROGRESS when another fused operation uses it.
 * *is_shared becomes whether an earlier member of this operation uses it. */
static hvd_status_t claim_member(struct hvd_set *set, struct hvd_fused_op *f,
                                 const struct hvd_member *m, bool *is_shared)
{
    const void *const at[] = {m->entry->input, m->entry->data};
    const bool is_in_place = at[0] == at[1];

    *is_shared = false;
    for (int writes = is_in_place; writes < 2; writes++) {
        const struct hvd_use *other = at[writes] ? find_conflict(set, f, at[writes], writes) : NULL;
        if (other && other->fused_op != f)
            return HVD_INPROGRESS;
        *is_shared = *is_shared || other;
    }
    for (int writes = is_in_place; writes < 2; writes++)
        if (at[writes])
            add_use(set, f, at[writes], writes);
    return HVD_OK;
}

/* Makes copies of the members that share memory, so that they move separately. */
static hvd_status_t make_copies(struct hvd_fused_op *f, size_t bytes, struct hvd_err *err)
{
    char *at = f->copies = hvd_malloc(bytes, 1);

    if (!at)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory: %zu bytes for shared memory", bytes);
    for (uint32_t i = 0; i < f->n_members; i++) {
        struct hvd_piece *piece = &f->pieces[i];
        if (!f->members[i].is_shared)
            continue;
        memcpy(at, piece->input, bytes_of(f, &f->members[i]));
        piece->input = piece->output = at;
        at += bytes_of(f, &f->members[i]);
    }
    return HVD_OK;
}

hvd_status_t hvd_sharing_claim(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < f->n_members; i++) {
        struct hvd_member *m = &f->members[i];
        m->is_shared = false;
        if (!m->entry || m->count == 0)
            continue;
        hvd_fused_op_fetch(f, i);
        if (claim_member(set, f, m, &m->is_shared) != HVD_OK) {
            hvd_sharing_release(set, f);
            return HVD_INPROGRESS;
        }
        bytes += m->is_shared ? bytes_of(f, m) : 0;
    }
    return bytes > 0 && f->pieces && !f->staging ? make_copies(f, bytes, err) : HVD_OK;
}

void hvd_sharing_write_back(struct hvd_fused_op *f)
{
    for (uint32_t i = 0; i < f->n_members; i++)
        if (f->members[i].is_shared)
            memcpy(f->members[i].entry->data, f->pieces[i].output, bytes_of(f, &f->members[i]));
}
