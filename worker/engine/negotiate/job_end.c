/*
 * The ends of a job. An orderly shutdown (SHUTDOWN step) ends the tensors that are not agreed yet
 * and lets the agreed ones finish. After a failure (ABORT step, or an error here) the job ends
 * without waiting for anything. Runs in the progress owner.
 */
#include "worker/engine/negotiate/job_end.h"

#include <stdio.h>
#include <string.h>

#include "base/cause.h"
#include "base/mem.h"
#include "base/rank_state.h"
#include "base/str.h"
#include "worker/engine/execute/fused_op.h"
#include "worker/engine/execute/staging.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/membership.h"
#include "worker/engine/state/end_cause.h"
#include "worker/engine/submit/join.h"
#include "worker/engine/submit/refusal.h"

#define SHUT_DOWN "Horovod has been shut down. "

/* Ends the tensors that wait in slots. Holds mu. */
static void end_slots(struct hvd_engine *e, struct hvd_set *set, const char *text)
{
    const uint32_t end = hvd_cache_end(set->locked.cache);

    for (uint32_t i = 0; i < end; i++) {
        struct hvd_entry *entry = hvd_cache_owner(set->locked.cache, i);
        if (!entry)
            continue;
        hvd_entry_finish(e, entry, HVD_ERR_SHUTDOWN, text);
        hvd_cache_own(set->locked.cache, i, NULL);
    }
}

/* Whether this rank has pending tensors that are not agreed. Agreed ones end by themselves.
 * Holds mu. */
static bool has_pending(const struct hvd_set *set)
{
    const uint32_t end = hvd_cache_end(set->locked.cache);
    bool has =
        set->locked.is_join_pending || hvd_table_count(set->locked.table) > set->locked.n_refusals;

    for (uint32_t i = 0; i < end && !has; i++)
        has = hvd_cache_owner(set->locked.cache, i) != NULL;
    return has;
}

/* Reports once to telemetry why the job cannot continue. */
static void report_failure(struct hvd_engine *e, const char *cause)
{
    if (!e->own.has_reported_failure)
        hvd_telemetry_failed(e->options.telemetry, cause);
    e->own.has_reported_failure = true;
}

void hvd_job_end_set(struct hvd_engine *e, struct hvd_set *set, const char *text)
{
    struct hvd_entry *entry;

    const bool ends_job = strcmp(text, HVD_SET_REMOVED) != 0;

    pthread_mutex_lock(&e->mu);
    const bool fails = ends_job && !e->locked.infos[set->id].is_removed && has_pending(set);
    pthread_mutex_unlock(&e->mu);
    if (fails)
        report_failure(e, hvd_str_has_prefix(text, SHUT_DOWN) ? text + strlen(SHUT_DOWN) : text);

    pthread_mutex_lock(&e->mu);
    set->locked.is_ended = true;
    if (!e->locked.cause && ends_job &&
        !e->locked.infos[set->id].is_removed) /* the first cause of the job's end */
        e->locked.cause = hvd_strdup(text);
    set->locked.is_join_pending = false;
    size_t n = 0;
    while (hvd_entry_list_take(&set->locked.queue)) /* the table or the slots have them too */
        n++;
    for (uint32_t i = 0; i < set->locked.n_queued_words; i++) {
        n += (size_t)__builtin_popcountll(set->locked.queued_bits[i]);
        set->locked.queued_bits[i] = 0;
    }
    set->locked.n_queued_words = 0;
    hvd_add(&e->n_queued, 0 - n);
    while ((entry = hvd_table_take_first(set->locked.table))) {
        if (entry->request.op == HVD_JOIN && !entry->is_part)
            hvd_join_forget(e, entry);
        if (entry->refusal)
            hvd_refusal_drop(e, set, entry, text);
        else if (entry->is_part)
            hvd_join_ended(e, entry);
        else
            hvd_entry_finish(e, entry, HVD_ERR_SHUTDOWN, text);
    }
    end_slots(e, set, text);
    pthread_mutex_unlock(&e->mu);
}

/* Keeps the cause for later calls. The first one stays, because failures of ranks that end for
 * it are only its consequence. */
