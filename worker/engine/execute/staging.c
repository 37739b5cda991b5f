/*
 * Fused operations of tensors on the device. If the devices of all ranks can move one, it is handed
 * over to the device as a whole, and has ended for the engine when the device has launched it.
 * Otherwise it goes through host memory, where it moves like any other:
 *
 *     HERE ──> LAUNCHED ──────────────────────────────────────────────> done
 *        │        move
 *        └───> LOADING ──> ABOARD ── transport ──> landed ──> UNLOADING ──> done
 *                load                                          unload
 *
 * An allreduce in three steps takes the second line, too: devices scatter instead of the load, and
 * gather instead of the unload, and the transport moves the part of this rank (across.h). No
 * operation of the set overtakes it until then, so all ranks hand devices the same order.
 *
 * Tensors that complete by a callback do so when the results are in their places. Runs in the
 * progress owner.
 */

#include "worker/engine/execute/staging.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/device_set.h"
#include "worker/engine/execute/mover.h"
#include "worker/engine/execute/op_trace.h"
#include "worker/engine/execute/sharing.h"
#include "worker/engine/output.h"

enum phase {
    HERE,      /* nothing has started */
    LAUNCHED,  /* the device moves it */
    LOADING,   /* the device copies the inputs to host memory, or devices scatter */
    ABOARD,    /* the inputs are in host memory, and f->move refers to it */
    UNLOADING, /* the device copies the results to their places, or devices gather */
};

struct hvd_staging {
    struct hvd_device_port *device;
    enum phase phase;
    bool is_claimed; /* its memory is claimed: see hvd_sharing_claim */
    bool is_direct;  /* it moves between devices */
    bool is_handed;  /* `work` is with the device, which has not launched it */
    bool is_watched; /* a tensor completes by a callback */
    bool is_awaited; /* `event` is asked for in each step until it is done */
    struct hvd_device_work work;
    uint64_t number; /* of work that moves between devices: see hvd_device_set_handed */
    struct hvd_device_event **ready; /* owned array of borrowed events */
    uint32_t ready_room;
    struct hvd_device_event *event; /* of work that was launched; a user of it */
    struct hvd_piece whole;         /* a single tensor's memory on the device */
    struct hvd_piece host;          /* a single tensor's host memory */
    struct hvd_host_block *block;   /* owned; NULL: none */
    int64_t part; /* elements of this rank's part, in three steps; -1: it takes one */
    struct hvd_collective whole_move; /* in three steps: f->move, which is replaced meanwhile */
};

bool hvd_staging_accepts(const struct hvd_engine *e, const struct hvd_fused_op *f,
                         const void *memory)
{
    struct hvd_device_port *d = f->request.device == HVD_CPU ? NULL : hvd_engine_device(e);

    return !d || !d->ops->owns || d->ops->owns(d, memory);
}

hvd_status_t hvd_staging_reserve(const struct hvd_engine *e, struct horovod_output *output,
                                 size_t bytes, struct hvd_err *err)
{
    struct hvd_device_port *d = hvd_engine_device(e);

    output->bytes = bytes;
    output->device = hvd_device_retain(d);
    return bytes > 0 ? d->ops->alloc(d, bytes, &output->data, err) : HVD_OK;
}

void hvd_staging_destroy(struct hvd_staging *s)
{
    if (!s)
        return;
    hvd_device_event_release(s->event);
    hvd_device_set_free_block(s->block);
    hvd_free(s->ready);
    hvd_free(s);
}

/* The device has the events now, or needs none. */
static void drop_ready(const struct hvd_fused_op *f)
{
    for (uint32_t i = 0; i < f->n_members; i++) {
        struct hvd_entry *entry = f->members[i].entry;
        if (!entry || !entry->ready)
            continue;
        hvd_device_event_release(entry->ready);
        entry->ready = NULL;
    }
}

static void finish(struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_staging *s = f->staging;

    drop_ready(f); /* of tensors without elements, too */
    if (!s)        /* the preparation failed before there was one */
        return;
    hvd_device_event_release(s->event);
    s->event = NULL;
    if (s->block)
        hvd_device_set_put(set->own.on_device, s->block);
    s->block = NULL;
    s->phase = HERE;
    s->part = -1;
    s->is_claimed = s->is_direct = false;
}

