/*
 * This rank's requests to the coordinator: all submitted tensors, as bits if they are cached, else
 * by name. Runs in the progress owner.
 */
#include "worker/engine/negotiate/request_send.h"

#include "base/clock.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/membership.h"
#include "worker/engine/state/slot_trace.h"
#include "worker/engine/submit/refusal.h"

#define REQUESTS_FLUSH ((size_t)256 * 1024) /* approximate bytes of requests in a message */
#define PAUSE_NS 30000 /* TensorFlow takes 5 to 15 us from one submission to the next */

/* Whether this rank counts its own requests, without a message. */
static bool serves_itself(const struct hvd_set *set)
{
    return set->own.negotiator || set->own.aggregator;
}

/* Sends set->own.message up the tree, unless it is empty. */
static hvd_status_t send_message(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    if (set->own.message.len == 0)
        return HVD_OK;
    const hvd_status_t st =
        hvd_membership_send_up(e, set, set->own.message.data, set->own.message.len, err);
    hvd_buf_reset(&set->own.message);
    return st;
}

static hvd_status_t send_request(struct hvd_engine *e, struct hvd_set *set,
                                 const struct hvd_entry *entry, int64_t now_ns, struct hvd_err *err)
{
    const struct hvd_pos_range self = {.first = set->node.range.first, .n = 1};
    char text[HVD_TEXT_MAX + 1];
    struct hvd_merged_request merged = hvd_message_request_of(&entry->request, self.first);
    hvd_status_t st = HVD_OK;

    if (merged.request.group != 0)
        merged.request.group = entry->group_number;
    if (entry->refusal)
        merged.refusal = hvd_refusal_text(e, entry, text, sizeof(text));
    if (serves_itself(set))
        return hvd_control_own_request(e, set, &merged, now_ns, err);
    const struct hvd_by by = {.ranges = &self, .n_ranges = 1, .refusal = merged.refusal};
    if (set->own.message.len == 0)
        st = hvd_message_begin(&set->own.message, HVD_MESSAGE_REQUESTS, set->id);
    if (st == HVD_OK)
        st = hvd_message_add_request(&set->own.message, &merged.request, &by);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "requests of %zu bytes: %s", set->own.message.len,
                        hvd_status_str(st));
    return set->own.message.len >= REQUESTS_FLUSH ? send_message(e, set, err) : HVD_OK;
}

static hvd_status_t send_bits(struct hvd_engine *e, struct hvd_set *set, uint32_t n_words,
                              int64_t now_ns, struct hvd_err *err)
{
    hvd_status_t st;

    hvd_slot_trace_requested(e, set, set->own.bits, n_words);
    if (serves_itself(set)) {
        st = hvd_control_own_bits(e, set, n_words, now_ns, err);
    } else {
        st = hvd_message_bits(&set->own.message, set->id, set->own.epoch, set->own.bits, n_words);
        st = st == HVD_OK
                 ? send_message(e, set, err)
                 : HVD_FAIL(err, st, 0, "bits of %u words: %s", n_words, hvd_status_str(st));
    }
    for (uint32_t i = 0; i < n_words; i++)
        set->own.bits[i] = 0;
    return st;
}

/* Requests by name. */
static hvd_status_t request_by_name(struct hvd_engine *e, struct hvd_set *set,
                                    struct hvd_entry *first, int64_t now_ns, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (struct hvd_entry *entry = first; entry && st == HVD_OK;) {
        struct hvd_entry *next = entry->next; /* the request may finish the entry */
        if (!entry->slot)
            st = send_request(e, set, entry, now_ns, err);
        entry = next;
    }
    return st;
}

/* Requests by bits in one message, and the other tensors by name in further messages. */
static hvd_status_t send_outgoing(struct hvd_engine *e, struct hvd_set *set,
                                  struct hvd_outgoing *what, int64_t now_ns, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (struct hvd_entry *entry = what->first; entry; entry = entry->next) {
        entry->is_listed = false;
        if (!entry->slot)
            continue;
        const uint32_t word = entry->slot->index / 64;
        set->own.bits[word] |= (uint64_t)1 << (entry->slot->index % 64);
        if (word >= what->n_words)
            what->n_words = word + 1;
    }
    if (what->n_words > 0)
        st = send_bits(e, set, what->n_words, now_ns, err);
    if (st == HVD_OK)
        st = request_by_name(e, set, what->first, now_ns, err);
    return st == HVD_OK ? send_message(e, set, err) : st;
}

