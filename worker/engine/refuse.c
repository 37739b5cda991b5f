/*
 * Tensors that this rank did not take from its program, for the ranks that did: they would wait for
 * it for ever. A refusal is asked for by name like a tensor, with the reason, and so it fails on
 * every rank once all have asked for the name or refused it. Here nobody waits for it.
 *
 * What follows under the same name lines up behind: each call of the program, refused or not, then
 * stands for one call of every other rank, whoever is early.
 *
 *     refused ─> refused again (counted) ─> submitted well (behind) ─> asked for when its turn
 * comes
 *
 * Nothing is announced that cannot keep anybody waiting, see engine.h. Where there is no memory for
 * it, or for a join, the job ends, which takes none.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/engine_internal.h"

#define REFUSALS_MAX 65536 /* not answered, of a set; more are a program that nobody follows */

void hvd_refusal_destroy(struct hvd_refusal *refusal)
{
    if (!refusal)
        return;
    hvd_free(refusal->reason);
    hvd_free(refusal->last_reason);
    hvd_free(refusal);
}

struct hvd_entry *hvd_refusal_find(const struct hvd_set *set, struct hvd_strview name)
{
    struct hvd_entry *entry = hvd_table_find(set->table, name);

    return entry && entry->refusal ? entry : NULL;
}

struct hvd_strview hvd_refusal_text(const struct hvd_engine *e, const struct hvd_entry *entry,
                                    char *text, size_t size)
{
    const int rank = e->topology.rank;
    const char *host = e->transport->ops->host(e->transport, rank);

    snprintf(text, size, "Rank %d%s%.64s refused tensor %.200s: %.500s", rank,
             host ? " on host " : "", host ? host : "", entry->name, entry->refusal->reason);
    return hvd_strview_of(text);
}

/* An entry that holds the refusal, in the table; NULL when out of memory. Holds mu. */
static struct hvd_entry *add_refusal(struct hvd_engine *e, struct hvd_set *set,
                                     const struct hvd_refused *refused)
{
    struct hvd_refusal *refusal = hvd_calloc(1, sizeof(*refusal));
    struct hvd_entry *entry = NULL;

    if (refusal)
        refusal->reason = hvd_strdup(refused->reason);
    if (refusal && refusal->reason)
        entry = hvd_entry_take(e, refused->name.len + 1);
    if (!entry) {
        hvd_refusal_destroy(refusal);
        return NULL;
    }
    memcpy(entry->name, refused->name.data, refused->name.len);
    entry->name[refused->name.len] = '\0';
    entry->request = (struct hvd_request){
        .op = HVD_ALLREDUCE,
        .reduce = HVD_SUM,
        .prescale = 1,
        .postscale = 1,
        .name = {.data = entry->name, .len = refused->name.len},
    };
    entry->slot = NULL;
    entry->index = HVD_NO_SLOT;
    entry->set = set;
    entry->count = 0;
    entry->changes_sets = false;
    entry->is_behind = false;
    entry->is_part = false;
    if (hvd_table_add(set->table, entry->request.name, entry, NULL) != HVD_OK) {
        hvd_refusal_destroy(refusal);
        hvd_entry_put(e, entry);
        return NULL;
    }
    entry->refusal = refusal;
    set->n_refusals++;
    return entry;
}

/* To be asked for at once. Holds mu. */
static void queue(struct hvd_engine *e, struct hvd_entry *entry)
{
    entry->is_listed = true;
    hvd_entry_list_add(&entry->set->queue, entry);
    hvd_add(&e->n_queued, 1);
    atomic_store(&e->is_urgent, true);
}

/* Lets go of a refusal. Holds mu. */
static void let_go(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry)
{
    hvd_refusal_destroy(entry->refusal);
    entry->refusal = NULL;
    entry->is_listed = false;
    set->n_refusals--;
    hvd_entry_put(e, entry);
}

/* One more of a name whose refusal is not answered. Of many reasons the last is told, or where
 * there is no memory for it the one before. Holds mu. */
static void refuse_again(struct hvd_refusal *refusal, const char *reason)
{
    if (refusal->behind) /* which is what the others wait for */
        return;
    refusal->n_again++;
    char *copy = hvd_strdup(reason);
    if (!copy)
        return;
    hvd_free(refusal->last_reason);
    refusal->last_reason = copy;
}

/* The next of them is to be told. Holds mu. */
static void take_again(struct hvd_refusal *refusal)
{
    refusal->n_again--;
    if (!refusal->last_reason)
        return;
    hvd_free(refusal->reason);
    refusal->reason = refusal->last_reason;
    refusal->last_reason = NULL;
}

/* Whether some rank may wait for this one to submit the name. Holds mu. */
static bool is_awaited(const struct hvd_engine *e, const struct hvd_set *set,
                       const struct hvd_refused *refused)
{
    return set && set->place.size > 1 && !set->is_ended && !set->is_join_pending &&
           !e->sets[0]->is_join_pending && !e->is_ended && !atomic_load(&e->is_leaving) &&
           !e->infos[set->id].is_removed && refused->name.len > 0 &&
           refused->name.len <= HVD_NAME_MAX && set->n_refusals < REFUSALS_MAX;
}

/* Whether the name is pending: that is what the others wait for. Holds mu. */
static bool is_pending(const struct hvd_set *set, struct hvd_strview name)
{
    const struct hvd_slot *slot = hvd_cache_find(set->cache, name);

    return hvd_table_find(set->table, name) || (slot && hvd_cache_owner(set->cache, slot->index));
}

void hvd_engine_refuse(struct hvd_engine *e, const struct hvd_refused *refused)
{
    pthread_mutex_lock(&e->mu);
    struct hvd_set *set = hvd_set_find(e, refused->set);
    if (is_awaited(e, set, refused)) {
        struct hvd_entry *entry = hvd_refusal_find(set, refused->name);
        if (entry) {
            refuse_again(entry->refusal, refused->reason);
        } else if (!is_pending(set, refused->name)) {
            const bool is_join = hvd_strview_equal(refused->name, HVD_JOIN_NAME);
            entry = is_join ? NULL : add_refusal(e, set, refused);
            if (entry)
                queue(e, entry);
            else
                atomic_store(&e->has_lost_refusal, true);
            hvd_drive_kick(e);
        }
    }
    pthread_mutex_unlock(&e->mu);
}

hvd_status_t hvd_refusal_answered(struct hvd_engine *e, struct hvd_set *set,
                                  struct hvd_entry *entry)
{
    hvd_status_t st = HVD_OK;

    pthread_mutex_lock(&e->mu);
    struct hvd_entry *next = entry->refusal->n_again > 0 ? entry : entry->refusal->behind;
    if (next)
        st = hvd_table_add(set->table, next->request.name, next, NULL);
    if (next && st == HVD_OK)
        queue(e, next);
    if (next == entry) {
        take_again(entry->refusal);
    } else {
        if (next)
            next->is_behind = false;
        let_go(e, set, entry);
    }
    if (next && st != HVD_OK)
        hvd_entry_finish(e, next, st, "out of memory for a tensor");
    pthread_mutex_unlock(&e->mu);
    return st;
}

void hvd_refusal_drop(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                      const char *text)
{
    if (entry->refusal->behind)
        hvd_entry_finish(e, entry->refusal->behind, HVD_ERR_SHUTDOWN, text);
    let_go(e, set, entry);
}
