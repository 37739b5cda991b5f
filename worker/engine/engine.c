/*
 * The engine's life and its face to the API: create, submit, poll, wait, shut down. Any thread; the
 * state shared between threads is under mu, the work itself is in progress.c, who does it in
 * drive.c.
 */
#include "worker/engine/engine.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "worker/engine/engine_internal.h"

#define HVD_DUPLICATE_NAME                                                                         \
    "Requested to allreduce, allgather, or broadcast a tensor with the same name as another "      \
    "tensor that is currently being processed.  If you want to request another tensor, use a "     \
    "different tensor name."

void hvd_engine_destroy(struct hvd_engine *e)
{
    struct hvd_entry *entry;

    if (!e)
        return;
    if (e->transport)
        e->transport->ops->destroy(e->transport, false);
    while ((entry = hvd_handles_any(&e->handles))) {
        hvd_handles_remove(&e->handles, entry);
        hvd_entry_destroy(entry);
    }
    while ((entry = e->pool)) {
        e->pool = entry->next;
        hvd_entry_destroy(entry);
    }
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
    if (hvd_cond_init(&e->background_cond) == HVD_OK)
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
    st = hvd_set_register(e, ranks, size, &id, err);
    hvd_free(ranks);
    return st;
}

static hvd_status_t fill(struct hvd_engine *e, struct hvd_err *err)
{
    const bool wants_background = !e->options.no_background && !e->topology.thread_bound;
    hvd_status_t st = make_world(e, err);

    if (st != HVD_OK || !wants_background)
        return st;
    int rc = pthread_create(&e->background, NULL, hvd_drive_background, e);
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

static hvd_status_t refuse(const struct hvd_engine *e, const struct hvd_set *set,
                           const struct hvd_submission *s, struct hvd_err *err)
{
    if (e->is_ended || e->is_leaving)
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "%s",
                        e->cause ? e->cause : "Horovod has been shut down.");
    if (!set)
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                        "%s: Process set provided does not exist, or has not been registered.",
                        hvd_op_name((int)s->request.op));
    if (set->is_ended || e->infos[set->id].is_removed)
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "Process set has been removed");
    if (s->request.device != HVD_CPU && !e->options.device)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "the tensor is on a device, and this rank has none");
    if (set->is_join_pending)
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "this rank has joined: nothing can be submitted until every rank has");
    return HVD_OK;
}

/* The slot that stands for exactly this tensor, in a group of that size; NULL when none does. */
static struct hvd_slot *matching_slot(struct hvd_slot *slot, const struct hvd_request *req)
{
    if (!slot || !hvd_request_equal(&slot->request, req) || slot->group_size != req->group_size)
        return NULL;
    return slot;
}

/* Takes one tensor in, by its slot where it has one. Holds mu. */
static hvd_status_t accept(struct hvd_engine *e, const struct hvd_submission *s,
                           struct hvd_entry **out, struct hvd_err *err)
{
    struct hvd_set *set = hvd_set_find(e, s->set);
    hvd_status_t st = refuse(e, set, s, err);

    if (st != HVD_OK)
        return st;
    struct hvd_slot *slot = hvd_cache_find(set->cache, s->request.name);
    struct hvd_slot *match = matching_slot(slot, &s->request);
    if ((slot && slot->owner) || (match && hvd_table_find(set->table, s->request.name)))
        return HVD_FAIL(err, HVD_ERR_EXISTS, 0, HVD_DUPLICATE_NAME);
    struct hvd_entry *entry = hvd_entry_create(e, s);
    if (!entry)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor");
    st = hvd_handles_add(&e->handles, entry);
    if (st != HVD_OK) {
        hvd_entry_recycle(e, entry);
        return HVD_FAIL(err, st, 0, "out of memory for a handle");
    }
    entry->slot = match;
    if (match)
        match->owner = entry;
    else
        st = hvd_table_add(set->table, entry->request.name, entry, err);
    if (st != HVD_OK) {
        hvd_handles_remove(&e->handles, entry);
        hvd_entry_recycle(e, entry);
        return st;
    }
    *out = entry;
    return HVD_OK;
}

/* Takes back what accept did. Holds mu. */
static void take_back(struct hvd_engine *e, struct hvd_entry *entry)
{
    if (entry->slot)
        entry->slot->owner = NULL;
    else
        hvd_table_take(entry->set->table, entry->request.name);
    hvd_handles_remove(&e->handles, entry);
    hvd_entry_recycle(e, entry);
}

/* The tensor is on its way from here on. Holds mu. */
static void enqueue(struct hvd_engine *e, struct hvd_entry *entry)
{
    const size_t width = hvd_dtype_size((int)entry->request.dtype);
    if (hvd_shape_count(entry->request.shape, entry->request.ndim, &entry->count))
        e->queued_bytes += entry->count * (int64_t)width;
    if (atomic_load(&e->n_queued) == 0) {
        e->first_queued_ns = hvd_now_ns();
        e->is_new_batch = true;
    }
    hvd_watch_submitted(hvd_entry_watch(e, entry), (uint64_t)entry->handle, &entry->request);
    if (entry->request.op == HVD_JOIN)
        entry->set->is_join_pending = true;
    hvd_entry_list_add(&entry->set->queue, entry);
    atomic_fetch_add(&e->n_outstanding, 1);
    atomic_fetch_add(&e->n_submitted, 1);
    atomic_fetch_add_explicit(&e->n_queued, 1, memory_order_release);
}

