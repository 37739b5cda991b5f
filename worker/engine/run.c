/*
 * From an agreed set of tensors to fused operations: what is fused, laid out once, and used again
 * when the same bits come. The driver's.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/engine/staging.h"

#define RUNS_MAX 16                   /* cached at most */
#define ALIKE_MAX ((size_t)64 * 1024) /* bytes of a run up to which all get the same memory */
#define FETCH_AHEAD 8

struct hvd_agreed *hvd_run_agree(struct hvd_set *set)
{
    if (set->n_agreed == set->agreed_room) {
        const uint32_t room = set->agreed_room ? set->agreed_room * 2 : 16;
        struct hvd_agreed *agreed = hvd_realloc(set->agreed, room, sizeof(*agreed));
        if (agreed)
            set->agreed = agreed;
        struct hvd_fusable *items = hvd_realloc(set->items, room, sizeof(*items));
        if (items)
            set->items = items;
        struct hvd_batch *batches = hvd_realloc(set->batches, room, sizeof(*batches));
        if (batches)
            set->batches = batches;
        if (!agreed || !items || !batches)
            return NULL;
        set->agreed_room = room;
    }
    struct hvd_agreed *a = &set->agreed[set->n_agreed++];
    *a = (struct hvd_agreed){.slot = HVD_NO_SLOT};
    return a;
}

void hvd_run_forget(struct hvd_set *set)
{
    for (uint32_t i = 0; i < set->n_agreed; i++) {
        if (set->agreed[i].slot == HVD_NO_SLOT)
            hvd_free(set->agreed[i].rows);
        hvd_free(set->agreed[i].own);
    }
    set->n_agreed = 0;
}

/* Frees all that the fused operations own. */
static void empty(struct hvd_run *run)
{
    for (uint32_t i = 0; i < run->n_fused_ops; i++) {
        hvd_free(run->fused_ops[i].by_rank);
        hvd_free(run->fused_ops[i].splits);
        hvd_free(run->fused_ops[i].zeros);
        hvd_free(run->fused_ops[i].copies);
        hvd_staging_destroy(run->fused_ops[i].staging);
    }
    run->n_fused_ops = 0;
}

void hvd_run_destroy(struct hvd_run *run)
{
    if (!run)
        return;
    empty(run);
    hvd_free(run);
}

static void unlink_run(struct hvd_set *set, const struct hvd_run *run)
{
    struct hvd_run **at = &set->runs;

    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    set->n_runs--;
}

void hvd_run_release(struct hvd_set *set, struct hvd_run *run)
{
    if (--run->n_open > 0 || run->key)
        return;
    unlink_run(set, run);
    hvd_run_destroy(run);
}

void hvd_run_invalidate(struct hvd_set *set)
{
    for (struct hvd_run **at = &set->runs; *at;) {
        struct hvd_run *run = *at;
        run->key = NULL; /* when the last fused operation is done it goes */
        if (run->n_open > 0) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        set->n_runs--;
        hvd_run_destroy(run);
    }
}

/* Makes room for one more cached run: the one that was used least recently goes, its memory is kept
 * for the next one. */
static void drop_oldest(struct hvd_set *set)
{
    struct hvd_run *oldest = NULL;

    for (struct hvd_run *run = set->runs; run; run = run->next)
        if (run->key && run->n_open == 0)
            oldest = run;
    if (set->n_runs < RUNS_MAX || !oldest)
        return;
    unlink_run(set, oldest);
    empty(oldest);
    hvd_free(set->spare);
    set->spare = oldest;
}

/* Memory for a run, not initialised. */
static struct hvd_run *take_block(struct hvd_set *set, size_t bytes)
{
    struct hvd_run *run = set->spare;

    set->spare = NULL;
    if (!run || run->room < bytes) {
        hvd_free(run);
        run = hvd_malloc(bytes, 1);
        if (run)
            run->room = bytes;
    }
    return run;
}

/* Bytes of a run with that many of each. */
static size_t run_bytes(size_t n_fused_ops, size_t n_members, size_t n_key)
{
    return (sizeof(struct hvd_run) + 15) / 16 * 16 + n_fused_ops * sizeof(struct hvd_fused_op) +
           n_members *
               (sizeof(struct hvd_member) + sizeof(struct hvd_piece) + 2 * sizeof(struct hvd_use)) +
           n_key * sizeof(uint64_t);
}