/* Whether submissions pause, or have come for a whole cycle. So a program that submits many tensors
 * gets one fused operation for them, and a program that submits one waits little longer. */
static bool has_gathered(struct hvd_engine *e)
{
    const unsigned long n_submitted = atomic_load(&e->n_submitted);
    const int64_t now_ns = hvd_clock_now_ns();

    if (e->own.gather_ns == 0)
        e->own.gather_ns = now_ns;
    if (n_submitted == e->own.n_gathered)
        return now_ns - e->own.pause_ns >= PAUSE_NS;
    e->own.n_gathered = n_submitted;
    e->own.pause_ns = now_ns;
    return now_ns - e->own.gather_ns >= e->options.cycle_ns;
}

bool hvd_request_send_is_due(struct hvd_engine *e)
{
    if (atomic_load(&e->n_waiters) > 0 || atomic_load(&e->is_urgent) || e->options.cycle_ns == 0)
        return true;
    if (atomic_load(&e->is_gathering)) /* without mu, which the submitting thread needs */
        return has_gathered(e) || atomic_load(&e->is_leaving);
    pthread_mutex_lock(&e->mu);
    const bool is_full = hvd_engine_is_full(e) || atomic_load(&e->is_leaving);
    const int64_t since_ns = e->locked.first_queued_ns;
    pthread_mutex_unlock(&e->mu);
    return is_full || hvd_clock_now_ns() - since_ns >= e->options.cycle_ns;
}

/* Takes the tensors that were submitted to the set. Holds mu. */
static void take_queued(struct hvd_set *set)
{
    uint64_t *bits = set->own.bits;

    set->own.outgoing = (struct hvd_outgoing){.first = set->locked.queue.first,
                                              .n_words = set->locked.n_queued_words};
    set->own.bits = set->locked.queued_bits;
    set->locked.queued_bits = bits;
    set->locked.queue = (struct hvd_entry_list){0};
    set->locked.n_queued_words = 0;
}

/* Takes the tensors that were submitted to any set. Holds mu. */
static void take_all(struct hvd_engine *e)
{
    if (atomic_load(&e->is_urgent)) /* a write costs more than a read */
        atomic_store(&e->is_urgent, false);
    if (atomic_load(&e->is_gathering))
        atomic_store(&e->is_gathering, false);
    e->own.gather_ns = 0;
    for (uint32_t i = 0; i < e->n_sets; i++)
        if (e->sets[i])
            take_queued(e->sets[i]);
    e->locked.queued_bytes = 0;
    e->own.has_taken = true;
    atomic_store_explicit(&e->n_queued, 0, memory_order_release);
}

void hvd_request_send_take(struct hvd_engine *e)
{
    if (atomic_load_explicit(&e->n_queued, memory_order_relaxed) > 0)
        take_all(e);
}

/* Whether tensors have been taken from the queues, to be requested now. Takes them if they are
 * due. */
static bool has_taken(struct hvd_engine *e)
{
    if (e->own.has_taken)
        return true;
    if (atomic_load_explicit(&e->n_queued, memory_order_acquire) == 0 ||
        !hvd_request_send_is_due(e))
        return false;
    pthread_mutex_lock(&e->mu);
    take_all(e);
    pthread_mutex_unlock(&e->mu);
    return true;
}

hvd_status_t hvd_request_send_queued(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                     struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (!has_taken(e))
        return HVD_OK;
    *progressed = true;
    e->own.has_taken = false;
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++) {
        struct hvd_set *set = e->sets[i];
        if (!set)
            continue;
        struct hvd_outgoing what = set->own.outgoing;
        set->own.outgoing = (struct hvd_outgoing){0};
        if (what.first || what.n_words > 0)
            st = send_outgoing(e, set, &what, now_ns, err);
    }
    return st;
}
