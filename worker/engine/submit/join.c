/*
 * A rank that joins does so in every process set of which it is a member. It cannot submit anything
 * until the join has ended, so the other members of its sets would wait for it as well. Its part in
 * each set except the first is an entry of the library's own. The program's join ends with the last
 * of these parts.
 *
 * When all ranks join, so do all members of each set, and the parts end whenever the join does. A
 * tensor that is submitted to a set after the join of a member gets zeros or an error, as in the
 * job.
 */
#include "worker/engine/submit/join.h"

#include <string.h>

/* Adds an entry for this rank's part to the set's table; NULL when out of memory. Holds mu. */
static struct hvd_entry *add_part(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *join)
{
    const struct hvd_strview name = join->request.name;
    struct hvd_entry *part = hvd_entry_take(e, name.len + 1);

    if (!part)
        return NULL;
    memcpy(part->name, name.data, name.len);
    part->name[name.len] = '\0';
    part->request = join->request;
    part->request.name.data = part->name;
    part->slot = NULL;
    part->index = HVD_CACHE_NO_SLOT;
    part->set = set;
    part->count = 0;
    part->is_own = false;
    part->has_completion = false;
    part->is_behind = false;
    part->is_part = true;
    part->ready = NULL;
    part->event = NULL;
    if (hvd_table_add(set->locked.table, part->request.name, part, NULL) != HVD_OK) {
        hvd_entry_put(e, part);
        return NULL;
    }
    part->join = join;
    join->n_parts++;
    return part;
}

/* Queues the part after all submissions to the set. Holds mu. */
static void queue_part(struct hvd_engine *e, struct hvd_entry *part)
{
    part->set->locked.is_join_pending = true;
    part->is_listed = true;
    hvd_entry_list_add(&part->set->locked.queue, part);
    hvd_add(&e->n_queued, 1);
}

/* Whether the set waits for this rank and has no part of the join yet. */
static bool is_concerned(const struct hvd_engine *e, const struct hvd_set *set)
{
    return set && set->self.size > 1 && !set->locked.is_ended && !set->locked.is_join_pending &&
           !e->locked.infos[set->id].is_removed;
}

hvd_status_t hvd_join_begin(struct hvd_engine *e, struct hvd_entry *join)
{
    hvd_status_t st = HVD_OK;

    join->n_parts = 1;
    if (join->set->id != 0)
        return HVD_OK;
    for (uint32_t i = 1; i < e->n_sets && st == HVD_OK; i++)
        if (is_concerned(e, e->sets[i]) && !add_part(e, e->sets[i], join))
            st = HVD_ERR_NOMEM;
    for (uint32_t i = 1; i < e->n_sets; i++) {
        struct hvd_entry *part =
            e->sets[i] ? hvd_table_find(e->sets[i]->locked.table, join->request.name) : NULL;
        if (!part || !part->is_part || part->join != join)
            continue;
        if (st == HVD_OK) {
            queue_part(e, part);
            continue;
        }
        hvd_table_take(e->sets[i]->locked.table, join->request.name);
        hvd_entry_put(e, part);
    }
    return st;
}

hvd_status_t hvd_join_enter(struct hvd_engine *e, struct hvd_set *set)
{
    hvd_status_t st = HVD_OK;

    pthread_mutex_lock(&e->mu);
    if (set->id != 0 && e->sets[0]->locked.is_join_pending && is_concerned(e, set)) {
        struct hvd_entry *join =
            hvd_table_find(e->sets[0]->locked.table, hvd_strview_of(HVD_JOIN_NAME));
        struct hvd_entry *part = join ? add_part(e, set, join) : NULL;
        if (part)
            queue_part(e, part);
        else if (join)
            st = HVD_ERR_NOMEM;
    }
    pthread_mutex_unlock(&e->mu);
    return st;
}

void hvd_join_ended(struct hvd_engine *e, struct hvd_entry *entry)
{
    struct hvd_entry *join = entry->is_part ? entry->join : entry;

    if (entry->is_part) {
        entry->is_listed = false;
        hvd_entry_put(e, entry);
    }
    if (join && --join->n_parts == 0)
        hvd_entry_finish(e, join, HVD_OK, NULL);
}

void hvd_join_forget(const struct hvd_engine *e, const struct hvd_entry *join)
{
    for (uint32_t i = 1; i < e->n_sets; i++) {
        struct hvd_entry *part =
            e->sets[i] ? hvd_table_find(e->sets[i]->locked.table, join->request.name) : NULL;
        if (part && part->is_part && part->join == join)
            part->join = NULL;
    }
}