static void keep_cause(struct hvd_engine *e, const char *text)
{
    pthread_mutex_lock(&e->mu);
    e->locked.is_ended = true;
    if (!e->locked.cause)
        e->locked.cause = hvd_strdup(text);
    const int64_t blamed =
        hvd_cause_blamed(hvd_strview_of(e->locked.cause ? e->locked.cause : text));
    pthread_mutex_unlock(&e->mu);
    if (blamed != e->topology.rank)
        hvd_rank_state_blame(blamed);
    hvd_rank_state_set(HVD_RANK_ENDED); /* from now on this rank ends because of another */
}

/* Records that a stall ends the job. That is a failure on each rank, whatever is pending there.
 * From now on the background thread watches which ranks leave. */
static void note_stall(struct hvd_engine *e, const char *cause)
{
    report_failure(e, cause);
    if (e->own.is_stall_reported) /* rank 0 has ended the job, so it is not lost */
        e->own.reported_ns = 0;
    pthread_mutex_lock(&e->mu);
    e->locked.stalled_ns = e->own.now_ns;
    pthread_cond_signal(&e->locked.background_cond);
    pthread_mutex_unlock(&e->mu);
}

hvd_status_t hvd_job_end_pending(struct hvd_engine *e, const char *cause, struct hvd_err *err)
{
    char text[HVD_ERR_MSG_MAX];
    struct hvd_strview host, tensor;
    hvd_status_t st = HVD_OK;

    snprintf(text, sizeof(text), SHUT_DOWN "%s", cause);
    keep_cause(e, text);
    if (!hvd_cause_left(hvd_strview_of(text), &host, &tensor))
        note_stall(e, cause);
    for (uint32_t i = 0; i < e->n_sets && st == HVD_OK; i++) {
        struct hvd_set *set = e->sets[i];
        if (!set)
            continue;
        if (i == 0)
            hvd_job_end_set(e, set, text);
        else if (set->own.negotiator) /* its members receive the end in the order of its plans */
            st = hvd_negotiator_close(set->own.negotiator, text, err);
    }
    return st;
}

/* Keeps the memory of a fused operation that may still be moving, until the transport is gone. */
static void lose(struct hvd_engine *e, struct hvd_fused_op *f)
{
    for (uint32_t i = 0; i < f->n_members; i++) {
        struct hvd_entry *entry = f->members[i].entry;
        if (!entry || !entry->output)
            continue;
        entry->output->next_orphan = e->own.orphans;
        e->own.orphans = entry->output;
        entry->output = NULL;
    }
}

static void end_fused_op(struct hvd_engine *e, const struct hvd_fused_op *f, const char *text)
{
    for (uint32_t i = 0; i < f->n_members; i++)
        if (f->members[i].entry)
            hvd_entry_finish_unlocked(e, f->members[i].entry, HVD_ERR_SHUTDOWN, text);
}

static void abort_set(struct hvd_engine *e, struct hvd_set *set, const char *text)
{
    hvd_job_end_set(e, set, text);
    for (int i = 0; i < set->own.n_moving; i++) {
        hvd_staging_forget(set->own.moving[i]);
        if (!hvd_staging_is_on_device(set->own.moving[i]))
            e->transport->ops->abandon(e->transport, &set->own.moving[i]->move);
        lose(e, set->own.moving[i]);
        end_fused_op(e, set->own.moving[i], text);
    }
    set->own.n_moving = 0; /* the execution plans stay and are never reused */
    for (struct hvd_fused_op *f = set->own.todo; f; f = f->next) {
        hvd_staging_forget(f);
        end_fused_op(e, f, text);
    }
    set->own.todo = NULL;
}

void hvd_job_end_abort(struct hvd_engine *e, const char *cause)
{
    char text[HVD_ERR_MSG_MAX];

    snprintf(text, sizeof(text), SHUT_DOWN "%s", cause);
    keep_cause(e, text);
    e->own.is_aborted = true;
    atomic_store(&e->is_failing, true); /* before the device ends their work without a result */
    report_failure(e, cause);
    hvd_staging_abort(e, cause);
    for (uint32_t i = 0; i < e->n_sets; i++)
        if (e->sets[i])
            abort_set(e, e->sets[i], text);
}

