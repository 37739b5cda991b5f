/*
 * Accepts tensors, from any thread, under mu. A cached tensor is requested by a bit, and its entry
 * is ready in its slot. Programs submit the same tensors in a similar order each time. So each slot
 * records its last follower, and the next tensor is expected and only has to be compared.
 */
#include "worker/engine/engine.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "worker/core/group_name.h"
#include "worker/engine/state/end_cause.h"
#include "worker/engine/state/wake.h"
#include "worker/engine/submit/join.h"
#include "worker/engine/submit/refusal.h"

#define HVD_DUPLICATE_NAME                                                                         \
    "Requested to allreduce, allgather, or broadcast a tensor with the same name as another "      \
    "tensor that is currently being processed.  If you want to request another tensor, use a "     \
    "different tensor name."

static hvd_status_t refuse(const struct hvd_engine *e, const struct hvd_set *set,
                           const struct hvd_submission *s, struct hvd_err *err)
{
    struct hvd_err reported = {0};

    if (e->locked.is_ended || atomic_load(&e->is_leaving)) {
        (void)HVD_FAIL(&reported, HVD_ERR_SHUTDOWN, 0, "%s (tensor %.*s)",
                       e->locked.cause ? e->locked.cause : "Horovod has been shut down.",
                       s->request.name.len > 200 ? 200 : (int)s->request.name.len,
                       s->request.name.data);
        hvd_end_cause_note(reported.msg);
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "%s", reported.msg);
    }
    if (s->set < e->n_sets && e->locked.infos[s->set].is_removed)
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "Process set has been removed");
    if (!set)
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                        "%s: Process set provided does not exist, or has not been registered.",
                        hvd_op_name((int)s->request.op));
    if (set->locked.is_ended)
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "%s",
                        e->locked.cause ? e->locked.cause : "Horovod has been shut down.");
    if (s->is_waited_now && !hvd_wake_may_own(e)) {
        hvd_wake_refuse(s->request.name, err);
        return HVD_ERR_STATE;
    }
    if (s->request.device != HVD_CPU && !hvd_engine_device(e))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "the tensor is on a device, and this rank has none");
    if (set->locked.is_join_pending || e->sets[0]->locked.is_join_pending)
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "this rank has joined: nothing can be submitted until every rank has");
    return HVD_OK;
}

/* Returns the slot if it is for exactly this tensor, in a group of that size; else NULL. */
static struct hvd_cache_slot *matching_slot(struct hvd_cache_slot *slot,
                                            const struct hvd_request *req)
{
    if (!slot || !hvd_request_equal(&slot->request, req) || slot->group_size != req->group_size ||
        !hvd_strview_same(slot->request.name, req->name))
        return NULL;
    return slot;
}

/* Returns the slot that is expected next, which is a guess; NULL when there is none. Holds mu. */
static struct hvd_cache_slot *expected_slot(const struct hvd_set *set)
{
    const struct hvd_cache_slot *last = hvd_cache_at(set->locked.cache, set->locked.last);

    return last ? hvd_cache_at(set->locked.cache, last->follower) : NULL;
}

/* Records that the slot was submitted after the last one. Holds mu. */
static void learn_order(struct hvd_set *set, const struct hvd_cache_slot *slot)
{
    struct hvd_cache_slot *last = hvd_cache_at(set->locked.cache, set->locked.last);

    if (last && last->follower != slot->index)
        last->follower = slot->index;
    set->locked.last = slot->index;
}

/* Accepts a tensor whose name was refused before. It is requested once that is answered, so that
 * each submission here corresponds to one of the other ranks. Holds mu. */
static hvd_status_t accept_behind(struct hvd_engine *e, const struct hvd_submission *s,
                                  struct hvd_entry *refused, struct hvd_entry **out,
                                  struct hvd_err *err)
{
    struct hvd_entry *entry = hvd_entry_create(e, s, NULL);

    if (!entry)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor");
    if (!hvd_refusal_follow(refused, entry)) {
        bool is_transient = false;
        (void)hvd_handles_end(entry, entry->handle, &is_transient);
        hvd_entry_recycle(e, entry, is_transient);
        return HVD_FAIL(err, HVD_ERR_EXISTS, 0, HVD_DUPLICATE_NAME);
    }
    *out = entry;
    return HVD_OK;
}

