/*
 * Tensors that this rank refused while other ranks may have accepted them, and would wait for it
 * forever. A refusal is requested by name like a tensor, with the reason. So the tensor fails on
 * every rank once all have requested or refused it. No thread here waits for a refusal.
 *
 * Later calls of the program under the same name line up behind the refusal. So each call, refused
 * or not, corresponds to one call of every other rank, whichever rank is early.
 *
 *     refused ─> refused again (counted) ─> submitted (behind) ─> requested in its turn
 *
 * Of a group whose tensors are named after it (core/group_name.h) only the head is refused, for the
 * whole group. All tensors of the next group of that name line up behind it. If this rank requested
 * some of them before, they would look like tensors of the refused group.
 *
 * A refusal that cannot keep any rank waiting is not announced, see engine.h. If there is no memory
 * for a refusal, or for a join, the job ends, which needs none.
 */
#include "worker/engine/submit/refusal.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/group_name.h"
#include "worker/engine/state/wake.h"

#define GROUP_DIGITS_MAX 9 /* digits of a group's size in a name */
#define REFUSALS_MAX 65536 /* unanswered refusals of a set; later ones are not announced */

/* Returns the pending entry of the head of the name's group. NULL when the name is in no group
 * or is the head itself. Holds mu. */
static struct hvd_entry *find_head(const struct hvd_set *set, struct hvd_strview name)
{
    char text[HVD_NAME_MAX + 1];
    struct hvd_group_name group;

    if (!hvd_group_name_parse(name, &group) || group.i == 1)
        return NULL;
    return hvd_table_find(set->locked.table,
                          hvd_group_name_of(&group, 1, group.n, text, sizeof(text)));
}

static bool is_refused(const struct hvd_entry *entry)
{
    return entry && entry->refusal;
}

struct hvd_entry *hvd_refusal_find(const struct hvd_set *set, struct hvd_strview name)
{
    struct hvd_entry *head = find_head(set, name);

    if (is_refused(head))
        return head;
    struct hvd_entry *entry = hvd_table_find(set->locked.table, name);
    return is_refused(entry) ? entry : NULL;
}

/* Whether the entry has the refused name, and is not another tensor of its group. */
static bool is_of_name(const struct hvd_entry *refused, const struct hvd_entry *entry)
{
    return hvd_strview_same(hvd_group_name_key(refused->request.name),
                            hvd_group_name_key(entry->request.name));
}

bool hvd_refusal_follow(struct hvd_entry *refused, struct hvd_entry *entry)
{
    struct hvd_refusal *refusal = refused->refusal;

    if (!is_of_name(refused, entry))
        hvd_entry_list_add(&refusal->members, entry);
    else if (refusal->behind)
        return false;
    else
        refusal->behind = entry;
    entry->is_behind = true;
    return true;
}