/* How much memory to take for a run. Which tensors are agreed together depends on who is early: a
 * run that is cached gets room for any of them, so that it can be the next one, whatever that is.
 */
static size_t room_of_run(const struct hvd_set *set, size_t bytes, uint32_t n_key)
{
    const size_t n = n_key > 0 ? hvd_cache_end(set->cache) : 0;
    const size_t any = run_bytes(n, n, n_key);

    return any > bytes && any <= ALIKE_MAX ? any : bytes;
}

/* One block: run, fused operations, and what is not initialised: members, pieces, uses, key. */
static struct hvd_run *create_run(struct hvd_set *set, uint32_t n_fused_ops, uint32_t n_members,
                                  uint32_t n_key)
{
    const size_t fused_ops_at = (sizeof(struct hvd_run) + 15) / 16 * 16;
    const size_t members_at = fused_ops_at + n_fused_ops * sizeof(struct hvd_fused_op);
    const size_t pieces_at = members_at + n_members * sizeof(struct hvd_member);
    const size_t uses_at = pieces_at + n_members * sizeof(struct hvd_piece);
    const size_t key_at = uses_at + 2 * n_members * sizeof(struct hvd_use);
    const size_t bytes = run_bytes(n_fused_ops, n_members, n_key);
    struct hvd_run *run = take_block(set, room_of_run(set, bytes, n_key));
    char *block = (char *)run;

    if (!run)
        return NULL;
    const size_t room = run->room;
    memset(block, 0, members_at);
    run->room = room;
    run->fused_ops = (struct hvd_fused_op *)(void *)(block + fused_ops_at);
    run->n_fused_ops = n_fused_ops;
    run->fused_ops[0].members = (struct hvd_member *)(void *)(block + members_at);
    run->fused_ops[0].pieces = (struct hvd_piece *)(void *)(block + pieces_at);
    run->fused_ops[0].uses = (struct hvd_use *)(void *)(block + uses_at);
    run->key = (uint64_t *)(void *)(block + key_at);
    return run;
}

/* What a fused operation needs to know of every rank. */
static hvd_status_t fill_by_rank(struct hvd_set *set, struct hvd_fused_op *f,
                                 const struct hvd_agreed *a)
{
    const size_t n = (size_t)set->place.size;

    if (f->request.op != HVD_ALLGATHER && f->request.op != HVD_REDUCESCATTER)
        return HVD_OK;
    f->by_rank = hvd_calloc(n, sizeof(*f->by_rank));
    if (!f->by_rank)
        return HVD_ERR_NOMEM;
    if (f->request.op == HVD_ALLGATHER && a->rows)
        memcpy(f->by_rank, a->rows, n * sizeof(*f->by_rank));
    return HVD_OK;
}

/* Fills a fused operation from a batch; members and pieces are the next free ones of the run. */
static hvd_status_t fill_fused_op(struct hvd_set *set, struct hvd_run *run, uint32_t index,
                                  const struct hvd_batch *batch)
{
    struct hvd_fused_op *f = &run->fused_ops[index];
    uint32_t n = 0;

    f->run = run;
    f->n_members = batch->n;
    f->request = *set->agreed[batch->first].request;
    f->work.count = 0;
    for (uint32_t i = batch->first; i != HVD_FUSION_END; i = set->items[i].next) {
        f->members[n++] = (struct hvd_member){.entry = set->agreed[i].entry,
                                              .slot = set->agreed[i].slot,
                                              .count = set->items[i].count};
        f->work.count += set->items[i].count;
    }
    if (index + 1 < run->n_fused_ops) {
        run->fused_ops[index + 1].members = f->members + n;
        run->fused_ops[index + 1].pieces = f->pieces + n;
        run->fused_ops[index + 1].uses = f->uses + (size_t)2 * n;
    }
    if (n == 1)
        f->pieces = NULL;
    return fill_by_rank(set, f, &set->agreed[batch->first]);
}

/* Describes an agreed tensor for fusion. kind: where it is known already. */
static void fill_item(const struct hvd_engine *e, struct hvd_set *set, uint32_t i,
                      const struct hvd_slot *slot)
{
    const struct hvd_request *req = set->agreed[i].request;
    struct hvd_fusable *item = &set->items[i];

    item->request = req;
    item->group = e->options.keeps_groups_apart ? set->agreed[i].group : 0;
    if (slot) {
        item->count = slot->count;
        item->kind = slot->kind;
        return;
    }
    if (!hvd_shape_count(req->shape, req->ndim, &item->count))
        item->count = 0; /* found out when the fused operation begins */
    item->kind = hvd_fusion_kind(req, item->count);
}

