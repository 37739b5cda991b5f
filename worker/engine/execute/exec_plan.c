/*
 * Divides agreed tensors into fused operations. Caches the resulting execution plan for the next
 * plan with the same bits. Runs in the progress owner.
 */
#include "worker/engine/execute/exec_plan.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/op_trace.h"
#include "worker/engine/execute/sharing.h"
#include "worker/engine/execute/staging.h"

#define EXEC_PLANS_MAX 16 /* maximum number of cached execution plans */
#define ALIKE_MAX                                                                                  \
    ((size_t)64 * 1024) /* bytes up to which all execution plans get blocks of one size */
#define FETCH_AHEAD 8

struct hvd_agreed *hvd_exec_plan_agree(struct hvd_set *set)
{
    if (set->own.n_agreed == set->own.agreed_room) {
        const uint32_t room = set->own.agreed_room ? set->own.agreed_room * 2 : 16;
        struct hvd_agreed *agreed = hvd_realloc(set->own.agreed, room, sizeof(*agreed));
        if (agreed)
            set->own.agreed = agreed;
        struct hvd_fusable *items = hvd_realloc(set->own.items, room, sizeof(*items));
        if (items)
            set->own.items = items;
        struct hvd_batch *batches = hvd_realloc(set->own.batches, room, sizeof(*batches));
        if (batches)
            set->own.batches = batches;
        if (!agreed || !items || !batches)
            return NULL;
        set->own.agreed_room = room;
    }
    struct hvd_agreed *a = &set->own.agreed[set->own.n_agreed++];
    *a = (struct hvd_agreed){.slot = HVD_CACHE_NO_SLOT};
    return a;
}

void hvd_exec_plan_forget(struct hvd_set *set)
{
    for (uint32_t i = 0; i < set->own.n_agreed; i++) {
        if (set->own.agreed[i].slot == HVD_CACHE_NO_SLOT)
            hvd_free(set->own.agreed[i].rows);
        hvd_free(set->own.agreed[i].own);
    }
    set->own.n_agreed = 0;
}

/* Frees everything that the fused operations own. */
static void empty(struct hvd_exec_plan *exec_plan)
{
    for (uint32_t i = 0; i < exec_plan->n_fused_ops; i++) {
        hvd_free(exec_plan->fused_ops[i].by_rank);
        hvd_free(exec_plan->fused_ops[i].splits);
        hvd_free(exec_plan->fused_ops[i].zeros);
        hvd_free(exec_plan->fused_ops[i].copies);
        hvd_staging_destroy(exec_plan->fused_ops[i].staging);
    }
    exec_plan->n_fused_ops = 0;
}

void hvd_exec_plan_destroy(struct hvd_exec_plan *exec_plan)
{
    if (!exec_plan)
        return;
    empty(exec_plan);
    hvd_free(exec_plan);
}

static void unlink_exec_plan(struct hvd_set *set, const struct hvd_exec_plan *exec_plan)
{
    struct hvd_exec_plan **at = &set->own.exec_plans;

    while (*at != exec_plan)
        at = &(*at)->next;
    *at = exec_plan->next;
    set->own.n_exec_plans--;
}

void hvd_exec_plan_release(struct hvd_set *set, struct hvd_exec_plan *exec_plan)
{
    if (--exec_plan->n_open > 0 || exec_plan->key)
        return;
    unlink_exec_plan(set, exec_plan);
    hvd_exec_plan_destroy(exec_plan);
}

void hvd_exec_plan_invalidate(struct hvd_set *set)
{
    for (struct hvd_exec_plan **at = &set->own.exec_plans; *at;) {
        struct hvd_exec_plan *exec_plan = *at;
        exec_plan->key = NULL; /* it is freed with the end of its last fused operation */
        if (exec_plan->n_open > 0) {
            at = &exec_plan->next;
            continue;
        }
        *at = exec_plan->next;
        set->own.n_exec_plans--;
        hvd_exec_plan_destroy(exec_plan);
    }
}

/* Makes room for one more cached execution plan: removes the least recently used one, and keeps
 * its memory for the next one. */