/* --- Work of the device ----------------------------------------------------------------------- */

/* Collects the events of the inputs, and that of the set's last operation if given. */
static hvd_status_t gather_ready(struct hvd_fused_op *f, struct hvd_device_event *behind,
                                 struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;

    if (s->ready_room < f->n_members + 1) {
        hvd_free(s->ready);
        s->ready_room = 0;
        s->ready = hvd_malloc((size_t)f->n_members + 1, sizeof(struct hvd_device_event *));
        if (!s->ready)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for %u events", f->n_members);
        s->ready_room = f->n_members + 1;
    }
    s->work.n_ready = 0;
    s->is_watched = s->work.is_shared = false;
    for (uint32_t i = 0; i < f->n_members; i++) {
        const struct hvd_entry *entry = f->members[i].entry;
        hvd_fused_op_fetch(f, i);
        if (!entry)
            continue;
        s->is_watched = s->is_watched || entry->has_completion;
        s->work.is_shared = s->work.is_shared || f->members[i].is_shared;
        if (entry->ready)
            s->ready[s->work.n_ready++] = entry->ready;
    }
    if (behind)
        s->ready[s->work.n_ready++] = behind;
    s->work.ready = s->ready;
    return HVD_OK;
}

static hvd_status_t hand_over(struct hvd_engine *e, struct hvd_fused_op *f, struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;
    const hvd_status_t st = s->device->ops->launch(s->device, &s->work, err);

    if (st != HVD_OK)
        return st;
    s->is_handed = true;
    e->own.n_on_device++;
    return HVD_OK;
}

/* HVD_OK when the device has launched the work, HVD_INPROGRESS before. */
static hvd_status_t test_launch(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;

    if (!s->is_handed)
        return HVD_OK;
    const hvd_status_t st = s->device->ops->test(s->device, &s->work, err);
    if (st == HVD_INPROGRESS)
        return st;
    s->is_handed = false;
    e->own.n_on_device--;
    drop_ready(f);
    if (st != HVD_OK)
        return st;
    hvd_device_event_release(s->event);
    s->event = s->work.event;
    s->is_awaited = s->event != NULL;
    e->own.n_on_device += s->is_awaited;
    if (hvd_device_is_between(s->work.kind))
        hvd_device_set_launched(set->own.on_device, s->number, s->event);
    return HVD_OK;
}

static void await_no_more(struct hvd_engine *e, struct hvd_staging *s)
{
    e->own.n_on_device -= s->is_awaited;
    s->is_awaited = false;
}

/* HVD_OK when the device has done the work. The event stays: copies and streams of the program may
 * be ordered behind it. */
static hvd_status_t test_event(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                               struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;
    hvd_status_t st = test_launch(e, set, f, err);

    if (st != HVD_OK || !s->is_awaited)
        return st;
    st = s->device->ops->query(s->device, s->event, err);
    if (st == HVD_OK)
        await_no_more(e, s);
    return st;
}

void hvd_staging_pass_event(struct hvd_fused_op *f)
{
    const struct hvd_staging *s = f->staging;

    for (uint32_t i = 0; i < f->n_members; i++) {
        struct hvd_entry *entry = f->members[i].entry;
        if (!entry)
            continue;
        /* without elements, nothing was launched: it is done when its input is ready */
        entry->event = hvd_device_event_retain(s->event ? s->event : entry->ready);
        if (entry->output)
            entry->output->after = hvd_device_event_retain(entry->event);
    }
}

/* --- Through the memory of the host ----------------------------------------------------------- */

/* Returns the elements of this rank's input that are read, and of its output. */
static void count_elements(const struct hvd_set *set, const struct hvd_fused_op *f, int64_t *in,
                           int64_t *out)
{
    const struct hvd_collective *c = &f->move;
    const struct hvd_entry *entry = f->members[0].entry;

    *in = c->op == HVD_BROADCAST && c->root != set->self.rank ? 0 : c->count;
    *out = c->count;
    if (c->op == HVD_REDUCESCATTER)
        *out = c->counts[set->self.rank];
    else if (hvd_op_is_uneven(c->op))
        *out = (int64_t)(entry->output->bytes / hvd_dtype_size((int)c->dtype));
}

