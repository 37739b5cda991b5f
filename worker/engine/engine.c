/*
 * The engine's life and its face to the API: create, poll, wait, shut down; submit is in submit.c.
 * Any thread; the state shared between threads is under mu, the work itself is in progress.c, who
 * does it in progress_owner.c.
 */
#include "worker/engine/engine.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/core/rank_list.h"
#include "worker/engine/state/engine_internal.h"

void hvd_engine_destroy(struct hvd_engine *e)
{
    if (!e)
        return;
    if (e->transport)
        e->transport->ops->destroy(e->transport, false);
    hvd_entries_destroy(e);
    hvd_handles_fini(&e->handles);
    for (uint32_t i = 0; i < e->n_sets; i++) {
        hvd_set_destroy(e->sets[i]);
        hvd_free(e->infos[i].ranks);
    }
    while (e->early) {
        struct hvd_early *next = e->early->next;
        hvd_free(e->early);
        e->early = next;
    }
    hvd_free(e->infos);
    hvd_free(e->sets);
    hvd_free(e->cause);
    pthread_cond_destroy(&e->background_cond);
    pthread_mutex_destroy(&e->mu);
    hvd_free(e);
}

/* The locks; without them there is no engine. */
static hvd_status_t init_locks(struct hvd_engine *e)
{
    if (pthread_mutex_init(&e->mu, NULL) != 0)
        return HVD_ERR_SYSTEM;
    if (hvd_engine_cond_init(&e->background_cond) == HVD_OK)
        return HVD_OK;
    pthread_mutex_destroy(&e->mu);
    return HVD_ERR_SYSTEM;
}

/* Set 0: all ranks. */
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

const struct hvd_topology *hvd_engine_topology(const struct hvd_engine *e)
{
    return &e->topology;
}

hvd_status_t hvd_engine_self(struct hvd_engine *e, uint32_t set, struct hvd_self *self,
                             struct hvd_err *err)
{
    pthread_mutex_lock(&e->mu);
    const struct hvd_set *found = hvd_set_find(e, set);
    const bool exists = set < e->n_sets && !e->infos[set].is_removed;
    if (found && exists)
        *self = found->self;
    pthread_mutex_unlock(&e->mu);
    if (!exists)
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                        "Process set provided does not exist, or has not been registered.");
    return found
               ? HVD_OK
               : HVD_FAIL(err, HVD_ERR_DENIED, 0,
                          "Rank %d is not a member of the provided process set.", e->topology.rank);
}

hvd_status_t hvd_engine_check_root(struct hvd_engine *e, uint32_t set, int root,
                                   struct hvd_err *err)
{
    struct hvd_rank_list list;

    pthread_mutex_lock(&e->mu);
    const struct hvd_set *found = hvd_set_find(e, set);
    const bool is_good = !found || hvd_set_rank_of(found, root) >= 0;
    if (!is_good)
        hvd_rank_list_init(&list, found->ranks, found->self.size);
    pthread_mutex_unlock(&e->mu);
    return is_good ? HVD_OK
                   : HVD_FAIL(err, HVD_ERR_INVALID, 0,
                              "broadcast received invalid root rank %d for provided process set: "
                              "its ranks are %s",
                              root, list.text);
}

uint64_t hvd_engine_count_unnamed(struct hvd_engine *e, uint32_t set, enum hvd_op op)
{
    uint64_t number = 0;

    pthread_mutex_lock(&e->mu);
    struct hvd_set *found = hvd_set_find(e, set);
    if (found)
        number = ++found->n_unnamed[op];
    pthread_mutex_unlock(&e->mu);
    return number;
}

void hvd_engine_read_counters(struct hvd_engine *e, struct hvd_engine_counters *out)
{
    const uint64_t *from = (const uint64_t *)&e->counters;
    uint64_t *to = (uint64_t *)out;

    for (size_t i = 0; i < sizeof(*out) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

int hvd_engine_poll(struct hvd_engine *e, int64_t handle)
{
    struct hvd_entry *entry = hvd_handles_find(&e->handles, handle);

    if (!entry || hvd_entry_is_done(entry))
        return entry ? 1 : -1;
    pthread_mutex_lock(&e->mu);
    atomic_store(&e->is_urgent, true);
    hvd_progress_owner_once(e);
    entry = hvd_handles_find(&e->handles, handle); /* mu was free in between */
    int result = entry ? hvd_entry_is_done(entry) : -1;
    pthread_mutex_unlock(&e->mu);
    return result;
}

/* How the tensor ended, into the caller's hands. */
static hvd_status_t read_result(struct hvd_entry *entry, struct hvd_outcome *outcome,
                                struct hvd_err *err)
{
    const hvd_status_t st = entry->status;
    struct hvd_err reported = {0};

    if (st == HVD_ERR_SHUTDOWN && entry->message && !entry->changes_sets) {
        (void)HVD_FAIL(&reported, st, 0, "%s (tensor %.200s)", entry->message, entry->name);
        hvd_job_end_note(reported.msg);
        return HVD_FAIL(err, st, 0, "%s", reported.msg);
    }
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "%s", entry->message ? entry->message : hvd_status_str(st));
    if (outcome) {
        *outcome = (struct hvd_outcome){.output = entry->output, .number = entry->number};
        entry->output = NULL;
    }
    return HVD_OK;
}

/* The entry, which this thread may wait for; NULL when it cannot be waited for. Holds mu. */
static struct hvd_entry *claim(struct hvd_engine *e, int64_t handle, struct hvd_err *err)
{
    struct hvd_entry *entry = hvd_handles_find(&e->handles, handle);

    if (!entry || entry->waiter) {
        hvd_err_set(err, HVD_ERR_NOT_FOUND, 0,
                    entry ? "another thread waits for this handle"
                          : "no such handle: it was waited for already, or never given out");
        return NULL;
    }
    if (!hvd_progress_owner_allowed(e) && !hvd_entry_is_done(entry)) {
        hvd_progress_owner_refuse(entry->request.name, err);
        return NULL;
    }
    return entry;
}

/* What is needed for sleeping, for a waiter that did without so far. Holds mu. */
static hvd_status_t wait_long(struct hvd_engine *e, struct hvd_waiter *waiter, int64_t timeout_ns,
                              struct hvd_err *err)
{
    if (hvd_engine_cond_init(&waiter->cond) != HVD_OK) {
        hvd_progress_owner_release(e);
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "no condition variable");
    }
    waiter->deadline_ns = timeout_ns < 0 ? 0 : hvd_engine_now_ns() + timeout_ns;
    waiter->can_sleep = true;
    hvd_progress_owner_wait(e, waiter);
    pthread_cond_destroy(&waiter->cond);
    return HVD_OK;
}