static void drop_oldest(struct hvd_set *set)
{
    struct hvd_exec_plan *oldest = NULL;

    for (struct hvd_exec_plan *exec_plan = set->own.exec_plans; exec_plan;
         exec_plan = exec_plan->next)
        if (exec_plan->key && exec_plan->n_open == 0)
            oldest = exec_plan;
    if (set->own.n_exec_plans < EXEC_PLANS_MAX || !oldest)
        return;
    unlink_exec_plan(set, oldest);
    empty(oldest);
    hvd_free(set->own.spare);
    set->own.spare = oldest;
}

/* Returns memory for an execution plan, not initialised; NULL when out of memory. */
static struct hvd_exec_plan *take_block(struct hvd_set *set, size_t bytes)
{
    struct hvd_exec_plan *exec_plan = set->own.spare;

    set->own.spare = NULL;
    if (!exec_plan || exec_plan->room < bytes) {
        hvd_free(exec_plan);
        exec_plan = hvd_malloc(bytes, 1);
        if (exec_plan)
            exec_plan->room = bytes;
    }
    return exec_plan;
}

/* Returns the bytes of an execution plan with these numbers of parts. */
static size_t exec_plan_bytes(size_t n_fused_ops, size_t n_members, size_t n_key)
{
    return (sizeof(struct hvd_exec_plan) + 15) / 16 * 16 +
           n_fused_ops * sizeof(struct hvd_fused_op) +
           n_members *
               (sizeof(struct hvd_member) + sizeof(struct hvd_piece) + 2 * sizeof(struct hvd_use)) +
           n_key * sizeof(uint64_t);
}

/* Returns how much memory to allocate for an execution plan. Timing decides which tensors are
 * agreed together. So a cached plan gets room for all cached tensors, and any later plan can reuse
 * its memory. */
static size_t room_of_exec_plan(const struct hvd_set *set, size_t bytes, uint32_t n_key)
{
    const size_t n = n_key > 0 ? hvd_cache_end(set->locked.cache) : 0;
    const size_t any = exec_plan_bytes(n, n, n_key);

    return any > bytes && any <= ALIKE_MAX ? any : bytes;
}

/* Allocates one block: the execution plan, its fused operations, and uninitialised space for
 * members, pieces, uses and key. */
static struct hvd_exec_plan *create_exec_plan(struct hvd_set *set, uint32_t n_fused_ops,
                                              uint32_t n_members, uint32_t n_key)
{
    const size_t fused_ops_at = (sizeof(struct hvd_exec_plan) + 15) / 16 * 16;
    const size_t members_at = fused_ops_at + n_fused_ops * sizeof(struct hvd_fused_op);
    const size_t pieces_at = members_at + n_members * sizeof(struct hvd_member);
    const size_t uses_at = pieces_at + n_members * sizeof(struct hvd_piece);
    const size_t key_at = uses_at + 2 * n_members * sizeof(struct hvd_use);
    const size_t bytes = exec_plan_bytes(n_fused_ops, n_members, n_key);
    struct hvd_exec_plan *exec_plan = take_block(set, room_of_exec_plan(set, bytes, n_key));
    char *block = (char *)exec_plan;

    if (!exec_plan)
        return NULL;
    const size_t room = exec_plan->room;
    memset(block, 0, members_at);
    exec_plan->room = room;
    exec_plan->fused_ops = (struct hvd_fused_op *)(void *)(block + fused_ops_at);
    exec_plan->n_fused_ops = n_fused_ops;
    exec_plan->fused_ops[0].members = (struct hvd_member *)(void *)(block + members_at);
    exec_plan->fused_ops[0].pieces = (struct hvd_piece *)(void *)(block + pieces_at);
    exec_plan->fused_ops[0].uses = (struct hvd_use *)(void *)(block + uses_at);
    exec_plan->key = (uint64_t *)(void *)(block + key_at);
    return exec_plan;
}