/* Accepts one tensor, by its slot if it has one. Holds mu. */
static hvd_status_t accept(struct hvd_engine *e, const struct hvd_submission *s,
                           struct hvd_entry **out, struct hvd_err *err)
{
    struct hvd_set *set = hvd_set_find(e, s->set);
    hvd_status_t st = refuse(e, set, s, err);

    if (st != HVD_OK)
        return st;
    struct hvd_entry *refused =
        set->locked.n_refusals ? hvd_refusal_find(set, s->request.name) : NULL;
    if (refused)
        return accept_behind(e, s, refused, out, err);
    struct hvd_cache_slot *slot = hvd_cache_find(set->locked.cache, s->request.name);
    struct hvd_cache_slot *match = matching_slot(slot, &s->request);
    if ((slot && hvd_cache_owner(set->locked.cache, slot->index)) ||
        (match && hvd_table_find(set->locked.table, s->request.name)))
        return HVD_FAIL(err, HVD_ERR_EXISTS, 0, HVD_DUPLICATE_NAME);
    struct hvd_entry *entry = hvd_entry_create(e, s, match);
    if (!entry)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor");
    if (match) {
        entry->slot = match;
        entry->index = match->index;
        hvd_cache_own(set->locked.cache, match->index, entry);
    } else {
        st = hvd_table_add(set->locked.table, entry->request.name, entry, err);
    }
    if (st != HVD_OK) {
        hvd_entry_recycle(e, entry, true);
        return st;
    }
    *out = entry;
    return HVD_OK;
}

/* Reverts accept. Holds mu. */
static void take_back(struct hvd_engine *e, struct hvd_entry *entry)
{
    bool is_transient = false;

    if (entry->slot)
        hvd_cache_own(entry->set->locked.cache, entry->slot->index, NULL);
    else if (entry->is_behind)
        hvd_refusal_unfollow(entry);
    else
        hvd_table_take(entry->set->locked.table, entry->request.name);
    (void)hvd_handles_end(entry, entry->handle, &is_transient);
    hvd_entry_recycle(e, entry, is_transient);
}

/* Counts another queued tensor of that many bytes. A tensor whose thread waits at once is due,
 * so it needs no reading of the clock. After one with a completion, no wait follows by which the
 * engine would learn that it is due: the tensors are due at the first pause. Holds mu. */
static void count_queued(struct hvd_engine *e, const struct hvd_entry *entry, int64_t bytes,
                         bool is_waited_now)
{
    e->locked.queued_bytes += bytes;
    if (atomic_load_explicit(&e->n_queued, memory_order_relaxed) == 0) {
        e->locked.first_queued_ns = is_waited_now ? 0 : hvd_clock_now_ns();
        e->locked.is_new_batch = true;
    }
    if (entry->has_completion && !atomic_load_explicit(&e->is_gathering, memory_order_relaxed))
        atomic_store(&e->is_gathering, true);
    hvd_add(&e->n_outstanding, 1);
    hvd_add(&e->n_submitted, 1);
    hvd_add(&e->n_queued, 1);
}

/* Queues the slot to be requested by its bit. Holds mu. */
static void queue_bit(struct hvd_set *set, const struct hvd_cache_slot *slot)
{
    const uint32_t word = slot->index / 64;

    set->locked.queued_bits[word] |= (uint64_t)1 << (slot->index % 64);
    if (word >= set->locked.n_queued_words)
        set->locked.n_queued_words = word + 1;
}

/* Queues an accepted tensor. Holds mu. */
static void enqueue(struct hvd_engine *e, struct hvd_entry *entry, bool is_waited_now)
{
    const struct hvd_cache_slot *bit = entry->slot;
    const size_t width = hvd_dtype_size((int)entry->request.dtype);

    if (!hvd_shape_count(entry->request.shape, entry->request.ndim, &entry->count))
        entry->count = 0; /* the movement of the tensor reports this */
    if (entry->is_behind) {
        hvd_add(&e->n_outstanding, 1);
        hvd_add(&e->n_submitted, 1);
    } else {
        count_queued(e, entry, entry->count * (int64_t)width, is_waited_now);
    }
    hvd_telemetry_submitted(hvd_entry_telemetry(e, entry), (uint64_t)entry->handle, &entry->request,
                            bit != NULL);
    if (entry->request.op == HVD_JOIN)
        entry->set->locked.is_join_pending = true;
    if (entry->slot)
        learn_order(entry->set, entry->slot);
    if (entry->is_behind)
        return;
    if (bit) {
        queue_bit(entry->set, bit);
        return;
    }
    entry->is_listed = true;
    hvd_entry_list_add(&entry->set->locked.queue, entry);
}

