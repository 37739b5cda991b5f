/*
 * Detects ranks that do not answer while something is waited for, and data that does not move.
 * core/heartbeat.h decides for each process set, along its tree, which ranks to probe, warn of and
 * give up. This file collects this rank's waits and carries out those decisions. Runs in the
 * progress owner.
 */
#include "worker/engine/negotiate/beats.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/device_set.h"
#include "worker/engine/execute/fused_op.h"
#include "worker/engine/execute/staging.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/job_end.h"
#include "worker/engine/negotiate/membership.h"

#define NAME_SHOWN 200

static const char shutdown_time[] = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS";

/* Returns the neighbour at a position of the tree; -1: that position is no neighbour. */
static int neighbour_of(const struct hvd_set *set, int position)
{
    if (position == set->node.parent)
        return 0;
    return hvd_membership_is_child(set, position) ? hvd_tree_node_branch(&set->node, position) : -1;
}

static int rank_of(const struct hvd_set *set, int neighbour)
{
    return hvd_membership_rank_at(set, neighbour == 0 ? set->node.parent
                                                      : set->node.children[neighbour - 1].first);
}

hvd_status_t hvd_beats_create(const struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    const struct hvd_heartbeat_options options = {.warning_ns = e->options.stall_warning_ns,
                                                  .shutdown_ns = e->options.stall_shutdown_ns,
                                                  .node = &set->node,
                                                  .size = set->self.size};

    if (options.warning_ns == 0 || set->self.size == 1)
        return HVD_OK;
    return hvd_heartbeat_create(&options, &set->own.heartbeat, err);
}

void hvd_beats_received(struct hvd_set *set, int position, int64_t now_ns)
{
    const int neighbour = set->own.heartbeat ? neighbour_of(set, position) : -1;

    if (neighbour >= 0)
        hvd_heartbeat_received(set->own.heartbeat, neighbour, now_ns);
}

void hvd_beats_left(struct hvd_engine *e, int branch)
{
    if (e->sets[0]->own.heartbeat)
        hvd_heartbeat_leave(e->sets[0]->own.heartbeat, branch);
}

/* Sets how far this rank is with the set's operations between devices. */
static void put_progress(struct hvd_set *set)
{
    if (hvd_device_set_is_direct(set->own.on_device))
        hvd_heartbeat_put(set->own.heartbeat, hvd_device_set_progress(set->own.on_device));
}

/* Sends a PING or PONG with the silent ranks and the progress that others reported. If the peer is
 * lost, receive reports that. */
static hvd_status_t send_beat(struct hvd_engine *e, struct hvd_set *set, enum hvd_message_type type,
                              const struct hvd_beat_step *step, struct hvd_err *err)
{
    int silent[HVD_SILENT_MAX];
    struct hvd_beat beat = {
        .kind = step->kind, .age_ms = (uint32_t)(step->waited_ns / 1000000), .name = step->name};
    struct hvd_buf buf;

    if (set->own.heartbeat) {
        put_progress(set);
        beat.behind = hvd_heartbeat_behind(set->own.heartbeat, step->neighbour);
        beat.n_silent = (uint32_t)hvd_heartbeat_silent(set->own.heartbeat, step->neighbour, silent);
    }
    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    hvd_status_t st = hvd_message_beat(&buf, type, set->id, &beat, silent);
    if (st == HVD_OK)
        st = hvd_control_send(e, rank_of(set, step->neighbour), buf.data, buf.len, err);
    else
        st = HVD_FAIL(err, st, 0, "a probe: %s", hvd_status_str(st));
    hvd_buf_fini(&buf);
    if (st != HVD_ERR_UNAVAILABLE)
        return st;
    hvd_err_clear(err);
    return HVD_OK;
}

/* Whether all that a PING or PONG names is in the set. */
static bool is_within(const struct hvd_set *set, const struct hvd_beat *beat)
{
    const struct hvd_behind *behind = &beat->behind;
    bool is_good = behind->n_known <= (uint32_t)set->self.size;

    for (uint32_t i = 0; i < beat->n_silent; i++)
        is_good = is_good && hvd_message_beat_silent(beat, i) < set->self.size;
    for (uint32_t i = 0; behind->n_known > 0 && i < hvd_message_behind_named(behind); i++)
        is_good = is_good && behind->positions[i] < set->self.size;
    return is_good;
}