/* Fills in what a fused operation needs from every rank. */
static hvd_status_t fill_by_rank(struct hvd_set *set, struct hvd_fused_op *f,
                                 const struct hvd_agreed *a)
{
    const size_t n = (size_t)set->self.size;

    if (f->request.op != HVD_ALLGATHER && f->request.op != HVD_REDUCESCATTER)
        return HVD_OK;
    f->by_rank = hvd_calloc(n, sizeof(*f->by_rank));
    if (!f->by_rank)
        return HVD_ERR_NOMEM;
    if (f->request.op == HVD_ALLGATHER && a->rows)
        memcpy(f->by_rank, a->rows, n * sizeof(*f->by_rank));
    return HVD_OK;
}

/* Fills a fused operation from a batch. It takes the next free members and pieces of the
 * execution plan. */
static hvd_status_t fill_fused_op(struct hvd_set *set, struct hvd_exec_plan *exec_plan,
                                  uint32_t index, const struct hvd_batch *batch)
{
    struct hvd_fused_op *f = &exec_plan->fused_ops[index];
    uint32_t n = 0;

    f->exec_plan = exec_plan;
    f->n_members = batch->n;
    f->request = *set->own.agreed[batch->first].request;
    f->work.count = 0;
    for (uint32_t i = batch->first; i != HVD_FUSION_END; i = set->own.items[i].next) {
        f->members[n++] = (struct hvd_member){.entry = set->own.agreed[i].entry,
                                              .slot = set->own.agreed[i].slot,
                                              .count = set->own.items[i].count};
        f->work.count += set->own.items[i].count;
    }
    if (index + 1 < exec_plan->n_fused_ops) {
        exec_plan->fused_ops[index + 1].members = f->members + n;
        exec_plan->fused_ops[index + 1].pieces = f->pieces + n;
        exec_plan->fused_ops[index + 1].uses = f->uses + (size_t)2 * n;
    }
    if (n == 1)
        f->pieces = NULL;
    return fill_by_rank(set, f, &set->own.agreed[batch->first]);
}

/* Describes an agreed tensor for fusion. slot: its cache slot, which already has count and kind;
 * else NULL. */
static void fill_item(const struct hvd_engine *e, struct hvd_set *set, uint32_t i,
                      const struct hvd_cache_slot *slot)
{
    const struct hvd_request *req = set->own.agreed[i].request;
    struct hvd_fusable *item = &set->own.items[i];

    item->request = req;
    item->group = e->options.keeps_groups_apart ? set->own.agreed[i].group : 0;
    if (slot) {
        item->count = slot->count;
        item->kind = slot->kind;
        return;
    }
    if (!hvd_shape_count(req->shape, req->ndim, &item->count))
        item->count = 0; /* the beginning of the fused operation reports this */
    item->kind = hvd_fusion_kind(req, item->count);
}

/* Divides the agreed tensors, described for fusion, into fused operations. n_key 0: the
 * execution plan is not cached. */
static struct hvd_exec_plan *build_exec_plan(struct hvd_set *set, int64_t fusion, uint32_t n_key)
{
    hvd_status_t st = HVD_OK;

    uint32_t n = hvd_fusion_fuse(set->own.items, set->own.n_agreed, fusion, set->own.batches);
    struct hvd_exec_plan *exec_plan = create_exec_plan(set, n, set->own.n_agreed, n_key);
    if (!exec_plan)
        return NULL;
    exec_plan->fusion = fusion;
    exec_plan->n_key = n_key;
    for (uint32_t i = 0; i < n && st == HVD_OK; i++)
        st = fill_fused_op(set, exec_plan, i, &set->own.batches[i]);
    if (st != HVD_OK) {
        hvd_exec_plan_destroy(exec_plan);
        return NULL;
    }
    return exec_plan;
}

/* Ends the tensors of an execution plan from one fused operation on, because it could not begin. */
static void fail_rest(struct hvd_engine *e, struct hvd_set *set, struct hvd_exec_plan *exec_plan,
                      uint32_t from, const char *reason)
{
    const uint32_t n = exec_plan->n_fused_ops;

    for (uint32_t i = from; i < n; i++) { /* the last iteration may free the execution plan */
        struct hvd_fused_op *f = &exec_plan->fused_ops[i];
        for (uint32_t m = 0; m < f->n_members; m++)
            if (f->members[m].entry)
                hvd_entry_finish_unlocked(e, f->members[m].entry, HVD_ERR_SHUTDOWN, reason);
        hvd_exec_plan_release(set, exec_plan);
    }
}

