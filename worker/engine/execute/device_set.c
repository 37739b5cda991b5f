/*
 * Process sets on the device. Before the first fused operation of a set, its ranks exchange the key
 * by which their devices connect, and whether a device lacks collectives. So all ranks decide alike
 * whether the set's tensors move between devices or through host memory.
 *
 * A set keeps its blocks of host memory, as many of each size as were in use at once, until it
 * ends. So a program in its loop allocates nothing. Runs in the progress owner.
 */
#include "worker/engine/execute/device_set.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/local_ranks.h"
#include "worker/engine/execute/mover.h"
#include "worker/engine/state/clock.h"
#include "worker/engine/state/set_hosts.h"

#define BLOCK_MIN ((size_t)64 << 10)

hvd_status_t hvd_device_set_open(const struct hvd_engine *e, struct hvd_set *set,
                                 struct hvd_err *err)
{
    struct hvd_device_port *own = hvd_engine_device(e);
    struct hvd_device_port *d = own ? own : hvd_host_device();
    struct hvd_set_device *on = set->own.on_device;

    if (on) {
        on->device = d; /* the host only stands in for it, so the set is staged and stays so */
        return HVD_OK;
    }
    on = hvd_calloc(1, sizeof(*on));
    if (!on)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory for a process set", d->name);
    on->device = d;
    on->set = set->id;
    set->own.on_device = on;
    return HVD_OK;
}

void hvd_device_set_destroy(struct hvd_set_device *on)
{
    if (!on)
        return;
    hvd_device_event_release(on->last);
    hvd_across_destroy(on->across);
    if (on->mode == HVD_MODE_DIRECT || on->mode == HVD_MODE_CONNECTING)
        on->device->ops->disconnect(on->device, on->set);
    while (on->free) {
        struct hvd_host_block *next = on->free->next;
        hvd_device_set_free_block(on->free);
        on->free = next;
    }
    hvd_free(on);
}

/* --- Host memory ------------------------------------------------------------------------------ */

void hvd_device_set_free_block(struct hvd_host_block *block)
{
    if (!block)
        return;
    block->device->ops->free_host(block->device, block->memory);
    hvd_free(block);
}

/* Takes the smallest sufficient block off the list of free ones; NULL: there is none. Smaller ones
 * stay for smaller operations: to free them while collectives run could wait for a peer forever. */
static struct hvd_host_block *find_block(struct hvd_set_device *on, size_t bytes)
{
    struct hvd_host_block **best = NULL;

    for (struct hvd_host_block **at = &on->free; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes && (*at)->device == on->device &&
            (!best || (*at)->bytes < (*best)->bytes))
            best = at;
    if (!best)
        return NULL;
    struct hvd_host_block *block = *best;
    *best = block->next;
    return block;
}

hvd_status_t hvd_device_set_take(struct hvd_set_device *on, size_t bytes,
                                 struct hvd_host_block **out, struct hvd_err *err)
{
    struct hvd_device_port *d = on->device;
    struct hvd_host_block *block = find_block(on, bytes);
    size_t room = BLOCK_MIN;

    if (block) {
        *out = block;
        return HVD_OK;
    }
    while (room < bytes && room <= SIZE_MAX / 2)
        room *= 2;
    block = hvd_calloc(1, sizeof(*block));
    if (!block)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", d->name);
    block->device = d;
    block->bytes = room < bytes ? bytes : room;
    const hvd_status_t st = d->ops->alloc_host(d, block->bytes, &block->memory, err);
    if (st == HVD_OK)
        *out = block;
    else
        hvd_free(block);
    return st;
}

void hvd_device_set_put(struct hvd_set_device *on, struct hvd_host_block *block)
{
    block->next = on->free;
    on->free = block;
}

/* --- The choice between the two ways ---------------------------------------------------------- */

bool hvd_device_set_moves(const struct hvd_set_device *on, const struct hvd_fused_op *f)
{
    const struct hvd_request *req = &f->request;

    return on->mode == HVD_MODE_DIRECT && on->device->ops->moves(req->op, req->dtype, req->reduce);
}

int64_t hvd_device_set_part(const struct hvd_set_device *on, const struct hvd_fused_op *f)
{
    return on->across ? on->device->ops->part(on->device, &f->move) : -1;
}

hvd_status_t hvd_device_set_ready(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;

    if (on->mode == HVD_MODE_UNKNOWN)
        return HVD_ERR_NOT_FOUND;
    if (on->mode != HVD_MODE_CONNECTING)
        return HVD_OK;
    const hvd_status_t st = on->device->ops->connected(on->device, on->set, err);
    if (st != HVD_OK)
        return st;
    on->mode = HVD_MODE_DIRECT;
    e->own.n_on_device--;
    return HVD_OK;
}

hvd_status_t hvd_device_set_ask(struct hvd_set *set, struct hvd_fused_op *f, struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    const struct hvd_device_ops *ops = on->device->ops;
    hvd_status_t st = HVD_OK;

    memset(on->question, 0, sizeof(on->question));
    on->question[HVD_DEVICE_KEY_MAX] = !ops->moves || (ops->has_room && !ops->has_room(on->device));
    if (ops->moves && set->self.rank == 0)
        st = ops->make_key(on->device, on->question, err);
    on->kept_move = f->move;
    on->has_kept_more = f->has_more;
    f->has_more = true;
    f->mover = &hvd_question_mover;
    f->move = (struct hvd_collective){.op = HVD_ALLREDUCE,
                                      .dtype = HVD_UINT8,
                                      .reduce = HVD_MAX,
                                      .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                                      .set = set->id,
                                      .input = on->question,
                                      .output = on->question,
                                      .count = sizeof(on->question)};
    return st;
}