hvd_status_t hvd_beats_read(struct hvd_engine *e, struct hvd_set *set, int position,
                            struct hvd_reader *reader, struct hvd_err *err)
{
    const struct hvd_beat_step answer = {.neighbour = neighbour_of(set, position)};
    const bool is_ping = reader->type == HVD_MESSAGE_PING;
    struct hvd_beat beat;
    hvd_status_t st = hvd_message_read_beat(reader, &beat, err);

    if (st != HVD_OK)
        return st;
    if (!is_within(set, &beat))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a probe names a rank that process set %u lacks",
                        set->id);
    if (set->own.heartbeat) {
        hvd_heartbeat_read(set->own.heartbeat, answer.neighbour, &beat, e->own.now_ns);
        if (is_ping)
            e->own.next_stall_check_ns = 0; /* probe its other neighbours soon */
    }
    return is_ping ? send_beat(e, set, HVD_MESSAGE_PONG, &answer, err) : HVD_OK;
}

bool hvd_beats_are_missed(const struct hvd_engine *e, const struct hvd_set *set, int64_t before_ns)
{
    const int64_t warning_ns = e->options.stall_warning_ns;
    int missed[HVD_SILENT_MAX];

    if (!set->own.heartbeat)
        return false;
    if (hvd_heartbeat_missed(set->own.heartbeat, warning_ns, missed) > 0)
        return true;
    const int n = hvd_heartbeat_missed(set->own.heartbeat, warning_ns / 2, missed);
    return hvd_negotiator_awaits(set->own.negotiator, before_ns, missed, n);
}

bool hvd_beats_are_active(const struct hvd_engine *e)
{
    for (uint32_t i = 0; i < e->n_sets; i++)
        if (e->sets[i] && e->sets[i]->own.heartbeat &&
            hvd_heartbeat_is_active(e->sets[i]->own.heartbeat))
            return true;
    return false;
}

/* --- This rank's waits ------------------------------------------------------------------------ */

/* Returns the unfinished fused operation that was agreed first; NULL: none. */
static const struct hvd_fused_op *oldest_fused_op(const struct hvd_set *set)
{
    const struct hvd_fused_op *oldest = set->own.todo;

    for (int i = 0; i < set->own.n_moving; i++)
        if (!oldest || set->own.moving[i]->since_ns < oldest->since_ns)
            oldest = set->own.moving[i];
    return oldest;
}

/* Returns a tensor that is submitted and not agreed: the first one by name, else in the first
 * slot. NULL: none. Holds mu. */
static const struct hvd_entry *find_pending(const struct hvd_set *set)
{
    const uint32_t end = hvd_cache_end(set->locked.cache);
    const struct hvd_entry *entry = hvd_table_first(set->locked.table);

    for (uint32_t i = 0; i < end && !entry; i++)
        entry = hvd_cache_owner(set->locked.cache, i);
    return entry;
}

/* Finds a tensor that waits to be agreed. Submission records no time, so the wait counts from
 * the first check that found the tensor. */
static void see_pending(struct hvd_engine *e, struct hvd_set *set, struct hvd_wait *wait,
                        char name[NAME_SHOWN])
{
    int64_t handle = 0;

    if (atomic_load(&e->n_outstanding) > 0) {
        pthread_mutex_lock(&e->mu);
        const struct hvd_entry *entry = find_pending(set);
        if (entry && entry->request.op != HVD_JOIN) { /* a join waits as long as others train */
            handle = entry->handle;
            snprintf(name, NAME_SHOWN, "%s", entry->name);
        }
        pthread_mutex_unlock(&e->mu);
    }
    if (handle == 0 || handle != set->own.pending)
        set->own.pending_ns = e->own.now_ns;
    set->own.pending = handle;
    if (handle != 0)
        *wait = (struct hvd_wait){.since_ns = set->own.pending_ns, .name = hvd_strview_of(name)};
}

/* A fused operation that this rank waits for. */
struct awaited {
    const char *name; /* NULL: there is none */
    enum hvd_op op;
    int64_t since_ns;
    const struct hvd_fused_op *fused_op; /* NULL: it is with the devices of all ranks */
};

/* Returns the fused operation that has waited for longest. */
static struct awaited find_awaited(const struct hvd_set *set)
{
    const struct hvd_flying *flying = hvd_device_set_flying(set->own.on_device);
    const struct hvd_fused_op *f = oldest_fused_op(set);