/* Counts an execution plan that begins. */
static void count_exec_plan(struct hvd_engine *e, const struct hvd_exec_plan *exec_plan)
{
    uint64_t n_tensors = 0;

    for (uint32_t i = 0; i < exec_plan->n_fused_ops; i++)
        n_tensors += exec_plan->fused_ops[i].n_members;
    hvd_telemetry_add(&e->own.counters.plans, 1);
    hvd_telemetry_add(&e->own.counters.flights, exec_plan->n_fused_ops);
    hvd_telemetry_add(&e->own.counters.tensors, n_tensors);
}

/* Begins all fused operations of a counted execution plan, whose members have their entries. */
static hvd_status_t begin_exec_plan(struct hvd_engine *e, struct hvd_set *set,
                                    struct hvd_exec_plan *exec_plan, struct hvd_err *err)
{
    const uint32_t n = exec_plan->n_fused_ops;
    hvd_status_t st = HVD_OK;

    exec_plan->next = set->own.exec_plans;
    set->own.exec_plans = exec_plan;
    set->own.n_exec_plans++;
    exec_plan->n_open = n;
    hvd_telemetry_fused(e->options.telemetry, n);
    for (uint32_t i = 0; i < n; i++) { /* the last iteration may free the execution plan */
        st = hvd_fused_op_begin(e, set, &exec_plan->fused_ops[i], err);
        if (st != HVD_OK) {
            fail_rest(e, set, exec_plan, i, err ? err->msg : hvd_status_str(st));
            break;
        }
    }
    return st;
}

hvd_status_t hvd_exec_plan_begin(struct hvd_engine *e, struct hvd_set *set, int64_t fusion,
                                 struct hvd_err *err)
{
    if (set->own.n_agreed == 0)
        return HVD_OK;
    for (uint32_t i = 0; i < set->own.n_agreed; i++)
        fill_item(e, set, i, NULL);
    struct hvd_exec_plan *exec_plan = build_exec_plan(set, fusion, 0);
    if (!exec_plan) {
        for (uint32_t i = 0; i < set->own.n_agreed; i++)
            if (set->own.agreed[i].entry)
                hvd_entry_finish_unlocked(e, set->own.agreed[i].entry, HVD_ERR_NOMEM,
                                          "out of memory for a plan");
        hvd_exec_plan_forget(set);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a plan");
    }
    exec_plan->key = NULL;
    hvd_exec_plan_forget(set);
    count_exec_plan(e, exec_plan);
    return begin_exec_plan(e, set, exec_plan, err);
}

/* --- Cached tensors --------------------------------------------------------------------------- */

static bool has_key(const struct hvd_exec_plan *exec_plan, const struct hvd_reader *plan)
{
    if (!exec_plan->key || exec_plan->n_key != plan->n_words || exec_plan->fusion != plan->fusion)
        return false;
    for (uint32_t i = 0; i < exec_plan->n_key; i++)
        if (exec_plan->key[i] != hvd_message_word(plan, i))
            return false;
    return true;
}

/* Returns a free execution plan for these bits and removes it from the list; NULL when there is
 * none. */
static struct hvd_exec_plan *find_exec_plan(struct hvd_set *set, const struct hvd_reader *plan)
{
    for (struct hvd_exec_plan *exec_plan = set->own.exec_plans; exec_plan;
         exec_plan = exec_plan->next) {
        if (exec_plan->n_open > 0 || !has_key(exec_plan, plan))
            continue;
        unlink_exec_plan(set, exec_plan);
        return exec_plan;
    }
    return NULL;
}

/* Slots are scattered in memory, so prefetch those that are needed soon. */
static void fetch_slot(const struct hvd_cache *cache, uint32_t index)
{
    const struct hvd_cache_slot *slot = hvd_cache_at(cache, index);

    if (slot)
        __builtin_prefetch(slot, 0);
}