/* Wakes who has to see what was submitted, and nobody who will look anyway. Holds mu. */
static void call_driver(struct hvd_engine *e, bool is_waited_now)
{
    const bool is_full = hvd_is_batch_full(e);

    /* A driver that sleeps in the transport has to learn when the new batch is due. */
    const bool must_hear = is_full || (e->is_asleep && e->is_new_batch) ||
                           atomic_load(&e->n_waiters) > 0 || e->options.cycle_ns == 0;

    e->is_new_batch = false;
    if (e->is_driven ? must_hear : (!is_waited_now && (e->is_deep || is_full)))
        hvd_drive_kick(e);
}

hvd_status_t hvd_engine_submit(struct hvd_engine *e, const struct hvd_submission *submission,
                               int64_t *handle, struct hvd_err *err)
{
    struct hvd_entry *entry = NULL;

    pthread_mutex_lock(&e->mu);
    hvd_status_t st = accept(e, submission, &entry, err);
    if (st == HVD_OK) {
        *handle = entry->handle;
        enqueue(e, entry);
        call_driver(e, submission->is_waited_now);
    }
    pthread_mutex_unlock(&e->mu);
    return st;
}

/* A group is asked for by bits only when its tensors are the very group that was cached. */
static bool is_cached_group(struct hvd_entry *const *entries, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!entries[i]->slot || entries[i]->slot->group != entries[0]->slot->group)
            return false;
    return true;
}

/* Asks for all of a group by name. Holds mu. */
static hvd_status_t move_to_table(struct hvd_entry *const *entries, uint32_t n, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (uint32_t i = 0; i < n && st == HVD_OK; i++) {
        struct hvd_entry *entry = entries[i];
        if (!entry->slot)
            continue;
        st = hvd_table_add(entry->set->table, entry->request.name, entry, err);
        if (st == HVD_OK) {
            entry->slot->owner = NULL;
            entry->slot = NULL;
        }
    }
    return st;
}

/* All of a group, or nothing. Holds mu. */
static hvd_status_t accept_group(struct hvd_engine *e, const struct hvd_submission *submissions,
                                 uint32_t n, struct hvd_entry **entries, struct hvd_err *err)
{
    const uint32_t group = e->last_group == UINT32_MAX ? 1 : e->last_group + 1;
    hvd_status_t st = HVD_OK;
    uint32_t n_accepted = 0;

    for (; n_accepted < n && st == HVD_OK; n_accepted += st == HVD_OK) {
        struct hvd_submission s = submissions[n_accepted];
        s.request.group = n > 1 ? group : 0;
        s.request.group_size = n > 1 ? n : 0;
        st = accept(e, &s, &entries[n_accepted], err);
    }
    if (st == HVD_OK && n > 1 && !is_cached_group(entries, n))
        st = move_to_table(entries, n, err);
    if (st != HVD_OK) {
        while (n_accepted > 0)
            take_back(e, entries[--n_accepted]);
        return st;
    }
    e->last_group = group;
    return HVD_OK;
}

hvd_status_t hvd_engine_submit_group(struct hvd_engine *e, const struct hvd_submission *submissions,
                                     uint32_t n, int64_t *handles, struct hvd_err *err)
{
    struct hvd_entry **entries = hvd_calloc(n, sizeof(struct hvd_entry *));

    if (!entries)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a group of %u tensors", n);
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = accept_group(e, submissions, n, entries, err);
    for (uint32_t i = 0; i < n && st == HVD_OK; i++) {
        handles[i] = entries[i]->handle;
        enqueue(e, entries[i]);
    }
    if (st == HVD_OK && n > 0)
        call_driver(e, submissions[0].is_waited_now);
    pthread_mutex_unlock(&e->mu);
    hvd_free(entries);
    return st;
}

hvd_status_t hvd_engine_place(struct hvd_engine *e, uint32_t set, struct hvd_place *place,
                              struct hvd_err *err)
{
    pthread_mutex_lock(&e->mu);
    const struct hvd_set *found = hvd_set_find(e, set);
    const bool exists = set < e->n_sets && !e->infos[set].is_removed;
    if (found && exists)
        *place = found->place;
    pthread_mutex_unlock(&e->mu);
    if (!exists)
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                        "Process set provided does not exist, or has not been registered.");
    return found
               ? HVD_OK
               : HVD_FAIL(err, HVD_ERR_DENIED, 0,
                          "Rank %d is not a member of the provided process set.", e->topology.rank);
}

