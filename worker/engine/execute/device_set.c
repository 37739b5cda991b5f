/*
 * Process sets on the device. Before the first fused operation of a set, its ranks exchange the key
 * by which their devices connect, and whether a device lacks collectives. So all ranks decide alike
 * whether the set's tensors move between devices or through host memory.
 *
 * A set keeps its blocks of host memory, as many as were in use at once. So a program in its loop
 * allocates nothing. Runs in the progress owner.
 */
#include "worker/engine/execute/device_set.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "worker/engine/execute/mover.h"
#include "worker/engine/state/clock.h"

#define BLOCK_MIN ((size_t)64 << 10)

hvd_status_t hvd_device_set_open(const struct hvd_engine *e, struct hvd_set *set,
                                 struct hvd_err *err)
{
    struct hvd_device_port *d = e->options.device ? e->options.device : hvd_host_device();

    if (set->own.on_device)
        return HVD_OK;
    struct hvd_set_device *on = hvd_calloc(1, sizeof(*on));
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
    hvd_device_event_release(on->last.event);
    hvd_device_event_release(on->first.event);
    if (on->mode == HVD_MODE_DIRECT || on->mode == HVD_MODE_CONNECTING)
        on->device->ops->disconnect(on->device, on->set);
    while (on->free) {
        struct hvd_host_block *next = on->free->next;
        hvd_device_set_free_block(on->device, on->free);
        on->free = next;
    }
    hvd_free(on);
}

/* --- Host memory ------------------------------------------------------------------------------ */

void hvd_device_set_free_block(struct hvd_device_port *d, struct hvd_host_block *block)
{
    if (!block)
        return;
    d->ops->free_host(d, block->memory);
    hvd_free(block);
}

/* Takes a block off the list of free ones. Frees one that is too small instead, so that such
 * blocks do not pile up; returns NULL then. */
static struct hvd_host_block *find_block(struct hvd_set_device *on, size_t bytes)
{
    struct hvd_host_block **small = NULL;

    for (struct hvd_host_block **at = &on->free; *at; at = &(*at)->next) {
        struct hvd_host_block *block = *at;
        if (block->bytes >= bytes) {
            *at = block->next;
            return block;
        }
        small = at;
    }
    if (small) {
        struct hvd_host_block *block = *small;
        *small = block->next;
        hvd_device_set_free_block(on->device, block);
    }
    return NULL;
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

/* Applies the result of the exchange; restores f->move and f->has_more. */
static hvd_status_t take_answer(struct hvd_engine *e, struct hvd_set *set, struct hvd_fused_op *f,
                                enum hvd_advance *next, struct hvd_err *err)
{
    struct hvd_set_device *on = set->own.on_device;
    const struct hvd_device_set device_set = {
        .set = set->id, .rank = set->self.rank, .size = set->self.size, .ranks = set->ranks};

    f->move = on->kept_move;
    f->has_more = on->has_kept_more;
    f->mover = &hvd_staging_mover;
    *next = HVD_ADVANCE_NEXT;
    if (on->question[HVD_DEVICE_KEY_MAX] != 0) {
        on->mode = HVD_MODE_STAGED;
        return HVD_OK;
    }
    const hvd_status_t st = on->device->ops->connect(on->device, &device_set, on->question, err);
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

/* Forgets the operation if it is done. Fails as the device does. */
static hvd_status_t forget_done(struct hvd_flying *flying, struct hvd_err *err)
{
    struct hvd_device_event *event = flying->event;

    if (!event)
        return HVD_OK;
    const hvd_status_t st = event->device->ops->query(event->device, event, err);
    if (st == HVD_INPROGRESS)
        return HVD_OK;
    if (st != HVD_OK)
        return HVD_WRAP(err, st, "tensor %s", flying->name);
    hvd_device_event_release(event);
    flying->event = NULL;
    return HVD_OK;
}

void hvd_device_set_launched(const struct hvd_engine *e, struct hvd_set_device *on,
                             struct hvd_device_event *event, const char *name)
{
    hvd_device_event_release(on->last.event);
    on->last.event = hvd_device_event_retain(event);
    on->last.since_ns = e->own.now_ns;
    on->last.number++;
    snprintf(on->last.name, sizeof(on->last.name), "%s", name);
    (void)hvd_device_set_check(on, NULL); /* a failure stays, and the next check finds it */
}

hvd_status_t hvd_device_set_check(struct hvd_set_device *on, struct hvd_err *err)
{
    hvd_status_t st = on ? forget_done(&on->first, err) : HVD_OK;

    if (st != HVD_OK || !on || on->first.event)
        return st;
    st = forget_done(&on->last, err);
    if (st != HVD_OK || !on->last.event)
        return st;
    on->first = on->last;
    (void)hvd_device_event_retain(on->first.event);
    return HVD_OK;
}