/* Wakes the thread that must process the submission, unless it will look soon anyway. Holds mu. */
static void call_progress_owner(struct hvd_engine *e, bool is_waited_now)
{
    const bool is_due = hvd_engine_is_full(e) || atomic_load(&e->is_urgent) ||
                        atomic_load_explicit(&e->is_gathering, memory_order_relaxed);

    /* A progress owner that sleeps in the transport must learn when the new batch is due. */
    const bool must_receive = is_due || (e->locked.is_asleep && e->locked.is_new_batch) ||
                              atomic_load(&e->n_waiters) > 0 || e->options.cycle_ns == 0;

    e->locked.is_new_batch = false;
    if (e->locked.has_progress_owner ? must_receive
                                     : (!is_waited_now && (e->locked.is_deep || is_due)))
        hvd_wake_owner(e);
}

/* --- Expected tensors ------------------------------------------------------------------------- */

/* Whether input and output are memory that an allreduce of so many bytes may use. */
static bool is_memory_good(const void *input, const void *output, size_t bytes)
{
    const uintptr_t from = (uintptr_t)input;
    const uintptr_t to = (uintptr_t)output;

    return input && output && (from == to || (from < to ? to - from : from - to) >= bytes);
}

/* Whether the description matches the slot's request, which is a legal one. */
static bool is_described(const struct hvd_cache_slot *slot, const struct hvd_described *d)
{
    const struct hvd_request *req = &slot->request;

    if (req->op != d->op || (int)req->dtype != d->dtype || (int)req->reduce != d->reduce ||
        req->device != d->device || req->ndim != d->ndim || slot->group_size != d->group_size ||
        !hvd_factor_equal(req->prescale, d->prescale) ||
        !hvd_factor_equal(req->postscale, d->postscale))
        return false;
    for (int i = 0; i < req->ndim; i++)
        if (req->shape[i] != d->shape[i])
            return false;
    return strcmp(req->name.data, d->name) == 0;
}

/* Prefetches the data for the tensor after this one. Holds mu. */
static void fetch_ahead(const struct hvd_set *set, const struct hvd_cache_slot *slot)
{
    const struct hvd_cache_slot *next = hvd_cache_at(set->locked.cache, slot->follower);

    if (!next)
        return;
    __builtin_prefetch(next, 1);
    __builtin_prefetch(&next->request.shape, 0);
    __builtin_prefetch(next + 1, 0); /* the name */
}

/* Whether the set accepts expected tensors. Holds mu. */
static bool is_open(struct hvd_engine *e, const struct hvd_set *set, bool is_waited_now)
{
    return set && !set->locked.is_ended && !set->locked.is_join_pending &&
           !e->sets[0]->locked.is_join_pending && set->locked.n_refusals == 0 &&
           !e->locked.is_ended && !atomic_load(&e->is_leaving) &&
           !e->locked.infos[set->id].is_removed && (!is_waited_now || hvd_wake_may_own(e));
}

/* Whether the description is for the slot (which may be NULL) and the slot's entry is idle.
 * Holds mu. */
static bool is_expected(const struct hvd_set *set, const struct hvd_cache_slot *slot,
                        const struct hvd_described *d)
{
    if (!slot || !is_described(slot, d) || hvd_cache_owner(set->locked.cache, slot->index))
        return false;
    const struct hvd_entry *slot_entry = slot->slot_entry;
    const size_t bytes = (size_t)slot->count * hvd_dtype_size(d->dtype);
    return slot_entry && bytes > 0 && is_memory_good(d->input, d->output, bytes) &&
           atomic_load_explicit(&slot_entry->claim, memory_order_acquire) == 0;
}

/* Returns the program's handle of a submitted entry. An entry with a completion gets none: no
 * thread waits for it, and it may end as soon as mu is free. Holds mu. */
