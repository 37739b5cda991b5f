/*
 * Making and removing process sets while the job runs. Every rank of the job calls; an allgather of
 * what each wants is the agreement, and the progress owner acts when it is done: in the same order
 * on every rank, because only one such call is under way at a time. Numbers are never used again,
 * so nothing that is late can be taken for something new.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/state/engine_internal.h"

/* What a rank says: the change, then the ranks of the new set or the number of the old one. */
enum change {
    CHANGE_NONE,
    CHANGE_ADD,
    CHANGE_REMOVE,
};

/* Whether all ranks said the same. */
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

/* One more set, still without content. Holds mu. */
static hvd_status_t grow(struct hvd_engine *e, const int *ranks, int n_ranks, uint32_t *id)
{
    const uint32_t n = e->n_sets + 1;
    struct hvd_set **sets = hvd_realloc(e->sets, n, sizeof(struct hvd_set *));

    if (!sets)
        return HVD_ERR_NOMEM;
    e->sets = sets;
    struct hvd_set_info *infos = hvd_realloc(e->infos, n, sizeof(*infos));
    if (!infos)
        return HVD_ERR_NOMEM;
    e->infos = infos;
    int *copy = hvd_malloc((size_t)n_ranks, sizeof(*copy));
    if (!copy)
        return HVD_ERR_NOMEM;
    memcpy(copy, ranks, (size_t)n_ranks * sizeof(*copy));
    e->infos[e->n_sets] = (struct hvd_set_info){.ranks = copy, .n_ranks = n_ranks};
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

/* The job had been shut down while the set was agreed about: its members hear that from its
 * coordinator, as those of all sets. */
static hvd_status_t close_late(struct hvd_engine *e, uint32_t id, struct hvd_err *err)
{
    const struct hvd_set *set = e->sets[id];

    pthread_mutex_lock(&e->mu);
    const bool is_ended = e->is_ended;
    const char *cause = e->cause ? e->cause : "Horovod has been shut down.";
    pthread_mutex_unlock(&e->mu);
    if (!is_ended || !set || !set->negotiator)
        return HVD_OK;
    return hvd_negotiator_close(set->negotiator, cause, err);
}

/* Agreed: every rank makes the set, or finds that it is there. Failure: this rank diverges. */
static hvd_status_t add(struct hvd_engine *e, struct hvd_entry *entry, const int32_t *ranks,
                        int n_ranks, struct hvd_err *err)
{
    uint32_t id = 0;

    for (uint32_t i = 0; i < e->n_sets; i++) {
        if (!has_ranks(&e->infos[i], ranks, n_ranks))
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

    if (id <= 0 || (uint32_t)id >= e->n_sets || e->infos[id].is_removed) {
        entry->status = HVD_ERR_NOT_FOUND;
        return HVD_OK;
    }
    pthread_mutex_lock(&e->mu);
    e->infos[id].is_removed = true;
    set = e->sets[id];
    pthread_mutex_unlock(&e->mu);
    entry->number = id;
    if (!set || !set->negotiator)
        return HVD_OK;
    return hvd_negotiator_close(set->negotiator, HVD_SET_REMOVED, err);
}

hvd_status_t hvd_agree_set_changed(struct hvd_engine *e, struct hvd_entry *entry,
                                   struct hvd_err *err)
{
    const struct horovod_output *output = entry->output;
    const int32_t *data = output->data;

    entry->status = HVD_OK;
    if (!is_agreed(output)) {
        entry->status = HVD_ERR_MISMATCH;
        return HVD_OK;
    }
    if (data[0] == CHANGE_ADD)
        return add(e, entry, data + 1, (int)output->rows[0] - 1, err);
    return data[0] == CHANGE_REMOVE ? remove_set(e, entry, data[1], err) : HVD_OK;
}

/* The call is refused here, and does not keep the other ranks waiting. */
static void refuse(struct hvd_engine *e, const char *reason)
{
    const struct hvd_refused refused = {.name = hvd_strview_of(HVD_CHANGE_NAME), .reason = reason};

    hvd_engine_refuse(e, &refused);
}

/* Says what this rank wants and waits for the others. */
static hvd_status_t change(struct hvd_engine *e, const int32_t *data, int n, uint32_t *id,
                           struct hvd_err *err)
{
    const struct hvd_submission s = {.request = {.op = HVD_ALLGATHER,
                                                 .dtype = HVD_INT32,
                                                 .reduce = HVD_SUM,
                                                 .prescale = 1,
                                                 .postscale = 1,
                                                 .ndim = 1,
                                                 .shape = {n},
                                                 .name = hvd_strview_of(HVD_CHANGE_NAME)},
                                     .input = data,
                                     .is_waited_now = true,
                                     .changes_sets = true};
    struct hvd_outcome outcome = {0};
    int64_t handle = 0;
    hvd_status_t st = hvd_engine_submit(e, &s, &handle, err);

    if (st == HVD_OK)
        st = hvd_engine_wait(e, handle, &outcome, err);
    else
        refuse(e, "the call about process sets could not be submitted");
    hvd_output_destroy(outcome.output);
    if (st == HVD_OK)
        *id = (uint32_t)outcome.number;
    return st;
}

static int compare_ranks(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a;
    const int32_t y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* The ranks of a new set, sorted. Failures as hvd_engine_add_set. */
static hvd_status_t check_ranks(const struct hvd_engine *e, int32_t *ranks, int n_ranks,
                                struct hvd_err *err)
{
    qsort(ranks, (size_t)n_ranks, sizeof(*ranks), compare_ranks);
    for (int i = 0; i < n_ranks; i++) {
        const bool is_twice = i > 0 && ranks[i] == ranks[i - 1];
        if (ranks[i] < 0 || ranks[i] >= e->topology.size || is_twice)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a process set with rank %d %s", ranks[i],
                            is_twice ? "twice" : "that does not exist");
    }
    return HVD_OK;
}

/* What this rank says of a new set, into *out, the caller's to free. Failures as above. */
static hvd_status_t describe_set(const struct hvd_engine *e, const int *ranks, int n_ranks,
                                 int32_t **out, struct hvd_err *err)
{
    if (!ranks || n_ranks < 1 || n_ranks > e->topology.size)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a process set of %d ranks in a job of %d",
                        ranks ? n_ranks : 0, e->topology.size);
    if (!e->transport->ops->add_set)
        return HVD_FAIL(err, HVD_ERR_STATE, 0, "the transport %s has no process sets",
                        e->transport->ops->name);
    int32_t *data = hvd_malloc((size_t)n_ranks + 1, sizeof(*data));
    if (!data)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a process set");
    data[0] = CHANGE_ADD;
    memcpy(data + 1, ranks, (size_t)n_ranks * sizeof(*data));
    *out = data;
    return check_ranks(e, data + 1, n_ranks, err);
}

hvd_status_t hvd_engine_add_set(struct hvd_engine *e, const int *ranks, int n_ranks, uint32_t *id,
                                struct hvd_err *err)
{
    struct hvd_err why;
    int32_t *data = NULL;

    hvd_err_clear(&why);
    hvd_status_t st = describe_set(e, ranks, n_ranks, &data, &why);
    if (st == HVD_OK) {
        st = change(e, data, n_ranks + 1, id, err);
    } else {
        refuse(e, why.msg);
        st = HVD_FAIL(err, st, 0, "%s", why.msg);
    }
    hvd_free(data);
    return st;
}

hvd_status_t hvd_engine_remove_set(struct hvd_engine *e, uint32_t id, struct hvd_err *err)
{
    const int32_t data[] = {CHANGE_REMOVE, (int32_t)id};
    uint32_t removed = 0;

    if (id > 0)
        return change(e, data, 2, &removed, err);
    refuse(e, "process set 0 cannot be removed");
    return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "process set 0 cannot be removed");
}

hvd_status_t hvd_engine_agree(struct hvd_engine *e, int32_t value, struct hvd_err *err)
{
    const int32_t data[] = {CHANGE_NONE, value};
    uint32_t none = 0;

    return change(e, data, 2, &none, err);
}

int hvd_engine_sets(struct hvd_engine *e, uint32_t *ids, int room)
{
    int n = 0;

    pthread_mutex_lock(&e->mu);
    for (uint32_t i = 0; i < e->n_sets; i++) {
        if (e->infos[i].is_removed)
            continue;
        if (n < room)
            ids[n] = i;
        n++;
    }
    pthread_mutex_unlock(&e->mu);
    return n;
}

int hvd_engine_set_ranks(struct hvd_engine *e, uint32_t id, int *ranks, int room)
{
    int n = -1;

    pthread_mutex_lock(&e->mu);
    if (id < e->n_sets && !e->infos[id].is_removed) {
        n = e->infos[id].n_ranks;
        for (int i = 0; i < n && i < room; i++)
            ranks[i] = e->infos[id].ranks[i];
    }
    pthread_mutex_unlock(&e->mu);
    return n;
}