    if (flying && (!f || flying->since_ns <= f->since_ns || hvd_staging_is_launched(f)))
        return (struct awaited){
            .name = flying->name, .op = flying->op, .since_ns = flying->since_ns};
    if (!f)
        return (struct awaited){.name = NULL};
    return (struct awaited){
        .name = hvd_fused_op_name(f), .op = f->request.op, .since_ns = f->since_ns, .fused_op = f};
}

/* Returns a number that changes whenever data of the set has moved. Any movement counts, because
 * the operations behind it are under way as well. A launch is none: between devices, only what is
 * done has moved. */
static uint64_t count_moved(struct hvd_engine *e, const struct hvd_set *set, bool is_on_devices)
{
    uint64_t n = is_on_devices ? 0 : set->own.n_landed << 48;

    for (int i = 0; i < set->own.n_moving && e->transport->ops->moved; i++)
        if (!hvd_staging_is_on_device(set->own.moving[i]))
            n += e->transport->ops->moved(e->transport, &set->own.moving[i]->move);
    if (hvd_device_set_is_direct(set->own.on_device))
        n += hvd_device_set_progress(set->own.on_device) / HVD_STAGES;
    return n;
}

/* Collects all waits of this rank in the set. */
static void look_around(struct hvd_engine *e, struct hvd_set *set, struct hvd_waits *waits,
                        char name[NAME_SHOWN])
{
    const struct awaited awaited = find_awaited(set);
    struct hvd_wait *plan = &waits->of[HVD_WAIT_PLAN];

    *waits = (struct hvd_waits){0};
    if (e->own.making) { /* no other work continues on this rank */
        if (e->own.making == set)
            waits->of[HVD_WAIT_SET].since_ns = e->own.making_ns;
        return;
    }
    if (awaited.name)
        waits->of[HVD_WAIT_DATA] =
            (struct hvd_wait){.since_ns = awaited.since_ns,
                              .name = hvd_strview_of(awaited.name),
                              .moved = count_moved(e, set, !awaited.fused_op)};
    if (set->id == 0 && e->own.left_ns > 0 && !e->own.is_done)
        waits->of[HVD_WAIT_LEAVE].since_ns = e->own.left_ns;
    if (set->own.negotiator) {
        const char *oldest = hvd_negotiator_oldest(set->own.negotiator, &plan->since_ns);
        plan->name = hvd_strview_of(oldest ? oldest : "");
    } else {
        see_pending(e, set, plan, name);
    }
}

/* --- Actions ---------------------------------------------------------------------------------- */

/* Appends text such as "tensor t is in transfer". */
static void add_wait(const struct hvd_set *set, const struct hvd_beat_step *step,
                     struct hvd_text *text)
{
    const int n = step->name.len > NAME_SHOWN ? NAME_SHOWN : (int)step->name.len;

    if (step->kind == HVD_WAIT_LEAVE)
        hvd_text_add(text, "the job shuts down");
    else if (step->kind == HVD_WAIT_SET)
        hvd_text_add(text, "process set %u is made", set->id);
    else
        hvd_text_add(text, "tensor %.*s %s", n, n > 0 ? step->name.data : "",
                     step->kind == HVD_WAIT_DATA ? "is in transfer" : "waits to be agreed on");
}

static double seconds(int64_t ns)
{
    const int64_t tenths = ns / 100000000; /* rounded down, so as not to exceed the time */

    return (double)tenths / 10;
}

static void warn(struct hvd_engine *e, const char *text)
{
    hvd_log(e->options.log, HVD_LOG_WARN, "engine", "%s", text);
    hvd_telemetry_stalled(e->options.telemetry, 1, text);
}

static void warn_of(struct hvd_engine *e, const struct hvd_set *set,
                    const struct hvd_beat_step *step)
{
    const int rank = rank_of(set, step->neighbour);
    char out[HVD_TEXT_MAX];
    struct hvd_text text = hvd_text_in(out, sizeof(out));

    hvd_membership_add_ranks(e, &rank, 1, &text);
    out[0] = 'R';
    hvd_text_add(&text, " has not answered for %.3g seconds while ", seconds(step->silent_ns));
    add_wait(set, step, &text);
    hvd_text_add(&text, ": it may be stopped, or cut off.");
    warn(e, out);
}

