/*
 * Fused operations of tensors on the device. If the devices of all ranks have their own
 * collectives, a fused operation is enqueued on a stream as a whole: pack, collective, unpack.
 * Otherwise it goes through host memory, where it moves like any other:
 *
 *     begin ── load ──> (its turn) ── transport ──> landed ── unload ──> done
 *              pack,                                          unpack,
 *              event                                          event
 *
 * The ranks of a set decide between the two before its first fused operation. They exchange the key
 * by which their devices connect, and whether a device lacks collectives.
 *
 * A set keeps its blocks of host memory and its buffers on the device, as many as were in use at
 * once. So a program in its loop allocates nothing. Runs in the progress owner.
 */

#include "worker/engine/execute/staging.h"

#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/mover.h"
#include "worker/engine/execute/op_trace.h"
#include "worker/engine/execute/sharing.h"

#define BLOCK_MIN ((size_t)64 << 10)

/* Ranks without collectives set the flag that follows the key. */
#define QUESTION_LEN (HVD_DEVICE_KEY_MAX + 1)

enum mode { UNKNOWN, STAGED, DIRECT };

enum phase {
    HERE,    /* nothing has started */
    LOADING, /* the device copies the inputs to host memory */
    ABOARD,  /* the inputs are in host memory, and f->move refers to it */
    LANDING, /* the device copies the results to their places */
};

struct block {
    struct block *next;
    void *memory;
    size_t bytes;
    bool is_host;
};

struct hvd_staging {
    struct hvd_device_port *device;
    enum phase phase;
    bool is_claimed;            /* its memory is claimed: see hvd_sharing_claim */
    bool is_launched;           /* it moves by collectives of the device */
    struct hvd_collective move; /* the fused operation's, during the exchange of keys */
    bool has_more;              /* likewise */
    struct hvd_piece whole;     /* a single tensor's memory on the device */
    struct hvd_piece host;      /* a single tensor's host memory */
    struct block *block;        /* owned; NULL: none */
    struct hvd_device_event *event;
};

struct hvd_set_device {
    struct hvd_device_port *device;
    struct hvd_device_stream *in; /* also for the device's collectives */
    struct hvd_device_stream *out;
    struct block *free; /* owned */
    uint32_t set;
    uint32_t n_unclaimed; /* fused operations that have begun and have not claimed their memory */
    enum mode mode;
    char question[QUESTION_LEN];
};

/* --- Memory ----------------------------------------------------------------------------------- */

static void free_block(struct hvd_device_port *d, struct block *block)
{
    if (!block)
        return;
    if (block->is_host)
        d->ops->free_host(d, block->memory);
    else
        d->ops->free(d, block->memory);
    hvd_free(block);
}

/* Takes a block off the list of free ones. Frees one that is too small instead, so that such
 * blocks do not pile up; returns NULL then. */
static struct block *find_block(struct hvd_set_device *on, size_t bytes, bool is_host)
{
    struct block **small = NULL;

    for (struct block **at = &on->free; *at; at = &(*at)->next) {
        struct block *block = *at;
        if (block->is_host != is_host)
            continue;
        if (block->bytes >= bytes) {
            *at = block->next;
            return block;
        }
        small = at;
    }
    if (small) {
        struct block *block = *small;
        *small = block->next;
        free_block(on->device, block);
    }
    return NULL;
}

static hvd_status_t take_block(struct hvd_set_device *on, size_t bytes, bool is_host,
                               struct block **out, struct hvd_err *err)
{
    struct hvd_device_port *d = on->device;
    struct block *block = find_block(on, bytes, is_host);
    size_t room = BLOCK_MIN;
    hvd_status_t st = HVD_OK;

    if (block) {
        *out = block;
        return HVD_OK;
    }
    while (room < bytes && room <= SIZE_MAX / 2)
        room *= 2;
    block = hvd_calloc(1, sizeof(*block));
    if (!block)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", d->name);
    block->bytes = room < bytes ? bytes : room;
    block->is_host = is_host;
    if (is_host)
        st = d->ops->alloc_host(d, block->bytes, &block->memory, err);
    else
        st = d->ops->alloc(d, block->bytes, &block->memory, err);
    if (st == HVD_OK)
        *out = block;
    else
        hvd_free(block);
    return st;
}

hvd_status_t hvd_staging_reserve(const struct hvd_engine *e, struct horovod_output *output,
                                 size_t bytes, struct hvd_err *err)
{
    struct hvd_device_port *d = e->options.device;

    output->bytes = bytes;
    output->device = d;
    return bytes > 0 ? d->ops->alloc(d, bytes, &output->data, err) : HVD_OK;
}

/* --- Life cycle ------------------------------------------------------------------------------- */