void hvd_engine_read_counters(struct hvd_engine *e, struct hvd_engine_counters *out)
{
    pthread_mutex_lock(&e->mu);
    *out = e->counters;
    pthread_mutex_unlock(&e->mu);
}

int hvd_engine_poll(struct hvd_engine *e, int64_t handle)
{
    pthread_mutex_lock(&e->mu);
    struct hvd_entry *entry = hvd_handles_find(&e->handles, handle);
    if (entry && !atomic_load(&entry->is_done)) {
        atomic_store(&e->is_urgent, true);
        hvd_drive_once(e);
        entry = hvd_handles_find(&e->handles, handle); /* mu was free in between */
    }
    int result = entry ? atomic_load(&entry->is_done) : -1;
    pthread_mutex_unlock(&e->mu);
    return result;
}

/* How the tensor ended, into the caller's hands. */
static hvd_status_t read_result(struct hvd_entry *entry, struct hvd_outcome *outcome,
                                struct hvd_err *err)
{
    const hvd_status_t st = entry->status;

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "%s", entry->message ? entry->message : hvd_status_str(st));
    if (outcome) {
        *outcome = (struct hvd_outcome){.output = entry->output, .number = entry->number};
        entry->output = NULL;
    }
    return HVD_OK;
}

/* The entry, claimed for this waiter; NULL when it cannot be waited for. Holds mu. */
static struct hvd_entry *claim(struct hvd_engine *e, int64_t handle, struct hvd_waiter *waiter,
                               struct hvd_err *err)
{
    struct hvd_entry *entry = hvd_handles_find(&e->handles, handle);

    if (!entry || entry->waiter) {
        hvd_err_set(err, HVD_ERR_NOT_FOUND, 0,
                    entry ? "another thread waits for this handle"
                          : "no such handle: it was waited for already, or never given out");
        return NULL;
    }
    if (!hvd_drive_allowed(e) && !atomic_load(&entry->is_done)) {
        hvd_err_set(err, HVD_ERR_STATE, 0,
                    "HOROVOD_MPI_THREADS_DISABLE is set: tensor %s can be waited for in the thread "
                    "that called horovod_init alone",
                    entry->name);
        return NULL;
    }
    entry->waiter = waiter;
    waiter->entry = entry;
    return entry;
}

hvd_status_t hvd_engine_wait(struct hvd_engine *e, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err)
{
    struct hvd_waiter waiter = {0};
    struct hvd_err why = {0};
    hvd_status_t st = HVD_OK;

    if (hvd_cond_init(&waiter.cond) != HVD_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "no condition variable");
    pthread_mutex_lock(&e->mu);
    struct hvd_entry *entry = claim(e, handle, &waiter, &why);
    if (entry) {
        if (!atomic_load(&entry->is_done))
            hvd_drive_wait(e, &waiter);
        hvd_handles_remove(&e->handles, entry);
        st = read_result(entry, outcome, err);
        hvd_entry_recycle(e, entry);
    }
    pthread_mutex_unlock(&e->mu);
    pthread_cond_destroy(&waiter.cond);
    return entry ? st : HVD_FAIL(err, why.status, 0, "%s", why.msg);
}

bool hvd_engine_step(struct hvd_engine *e)
{
    atomic_store(&e->is_urgent, true);
    pthread_mutex_lock(&e->mu);
    bool progressed = hvd_drive_once(e);
    pthread_mutex_unlock(&e->mu);
    return progressed;
}

/* Waits until the right to drive is this thread's, for good. Holds mu. */
static void take_over(struct hvd_engine *e)
{
    e->is_ended = true;
    e->must_stop = true;
    pthread_cond_broadcast(&e->background_cond);
    while (e->is_driven)
        pthread_cond_wait(&e->background_cond, &e->mu);
    e->is_driven = true;
}

hvd_status_t hvd_engine_shutdown(struct hvd_engine *e, struct hvd_err *err)
{
    struct hvd_waiter waiter = {0};

    if (!hvd_drive_allowed(e))
        return HVD_FAIL(err, HVD_ERR_STATE, 0,
                        "HOROVOD_MPI_THREADS_DISABLE is set: horovod_shutdown works in the thread "
                        "that called horovod_init alone");
    if (hvd_cond_init(&waiter.cond) != HVD_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "no condition variable");
    pthread_mutex_lock(&e->mu);
    e->is_leaving = true;
    hvd_drive_wait(e, &waiter);
    take_over(e);
    pthread_mutex_unlock(&e->mu);
    pthread_cond_destroy(&waiter.cond);
    if (e->has_background)
        pthread_join(e->background, NULL);
    e->has_background = false;
    bool is_quiet = e->transport->ops->destroy(e->transport, e->is_down && !e->is_aborted);
    e->transport = NULL;
    if (is_quiet)
        hvd_end_free_lost(e);
    for (uint32_t i = 0; i < e->n_sets && !is_quiet; i++) {
        if (!e->sets[i])
            continue;
        e->sets[i]->runs = NULL; /* MPI may still look at them: they stay */
        e->sets[i]->adasum = NULL;
    }
    return HVD_OK;
}