static bool is_among(const int *numbers, int n, int number)
{
    for (int i = 0; i < n; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

/* Appends text such as "; rank 3 on host b has not answered either". */
void hvd_beats_add_silent(const struct hvd_engine *e, const struct hvd_set *set, const int *named,
                          int n_named, struct hvd_text *text)
{
    int silent[HVD_SILENT_MAX];
    int others[HVD_SILENT_MAX];
    const int n_silent =
        set->own.heartbeat
            ? hvd_heartbeat_missed(set->own.heartbeat, e->options.stall_warning_ns / 2, silent)
            : 0;
    int n = 0;

    for (int i = 0; i < n_silent; i++)
        if (!is_among(named, n_named, hvd_membership_rank_at(set, silent[i])))
            others[n++] = hvd_membership_rank_at(set, silent[i]);
    if (n == 0)
        return;
    hvd_text_add(text, "; ");
    hvd_membership_add_ranks(e, others, n, text);
    hvd_text_add(text, " %s not answered either", n == 1 ? "has" : "have");
}

/* Ends the job because of a silent neighbour, as if it were lost. */
static hvd_status_t give_up(struct hvd_engine *e, const struct hvd_set *set,
                            const struct hvd_beat_step *step, struct hvd_err *err)
{
    const int rank = rank_of(set, step->neighbour);
    char out[HVD_TEXT_MAX];
    struct hvd_text text = hvd_text_in(out, sizeof(out));

    hvd_text_add(&text, "it has not answered for %.3g seconds while ", seconds(step->silent_ns));
    add_wait(set, step, &text);
    hvd_text_add(&text, ", for longer than %.3g seconds (%s)",
                 (double)e->options.stall_shutdown_ns / 1e9, shutdown_time);
    hvd_beats_add_silent(e, set, &rank, 1, &text);
    hvd_err_set(err, HVD_ERR_TIMEOUT, 0, "%s", out);
    return hvd_membership_give_up(e, rank, err);
}

/* Appends the ranks with which the data is exchanged, if the transport can name them. */
static void add_awaited(struct hvd_engine *e, const struct hvd_fused_op *f, struct hvd_text *text)
{
    struct hvd_transport *t = e->transport;
    int ranks[HVD_RANKS_NAMED];
    const int n = t->ops->awaits ? t->ops->awaits(t, &f->move, ranks, HVD_RANKS_NAMED) : 0;

    if (n == 0)
        return;
    hvd_text_add(text, ": ");
    hvd_membership_add_ranks(e, &e->topology.rank, 1, text);
    hvd_text_add(text, " waits for ");
    hvd_membership_add_ranks(e, ranks, n, text);
}

/* Whether the transport moves the fused operation's data. */
static bool is_moving(const struct hvd_set *set, const struct hvd_fused_op *f)
{
    for (int i = 0; i < set->own.n_moving; i++)
        if (set->own.moving[i] == f)
            return !hvd_staging_is_on_device(f);
    return false;
}

/* Appends the ranks that are behind, if they are not simply all. */
static void add_behind(struct hvd_engine *e, const struct hvd_set *set,
                       const struct hvd_behind *behind, struct hvd_text *text)
{
    int ranks[HVD_BEHIND_MAX];

    for (uint32_t i = 0; i < hvd_message_behind_named(behind); i++)
        ranks[i] = hvd_membership_rank_at(set, behind->positions[i]);
    hvd_membership_add_ranks(e, ranks, (int)behind->n, text);
}

/* Appends why an operation between devices is not done whose inputs are there on all ranks.
 * has_part: this rank has its part of one in three steps. */
static void add_hanging(struct hvd_engine *e, const struct hvd_set *set,
                        const struct hvd_behind *behind, bool has_part, struct hvd_text *text)
{
    const uint64_t own = hvd_device_set_progress(set->own.on_device);

    if (behind->progress / HVD_STAGES < own / HVD_STAGES) {
        hvd_text_add(text, ": the GPU of ");
        add_behind(e, set, behind, text);
        hvd_text_add(text, has_part ? " is not done with the step of it within the host"
                                    : " is not done with an earlier operation");
    } else {
        hvd_text_add(text, ": the GPUs of all ranks have reached it");
        if (behind->n < behind->n_known) {
            hvd_text_add(text, ", and that of ");
            add_behind(e, set, behind, text);
            hvd_text_add(text, " is not done");
        }
    }
    hvd_text_add(text, ": look for errors of the GPUs (nvidia-smi, dmesg) and of the network "
                       "between them (NCCL_DEBUG=INFO)");
}

/* Appends which ranks delay an operation between devices. has_part: see add_hanging. */
static void add_culprits(struct hvd_engine *e, const struct hvd_set *set, bool has_part,
                         struct hvd_text *text)
{
    const struct hvd_behind behind = hvd_heartbeat_behind(set->own.heartbeat, -1);
    const bool is_one = behind.n == 1;

    switch (behind.progress % HVD_STAGES) {
    case HVD_STAGE_AWAITED:
        hvd_text_add(text, ": ");
        add_behind(e, set, &behind, text);
        hvd_text_add(text, " %s not launched it", is_one ? "has" : "have");
        break;
    case HVD_STAGE_LAUNCHED:
        hvd_text_add(text, ": the GPU%s of ", is_one ? "" : "s");
        add_behind(e, set, &behind, text);
        hvd_text_add(text, " %s not reached it: the program's work before it is not done",
                     is_one ? "has" : "have");
        break;
    default:
        if (behind.n_known == (uint32_t)set->self.size) {
            add_hanging(e, set, &behind, has_part, text);
            return;
        }
        hvd_text_add(text, ": no GPU is known to be late");
        break;
    }
    if (behind.n_known < (uint32_t)set->self.size)
        hvd_text_add(text, " (%u of %d ranks have reported)", behind.n_known, set->self.size);
}

/* Whether GPUs of other ranks are not done with the first of three steps, behind which this rank
 * has its part. The step across hosts waits for them then. */
static bool waits_for_gpus(const struct hvd_set *set, const struct hvd_fused_op *f)
{
    if (!hvd_staging_has_steps(f))
        return false;
    const struct hvd_behind behind = hvd_heartbeat_behind(set->own.heartbeat, -1);
    return behind.n_known > 0 &&
           behind.progress / HVD_STAGES < hvd_device_set_progress(set->own.on_device) / HVD_STAGES;
}

/* Appends the ranks that do not answer. */
static void add_silent(struct hvd_engine *e, const struct hvd_set *set, int *silent, int n_silent,
                       struct hvd_text *text)
{
    for (int i = 0; i < n_silent; i++)
        silent[i] = hvd_membership_rank_at(set, silent[i]);
    hvd_text_add(text, ": no answer comes from ");
    hvd_membership_add_ranks(e, silent, n_silent, text);
}

/* Describes data that does not move although all neighbours answer. */
static void describe_overdue(struct hvd_engine *e, const struct hvd_set *set,
                             const struct hvd_beat_step *step, struct hvd_text *text)
{
    const struct awaited awaited = find_awaited(set);
    const struct hvd_fused_op *f = awaited.fused_op;
    const int64_t transfer_ns = awaited.name ? e->own.now_ns - awaited.since_ns : step->waited_ns;
    int silent[HVD_SILENT_MAX];
    const int n_silent = hvd_heartbeat_silent(set->own.heartbeat, -1, silent);

    hvd_text_add(text, "Tensor %.*s (%s) has been in transfer for %.3g seconds",
                 step->name.len > NAME_SHOWN ? NAME_SHOWN : (int)step->name.len, step->name.data,
                 hvd_op_name((int)awaited.op), seconds(transfer_ns));
    if (transfer_ns > step->waited_ns)
        hvd_text_add(text, " and has not moved for %.3g seconds", seconds(step->waited_ns));
    if (f && hvd_staging_is_on_device(f)) {
        hvd_text_add(text, ": the GPU of ");
        hvd_membership_add_ranks(e, &e->topology.rank, 1, text);
        hvd_text_add(text, " is not done with its part");
    } else if (n_silent > 0) {
        add_silent(e, set, silent, n_silent, text);
    } else if (!f || waits_for_gpus(set, f)) {
        add_culprits(e, set, f != NULL, text);
    } else if (f->staging && hvd_device_set_connects(set->own.on_device)) {
        hvd_text_add(text,
                     ": the GPUs of the ranks do not connect to each other: look for errors of "
                     "the network between them (NCCL_DEBUG=INFO, NCCL_SOCKET_IFNAME)");
    } else {
        hvd_text_add(text, ", though all ranks answer");
        if (is_moving(set, f))
            add_awaited(e, f, text);
    }
}

static hvd_status_t act(struct hvd_engine *e, struct hvd_set *set, const struct hvd_beat_step *step,
                        struct hvd_err *err)
{
    char out[HVD_TEXT_MAX];
    struct hvd_text text = hvd_text_in(out, sizeof(out));

    switch (step->action) {
    case HVD_BEAT_PROBE:
        return send_beat(e, set, HVD_MESSAGE_PING, step, err);
    case HVD_BEAT_WARN:
        warn_of(e, set, step);
        return HVD_OK;
    case HVD_BEAT_LOSE:
        return give_up(e, set, step, err);
    case HVD_BEAT_OVERDUE_WARN:
        describe_overdue(e, set, step, &text);
        warn(e, out);
        return HVD_OK;
    case HVD_BEAT_OVERDUE_LOSE:
    default:
        describe_overdue(e, set, step, &text);
        hvd_text_add(&text, " (%s)", shutdown_time);
        hvd_job_end_of_all(e, out);
        return HVD_OK;
    }
}

/* Whether this rank, or one below it, has announced that it leaves. */
static bool has_left(const struct hvd_set *set, int position)
{
    if (set->own.negotiator)
        return hvd_negotiator_has_left(set->own.negotiator, position);
    return set->own.aggregator ? hvd_aggregator_has_left(set->own.aggregator, position) : true;
}

static bool is_silent(const struct hvd_set *set, int position)
{
    int silent[HVD_SILENT_MAX];

    return is_among(silent, hvd_heartbeat_silent(set->own.heartbeat, -1, silent), position);
}

/* Warns once of ranks that have not left although others have: this rank, and leaves that only
 * it receives from. Inner nodes warn of themselves, and silent ranks are named for their
 * silence. */
static void warn_of_those_who_stay(struct hvd_engine *e, const struct hvd_set *set)
{
    const struct hvd_node *node = &set->node;
    char out[HVD_TEXT_MAX];
    struct hvd_text text = hvd_text_in(out, sizeof(out));
    int ranks[HVD_RANKS_NAMED];
    int n = 0;

    if (e->own.left_ns == 0 || e->own.is_down || e->own.is_stay_warned ||
        e->own.now_ns - e->own.left_ns < e->options.stall_warning_ns)
        return;
    e->own.is_stay_warned = true;
    for (int branch = 0; branch <= node->n_children; branch++) {
        const struct hvd_pos_range range = hvd_tree_node_branch_range(node, branch);
        if (range.n > 1 || has_left(set, range.first) || is_silent(set, range.first))
            continue;
        if (n < HVD_RANKS_NAMED)
            ranks[n] = hvd_membership_rank_at(set, range.first);
        n++;
    }
    if (n == 0)
        return;
    hvd_membership_add_ranks(e, ranks, n, &text);
    out[0] = 'R';
    hvd_text_add(&text, " did not call horovod_shutdown in the %.3g seconds since another rank did",
                 seconds(e->own.now_ns - e->own.left_ns));
    warn(e, out);
}

/* Makes the coordinator name silent ranks instead of those below them. */
static void spare_those_behind(struct hvd_set *set)
{
    int silent[HVD_SILENT_MAX];

    if (set->own.negotiator)
        hvd_negotiator_silent(set->own.negotiator, silent,
                              hvd_heartbeat_silent(set->own.heartbeat, -1, silent));
}

/* Whether rank 0 has not acted on a report of a lost rank, so that it counts as lost too. After
 * a report of a stall, which all ranks should survive, it gets more time, as it may be busy. */
static hvd_status_t check_rank_0(struct hvd_engine *e, struct hvd_err *err)
{
    const int64_t warning_ns = e->options.stall_warning_ns;

    if (e->own.reported_ns == 0 || e->own.now_ns - e->own.reported_ns <
                                       (e->own.is_stall_reported ? warning_ns : warning_ns / 2))
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_GONE, 0, "%s", e->own.reported);
}

hvd_status_t hvd_beats_check(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    char name[NAME_SHOWN] = "";
    struct hvd_beat_step step;
    struct hvd_waits waits;
    hvd_status_t st = set->id == 0 ? check_rank_0(e, err) : HVD_OK;

    if (st != HVD_OK || !set->own.heartbeat)
        return st;
    look_around(e, set, &waits, name);
    put_progress(set);
    hvd_heartbeat_tick(set->own.heartbeat, &waits, e->own.now_ns);
    if (set->id == 0)
        warn_of_those_who_stay(e, set);
    while (st == HVD_OK && !e->own.is_aborted && hvd_heartbeat_next(set->own.heartbeat, &step))
        st = act(e, set, &step, err);
    spare_those_behind(set);
    return st;
}