/* Makes an execution plan from the bits of a plan. */
static hvd_status_t make_exec_plan(const struct hvd_engine *e, struct hvd_set *set,
                                   const struct hvd_reader *plan, struct hvd_exec_plan **out,
                                   struct hvd_err *err)
{
    hvd_exec_plan_forget(set);
    for (uint32_t w = 0; w < plan->n_words; w++) {
        for (uint64_t word = hvd_message_word(plan, w); word != 0; word &= word - 1) {
            const uint32_t index = w * 64 + (uint32_t)__builtin_ctzll(word);
            const struct hvd_cache_slot *slot = hvd_cache_at(set->locked.cache, index);
            fetch_slot(set->locked.cache, index + FETCH_AHEAD);
            if (!slot)
                return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                                "the plan has slot %u, which this rank does not know", index);
            struct hvd_agreed *a = hvd_exec_plan_agree(set);
            if (!a)
                return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a plan");
            *a = (struct hvd_agreed){
                .slot = index, .group = slot->group, .rows = slot->rows, .request = &slot->request};
            fill_item(e, set, set->own.n_agreed - 1, slot);
        }
    }
    drop_oldest(set);
    struct hvd_exec_plan *exec_plan = build_exec_plan(set, plan->fusion, plan->n_words);
    hvd_exec_plan_forget(set);
    if (!exec_plan)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a plan");
    for (uint32_t i = 0; i < plan->n_words; i++)
        exec_plan->key[i] = hvd_message_word(plan, i);
    *out = exec_plan;
    return HVD_OK;
}

/* Whether this rank may lack tensors of a plan, because it has joined. */
static bool has_joined(struct hvd_engine *e, const struct hvd_set *set)
{
    pthread_mutex_lock(&e->mu);
    const bool has = set->locked.is_join_pending;
    pthread_mutex_unlock(&e->mu);
    return has;
}

/* Gives the members the entries that wait in their slots. This needs no mu: every rank has
 * requested these slots or has joined, so no other thread changes their owners before they are
 * NULL. */
static hvd_status_t take_entries(struct hvd_engine *e, struct hvd_set *set,
                                 struct hvd_exec_plan *exec_plan, struct hvd_err *err)
{
    uint32_t missing = HVD_CACHE_NO_SLOT;

    for (uint32_t i = 0; i < exec_plan->n_fused_ops; i++) {
        struct hvd_fused_op *f = &exec_plan->fused_ops[i];
        for (uint32_t m = 0; m < f->n_members; m++) {
            const uint32_t index = f->members[m].slot;
            f->members[m].entry = hvd_cache_owner(set->locked.cache, index);
            if (f->members[m].entry)
                hvd_cache_own(set->locked.cache, index, NULL);
            else if (missing == HVD_CACHE_NO_SLOT)
                missing = index;
        }
    }
    exec_plan->is_whole = missing == HVD_CACHE_NO_SLOT;
    if (exec_plan->is_whole || has_joined(e, set))
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "the plan has tensor %s, which this rank did not submit",
                    hvd_cache_at(set->locked.cache, missing)->request.name.data);
}

hvd_status_t hvd_exec_plan_begin_bits(struct hvd_engine *e, struct hvd_set *set,
                                      const struct hvd_reader *plan, struct hvd_err *err)
{
    struct hvd_exec_plan *exec_plan = find_exec_plan(set, plan);
    const bool is_hit = exec_plan != NULL;
    hvd_status_t st = exec_plan ? HVD_OK : make_exec_plan(e, set, plan, &exec_plan, err);

    if (st != HVD_OK)
        return st;
    hvd_telemetry_add(is_hit ? &e->own.counters.plan_hits : &e->own.counters.plan_misses, 1);
    st = take_entries(e, set, exec_plan, err);
    if (st == HVD_OK)
        count_exec_plan(e, exec_plan);
    hvd_telemetry_laid_out(e->options.telemetry, is_hit);
    if (st == HVD_OK)
        hvd_op_trace_agreed(e, set, exec_plan);
    if (st == HVD_OK)
        return begin_exec_plan(e, set, exec_plan, err);
    exec_plan->n_open = exec_plan->n_fused_ops;
    exec_plan->key = NULL;
    exec_plan->next = set->own.exec_plans;
    set->own.exec_plans = exec_plan;
    set->own.n_exec_plans++;
    fail_rest(e, set, exec_plan, 0, err ? err->msg : hvd_status_str(st));
    return st;
}