void hvd_staging_set_destroy(struct hvd_set_device *on)
{
    if (!on)
        return;
    struct hvd_device_port *d = on->device;
    if (on->in)
        d->ops->destroy_stream(d, on->in);
    if (on->out)
        d->ops->destroy_stream(d, on->out);
    if (on->mode == DIRECT)
        d->ops->remove_set(d, on->set);
    while (on->free) {
        struct block *next = on->free->next;
        free_block(d, on->free);
        on->free = next;
    }
    hvd_free(on);
}

/* Creates the set's resources on the device at first use. A joined rank may have no device: it
 * contributes zeros, and discards results, in host memory. */
static hvd_status_t open_set(const struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    struct hvd_device_port *d = e->options.device ? e->options.device : hvd_host_device();

    if (set->own.on_device)
        return HVD_OK;
    struct hvd_set_device *on = hvd_calloc(1, sizeof(*on));
    if (!on)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory for a process set", d->name);
    on->device = d;
    on->set = set->id;
    hvd_status_t st = d->ops->create_stream(d, &on->in, err);
    if (st == HVD_OK)
        st = d->ops->create_stream(d, &on->out, err);
    if (st == HVD_OK)
        set->own.on_device = on;
    else
        hvd_staging_set_destroy(on);
    return st;
}

static void let_go(struct hvd_staging *s)
{
    if (s->event)
        s->device->ops->release(s->device, s->event);
    s->event = NULL;
}

void hvd_staging_destroy(struct hvd_staging *s)
{
    if (!s)
        return;
    let_go(s);
    free_block(s->device, s->block);
    hvd_free(s);
}

/* Records an event, which the progress owner polls until it is done. */
static hvd_status_t record(struct hvd_engine *e, struct hvd_staging *s,
                           struct hvd_device_stream *stream, struct hvd_err *err)
{
    hvd_status_t st = s->device->ops->record(s->device, stream, &s->event, err);

    if (st == HVD_OK && s->event)
        e->own.n_on_device++;
    return st;
}

static void finish(struct hvd_set *set, struct hvd_fused_op *f)
{
    struct hvd_staging *s = f->staging;

    if (!s) /* the preparation failed before there was one */
        return;
    let_go(s);
    if (s->block) {
        s->block->next = set->own.on_device->free;
        set->own.on_device->free = s->block;
        s->block = NULL;
    }
    s->phase = HERE;
    s->is_claimed = s->is_launched = false;
}

/* HVD_OK when the device has no work left for the operation. */
static hvd_status_t test_event(struct hvd_engine *e, struct hvd_fused_op *f, struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;

    if (!s->event)
        return HVD_OK;
    hvd_status_t st = s->device->ops->query(s->device, s->event, err);
    if (st == HVD_OK) {
        let_go(s);
        e->own.n_on_device--;
    }
    return st;
}

/* --- Through the memory of the host ----------------------------------------------------------- */

/* Computes how many elements of the fused operation enter and leave on this rank. */
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

/* Describes a copy of all tensors of the operation. */
static struct hvd_device_copy copy_of(const struct hvd_fused_op *f, int64_t count, void *buffer,
                                      bool is_host)
{
    struct hvd_staging *s = f->staging;

    s->whole.count = count;
    return (struct hvd_device_copy){.pieces = f->pieces ? f->pieces : &s->whole,
                                    .n_pieces = f->pieces ? (int)f->n_members : 1,
                                    .buffer = buffer,
                                    .is_host = is_host,
                                    .dtype = f->request.dtype};
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

/* Enqueues the copy into host memory. */
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
        take_block(on, in_place ? larger : in_bytes + out_bytes, true, &s->block, err);
    if (st != HVD_OK)
        return st;
    s->whole = (struct hvd_piece){.input = f->move.input, .output = f->move.output};
    char *memory = s->block->memory;
    const struct hvd_device_copy copy = copy_of(f, in, memory, true);
    if (in > 0)
        st = s->device->ops->pack(s->device, on->in, &copy, err);
    if (st == HVD_OK && in > 0)
        st = record(e, s, on->in, err);
    point_to_host(f, memory, in_place ? memory : memory + in_bytes);
    s->phase = LOADING;
    return st;
}

struct hvd_piece hvd_staging_piece(const struct hvd_fused_op *f, uint32_t i)
{
    return f->pieces ? f->pieces[i] : f->staging->host;
}