/* Describes a copy of all tensors of the operation, with `count` elements if there is one. */
static void describe_copy(struct hvd_fused_op *f, enum hvd_device_work_kind kind, int64_t count,
                          void *host)
{
    struct hvd_staging *s = f->staging;

    s->whole.count = count;
    s->work.kind = kind;
    s->work.move = &f->move;
    s->work.pieces = f->pieces ? f->pieces : &s->whole;
    s->work.n_pieces = f->pieces ? (int)f->n_members : 1;
    s->work.host = host;
}

/* Sets the host memory of each tensor. */
static void point_to_host(struct hvd_fused_op *f, char *input, char *output)
{
    const size_t width = hvd_dtype_size((int)f->request.dtype);

    f->staging->host = (struct hvd_piece){.input = input, .output = output, .count = f->move.count};
    f->move.input = input;
    f->move.output = output;
    for (uint32_t i = 0; f->pieces && i < f->n_members; i++) {
        f->pieces[i] =
            (struct hvd_piece){.input = input, .output = input, .count = f->members[i].count};
        input += (size_t)f->members[i].count * width;
    }
}

/* Starts the copy into host memory. */
static hvd_status_t load(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                         struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    struct hvd_staging *s = f->staging;
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    int64_t in;
    int64_t out;

    count_elements(set, f, &in, &out);
    const size_t in_bytes = ((size_t)in * width + 63) / 64 * 64;
    const size_t out_bytes = (size_t)out * width;
    const bool in_place = !hvd_op_is_uneven(f->move.op);
    const size_t larger = in_bytes > out_bytes ? in_bytes : out_bytes;
    hvd_status_t st =
        hvd_device_set_take(on, in_place ? larger : in_bytes + out_bytes, &s->block, err);
    if (st == HVD_OK)
        st = gather_ready(f, on->last, err); /* which may write an input of this one */
    if (st != HVD_OK)
        return st;
    s->whole = (struct hvd_piece){.input = f->move.input, .output = f->move.output};
    char *memory = s->block->memory;
    describe_copy(f, HVD_DEVICE_LOAD, in, memory);
    if (in > 0)
        st = hand_over(e, f, err);
    point_to_host(f, memory, in_place ? memory : memory + in_bytes);
    s->phase = LOADING;
    return st;
}

struct hvd_piece hvd_staging_piece(const struct hvd_fused_op *f, uint32_t i)
{
    return f->pieces ? f->pieces[i] : f->staging->host;
}

/* Starts the copy of the results to the device, after f->move has landed in host memory. */
static hvd_status_t unload(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                           struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;
    int64_t in;
    int64_t out;

    if (f->pieces) {
        out = f->work.count;
        for (uint32_t i = 0; i < f->n_members; i++)
            f->pieces[i].output = f->members[i].entry ? f->members[i].entry->data : NULL;
    } else if (hvd_op_keeps_shape(f->request.op)) {
        out = f->members[0].count; /* Adasum's collectives have other counts */
    } else {
        count_elements(set, f, &in, &out);
    }
    /* behind the load, or behind the program's work if there was nothing to load */
    hvd_status_t st = gather_ready(f, s->event, err);
    describe_copy(f, HVD_DEVICE_UNLOAD, out, s->host.output);
    s->phase = UNLOADING;
    return st == HVD_OK && out > 0 ? hand_over(e, f, err) : st;
}

/* --- Between devices -------------------------------------------------------------------------- */

/* Hands over work between devices: f->move, or a step of it. */
static hvd_status_t hand_over_between(struct hvd_engine *e, const struct hvd_set *set,
                                      struct hvd_fused_op *f, enum hvd_device_work_kind kind,
                                      struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;
    hvd_status_t st = gather_ready(f, NULL, err);

    s->work.kind = kind;
    s->work.move = &f->move;
    s->work.is_alone = set->self.size == 1;
    if (st == HVD_OK)
        st = hand_over(e, f, err);
    if (st == HVD_OK)
        s->number = hvd_device_set_handed(e, set->own.on_device, f);
    return st;
}

static hvd_status_t launch(struct hvd_engine *e, const struct hvd_set *set, struct hvd_fused_op *f,
                           struct hvd_err *err)
{
    f->staging->phase = LAUNCHED;
    return hand_over_between(e, set, f, HVD_DEVICE_MOVE, err);
}

