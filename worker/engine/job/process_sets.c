/*
 * Process sets as the program creates, removes and queries them; any thread. negotiate/agree_set.c
 * carries out what all ranks agree on.
 */
#include "worker/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/rank_list.h"
#include "worker/engine/negotiate/agree_set.h"

/* Refuses the call on all ranks, so that the others do not wait for this one. */
static void refuse(struct hvd_engine *e, const char *reason)
{
    const struct hvd_refused refused = {.name = hvd_strview_of(HVD_CHANGE_NAME), .reason = reason};

    hvd_engine_refuse(e, &refused);
}

/* Submits the change that this rank requests, and waits for the others. */
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
                                     .agreement = &hvd_agree_set_agreement};
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

/* Sorts and checks the ranks of a new set. Fails as hvd_engine_add_set does. */
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

/* Describes a new set in *out, which the caller frees. Fails as hvd_engine_add_set does. */
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
    data[0] = HVD_CHANGE_ADD;
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
    const int32_t data[] = {HVD_CHANGE_REMOVE, (int32_t)id};
    uint32_t removed = 0;

    if (id > 0)
        return change(e, data, 2, &removed, err);
    refuse(e, "process set 0 cannot be removed");
    return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "process set 0 cannot be removed");
}

hvd_status_t hvd_engine_agree(struct hvd_engine *e, int32_t value, struct hvd_err *err)
{
    const int32_t data[] = {HVD_CHANGE_NONE, value};
    uint32_t none = 0;

    return change(e, data, 2, &none, err);
}

int hvd_engine_sets(struct hvd_engine *e, uint32_t *ids, int room)
{
    int n = 0;

    pthread_mutex_lock(&e->mu);
    for (uint32_t i = 0; i < e->n_sets; i++) {
        if (e->locked.infos[i].is_removed)
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
    if (id < e->n_sets && !e->locked.infos[id].is_removed) {
        n = e->locked.infos[id].n_ranks;
        for (int i = 0; i < n && i < room; i++)
            ranks[i] = e->locked.infos[id].ranks[i];
    }
    pthread_mutex_unlock(&e->mu);
    return n;
}

hvd_status_t hvd_engine_self(struct hvd_engine *e, uint32_t set, struct hvd_self *self,
                             struct hvd_err *err)
{
    pthread_mutex_lock(&e->mu);
    const struct hvd_set *found = hvd_set_find(e, set);
    const bool exists = set < e->n_sets && !e->locked.infos[set].is_removed;
    if (found && exists)
        *self = found->self;
    pthread_mutex_unlock(&e->mu);
    if (!exists)
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                        "Process set provided does not exist, or has not been registered.");
    return found
               ? HVD_OK
               : HVD_FAIL(err, HVD_ERR_DENIED, 0,
                          "Rank %d is not a member of the provided process set.", e->topology.rank);
}

hvd_status_t hvd_engine_check_root(struct hvd_engine *e, uint32_t set, int root,
                                   struct hvd_err *err)
{
    struct hvd_rank_list list;

    pthread_mutex_lock(&e->mu);
    const struct hvd_set *found = hvd_set_find(e, set);
    const bool is_good = !found || hvd_set_rank_of(found, root) >= 0;
    if (!is_good)
        hvd_rank_list_init(&list, found->ranks, found->self.size);
    pthread_mutex_unlock(&e->mu);
    return is_good ? HVD_OK
                   : HVD_FAIL(err, HVD_ERR_INVALID, 0,
                              "broadcast received invalid root rank %d for provided process set: "
                              "its ranks are %s",
                              root, list.text);
}

uint64_t hvd_engine_count_unnamed(struct hvd_engine *e, uint32_t set, enum hvd_op op)
{
    uint64_t number = 0;

    pthread_mutex_lock(&e->mu);
    struct hvd_set *found = hvd_set_find(e, set);
    if (found)
        number = ++found->locked.n_unnamed[op];
    pthread_mutex_unlock(&e->mu);
    return number;
}
