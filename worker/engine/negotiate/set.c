/*
 * A process set: the ranks that agree on its tensors, and all that this rank has pending with them.
 * Set 0 is the whole job. Sets are independent, so none waits for another.
 */
#include "worker/engine/negotiate/set.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/adasum.h"
#include "worker/engine/execute/device_set.h"
#include "worker/engine/execute/exec_plan.h"
#include "worker/engine/negotiate/beats.h"
#include "worker/engine/state/set_hosts.h"

void hvd_set_leave_device(struct hvd_set *set)
{
    if (!set)
        return;
    hvd_device_set_destroy(set->own.on_device);
    set->own.on_device = NULL;
}

void hvd_set_destroy(struct hvd_set *set)
{
    if (!set)
        return;
    while (set->own.exec_plans) {
        struct hvd_exec_plan *next = set->own.exec_plans->next;
        hvd_exec_plan_destroy(set->own.exec_plans);
        set->own.exec_plans = next;
    }
    hvd_free(set->own.spare);
    hvd_exec_plan_forget(set);
    hvd_device_set_destroy(set->own.on_device);
    hvd_adasum_destroy(set->own.adasum);
    hvd_free(set->own.agreed);
    hvd_free(set->own.items);
    hvd_free(set->own.batches);
    hvd_free(set->own.bits);
    hvd_free(set->locked.queued_bits);
    hvd_buf_fini(&set->own.message);
    hvd_aggregator_destroy(set->own.aggregator);
    hvd_heartbeat_destroy(set->own.heartbeat);
    hvd_negotiator_destroy(set->own.negotiator);
    hvd_table_destroy(set->locked.table);
    hvd_cache_destroy(set->locked.cache);
    hvd_tree_node_fini(&set->node);
    hvd_tree_fini(&set->tree);
    hvd_free(set->ones);
    hvd_free(set->ranks);
    hvd_free(set);
}

/* Creates the set's tree and this rank's part in it. */
static hvd_status_t grow_tree(const struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    int *hosts = NULL;
    const struct hvd_aggregator_options aggregator = {
        .node = &set->node, .set = set->id, .world_size = e->topology.size};
    hvd_status_t st = hvd_set_hosts_find(e, set, &hosts);

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a process set");
    const struct hvd_tree_options shape = {
        .size = set->self.size, .hosts = hosts, .fanout = e->options.tree_fanout};
    st = hvd_tree_init(&set->tree, &shape, err);
    hvd_free(hosts);
    if (st == HVD_OK)
        st = hvd_tree_node_init(&set->node, &set->tree, set->tree.position_of[set->self.rank], err);
    if (st == HVD_OK && set->node.n_children > 0 && set->self.rank != 0)
        st = hvd_aggregator_create(&aggregator, &set->own.aggregator, err);
    return st;
}

/* Whether nothing of the set can happen here any more. It was removed, its members have been
 * informed, and its agreed tensors have finished. The progress owner's. */
static bool is_over(const struct hvd_engine *e, const struct hvd_set *set)
{
    if (!set->locked.is_ended || !e->locked.infos[set->id].is_removed || set->own.todo ||
        set->own.n_moving > 0)
        return false;
    for (const struct hvd_exec_plan *exec_plan = set->own.exec_plans; exec_plan;
         exec_plan = exec_plan->next)
        if (exec_plan->n_open > 0)
            return false;
    return true;
}

bool hvd_set_retire(struct hvd_engine *e, struct hvd_set *set)
{
    const uint32_t end = hvd_cache_end(set->locked.cache);
    const bool is_shared = set->self.size > 1;
    const uint32_t id = set->id;

    if (!is_over(e, set))
        return false;
    pthread_mutex_lock(&e->mu);
    for (uint32_t i = 0; i < end; i++)
        if (hvd_cache_at(set->locked.cache, i))
            hvd_entry_unsettle(e, hvd_cache_at(set->locked.cache, i));
    e->sets[id] = NULL;
    pthread_mutex_unlock(&e->mu);
    hvd_set_destroy(set);
    if (is_shared)
        e->transport->ops->remove_set(e->transport, id);
    return true;
}

static const char *name_host(const void *transport, int rank)
{
    const struct hvd_transport *t = transport;

    return t->ops->host(t, rank);
}

static hvd_status_t fill(const struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    const struct hvd_negotiator_options options = {.tree = &set->tree,
                                                   .node = &set->node,
                                                   .ranks = set->ranks,
                                                   .world_size = e->topology.size,
                                                   .set = set->id,
                                                   .cache_capacity = e->options.cache_capacity,
                                                   .fusion_bytes = e->options.fusion_bytes,
                                                   .cycle_us =
                                                       (uint32_t)(e->options.cycle_ns / 1000),
                                                   .host = name_host,
                                                   .host_ctx = e->transport};
    hvd_status_t st = hvd_table_create(&set->locked.table, err);

    if (st == HVD_OK)
        st = hvd_cache_create(&set->locked.cache, err);
    if (st == HVD_OK)
        st = grow_tree(e, set, err);
    if (st == HVD_OK)
        st = hvd_beats_create(e, set, err);
    if (st == HVD_OK && set->self.rank == 0)
        st = hvd_negotiator_create(&options, &set->own.negotiator, err);
    return st;
}

hvd_status_t hvd_set_create(const struct hvd_engine *e, uint32_t id, const int *ranks, int n_ranks,
                            struct hvd_set **out, struct hvd_err *err)
{
    struct hvd_set *set = hvd_calloc(1, sizeof(*set));
    const size_t n = (size_t)n_ranks;

    if (set) {
        set->ranks = hvd_malloc(n, sizeof(*set->ranks));
        set->ones = hvd_malloc(n, sizeof(*set->ones));
    }
    if (!set || !set->ranks || !set->ones) {
        hvd_set_destroy(set);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a process set");
    }
    set->id = id;
    set->locked.last = HVD_CACHE_NO_SLOT;
    set->self.size = n_ranks;
    hvd_buf_init(&set->own.message, HVD_MESSAGE_MAX);
    for (int i = 0; i < n_ranks; i++) {
        set->ranks[i] = ranks[i];
        set->ones[i] = 1;
        if (ranks[i] == e->topology.rank)
            set->self.rank = i;
    }
    hvd_status_t st = fill(e, set, err);
    if (st != HVD_OK) {
        hvd_set_destroy(set);
        return st;
    }
    *out = set;
    return HVD_OK;
}

/* Extends an array of words by zeros. */
static bool extend(uint64_t **words, uint32_t old, uint32_t n)
{
    uint64_t *grown = hvd_realloc(*words, n, sizeof(**words));

    if (!grown)
        return false;
    memset(grown + old, 0, (n - old) * sizeof(*grown));
    *words = grown;
    return true;
}

hvd_status_t hvd_set_make_room(struct hvd_set *set)
{
    const uint32_t n = (hvd_cache_end(set->locked.cache) + 63) / 64;
    const uint32_t room = set->locked.n_words * 2 > n ? set->locked.n_words * 2 : n;

    if (n <= set->locked.n_words)
        return HVD_OK;
    if (!extend(&set->own.bits, set->locked.n_words, room) ||
        !extend(&set->locked.queued_bits, set->locked.n_words, room))
        return HVD_ERR_NOMEM;
    set->locked.n_words = room;
    return HVD_OK;
}