/* Enqueues the copy of the results to the device, after f->move has landed in host memory. */
static hvd_status_t unload(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                           struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    struct hvd_staging *s = f->staging;
    int64_t in;
    int64_t out;
    hvd_status_t st = HVD_OK;

    if (f->pieces) {
        out = f->work.count;
        for (uint32_t i = 0; i < f->n_members; i++)
            f->pieces[i].output = f->members[i].entry ? f->members[i].entry->data : NULL;
    } else if (hvd_op_keeps_shape(f->request.op)) {
        out = f->members[0].count; /* Adasum's collectives have other counts */
    } else {
        count_elements(set, f, &in, &out);
    }
    const struct hvd_device_copy copy = copy_of(f, out, s->host.output, true);
    if (out > 0)
        st = s->device->ops->unpack(s->device, on->out, &copy, err);
    if (st == HVD_OK && out > 0)
        st = record(e, s, on->out, err);
    s->phase = LANDING;
    return st;
}

/* --- By the device's own collectives ---------------------------------------------------------- */

static bool scales(const struct hvd_scaling *s)
{
    return !hvd_factor_equal(s->prescale, 1) || !hvd_factor_equal(s->postscale, 1) ||
           s->divisor != 1;
}

/* Makes the tensors contiguous in device memory. A single tensor stays where it is if it needs
 * no scaling. */
static hvd_status_t gather_pieces(struct hvd_set *set, struct hvd_fused_op *f, int64_t in,
                                  int64_t out, struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    struct hvd_staging *s = f->staging;
    const size_t width = hvd_dtype_size((int)f->request.dtype);
    const int64_t larger = in > out ? in : out;

    const bool is_whole = !f->pieces && f->members[0].entry;
    if (is_whole && set->self.size > 1 && !scales(&f->move.scaling))
        return HVD_OK;
    hvd_status_t st = take_block(on, (size_t)larger * width, false, &s->block, err);
    if (st != HVD_OK)
        return st;
    struct hvd_device_copy copy = copy_of(f, in, s->block->memory, false);
    if (scales(&f->move.scaling))
        copy.scaling = &f->move.scaling;
    if (in > 0)
        st = s->device->ops->pack(s->device, on->in, &copy, err);
    f->move.input = s->block->memory;
    f->move.output = s->block->memory;
    f->move.pieces = NULL;
    f->move.n_pieces = 0;
    return st;
}

/* Enqueues all steps of the operation. A set of one rank has no collective. */
static hvd_status_t launch(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                           struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    struct hvd_staging *s = f->staging;
    const struct hvd_scaling scaling = f->move.scaling;
    int64_t in;
    int64_t out;

    count_elements(set, f, &in, &out);
    s->whole = (struct hvd_piece){.input = f->move.input, .output = f->move.output};
    hvd_status_t st = gather_pieces(set, f, in, out, err);
    f->move.scaling = (struct hvd_scaling){.prescale = 1, .postscale = 1, .divisor = 1};
    if (st == HVD_OK && set->self.size > 1)
        st = s->device->ops->start(s->device, on->in, &f->move, err);
    if (st == HVD_OK && s->block && out > 0) {
        struct hvd_device_copy copy = copy_of(f, out, s->block->memory, false);
        if (scales(&scaling))
            copy.scaling = &scaling;
        st = s->device->ops->unpack(s->device, on->in, &copy, err);
    }
    if (st == HVD_OK)
        st = record(e, s, on->in, err);
    s->phase = LANDING;
    return st;
}

/* --- The choice between the two --------------------------------------------------------------- */

/* Replaces f->move by the exchange of the key, from rank 0, and of whether any rank lacks
 * collectives. */
static hvd_status_t exchange_keys(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    struct hvd_staging *s = f->staging;
    hvd_status_t st = HVD_OK;

    memset(on->question, 0, sizeof(on->question));
    on->question[HVD_DEVICE_KEY_MAX] = on->device->ops->start ? 0 : 1;
    if (on->device->ops->start && set->self.rank == 0)
        st = on->device->ops->make_key(on->device, on->question, err);
    s->move = f->move;
    s->has_more = f->has_more;
    f->has_more = true;
    f->move = (struct hvd_collective){.op = HVD_ALLREDUCE,
                                      .dtype = HVD_UINT8,
                                      .reduce = HVD_MAX,
                                      .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                                      .set = set->id,
                                      .input = on->question,
                                      .output = on->question,
                                      .count = QUESTION_LEN};
    return st;
}

/* Applies the result of the exchange; restores f->move and f->has_more. */
static hvd_status_t take_answer(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                enum hvd_advance *next, struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    struct hvd_staging *s = f->staging;
    const struct hvd_device_set device_set = {
        .set = set->id, .rank = set->self.rank, .size = set->self.size, .ranks = set->ranks};
    hvd_status_t st = HVD_OK;

    (void)e;
    f->move = s->move;
    f->has_more = s->has_more;
    f->mover = &hvd_staging_mover;
    *next = HVD_ADVANCE_NEXT;
    if (on->question[HVD_DEVICE_KEY_MAX] != 0) {
        on->mode = STAGED;
        return HVD_OK;
    }
    st = on->device->ops->add_set(on->device, &device_set, on->question, err);
    if (st == HVD_OK)
        on->mode = DIRECT;
    return st;
}