void hvd_refusal_unfollow(struct hvd_entry *entry)
{
    struct hvd_refusal *refusal = hvd_refusal_find(entry->set, entry->request.name)->refusal;
    struct hvd_entry_list kept = {0};
    struct hvd_entry *member;

    entry->is_behind = false;
    if (refusal->behind == entry) {
        refusal->behind = NULL;
        return;
    }
    while ((member = hvd_entry_list_take(&refusal->members)))
        if (member != entry)
            hvd_entry_list_add(&kept, member);
    refusal->members = kept;
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

/* Adds an entry with the refusal to the table; NULL when out of memory. Holds mu. */
static struct hvd_entry *add_refusal(struct hvd_engine *e, struct hvd_set *set,
                                     const struct hvd_refused *refused)
{
    struct hvd_refusal *refusal = hvd_calloc(1, sizeof(*refusal));
    struct hvd_entry *entry = NULL;

    if (refusal)
        refusal->reason = hvd_strdup(refused->reason);
    if (refusal && refusal->reason)
        entry = hvd_entry_take(e, refused->name.len + 1 + GROUP_DIGITS_MAX);
    if (!entry) {
        hvd_entry_refusal_destroy(refusal);
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
    entry->index = HVD_CACHE_NO_SLOT;
    entry->set = set;
    entry->count = 0;
    entry->is_own = false;
    entry->has_completion = false;
    entry->is_behind = false;
    entry->is_part = false;
    if (hvd_table_add(set->locked.table, entry->request.name, entry, NULL) != HVD_OK) {
        hvd_entry_refusal_destroy(refusal);
        hvd_entry_put(e, entry);
        return NULL;
    }
    entry->refusal = refusal;
    set->locked.n_refusals++;
    return entry;
}

/* Queues an entry to be requested at once. Holds mu. */
static void queue(struct hvd_engine *e, struct hvd_entry *entry)
{
    entry->is_listed = true;
    hvd_entry_list_add(&entry->set->locked.queue, entry);
    hvd_add(&e->n_queued, 1);
    atomic_store(&e->is_urgent, true);
}

/* Frees a refusal. Holds mu. */
static void let_go(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry)
{
    hvd_entry_refusal_destroy(entry->refusal);
    entry->refusal = NULL;
    entry->is_listed = false;
    set->locked.n_refusals--;
    hvd_entry_put(e, entry);
}

/* Counts another refusal of a name whose refusal is unanswered. Of many reasons, the last one is
 * announced; without memory for it, the one before. Holds mu. */
static void refuse_again(struct hvd_refusal *refusal, const struct hvd_refused *refused)
{
    struct hvd_group_name group;

    if (refusal->behind) /* the others wait for that submission */
        return;
    refusal->n_again++;
    char *copy = hvd_strdup(refused->reason);
    if (!copy)
        return;
    hvd_free(refusal->last_reason);
    refusal->last_reason = copy;
    if (hvd_group_name_parse(refused->name, &group))
        refusal->last_n = group.n;
}

/* Writes the size of the group into the name of a head, if there is room. */
static void rename_head(struct hvd_entry *entry, uint32_t n)
{
    char text[HVD_NAME_MAX + 1];
    struct hvd_group_name group;

    if (!hvd_group_name_parse(entry->request.name, &group))
        return;
    const struct hvd_strview name = hvd_group_name_of(&group, 1, n, text, sizeof(text));
    if (name.len == 0 || name.len >= entry->name_room)
        return;
    memcpy(entry->name, name.data, name.len);
    entry->name[name.len] = '\0';
    entry->request.name.len = name.len;
}

/* Prepares the next refusal of the name. Holds mu. */
static void take_again(struct hvd_entry *entry)
{
    struct hvd_refusal *refusal = entry->refusal;

    refusal->n_again--;
    if (!refusal->last_reason)
        return;
    hvd_free(refusal->reason);
    refusal->reason = refusal->last_reason;
    refusal->last_reason = NULL;
    rename_head(entry, refusal->last_n);
}

/* Whether the name is in a group for which the head is refused. */
static bool is_refused_by_head(struct hvd_strview name)
{
    struct hvd_group_name group;

    return hvd_group_name_parse(name, &group) && group.i > 1;
}

/* Whether some rank may wait for this one to submit the name. Holds mu. */
static bool is_awaited(const struct hvd_engine *e, const struct hvd_set *set,
                       const struct hvd_refused *refused)
{
    return set && set->self.size > 1 && !set->locked.is_ended && !set->locked.is_join_pending &&
           !e->sets[0]->locked.is_join_pending && !e->locked.is_ended &&
           !atomic_load(&e->is_leaving) && !e->locked.infos[set->id].is_removed &&
           refused->name.len > 0 && refused->name.len <= HVD_NAME_MAX &&
           set->locked.n_refusals < REFUSALS_MAX;
}

/* Whether the name is pending, so that the others wait for that tensor. Holds mu. */
static bool is_pending(const struct hvd_set *set, struct hvd_strview name)
{
    const struct hvd_cache_slot *slot = hvd_cache_find(set->locked.cache, name);

    return hvd_table_find(set->locked.table, name) ||
           (slot && hvd_cache_owner(set->locked.cache, slot->index));
}

void hvd_engine_refuse(struct hvd_engine *e, const struct hvd_refused *refused)
{
    pthread_mutex_lock(&e->mu);
    struct hvd_set *set = hvd_set_find(e, refused->set);
    if (is_awaited(e, set, refused) && !is_refused_by_head(refused->name)) {
        struct hvd_entry *entry = hvd_table_find(set->locked.table, refused->name);
        if (is_refused(entry)) {
            refuse_again(entry->refusal, refused);
        } else if (!is_pending(set, refused->name)) {
            const bool is_join = hvd_strview_equal(refused->name, HVD_JOIN_NAME);
            entry = is_join ? NULL : add_refusal(e, set, refused);
            if (entry)
                queue(e, entry);
            else
                atomic_store(&e->has_lost_refusal, true);
            hvd_wake_owner(e);
        }
    }
    pthread_mutex_unlock(&e->mu);
}

/* Queues an entry that has lined up. Returns `before` if that is a failure, else whether the
 * entry could be queued. Holds mu. */
static hvd_status_t release(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                            hvd_status_t before, struct hvd_err *err)
{
    const hvd_status_t st = hvd_table_add(set->locked.table, entry->request.name, entry, err);

    entry->is_behind = false;
    if (st == HVD_OK)
        queue(e, entry);
    else
        hvd_entry_finish(e, entry, st, "out of memory for a tensor");
    return before == HVD_OK ? st : before;
}

hvd_status_t hvd_refusal_answered(struct hvd_engine *e, struct hvd_set *set,
                                  struct hvd_entry *entry, struct hvd_err *err)
{
    struct hvd_refusal *refusal = entry->refusal;
    hvd_status_t st = HVD_OK;

    if (refusal->n_again > 0) {
        st = hvd_table_add(set->locked.table, entry->request.name, entry, err);
        if (st == HVD_OK) {
            queue(e, entry);
            take_again(entry);
        }
    } else {
        struct hvd_entry *member;
        while ((member = hvd_entry_list_take(&refusal->members)))
            st = release(e, set, member, st, err);
        if (refusal->behind)
            st = release(e, set, refusal->behind, st, err);
        let_go(e, set, entry);
    }
    return st;
}

void hvd_refusal_drop(struct hvd_engine *e, struct hvd_set *set, struct hvd_entry *entry,
                      const char *text)
{
    struct hvd_entry *member;

    while ((member = hvd_entry_list_take(&entry->refusal->members)))
        hvd_entry_finish(e, member, HVD_ERR_SHUTDOWN, text);
    if (entry->refusal->behind)
        hvd_entry_finish(e, entry->refusal->behind, HVD_ERR_SHUTDOWN, text);
    let_go(e, set, entry);
}