/* Waits until the entry is done, registered for it, or the time is over: HVD_INPROGRESS. Most
 * waits end without sleep: they do without a condition variable and a clock. Holds mu, and holds it
 * afterwards. */
static hvd_status_t wait_registered(struct hvd_engine *e, struct hvd_entry *entry,
                                    int64_t timeout_ns, struct hvd_err *err)
{
    struct hvd_waiter waiter; /* the rest: see can_sleep */
    hvd_status_t st = HVD_OK;

    waiter.entry = entry;
    waiter.can_sleep = false;
    entry->waiter = &waiter;
    if (hvd_progress_owner_first(e, &waiter, timeout_ns == 0) || timeout_ns == 0)
        hvd_progress_owner_release(e);
    else
        st = wait_long(e, &waiter, timeout_ns, err);
    if (st == HVD_OK && hvd_entry_is_done(entry))
        return HVD_OK;
    entry->waiter = NULL;
    return st == HVD_OK ? HVD_INPROGRESS : st;
}

/* hvd_engine_wait_for where there is more to it than that the tensor has ended. Holds mu. */
static hvd_status_t wait_locked(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                struct hvd_outcome *outcome, struct hvd_err *err)
{
    struct hvd_err why;
    bool is_transient = false;

    hvd_err_clear(&why);
    struct hvd_entry *entry = claim(e, handle, &why);
    if (!entry)
        return HVD_FAIL(err, why.status, 0, "%s", why.msg);
    hvd_status_t st =
        hvd_entry_is_done(entry) ? HVD_OK : wait_registered(e, entry, timeout_ns, err);
    if (st != HVD_OK)
        return st;
    if (!hvd_handles_end(entry, handle, &is_transient))
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "another thread waited for this handle");
    st = read_result(entry, outcome, err);
    hvd_entry_recycle(e, entry, is_transient);
    return st;
}

hvd_status_t hvd_engine_wait_for(struct hvd_engine *e, int64_t handle, int64_t timeout_ns,
                                 struct hvd_outcome *outcome, struct hvd_err *err)
{
    if (hvd_handles_end_simply(&e->handles, handle)) {
        if (outcome)
            *outcome = (struct hvd_outcome){0};
        return HVD_OK;
    }
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = wait_locked(e, handle, timeout_ns, outcome, err);
    pthread_mutex_unlock(&e->mu);
    return st;
}

hvd_status_t hvd_engine_wait(struct hvd_engine *e, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err)
{
    return hvd_engine_wait_for(e, handle, -1, outcome, err);
}

bool hvd_engine_step(struct hvd_engine *e)
{
    atomic_store(&e->is_urgent, true);
    pthread_mutex_lock(&e->mu);
    bool progressed = hvd_progress_owner_once(e);
    pthread_mutex_unlock(&e->mu);
    return progressed;
}

/* Waits until the right to drive is this thread's, for good. Holds mu. */
static void take_over(struct hvd_engine *e)
{
    e->is_ended = true;
    e->must_stop = true;
    hvd_progress_owner_kick(e);
    pthread_cond_broadcast(&e->background_cond);
    while (e->has_progress_owner)
        pthread_cond_wait(&e->background_cond, &e->mu);
    e->has_progress_owner = true;
}

hvd_status_t hvd_engine_shutdown(struct hvd_engine *e, struct hvd_err *err)
{
    struct hvd_waiter waiter = {.can_sleep = true};

    if (!hvd_progress_owner_allowed(e))
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
    if (e->is_aborted && e->topology.size > 1)
        nanosleep(&(const struct timespec){.tv_nsec = (long)e->options.grace_ns}, NULL);
    bool is_quiet = e->transport->ops->destroy(e->transport, e->is_down && !e->is_aborted);
    e->transport = NULL;
    if (is_quiet)
        hvd_job_end_free_lost(e);
    for (uint32_t i = 0; i < e->n_sets && !is_quiet; i++) {
        if (!e->sets[i])
            continue;
        e->sets[i]->exec_plans = NULL; /* MPI may still look at them: they stay */
        e->sets[i]->adasum = NULL;
    }
    return HVD_OK;
}