static hvd_status_t start_question(struct hvd_engine *e, struct hvd_set *set,
                                   struct hvd_fused_op *f, struct hvd_err *err)
{
    (void)set;
    return e->transport->ops->start(e->transport, &f->move, err);
}

/* Moves the exchange of keys, before the first fused operation of a set. */
static const struct hvd_mover question_mover = {
    .start = start_question, .test = hvd_mover_test, .advance = take_answer};

/* --- As a mover ------------------------------------------------------------------------------- */

bool hvd_staging_is_unloading(const struct hvd_staging *s)
{
    return s->phase == LANDING;
}

/* Whether f->move refers to host memory in any case: an alltoall's splits. */
static bool is_prelude(const struct hvd_fused_op *f)
{
    return f->request.op == HVD_ALLTOALL && f->has_more;
}

/* Adasum always moves over the transport, because devices have no such collective. */
static bool is_staged(const struct hvd_set *set, const struct hvd_fused_op *f)
{
    return set->own.on_device->mode == STAGED || f->request.reduce == HVD_ADASUM;
}

/* Claims the operation's memory. HVD_INPROGRESS: an earlier fused operation uses some of it. */
static hvd_status_t claim_memory(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err)
{
    struct hvd_staging *s = f->staging;

    if (s->is_claimed)
        return HVD_OK;
    s->is_launched = !is_staged(set, f);
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
    if (set->own.on_device->n_unclaimed++ > 0 || set->own.on_device->mode != STAGED)
        return HVD_INPROGRESS;
    return claim_memory(set, f, err);
}

bool hvd_staging_is_launched(const struct hvd_staging *s)
{
    return s->is_launched;
}

static hvd_status_t prepare(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            struct hvd_err *err)
{
    hvd_status_t st = hvd_mover_of_host(f)->prepare(e, set, f, err);

    f->is_prepared = false;
    if (st == HVD_OK)
        st = open_set(e, set, err);
    if (st != HVD_OK)
        return st;
    if (!f->staging)
        f->staging = hvd_calloc(1, sizeof(*f->staging));
    if (!f->staging)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a flight");
    f->staging->device = set->own.on_device->device;
    f->staging->phase = HERE;
    if (set->self.size == 1 || !f->work.moves_data)
        return HVD_OK;
    /* If the mode is known to be STAGED, load now, while others move. */
    st = claim_early(set, f, err);
    if (st == HVD_OK && !is_prelude(f))
        return load(e, set, f, err);
    return st == HVD_INPROGRESS ? HVD_OK : st;
}

/* Only handles the splits, which are in host memory. The stream keeps the order of the rest. */
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

    if (set->self.size == 1)
        return launch(e, set, f, err);
    if (set->own.on_device->mode == UNKNOWN) {
        f->mover = &question_mover;
        return exchange_keys(set, f, err);
    }
    hvd_status_t st = claim_memory(set, f, err);
    if (st != HVD_OK || is_prelude(f) || s->phase == ABOARD)
        return st;
    if (s->is_launched)
        return launch(e, set, f, err);
    if (s->phase == HERE)
        st = load(e, set, f, err);
    if (st == HVD_OK)
        st = test_event(e, f, err);
    if (st == HVD_OK)
        s->phase = ABOARD;
    return st;
}

static hvd_status_t start(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                          struct hvd_err *err)
{
    if (f->staging->phase != LANDING)
        return hvd_mover_of_host(f)->start(e, set, f, err);
    hvd_op_trace_started(e, set, f); /* claim has launched it */
    return HVD_OK;
}

static hvd_status_t test(struct hvd_engine *e, struct hvd_fused_op *f, struct hvd_err *err)
{
    return f->staging->phase == LANDING ? test_event(e, f, err) : hvd_mover_test(e, f, err);
}

/* Copies the results back to the device after the last collective. */
static hvd_status_t advance(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                            enum hvd_advance *next, struct hvd_err *err)
{
    const struct hvd_mover *inner = hvd_mover_of_host(f);
    hvd_status_t st = HVD_OK;

    if (f->staging->phase == LANDING)
        return HVD_OK;
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

void hvd_staging_abort(struct hvd_engine *e, struct hvd_set *set)
{
    struct hvd_set_device *on = set->own.on_device;

    (void)e;
    if (!on)
        return;
    on->device->ops->abort(on->device);
    if (on->in)
        on->device->ops->destroy_stream(on->device, on->in);
    if (on->out)
        on->device->ops->destroy_stream(on->device, on->out);
    on->in = NULL;
    on->out = NULL;
}