static int64_t handle_of(const struct hvd_entry *entry)
{
    return entry->has_completion ? 0 : entry->handle;
}

/* Submits the slot's tensor and returns its handle. Holds mu. */
static int64_t take_expected(struct hvd_engine *e, struct hvd_set *set, struct hvd_cache_slot *slot,
                             const struct hvd_described *d)
{
    struct hvd_entry *entry = slot->slot_entry;

    fetch_ahead(set, slot);
    entry->input = d->input;
    entry->data = d->output;
    entry->ready = hvd_device_event_retain(d->ready);
    entry->slot = slot;
    entry->has_completion = d->completion && d->completion->call;
    if (d->completion)
        entry->completion = *d->completion;
    hvd_handles_renew(entry);
    hvd_cache_own(set->locked.cache, slot->index, entry);
    count_queued(e, entry, slot->count * (int64_t)hvd_dtype_size(d->dtype), d->is_waited_now);
    hvd_telemetry_submitted(e->options.telemetry, (uint64_t)entry->handle, &entry->request, true);
    queue_bit(set, slot);
    learn_order(set, slot);
    return handle_of(entry);
}

bool hvd_engine_submit_expected(struct hvd_engine *e, const struct hvd_described *d,
                                int64_t *handle)
{
    pthread_mutex_lock(&e->mu);
    struct hvd_set *set = hvd_set_find(e, d->set);
    struct hvd_cache_slot *slot = is_open(e, set, d->is_waited_now) ? expected_slot(set) : NULL;
    const bool is_taken = is_expected(set, slot, d);
    if (is_taken) {
        *handle = take_expected(e, set, slot, d);
        call_progress_owner(e, d->is_waited_now);
    }
    pthread_mutex_unlock(&e->mu);
    return is_taken;
}

/* Whether the chain of followers from this slot on is one group with the n described tensors,
 * beginning with d[first]. Holds mu. */
static bool is_expected_group(const struct hvd_set *set, const struct hvd_cache_slot *slot,
                              const struct hvd_described *d, uint32_t n, uint32_t first)
{
    const uint32_t group = slot ? slot->group : 0;

    for (uint32_t k = 0; k < n; k++) {
        if (!is_expected(set, slot, &d[(first + k) % n]) || slot->group != group)
            return false;
        slot = hvd_cache_at(set->locked.cache, slot->follower);
    }
    return true;
}

bool hvd_engine_submit_expected_group(struct hvd_engine *e, const struct hvd_described *d,
                                      uint32_t n, int64_t *handles)
{
    pthread_mutex_lock(&e->mu);
    struct hvd_set *set = hvd_set_find(e, d[0].set);
    struct hvd_cache_slot *slot = is_open(e, set, d[0].is_waited_now) ? expected_slot(set) : NULL;
    /* A head is submitted last (enqueue_group), so the chain may begin with the second tensor. */
    const uint32_t first = slot && is_expected(set, slot, &d[0]) ? 0 : 1;
    const bool is_taken = is_expected_group(set, slot, d, n, first);
    for (uint32_t k = 0; is_taken && slot && k < n; k++) {
        const uint32_t i = (first + k) % n;
        struct hvd_cache_slot *next = hvd_cache_at(set->locked.cache, slot->follower);
        handles[i] = take_expected(e, set, slot, &d[i]);
        slot = next;
    }
    if (is_taken)
        call_progress_owner(e, d[0].is_waited_now);
    pthread_mutex_unlock(&e->mu);
    return is_taken;
}

/* --- All tensors ------------------------------------------------------------------------------ */

hvd_status_t hvd_engine_submit(struct hvd_engine *e, const struct hvd_submission *submission,
                               int64_t *handle, struct hvd_err *err)
{
    struct hvd_entry *entry = NULL;

    pthread_mutex_lock(&e->mu);
    hvd_status_t st = accept(e, submission, &entry, err);
    if (st == HVD_OK && submission->request.op == HVD_JOIN && hvd_join_begin(e, entry) != HVD_OK) {
        take_back(e, entry);
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a join");
    }
    if (st == HVD_OK) {
        *handle = handle_of(entry);
        enqueue(e, entry, submission->is_waited_now);
        call_progress_owner(e, submission->is_waited_now);
    }
    pthread_mutex_unlock(&e->mu);
    return st;
}