void hvd_job_end_abandon_stalled(struct hvd_engine *e)
{
    char cause[HVD_TEXT_MAX + 1];

    hvd_end_cause_first(e, cause);
    hvd_job_end_announce(e, e->topology.rank, cause);
    hvd_job_end_abort(e, cause);
}

/* Ends the job on all ranks, and logs why: a cause that concerns the rank `whose`. */
static void end_for(struct hvd_engine *e, int whose, const char *cause)
{
    hvd_job_end_announce(e, whose, cause); /* before peers can notice what this rank gives up */
    hvd_job_end_abort(e, cause);
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s", cause);
}

void hvd_job_end_of_all(struct hvd_engine *e, const char *cause)
{
    end_for(e, e->topology.rank, cause);
}

/* Sends an ABORT with its text to a rank other than rank 0. */
static void announce_abort(struct hvd_engine *e, int rank, const char *text)
{
    const struct hvd_step step = {.kind = HVD_STEP_ABORT,
                                  .slot = HVD_CACHE_NO_SLOT,
                                  .reduce = HVD_SUM,
                                  .name = {.data = ""},
                                  .text = hvd_strview_of(text)};
    const struct hvd_plan_head head = {.epoch = 0}; /* outside the sequence */
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_PLAN, 0);
    if (st == HVD_OK)
        st = hvd_message_add_step(&buf, &step, NULL);
    if (st == HVD_OK)
        st = hvd_message_end_plan(&buf, &head);
    if (st == HVD_OK)
        st = hvd_control_send(e, rank, buf.data, buf.len, NULL);
    (void)st; /* the peer may be the lost rank */
    hvd_buf_fini(&buf);
}

hvd_status_t hvd_job_end_report(struct hvd_engine *e, int whose, enum hvd_leave_why why,
                                const char *text)
{
    const struct hvd_pos_range who = {.first = e->sets[0]->tree.position_of[whose], .n = 1};
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_LEAVE, 0);
    if (st == HVD_OK)
        st = hvd_message_add_leave(&buf, who, why, text);
    if (st == HVD_OK)
        st = hvd_control_send(e, 0, buf.data, buf.len, NULL);
    hvd_buf_fini(&buf);
    return st;
}

/* Sends the end to the children of rank 0 and of this rank, each of which passes it on to its
 * subtree. Rank 0 is lost, and not all ranks may have noticed. */
static void notify_orphans(struct hvd_engine *e, const char *text)
{
    const struct hvd_set *world = e->sets[0];
    const int self = world->node.range.first;

    for (int position = 1; position < world->tree.size; position++) {
        const int parent = world->tree.parent_of[position];
        if (position != self && (parent == 0 || parent == self))
            announce_abort(e, hvd_membership_rank_at(world, position), text);
    }
}

void hvd_job_end_announce(struct hvd_engine *e, int whose, const char *text)
{
    if (e->topology.rank == 0)
        for (int rank = 1; rank < e->topology.size; rank++)
            announce_abort(e, rank, text);
    else if (whose == 0 ||
             hvd_job_end_report(e, whose, HVD_LEAVE_FAILED, text) == HVD_ERR_UNAVAILABLE)
        notify_orphans(e, text);
    /* Rank 0 may be alive. Then it ends with this cause instead of blaming another rank. */
    if (e->topology.rank != 0 && whose == 0)
        (void)hvd_job_end_report(e, 0, HVD_LEAVE_FAILED, text);
}

void hvd_job_end_fail(struct hvd_engine *e, const struct hvd_err *err)
{
    char cause[HVD_ERR_MSG_MAX];
    const char *host = e->transport->ops->host(e->transport, e->topology.rank);
    const bool is_orphan = err->status == HVD_ERR_GONE;

    if (e->own.is_aborted)
        return;
    if (is_orphan)
        snprintf(cause, sizeof(cause), "%s", err->msg);
    else
        snprintf(cause, sizeof(cause), "Rank %d%s%.64s failed: %.800s", e->topology.rank,
                 host ? " on host " : "", host ? host : "", err->msg);
    end_for(e, is_orphan ? 0 : e->topology.rank, cause);
}

void hvd_job_end_free_lost(struct hvd_engine *e)
{
    while (e->own.orphans) {
        struct horovod_output *next = e->own.orphans->next_orphan;
        hvd_output_destroy(e->own.orphans);
        e->own.orphans = next;
    }
}