/* Starts the first of three steps. */
static hvd_status_t scatter(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    struct hvd_staging *s = f->staging;
    const size_t bytes = hvd_across_bytes(on->across, s->part, f->request.dtype);
    const hvd_status_t st = hvd_device_set_take(on, bytes, &s->block, err);

    if (st != HVD_OK)
        return st;
    s->work.host = s->block->memory;
    s->whole_move = f->move;
    s->phase = LOADING;
    hvd_op_trace_moves(e, set, f, s->device->ops->name, HVD_REDUCESCATTER);
    return hand_over_between(e, set, f, HVD_DEVICE_SCATTER, err);
}

/* The part of this rank is in host memory: describes the second step, two collectives. */
static void go_across(const struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_staging *s = f->staging;

    hvd_across_exchange(set->own.on_device->across, &s->whole_move, s->work.host, s->part,
                        &f->move);
    f->has_more = true;
}

/* Continues after a collective of the second step, with the other one or the third step. */
static hvd_status_t advance_across(struct hvd_engine *e, struct hvd_set *set,
                                   struct hvd_fused_op *f, enum hvd_advance *next,
                                   struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;

    if (!f->is_second) {
        f->is_second = true;
        hvd_across_distribute(set->own.on_device->across, s->whole_move.reduce, &f->move);
        *next = HVD_ADVANCE_NEXT;
        return HVD_OK;
    }
    f->has_more = false; /* the device keeps the order from here on */
    f->move = s->whole_move;
    s->phase = UNLOADING;
    *next = HVD_ADVANCE_MOVES;
    hvd_op_trace_moves(e, set, f, s->device->ops->name, HVD_ALLGATHER);
    return hand_over_between(e, set, f, HVD_DEVICE_GATHER, err);
}

/* --- As a mover ------------------------------------------------------------------------------- */

bool hvd_staging_is_on_device(const struct hvd_fused_op *f)
{
    const struct hvd_staging *s = f->staging;

    return s && (s->phase == LAUNCHED || s->phase == LOADING || s->phase == UNLOADING);
}

bool hvd_staging_is_launched(const struct hvd_fused_op *f)
{
    return f->staging && (f->staging->phase == LAUNCHED ||
                          (f->staging->part >= 0 && hvd_staging_is_on_device(f)));
}

bool hvd_staging_has_steps(const struct hvd_fused_op *f)
{
    return f->staging && f->staging->part >= 0;
}

/* Whether f->move refers to host memory in any case: an alltoall's splits. */
static bool is_prelude(const struct hvd_fused_op *f)
{
    return f->request.op == HVD_ALLTOALL && f->has_more;
}

/* Claims the operation's memory. HVD_INPROGRESS: an earlier fused operation uses some of it. */
static hvd_status_t claim_memory(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;

    if (s->is_claimed)
        return HVD_OK;
    s->is_direct = hvd_device_set_moves(set->own.on_device, f);
    const hvd_status_t st = hvd_sharing_claim(set, f, err);
    s->is_claimed = st == HVD_OK;
    set->own.on_device->n_unclaimed -= s->is_claimed;
    return st;
}

/* Claims memory before the operation's turn, but only if all earlier operations have claimed
 * theirs. An earlier one could otherwise wait for this memory forever, since it must start
 * first. */
static hvd_status_t claim_early(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err)
{
    if (set->own.on_device->n_unclaimed++ > 0 || set->own.on_device->mode != HVD_MODE_STAGED)
        return HVD_INPROGRESS;
    return claim_memory(set, f, err);
}

bool hvd_staging_is_direct(const struct hvd_staging *s)
{
    return s->is_direct;
}

static hvd_status_t prepare(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    hvd_status_t st = hvd_mover_of_host(f)->prepare(e, set, f, err);

    f->is_prepared = false;
    if (st == HVD_OK)
        st = hvd_device_set_open(e, set, err);
    if (st != HVD_OK)
        return st;
    if (!f->staging)
        f->staging = hvd_calloc(1, sizeof(*f->staging));
    if (!f->staging)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a fused operation");
    f->staging->device = set->own.on_device->device;
    f->staging->phase = HERE;
    f->staging->part = -1;
    if (set->self.size == 1 || !f->work.moves_data)
        return HVD_OK;
    /* If the mode is known to be STAGED, load now, while others move. */
    st = claim_early(set, f, err);
    if (st == HVD_OK && !is_prelude(f))
        return load(e, set, f, err);
    return st == HVD_INPROGRESS ? HVD_OK : st;
}