/* Whether the tensors are exactly a cached group; otherwise they cannot be requested by bits. */
static bool is_cached_group(struct hvd_entry *const *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!entries[i]->slot || entries[i]->slot->group != entries[0]->slot->group)
            return false;
    return true;
}

/* Makes all tensors of a group be requested by name. Holds mu. */
static hvd_status_t move_to_table(struct hvd_entry *const *entries, uint32_t n, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (uint32_t i = 0; i < n && st == HVD_OK; i++) {
        struct hvd_entry *entry = entries[i];
        if (!entry->slot)
            continue;
        st = hvd_table_add(entry->set->locked.table, entry->request.name, entry, err);
        if (st == HVD_OK) {
            hvd_cache_own(entry->set->locked.cache, entry->slot->index, NULL);
            entry->slot = NULL;
        }
    }
    return st;
}

/* Gives the tensors of a group its number, which is the same on all ranks. They keep it while
 * they are cached as this group, whose size is part of the number. Holds mu. */
static void number_group(struct hvd_entry *const *entries, uint32_t n)
{
    uint64_t sum = 0;
    bool is_numbered = true;

    for (uint32_t i = 0; i < n && is_numbered; i++)
        is_numbered = entries[i]->slot && entries[i]->numbered_size == n;
    if (is_numbered)
        return;
    for (uint32_t i = 0; i < n; i++)
        sum = hvd_group_add(sum, entries[i]->request.name);
    for (uint32_t i = 0; i < n; i++) {
        entries[i]->group_number = hvd_group_number(sum, n);
        entries[i]->numbered_size = n;
    }
}

/* Accepts all tensors of a group, or none. Holds mu. */
static hvd_status_t accept_group(struct hvd_engine *e, const struct hvd_submission *submissions,
                                 uint32_t n, struct hvd_entry **entries, struct hvd_err *err)
{
    const uint32_t group = e->locked.last_group == UINT32_MAX ? 1 : e->locked.last_group + 1;
    hvd_status_t st = HVD_OK;
    uint32_t n_accepted = 0;

    for (; n_accepted < n && st == HVD_OK; n_accepted += st == HVD_OK) {
        struct hvd_submission s = submissions[n_accepted];
        s.request.group = n > 1 ? group : 0;
        s.request.group_size = n > 1 ? n : 0;
        st = accept(e, &s, &entries[n_accepted], err);
    }
    if (st == HVD_OK && n > 1 && !is_cached_group(entries, n))
        st = move_to_table(entries, n, err);
    if (st != HVD_OK) {
        while (n_accepted > 0)
            take_back(e, entries[--n_accepted]);
        return st;
    }
    if (n > 1)
        number_group(entries, n);
    e->locked.last_group = group;
    return HVD_OK;
}

/* Queues a group, with its head last: a node that has the request for the head then has those
 * for all. Holds mu. */
static void enqueue_group(struct hvd_engine *e, struct hvd_entry *const *entries, uint32_t n,
                          bool is_waited_now)
{
    uint32_t head = n;

    for (uint32_t i = 0; i < n; i++) {
        if (head == n && hvd_group_name_is_head(entries[i]->request.name))
            head = i;
        else
            enqueue(e, entries[i], is_waited_now);
    }
    if (head < n)
        enqueue(e, entries[head], is_waited_now);
}

hvd_status_t hvd_engine_submit_group(struct hvd_engine *e, const struct hvd_submission *submissions,
                                     uint32_t n, int64_t *handles, struct hvd_err *err)
{
    struct hvd_entry **entries = hvd_calloc(n, sizeof(struct hvd_entry *));

    if (!entries)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a group of %u tensors", n);
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = accept_group(e, submissions, n, entries, err);
    if (st == HVD_OK)
        enqueue_group(e, entries, n, submissions[0].is_waited_now);
    for (uint32_t i = 0; i < n && st == HVD_OK; i++)
        handles[i] = handle_of(entries[i]);
    if (st == HVD_OK && n > 0)
        call_progress_owner(e, submissions[0].is_waited_now);
    pthread_mutex_unlock(&e->mu);
    hvd_free(entries);
    return st;
}
