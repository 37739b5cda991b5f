/*
 * Creates and removes process sets while the job runs. Every rank of the job calls; an allgather of
 * their requested changes makes the agreement. The progress owner acts when that has completed.
 *
 * Only one such call is under way at a time, so all ranks act in the same order. Numbers are never
 * reused, so a late message cannot be taken for one of a new set.
 */
#include "worker/engine/negotiate/agree_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/negotiate/make_set.h"
#include "worker/engine/negotiate/set.h"
#include "worker/engine/submit/join.h"

/* Whether all ranks requested the same change. */
static bool is_agreed(const struct horovod_output *output)
{
    const char *data = output->data;
    const size_t row = sizeof(int32_t);

    for (int rank = 1; rank < output->n_ranks; rank++)
        if (output->rows[rank] != output->rows[0] ||
            memcmp(data, data + (size_t)rank * (size_t)output->rows[0] * row,
                   (size_t)output->rows[0] * row) != 0)
            return false;
    return true;
}

static bool has_ranks(const struct hvd_set_info *info, const int *ranks, int n_ranks)
{
    return !info->is_removed && info->n_ranks == n_ranks &&
           memcmp(info->ranks, ranks, (size_t)n_ranks * sizeof(*ranks)) == 0;
}

/* Adds an empty place for one more set. Holds mu. */
static hvd_status_t grow(struct hvd_engine *e, const int *ranks, int n_ranks, uint32_t *id)
{
    const uint32_t n = e->n_sets + 1;
    struct hvd_set **sets = hvd_realloc(e->sets, n, sizeof(struct hvd_set *));

    if (!sets)
        return HVD_ERR_NOMEM;
    e->sets = sets;
    struct hvd_set_info *infos = hvd_realloc(e->locked.infos, n, sizeof(*infos));
    if (!infos)
        return HVD_ERR_NOMEM;
    e->locked.infos = infos;
    int *copy = hvd_malloc((size_t)n_ranks, sizeof(*copy));
    if (!copy)
        return HVD_ERR_NOMEM;
    memcpy(copy, ranks, (size_t)n_ranks * sizeof(*copy));
    e->locked.infos[e->n_sets] = (struct hvd_set_info){.ranks = copy, .n_ranks = n_ranks};
    e->sets[e->n_sets] = NULL;
    *id = e->n_sets++;
    return HVD_OK;
}

static void put_set(struct hvd_engine *e, uint32_t id, struct hvd_set *set)
{
    pthread_mutex_lock(&e->mu);
    e->sets[id] = set;
    pthread_mutex_unlock(&e->mu);
}

hvd_status_t hvd_agree_set_register(struct hvd_engine *e, const int *ranks, int n_ranks,
                                    uint32_t *id, struct hvd_err *err)
{
    struct hvd_set *set = NULL;
    bool is_member = false;

    for (int i = 0; i < n_ranks; i++)
        is_member = is_member || ranks[i] == e->topology.rank;
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = grow(e, ranks, n_ranks, id);
    pthread_mutex_unlock(&e->mu);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a process set");
    if (is_member)
        st = hvd_set_create(e, *id, ranks, n_ranks, &set, err);
    if (st == HVD_OK)
        put_set(e, *id, set);
    if (st == HVD_OK && is_member && *id != 0 && n_ranks > 1)
        st = hvd_make_set(e, set, err);
    if (st != HVD_OK) {
        put_set(e, *id, NULL);
        hvd_set_destroy(set);
        return st;
    }
    st = set ? hvd_join_enter(e, set) : HVD_OK;
    return st == HVD_OK ? st : HVD_FAIL(err, st, 0, "out of memory for a join");
}

/* Closes a new set if the job was shut down during the agreement. Its members receive the end
 * from the set's coordinator, as in every set. */
static hvd_status_t close_late(struct hvd_engine *e, uint32_t id, struct hvd_err *err)
{
    const struct hvd_set *set = e->sets[id];

    pthread_mutex_lock(&e->mu);
    const bool is_ended = e->locked.is_ended;
    const char *cause = e->locked.cause ? e->locked.cause : "Horovod has been shut down.";
    pthread_mutex_unlock(&e->mu);
    if (!is_ended || !set || !set->own.negotiator)
        return HVD_OK;
    return hvd_negotiator_close(set->own.negotiator, cause, err);
}

/* Creates the set on this rank, unless it exists. After a failure this rank has diverged. */
static hvd_status_t add(struct hvd_engine *e, struct hvd_entry *entry, const int32_t *ranks,
                        int n_ranks, struct hvd_err *err)
{
    uint32_t id = 0;

    for (uint32_t i = 0; i < e->n_sets; i++) {
        if (!has_ranks(&e->locked.infos[i], ranks, n_ranks))
            continue;
        entry->status = HVD_ERR_CONFLICT;
        return HVD_OK;
    }
    hvd_status_t st = hvd_agree_set_register(e, ranks, n_ranks, &id, err);
    entry->number = id;
    return st == HVD_OK ? close_late(e, id, err) : st;
}

static hvd_status_t remove_set(struct hvd_engine *e, struct hvd_entry *entry, int32_t id,
                               struct hvd_err *err)
{
    struct hvd_set *set = NULL;

    if (id <= 0 || (uint32_t)id >= e->n_sets || e->locked.infos[id].is_removed) {
        entry->status = HVD_ERR_NOT_FOUND;
        return HVD_OK;
    }
    pthread_mutex_lock(&e->mu);
    e->locked.infos[id].is_removed = true;
    set = e->sets[id];
    pthread_mutex_unlock(&e->mu);
    entry->number = id;
    if (!set || !set->own.negotiator)
        return HVD_OK;
    return hvd_negotiator_close(set->own.negotiator, HVD_SET_REMOVED, err);
}

/* Returns the text for the status of an agreement about process sets. */
static const char *change_text(hvd_status_t status)
{
    switch (status) {
    case HVD_ERR_MISMATCH:
        return "Different ranks tried to set up mismatching process sets";
    case HVD_ERR_CONFLICT:
        return "A process set of these ranks exists already";
    case HVD_ERR_NOT_FOUND:
        return "Process set provided does not exist, or has not been registered.";
    default:
        return "";
    }
}

/* Carries out the change once all ranks have agreed; entry->status becomes its result. Fails as
 * hvd_agree_set_register does. */
static hvd_status_t follow(struct hvd_engine *e, struct hvd_entry *entry, struct hvd_err *err)
{
    const struct horovod_output *output = entry->output;
    const int32_t *data = output->data;

    entry->status = HVD_OK;
    if (!is_agreed(output)) {
        entry->status = HVD_ERR_MISMATCH;
        return HVD_OK;
    }
    if (data[0] == HVD_CHANGE_ADD)
        return add(e, entry, data + 1, (int)output->rows[0] - 1, err);
    return data[0] == HVD_CHANGE_REMOVE ? remove_set(e, entry, data[1], err) : HVD_OK;
}

const struct hvd_agreement hvd_agree_set_agreement = {.follow = follow, .text = change_text};