/* Starts to connect the device to those of the other ranks. */
static hvd_status_t connect_set(const struct hvd_engine *e, const struct hvd_set *set,
                                struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    int *hosts = NULL;
    int *local_ranks = NULL;
    hvd_status_t st = hvd_set_hosts_find(e, set, &hosts);

    if (st == HVD_OK && hosts)
        st = hvd_local_ranks_of(hosts, set->self.size, &local_ranks);
    if (st == HVD_OK && on->device->ops->part)
        st = hvd_across_create(local_ranks, set->self.size, set->self.rank, &on->across);
    const struct hvd_device_set device_set = {.set = set->id,
                                              .rank = set->self.rank,
                                              .size = set->self.size,
                                              .ranks = set->ranks,
                                              .hosts = hosts,
                                              .local_ranks = local_ranks};
    st = st == HVD_OK
             ? on->device->ops->connect(on->device, &device_set, on->question, err)
             : HVD_FAIL(err, st, 0, "%s: out of memory for a process set", on->device->name);
    hvd_free(local_ranks);
    hvd_free(hosts);
    return st;
}

/* Applies the result of the exchange; restores f->move and f->has_more. */
static hvd_status_t take_answer(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                enum hvd_advance *next, struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;

    f->move = on->kept_move;
    f->has_more = on->has_kept_more;
    f->mover = &hvd_staging_mover;
    *next = HVD_ADVANCE_NEXT;
    if (on->question[HVD_DEVICE_KEY_MAX] != 0) {
        on->mode = HVD_MODE_STAGED;
        return HVD_OK;
    }
    const hvd_status_t st = connect_set(e, set, err);
    if (st == HVD_OK) {
        on->mode = HVD_MODE_CONNECTING;
        e->own.n_on_device++;
    }
    return st;
}

static hvd_status_t start_question(struct hvd_engine *e, struct hvd_set *set,
                                   struct hvd_fused_op *f, struct hvd_err *err)
{
    (void)set;
    return e->transport->ops->start(e->transport, &f->move, err);
}

const struct hvd_mover hvd_question_mover = {
    .start = start_question, .test = hvd_mover_test, .advance = take_answer};

/* --- What was launched ------------------------------------------------------------------------ */

uint64_t hvd_device_set_handed(const struct hvd_engine *e, struct hvd_set_device *on,
                               const struct hvd_fused_op *f)
{
    struct hvd_flying *flying = &on->flying[++on->n_handed % HVD_FLYING_MAX];

    flying->since_ns = e->own.now_ns;
    flying->op = f->request.op;
    snprintf(flying->name, sizeof(flying->name), "%s", hvd_fused_op_name(f));
    return on->n_handed;
}

void hvd_device_set_launched(struct hvd_set_device *on, uint64_t number,
                             struct hvd_device_event *event)
{
    if (number < on->n_launched) /* a later one was seen before */
        return;
    on->n_launched = number;
    hvd_device_event_release(on->last);
    on->last = hvd_device_event_retain(event);
}

hvd_status_t hvd_device_set_check(struct hvd_set_device *on, struct hvd_err *err)
{
    if (!on || !on->last)
        return HVD_OK;
    const hvd_status_t st = on->last->device->ops->query(on->last->device, on->last, err);
    if (st == HVD_INPROGRESS)
        return HVD_OK;
    if (st != HVD_OK) {
        const struct hvd_flying *flying = hvd_device_set_flying(on);
        return HVD_WRAP(err, st, "tensor %s",
                        (flying ? flying : &on->flying[on->n_launched % HVD_FLYING_MAX])->name);
    }
    hvd_device_event_release(on->last);
    on->last = NULL;
    return HVD_OK;
}

/* Returns how many operations are done, or begun, from the last digits of that number. */
static uint64_t count_of(const struct hvd_set_device *on, uint32_t n)
{
    return on->n_handed - ((uint32_t)on->n_handed - n);
}

uint64_t hvd_device_set_progress(const struct hvd_set_device *on)
{
    if (on->mode != HVD_MODE_DIRECT)
        return 0;
    const struct hvd_device_progress p = on->device->ops->progress(on->device, on->set);
    const uint64_t n_done = count_of(on, p.n_done);
    enum hvd_device_stage stage = HVD_STAGE_AWAITED;

    if (count_of(on, p.n_begun) > n_done)
        stage = HVD_STAGE_REACHED;
    else if (on->n_launched > n_done)
        stage = HVD_STAGE_LAUNCHED;
    return n_done * HVD_STAGES + stage;
}

const struct hvd_flying *hvd_device_set_flying(const struct hvd_set_device *on)
{
    const uint64_t n_done = on ? hvd_device_set_progress(on) / HVD_STAGES : 0;

    if (!on || on->mode != HVD_MODE_DIRECT || n_done >= on->n_handed)
        return NULL;
    const uint64_t n_kept = on->n_handed < HVD_FLYING_MAX ? on->n_handed : HVD_FLYING_MAX;
    const uint64_t n_open = on->n_handed - n_done;
    return &on->flying[(on->n_handed - (n_open < n_kept ? n_open : n_kept) + 1) % HVD_FLYING_MAX];
}
