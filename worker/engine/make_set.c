/*
 * Making what a process set needs of the transport, which waits for the set's other members. Where
 * the transport allows it, a thread of its own makes it, and the driver, which has nothing else to
 * do meanwhile, answers who asks whether this rank is there and looks itself whether the members
 * do. So a member that stands still is named, and ends the job, as under a tensor.
 *
 *     driver   ── starts ──┬── every now and then: messages, heartbeat of the set ──┬── goes on
 *     thread               └────── add_set, which waits for the members ────────────┘
 *
 * Messages that have to do with tensors are kept in order until the set is there (hear.c). When the
 * job ends meanwhile, the thread is left behind with what it works on: MPI cannot be called off.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "worker/engine/engine_internal.h"

#define LOOK_MIN_NS 1000000
#define LOOK_MAX_NS 100000000

/* The work of the thread; whoever is last frees it. */
struct making {
    struct hvd_transport *transport;
    uint32_t id;
    int n_ranks;
    struct hvd_err err; /* the thread's, until it is done */
    hvd_status_t status;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool is_done; /* guarded by mu, as what follows */
    bool is_left; /* the driver does not wait any more */
    int ranks[];
};

static void destroy(struct making *m)
{
    pthread_cond_destroy(&m->cond);
    pthread_mutex_destroy(&m->mu);
    hvd_free(m);
}

static void *make(void *arg)
{
    struct making *m = arg;

    pthread_setname_np(pthread_self(), "horovod-set");
    m->status = m->transport->ops->add_set(m->transport, m->id, m->ranks, m->n_ranks, &m->err);
    pthread_mutex_lock(&m->mu);
    m->is_done = true;
    const bool is_left = m->is_left;
    pthread_cond_signal(&m->cond);
    pthread_mutex_unlock(&m->mu);
    if (is_left)
        destroy(m);
    return NULL;
}

/* NULL: out of memory, or of what a lock takes. */
static struct making *create(const struct hvd_engine *e, const struct hvd_set *set)
{
    const size_t n = (size_t)set->place.size;
    struct making *m = hvd_calloc(1, sizeof(*m) + n * sizeof(m->ranks[0]));

    if (!m || pthread_mutex_init(&m->mu, NULL) != 0) {
        hvd_free(m);
        return NULL;
    }
    if (hvd_cond_init(&m->cond) != HVD_OK) {
        pthread_mutex_destroy(&m->mu);
        hvd_free(m);
        return NULL;
    }
    m->transport = e->transport;
    m->id = set->id;
    m->n_ranks = set->place.size;
    memcpy(m->ranks, set->ranks, n * sizeof(m->ranks[0]));
    return m;
}

/* Whether the set is made, after at most so long. */
static bool wait_for(struct making *m, int64_t ns)
{
    const int64_t at = hvd_now_ns() + ns;
    const struct timespec deadline = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    int rc = 0;

    pthread_mutex_lock(&m->mu);
    while (!m->is_done && rc == 0)
        rc = pthread_cond_timedwait(&m->cond, &m->mu, &deadline);
    const bool is_done = m->is_done;
    pthread_mutex_unlock(&m->mu);
    return is_done;
}

/* Leaves the thread alone, unless it is done by now: whether it was not. */
static bool leave(struct making *m)
{
    pthread_mutex_lock(&m->mu);
    m->is_left = !m->is_done;
    const bool is_left = m->is_left;
    pthread_mutex_unlock(&m->mu);
    return is_left;
}

/* Between two looks: who is asked has to answer in a fraction of the warning time. */
static int64_t look_ns(const struct hvd_engine *e)
{
    const int64_t ns = e->options.stall_warning_ns / 16;

    if (ns < LOOK_MIN_NS)
        return LOOK_MIN_NS;
    return ns < LOOK_MAX_NS ? ns : LOOK_MAX_NS;
}

/* What the driver does meanwhile. A failure ends the job. */
static hvd_status_t look(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    bool progressed = false;

    e->now_ns = hvd_coarse_now_ns();
    hvd_status_t st = hvd_hear(e, e->now_ns, &progressed, err);
    if (st == HVD_OK)
        st = hvd_hear_end(e, err);
    if (st == HVD_OK && hvd_is_stall_check_due(e, e->now_ns))
        st = hvd_check_beats(e, e->sets[0], err);
    if (st == HVD_OK)
        st = hvd_check_beats(e, set, err);
    return st == HVD_OK ? hvd_hear_end(e, err) : st;
}

static bool is_aside(const struct hvd_engine *e)
{
    const struct hvd_transport *t = e->transport;

    return e->options.stall_warning_ns > 0 && t->ops->adds_aside && t->ops->adds_aside(t);
}

/* Waits for the thread, and sees to the rest of the job. */
static hvd_status_t attend(struct hvd_engine *e, struct hvd_set *set, struct making *m,
                           pthread_t thread, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    e->making = set;
    e->making_ns = hvd_coarse_now_ns();
    while (st == HVD_OK && !wait_for(m, look_ns(e)))
        st = look(e, set, err);
    e->making = NULL;
    if (leave(m)) {
        pthread_detach(thread);
        return st;
    }
    pthread_join(thread, NULL);
    if (st == HVD_OK) {
        st = m->status;
        if (st != HVD_OK && err)
            *err = m->err;
    }
    destroy(m);
    return st;
}

hvd_status_t hvd_set_make(struct hvd_engine *e, struct hvd_set *set, struct hvd_err *err)
{
    struct hvd_transport *t = e->transport;
    struct making *m = is_aside(e) ? create(e, set) : NULL;
    pthread_t thread;

    if (m && pthread_create(&thread, NULL, make, m) == 0)
        return attend(e, set, m, thread, err);
    if (m)
        destroy(m);
    return t->ops->add_set(t, set->id, set->ranks, set->place.size, err);
}