/* Only handles the splits, which are in host memory. The device keeps the order of the rest. */
static hvd_status_t alone(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    enum hvd_advance next;
    hvd_status_t st = HVD_OK;

    if (is_prelude(f)) {
        hvd_mover_compute(f);
        st = hvd_alltoall_mover.advance(e, set, f, &next, err);
        f->is_second = false; /* nothing has started yet */
    }
    f->has_more = false;
    return st == HVD_OK && f->work.moves_data ? HVD_INPROGRESS : st;
}

static hvd_status_t claim(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;
    hvd_status_t st;

    if (set->self.size == 1) {
        s->is_direct = true;
        st = hvd_sharing_claim(set, f, err);
        return st == HVD_OK ? launch(e, set, f, err) : st;
    }
    st = hvd_device_set_ready(e, set, err);
    if (st == HVD_ERR_NOT_FOUND)
        return hvd_device_set_ask(set, f, err);
    if (st == HVD_OK)
        st = claim_memory(set, f, err);
    if (st != HVD_OK || is_prelude(f) || s->phase == ABOARD)
        return st;
    if (s->phase == HERE && s->is_direct)
        s->part = hvd_device_set_part(set->own.on_device, f);
    if (s->is_direct && s->part < 0)
        return launch(e, set, f, err);
    if (s->phase == HERE)
        st = s->is_direct ? scatter(e, set, f, err) : load(e, set, f, err);
    if (st == HVD_OK)
        st = test_event(e, set, f, err);
    if (st != HVD_OK)
        return st;
    s->phase = ABOARD;
    if (s->is_direct)
        go_across(set, f);
    return HVD_OK;
}

static hvd_status_t start(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    if (f->staging->phase != LAUNCHED)
        return hvd_mover_of_host(f)->start(e, set, f, err);
    /* claim has handed it over */
    if (set->self.size > 1)
        hvd_op_trace_moves(e, set, f, f->staging->device->ops->name, f->request.op);
    else
        hvd_op_trace_started(e, set, f);
    return HVD_OK;
}

static hvd_status_t test(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                         struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;

    if (s->phase != LAUNCHED && s->phase != UNLOADING)
        return hvd_mover_test(e, set, f, err);
    if (s->phase == UNLOADING || s->is_watched)
        return test_event(e, set, f, err);
    const hvd_status_t st = test_launch(e, set, f, err);
    if (st == HVD_OK)
        await_no_more(e, s); /* the program asks for the event from now on */
    return st;
}

/* Copies the results back to the device after the last collective. */
static hvd_status_t advance(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            enum hvd_advance *next, struct hvd_err *err)
{
    const struct hvd_mover *inner = hvd_mover_of_host(f);
    hvd_status_t st = HVD_OK;

    if (f->staging->phase == LAUNCHED || f->staging->phase == UNLOADING)
        return HVD_OK;
    if (f->staging->part >= 0)
        return advance_across(e, set, f, next, err);
    if (inner->advance)
        st = inner->advance(e, set, f, next, err);
    if (st != HVD_OK || *next != HVD_ADVANCE_DONE || !f->work.moves_data)
        return st;
    *next = HVD_ADVANCE_MOVES;
    return unload(e, set, f, err);
}

const struct hvd_mover hvd_staging_mover = {.prepare = prepare,
                                            .alone = alone,
                                            .claim = claim,
                                            .start = start,
                                            .test = test,
                                            .advance = advance,
                                            .finish = finish};

/* --- The end of the job ----------------------------------------------------------------------- */

void hvd_staging_abort(struct hvd_engine *e, const char *cause)
{
    struct hvd_device_port *d = hvd_engine_device(e);

    if (d)
        d->ops->abort(d, cause);
}

void hvd_staging_forget(struct hvd_fused_op *f)
{
    struct hvd_staging *s = f->staging;

    if (!s || !s->is_handed)
        return;
    s->device->ops->forget(s->device, &s->work);
    s->is_handed = false;
}
