/*
 * The life cycle of the engine and its interface to the API; submit.c has the submission. Any
 * thread may call. Shared state is under mu; progress.c does the work, and progress_owner.c decides
 * which thread does it.
 */

#include "worker/engine/engine.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/core/rank_list.h"
#include "worker/engine/negotiate/agree_set.h"
#include "worker/engine/negotiate/control.h"
#include "worker/engine/negotiate/job_end.h"
#include "worker/engine/negotiate/set.h"
#include "worker/engine/state/clock.h"
#include "worker/engine/state/wake.h"
#include "worker/engine/wait/progress_owner.h"

void hvd_engine_destroy(struct hvd_engine *e)
{
    if (!e)
        return;
    if (e->transport)
        e->transport->ops->destroy(e->transport, false);
    hvd_entries_destroy(e);
    hvd_handles_fini(&e->locked.handles);
    for (uint32_t i = 0; i < e->n_sets; i++) {
        hvd_set_destroy(e->sets[i]);
        hvd_free(e->locked.infos[i].ranks);
    }
    while (e->own.early) {
        struct hvd_early *next = e->own.early->next;
        hvd_free(e->own.early);
        e->own.early = next;
    }
    hvd_free(e->locked.infos);
    hvd_free(e->sets);
    hvd_free(e->locked.cause);
    pthread_cond_destroy(&e->locked.background_cond);
    pthread_mutex_destroy(&e->mu);
    hvd_free(e);
}

/* Initialises the locks and the condition variable. */
static hvd_status_t init_locks(struct hvd_engine *e)
{
    if (pthread_mutex_init(&e->mu, NULL) != 0)
        return HVD_ERR_SYSTEM;
    if (hvd_engine_cond_init(&e->locked.background_cond) == HVD_OK)
        return HVD_OK;
    pthread_mutex_destroy(&e->mu);
    return HVD_ERR_SYSTEM;
}

/* Creates set 0, of all ranks. */
static hvd_status_t make_world(struct hvd_engine *e, struct hvd_err *err)
{
    const int size = e->topology.size;
    int *ranks = hvd_malloc((size_t)size, sizeof(*ranks));
    hvd_status_t st = HVD_ERR_NOMEM;

    uint32_t id = 0;

    if (!ranks)
        return HVD_FAIL(err, st, 0, "out of memory for the process sets");
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    st = hvd_agree_set_register(e, ranks, size, &id, err);
    hvd_free(ranks);
    return st;
}

static hvd_status_t fill(struct hvd_engine *e, struct hvd_err *err)
{
    const bool wants_background = !e->options.no_background && !e->topology.thread_bound;
    hvd_status_t st = make_world(e, err);

    if (st != HVD_OK || !wants_background)
        return st;
    int rc = pthread_create(&e->background, NULL, hvd_progress_owner_background, e);
    if (rc != 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, rc, "the background thread does not start: %s",
                        strerror(rc));
    e->has_background = true;
    return HVD_OK;
}

hvd_status_t hvd_engine_create(struct hvd_transport *transport,
                               const struct hvd_engine_options *options, struct hvd_engine **out,
                               struct hvd_err *err)
{
    struct hvd_engine *e = hvd_calloc(1, sizeof(*e));
    const long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    hvd_status_t st = HVD_ERR_NOMEM;

    if (!e || (st = init_locks(e)) != HVD_OK) {
        hvd_free(e);
        transport->ops->destroy(transport, false);
        return HVD_FAIL(err, st, 0, "the engine does not start: %s", hvd_status_str(st));
    }
    e->transport = transport;
    e->topology = transport->topology;
    e->options = *options;
    atomic_init(&e->device, options->device);
    e->owner = pthread_self();
    e->is_crowded = n_processors > 0 && e->topology.local_size > n_processors;
    st = fill(e, err);
    if (st != HVD_OK) {
        hvd_engine_destroy(e);
        return st;
    }
    *out = e;
    return HVD_OK;
}

void hvd_engine_use_device(struct hvd_engine *e, struct hvd_device_port *device)
{
    atomic_store_explicit(&e->device, device, memory_order_release);
}

struct hvd_device_port *hvd_engine_device(const struct hvd_engine *e)
{
    return atomic_load_explicit(&e->device, memory_order_acquire);
}

const struct hvd_topology *hvd_engine_topology(const struct hvd_engine *e)
{
    return &e->topology;
}

void hvd_engine_read_counters(struct hvd_engine *e, struct hvd_engine_counters *out)
{
    const uint64_t *from = (const uint64_t *)&e->own.counters;
    uint64_t *to = (uint64_t *)out;

    for (size_t i = 0; i < sizeof(*out) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* Makes this thread the progress owner for good. Holds mu. */
static void take_over(struct hvd_engine *e)
{
    e->locked.is_ended = true;
    e->locked.must_stop = true;
    hvd_wake_owner(e);
    pthread_cond_broadcast(&e->locked.background_cond);
    while (e->locked.has_progress_owner)
        pthread_cond_wait(&e->locked.background_cond, &e->mu);
    e->locked.has_progress_owner = true;
}

hvd_status_t hvd_engine_shutdown(struct hvd_engine *e, struct hvd_err *err)
{
    struct hvd_waiter waiter = {.can_sleep = true};

    if (!hvd_wake_may_own(e))
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "HOROVOD_MPI_THREADS_DISABLE is set: horovod_shutdown works in the thread "
                        "that called horovod_init alone");
    if (hvd_engine_cond_init(&waiter.cond) != HVD_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "no condition variable");
    pthread_mutex_lock(&e->mu);
    atomic_store(&e->is_leaving, true);
    hvd_progress_owner_wait(e, &waiter);
    take_over(e);
    pthread_mutex_unlock(&e->mu);
    pthread_cond_destroy(&waiter.cond);
    if (e->has_background)
        pthread_join(e->background, NULL);
    e->has_background = false;
    if (e->own.is_aborted && e->topology.size > 1)
        nanosleep(&(const struct timespec){.tv_nsec = (long)e->options.grace_ns}, NULL);
    bool is_quiet = e->transport->ops->destroy(e->transport, e->own.is_down && !e->own.is_aborted);
    e->transport = NULL;
    if (is_quiet)
        hvd_job_end_free_lost(e);
    for (uint32_t i = 0; i < e->n_sets && e->own.is_down && !e->own.is_aborted; i++)
        hvd_set_leave_device(e->sets[i]);
    struct hvd_device_port *device = hvd_engine_device(e);
    if (device && device->ops->settle)
        device->ops->settle(device);
    for (uint32_t i = 0; i < e->n_sets && !is_quiet; i++) {
        if (!e->sets[i])
            continue;
        e->sets[i]->own.exec_plans = NULL; /* not freed: MPI may still access them */
        e->sets[i]->own.adasum = NULL;
    }
    return HVD_OK;
}