/* The agreed tensors, described for fusion, as fused operations. n_key 0: not cached. */
static struct hvd_run *build_run(struct hvd_set *set, int64_t fusion, uint32_t n_key)
{
    hvd_status_t st = HVD_OK;

    uint32_t n = hvd_fuse(set->items, set->n_agreed, fusion, set->batches);
    struct hvd_run *run = create_run(set, n, set->n_agreed, n_key);
    if (!run)
        return NULL;
    run->fusion = fusion;
    run->n_key = n_key;
    for (uint32_t i = 0; i < n && st == HVD_OK; i++)
        st = fill_fused_op(set, run, i, &set->batches[i]);
    if (st != HVD_OK) {
        hvd_run_destroy(run);
        return NULL;
    }
    return run;
}

/* The rest of a run that cannot begin: its tensors end with the reason. */
static void fail_rest(struct hvd_engine *e, struct hvd_set *set, struct hvd_run *run, uint32_t from,
                      const char *reason)
{
    const uint32_t n = run->n_fused_ops;

    for (uint32_t i = from; i < n; i++) { /* the last one may free the run */
        struct hvd_fused_op *f = &run->fused_ops[i];
        for (uint32_t m = 0; m < f->n_members; m++)
            if (f->members[m].entry)
                hvd_entry_finish_unlocked(e, f->members[m].entry, HVD_ERR_SHUTDOWN, reason);
        hvd_run_release(set, run);
    }
}

/* Counts a run that begins. */
static void count_run(struct hvd_engine *e, const struct hvd_run *run)
{
    uint64_t n_tensors = 0;

    for (uint32_t i = 0; i < run->n_fused_ops; i++)
        n_tensors += run->fused_ops[i].n_members;
    hvd_telemetry_add(&e->counters.plans, 1);
    hvd_telemetry_add(&e->counters.flights, run->n_fused_ops);
    hvd_telemetry_add(&e->counters.tensors, n_tensors);
}

/* Begins all fused operations of a run whose members have their entries and which is counted. */
static hvd_status_t begin_run(struct hvd_engine *e, struct hvd_set *set, struct hvd_run *run,
                              struct hvd_err *err)
{
    const uint32_t n = run->n_fused_ops;
    hvd_status_t st = HVD_OK;

    run->next = set->runs;
    set->runs = run;
    set->n_runs++;
    run->n_open = n;
    hvd_telemetry_run(e->options.telemetry, n);
    for (uint32_t i = 0; i < n; i++) { /* the last one may free the run */
        st = hvd_fused_op_begin(e, set, &run->fused_ops[i], err);
        if (st != HVD_OK) {
            fail_rest(e, set, run, i, err ? err->msg : hvd_status_str(st));
            break;
        }
    }
    return st;
}

hvd_status_t hvd_run_agreed(struct hvd_engine *e, struct hvd_set *set, int64_t fusion,
                            struct hvd_err *err)
{
    if (set->n_agreed == 0)
        return HVD_OK;
    for (uint32_t i = 0; i < set->n_agreed; i++)
        fill_item(e, set, i, NULL);
    struct hvd_run *run = build_run(set, fusion, 0);
    if (!run) {
        for (uint32_t i = 0; i < set->n_agreed; i++)
            if (set->agreed[i].entry)
                hvd_entry_finish_unlocked(e, set->agreed[i].entry, HVD_ERR_NOMEM,
                                          "out of memory for a plan");
        hvd_run_forget(set);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a plan");
    }
    run->key = NULL;
    hvd_run_forget(set);
    count_run(e, run);
    return begin_run(e, set, run, err);
}

/* --- Cached tensors --------------------------------------------------------------------------- */

static bool has_key(const struct hvd_run *run, const struct hvd_reader *plan)
{
    if (!run->key || run->n_key != plan->n_words || run->fusion != plan->fusion)
        return false;
    for (uint32_t i = 0; i < run->n_key; i++)
        if (run->key[i] != hvd_reader_word(plan, i))
            return false;
    return true;
}

