/*
 * The ends of a job. An orderly shutdown (SHUTDOWN step) ends the tensors that are not agreed yet
 * and lets the agreed ones finish; after a failure (ABORT step, or an error here) nothing is waited
 * for. The progress owner's.
 */
#include "worker/engine/negotiate/job_end.h"

#include <stdio.h>
#include <string.h>

#include "base/cause.h"
#include "base/mem.h"
#include "base/rank_state.h"
#include "base/str.h"
#include "worker/engine/execute/fused_op.h"
#include "worker/engine/execute/inputs.h"
#include "worker/engine/execute/staging.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/membership.h"
#include "worker/engine/state/end_cause.h"
#include "worker/engine/submit/join.h"
#include "worker/engine/submit/refusal.h"

#define SHUT_DOWN "Horovod has been shut down. "

/* Ends what waits in slots. Holds mu. */
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

/* Whether something of this rank is pending that is not agreed: what is agreed comes to its own
 * end. Holds mu. */
static bool has_pending(const struct hvd_set *set)
{
    const uint32_t end = hvd_cache_end(set->locked.cache);
    bool has =
        set->locked.is_join_pending || hvd_table_count(set->locked.table) > set->locked.n_refusals;

    for (uint32_t i = 0; i < end && !has; i++)
        has = hvd_cache_owner(set->locked.cache, i) != NULL;
    return has;
}

/* Telemetry hears once why the job cannot go on. */
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
        !e->locked.infos[set->id].is_removed) /* the job ends, and this set hears it first */
        e->locked.cause = hvd_strdup(text);
    set->locked.is_join_pending = false;
    hvd_inputs_forget(e, set);
    size_t n = 0;
    while (hvd_entry_list_take(&set->locked.queue)) /* they are in the table or in slots as well */
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

/* Keeps the cause for those who come too late. The first one stays: what follows, as the end of the
 * ranks that fail because of it, is to blame on nobody else. */
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
    hvd_rank_state_set(HVD_RANK_ENDED); /* how this rank ends now has a reason of another's */
}

/* A stall ends the job: a failure on each rank, whatever is pending there. The background looks
 * from now on who leaves. */
static void note_stall(struct hvd_engine *e, const char *cause)
{
    report_failure(e, cause);
    if (e->own.is_stall_reported) /* and rank 0 has ended the job */
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
        else if (set->own.negotiator) /* its members hear it in the order of its plans */
            st = hvd_negotiator_close(set->own.negotiator, text, err);
    }
    return st;
}

/* A fused operation that may still be moving: its memory stays until the transport is gone. */
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
    hvd_staging_abort(e, set);
    hvd_job_end_set(e, set, text);
    for (int i = 0; i < set->own.n_moving; i++) {
        if (!hvd_staging_is_landing(set->own.moving[i]))
            e->transport->ops->abandon(e->transport, &set->own.moving[i]->move);
        lose(e, set->own.moving[i]);
        end_fused_op(e, set->own.moving[i], text);
    }
    set->own.n_moving = 0; /* the execution plans stay in set->own.exec_plans, busy for good */
    for (struct hvd_fused_op *f = set->own.todo; f; f = f->next)
        end_fused_op(e, f, text);
    set->own.todo = NULL;
}

void hvd_job_end_abort(struct hvd_engine *e, const char *cause)
{
    char text[HVD_ERR_MSG_MAX];

    snprintf(text, sizeof(text), SHUT_DOWN "%s", cause);
    keep_cause(e, text);
    e->own.is_aborted = true;
    report_failure(e, cause);
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

/* Tells a rank, not rank 0, that nothing goes on because of text. */
static void announce_abort(struct hvd_engine *e, int rank, const char *text)
{
    const struct hvd_step step = {.kind = HVD_STEP_ABORT,
                                  .slot = HVD_CACHE_NO_SLOT,
                                  .reduce = HVD_SUM,
                                  .name = {.data = ""},
                                  .text = hvd_strview_of(text)};
    const struct hvd_plan_head head = {.epoch = 0}; /* out of turn */
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_begin(&buf, HVD_MESSAGE_PLAN, 0);
    if (st == HVD_OK)
        st = hvd_message_add_step(&buf, &step, NULL);
    if (st == HVD_OK)
        st = hvd_message_end_plan(&buf, &head);
    if (st == HVD_OK)
        st = hvd_control_send(e, rank, buf.data, buf.len, NULL);
    (void)st; /* the peer may be the one that is lost */
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

/* The coordinator is lost, which not all may have seen: its children hear of it from here, and each
 * passes it on to those under it, as this rank does. */
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
    /* It may be alive, and is to blame nobody else for ending then. */
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
    /* before peers can see that something was given up */
    hvd_job_end_announce(e, is_orphan ? 0 : e->topology.rank, cause);
    hvd_job_end_abort(e, cause);
    hvd_log(e->options.log, HVD_LOG_ERROR, "engine", "%s", cause);
}

void hvd_job_end_free_lost(struct hvd_engine *e)
{
    while (e->own.orphans) {
        struct horovod_output *next = e->own.orphans->next_orphan;
        hvd_output_destroy(e->own.orphans);
        e->own.orphans = next;
    }
}
