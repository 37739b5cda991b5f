/*
 * Creates the transport's part of a process set, which waits for the set's other members. Where the
 * transport allows it, a separate thread does this. The progress owner, which has no other work
 * meanwhile, answers probes and probes the members. So a member that stands still is named and ends
 * the job, as with a tensor.
 *
 *     owner    ── starts ──┬── periodically: messages, heartbeat of the set ──┬── continues
 *     thread               └─────── add_set, which waits for the members ─────┘
 *
 * Messages about tensors are kept in order until the set exists (control.c). If the job ends
 * meanwhile, the thread is abandoned with its memory, because calls of MPI cannot be cancelled.
 */
#include "worker/engine/negotiate/make_set.h"

#include <string.h>

#include "base/aside.h"
#include "base/mem.h"
#include "worker/engine/negotiate/beats.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/stalls.h"
#include "worker/engine/state/clock.h"

#define LOOK_MIN_NS 1000000
#define LOOK_MAX_NS 100000000

/* The arguments of the thread. */
struct making {
    struct hvd_transport *transport;
    uint32_t id;
    int n_ranks;
    int ranks[];
};

static hvd_status_t make(void *ctx, struct hvd_err *err)
{
    struct making *m = ctx;

    return m->transport->ops->add_set(m->transport, m->id, m->ranks, m->n_ranks, err);
}

/* Returns NULL when out of memory. */
static struct making *create(const struct hvd_engine *e, const struct hvd_set *set)
{
    const size_t n = (size_t)set->self.size;
    struct making *m = hvd_malloc(1, sizeof(*m) + n * sizeof(m->ranks[0]));

    if (!m)
        return NULL;
    *m = (struct making){.transport = e->transport, .id = set->id, .n_ranks = set->self.size};
    memcpy(m->ranks, set->ranks, n * sizeof(m->ranks[0]));
    return m;
}

/* Returns the time between two checks. Probes must be answered in a fraction of the warning
 * time. */
static int64_t look_ns(const struct hvd_engine *e)
{
    const int64_t ns = e->options.stall_warning_ns / 16;

    if (ns < LOOK_MIN_NS)
        return LOOK_MIN_NS;
    return ns < LOOK_MAX_NS ? ns : LOOK_MAX_NS;
}

/* Does the progress owner's work meanwhile. A failure ends the job. */
static hvd_status_t look(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    bool progressed = false;

    e->own.now_ns = hvd_engine_coarse_now_ns();
    hvd_status_t st = hvd_control_recv(e, e->own.now_ns, &progressed, err);
    if (st == HVD_OK)
        st = hvd_control_recv_end(e, err);
    if (st == HVD_OK && hvd_stalls_is_due(e, e->own.now_ns))
        st = hvd_beats_check(e, e->sets[0], err);
    if (st == HVD_OK)
        st = hvd_beats_check(e, set, err);
    return st == HVD_OK ? hvd_control_recv_end(e, err) : st;
}

static bool is_aside(const struct hvd_engine *e)
{
    const struct hvd_transport *t = e->transport;

    return e->options.stall_warning_ns > 0 && t->ops->adds_aside && t->ops->adds_aside(t);
}

/* Waits for the thread, and serves the rest of the job. */
static hvd_status_t attend(struct hvd_engine *e, struct hvd_set *set, struct hvd_aside *aside,
                           struct making *m, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;
    hvd_status_t made = HVD_OK;

    e->own.making = set;
    e->own.making_ns = hvd_engine_coarse_now_ns();
    while (st == HVD_OK && !hvd_aside_wait(aside, look_ns(e)))
        st = look(e, set, err);
    e->own.making = NULL;
    e->transport->is_left = !hvd_aside_end(aside, &made, st == HVD_OK ? err : NULL);
    if (e->transport->is_left)
        return st;
    hvd_free(m);
    return st == HVD_OK ? made : st;
}

hvd_status_t hvd_make_set(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    struct hvd_transport *t = e->transport;
    struct making *m = is_aside(e) ? create(e, set) : NULL;
    struct hvd_aside *aside = NULL;

    if (m && hvd_aside_start("horovod-set", make, m, &aside) == HVD_OK)
        return attend(e, set, aside, m, err);
    hvd_free(m);
    return t->ops->add_set(t, set->id, set->ranks, set->self.size, err);
}