/* The run of these bits, taken out of the list; NULL when there is none that is free. */
static struct hvd_run *find_run(struct hvd_set *set, const struct hvd_reader *plan)
{
    for (struct hvd_run *run = set->runs; run; run = run->next) {
        if (run->n_open > 0 || !has_key(run, plan))
            continue;
        unlink_run(set, run);
        return run;
    }
    return NULL;
}

/* Slots lie anywhere: what is needed soon is on its way into the cache by then. */
static void fetch_slot(const struct hvd_cache *cache, uint32_t index)
{
    const struct hvd_slot *slot = hvd_cache_at(cache, index);

    if (slot)
        __builtin_prefetch(slot, 0);
}

/* Lays the bits out. */
static hvd_status_t make_run(const struct hvd_engine *e, struct hvd_set *set,
                             const struct hvd_reader *plan, struct hvd_run **out,
                             struct hvd_err *err)
{
    hvd_run_forget(set);
    for (uint32_t w = 0; w < plan->n_words; w++) {
        for (uint64_t word = hvd_reader_word(plan, w); word != 0; word &= word - 1) {
            const uint32_t index = w * 64 + (uint32_t)__builtin_ctzll(word);
            const struct hvd_slot *slot = hvd_cache_at(set->cache, index);
            fetch_slot(set->cache, index + FETCH_AHEAD);
            if (!slot)
                return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                                "the plan has slot %u, which this rank does not know", index);
            struct hvd_agreed *a = hvd_run_agree(set);
            if (!a)
                return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a plan");
            *a = (struct hvd_agreed){
                .slot = index, .group = slot->group, .rows = slot->rows, .request = &slot->request};
            fill_item(e, set, set->n_agreed - 1, slot);
        }
    }
    drop_oldest(set);
    struct hvd_run *run = build_run(set, plan->fusion, plan->n_words);
    hvd_run_forget(set);
    if (!run)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a plan");
    for (uint32_t i = 0; i < plan->n_words; i++)
        run->key[i] = hvd_reader_word(plan, i);
    *out = run;
    return HVD_OK;
}

/* Whether this rank may have no tensor in a slot of a plan. */
static bool has_joined(struct hvd_engine *e, const struct hvd_set *set)
{
    pthread_mutex_lock(&e->mu);
    const bool has = set->is_join_pending;
    pthread_mutex_unlock(&e->mu);
    return has;
}

/* Gives the members the entries that wait in their slots. That takes no mu: every rank has asked
 * for these slots, or has joined, so nobody else touches their owners before they are NULL. */
static hvd_status_t take_entries(struct hvd_engine *e, struct hvd_set *set, struct hvd_run *run,
                                 struct hvd_err *err)
{
    uint32_t missing = HVD_NO_SLOT;

    for (uint32_t i = 0; i < run->n_fused_ops; i++) {
        struct hvd_fused_op *f = &run->fused_ops[i];
        for (uint32_t m = 0; m < f->n_members; m++) {
            const uint32_t index = f->members[m].slot;
            f->members[m].entry = hvd_cache_owner(set->cache, index);
            if (f->members[m].entry)
                hvd_cache_own(set->cache, index, NULL);
            else if (missing == HVD_NO_SLOT)
                missing = index;
        }
    }
    run->is_whole = missing == HVD_NO_SLOT;
    if (run->is_whole || has_joined(e, set))
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "the plan has tensor %s, which this rank did not submit",
                    hvd_cache_at(set->cache, missing)->request.name.data);
}

hvd_status_t hvd_run_bits(struct hvd_engine *e, struct hvd_set *set, const struct hvd_reader *plan,
                          struct hvd_err *err)
{
    struct hvd_run *run = find_run(set, plan);
    const bool is_hit = run != NULL;
    hvd_status_t st = run ? HVD_OK : make_run(e, set, plan, &run, err);

    if (st != HVD_OK)
        return st;
    hvd_telemetry_add(is_hit ? &e->counters.plan_hits : &e->counters.plan_misses, 1);
    st = take_entries(e, set, run, err);
    if (st == HVD_OK)
        count_run(e, run);
    hvd_telemetry_laid_out(e->options.telemetry, is_hit);
    if (st == HVD_OK)
        hvd_tell_agreed(e, set, run);
    if (st == HVD_OK)
        return begin_run(e, set, run, err);
    run->n_open = run->n_fused_ops;
    run->key = NULL;
    run->next = set->runs;
    set->runs = run;
    set->n_runs++;
    fail_rest(e, set, run, 0, err ? err->msg : hvd_status_str(st));
    return st;
}
