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

static void destroy_entry(struct hvd_entry *entry)
{
    if (!entry)
        return;
    hvd_output_destroy(entry->output);
    hvd_free(entry->message);
    hvd_free(entry);
}

void hvd_engine_destroy(struct hvd_engine *e)
{
    struct hvd_entry *entry;

    if (!e)
        return;
    while ((entry = hvd_handles_any(&e->handles))) {
        hvd_handles_remove(&e->handles, entry);
        destroy_entry(entry);
    }
    hvd_handles_fini(&e->handles);
    hvd_table_destroy(e->table);
    hvd_negotiator_destroy(e->negotiator);
    hvd_buf_fini(&e->requests);
    hvd_free(e->cause);
    if (e->transport)
        e->transport->ops->destroy(e->transport, false);
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

static hvd_status_t fill(struct hvd_engine *e, struct hvd_err *err)
{
    const bool wants_background = !e->options.no_background && !e->topology.thread_bound;
    hvd_status_t st = hvd_table_create(&e->table, err);

    if (st == HVD_OK && e->topology.rank == 0)
        st = hvd_negotiator_create(e->topology.size, &e->negotiator, err);
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
    hvd_buf_init(&e->requests, HVD_MESSAGE_MAX);
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

static struct hvd_entry *create_entry(const struct hvd_submission *s)
{
    const struct hvd_request *req = &s->request;
    struct hvd_entry *entry = hvd_calloc(1, sizeof(*entry) + req->name.len + 1);

    if (!entry)
        return NULL;
    memcpy(entry->name, req->name.data, req->name.len);
    entry->request = *req;
    entry->request.name.data = entry->name;
    entry->move = (struct hvd_collective){
        .op = req->op,
        .dtype = req->dtype,
        .reduce = req->reduce == HVD_AVERAGE ? HVD_SUM : req->reduce,
        .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
        .root = req->root,
        .input = s->input,
        .output = s->output,
    };
    return entry;
}

/* Takes the entry in, or leaves everything as it was. Holds mu. */
static hvd_status_t accept(struct hvd_engine *e, struct hvd_entry *entry, struct hvd_err *err)
{
    if (e->is_ended || e->is_leaving)
        return HVD_FAIL(err, HVD_ERR_SHUTDOWN, 0, "%s",
                        e->cause ? e->cause : "Horovod has been shut down.");
    hvd_status_t st = hvd_handles_add(&e->handles, entry);
    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "out of memory for a handle");
    st = hvd_table_add(e->table, entry->request.name, entry, err);
    if (st != HVD_OK) {
        hvd_handles_remove(&e->handles, entry);
        return st;
    }
    hvd_watch_submitted(e->options.watch, (uint64_t)entry->handle, &entry->request);
    hvd_entry_list_add(&e->queue, entry);
    atomic_fetch_add(&e->n_outstanding, 1);
    atomic_fetch_add_explicit(&e->n_queued, 1, memory_order_release);
    return HVD_OK;
}

hvd_status_t hvd_engine_submit(struct hvd_engine *e, const struct hvd_submission *submission,
                               int64_t *handle, struct hvd_err *err)
{
    struct hvd_entry *entry = create_entry(submission);

    if (!entry)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a tensor");
    pthread_mutex_lock(&e->mu);
    hvd_status_t st = accept(e, entry, err);
    if (st == HVD_OK) {
        *handle = entry->handle;
        entry = NULL;
        if (!submission->is_waited_now || e->is_driven)
            hvd_drive_kick(e);
    }
    pthread_mutex_unlock(&e->mu);
    destroy_entry(entry);
    return st;
}

int hvd_engine_poll(struct hvd_engine *e, int64_t handle)
{
    pthread_mutex_lock(&e->mu);
    struct hvd_entry *entry = hvd_handles_find(&e->handles, handle);
    if (entry && !atomic_load(&entry->is_done)) {
        hvd_drive_once(e);
        entry = hvd_handles_find(&e->handles, handle); /* mu was free in between */
    }
    int result = entry ? atomic_load(&entry->is_done) : -1;
    pthread_mutex_unlock(&e->mu);
    return result;
}

/* What the entry has to say, into the caller's hands. */
static hvd_status_t read_result(struct hvd_entry *entry, struct horovod_output **output,
                                struct hvd_err *err)
{
    const hvd_status_t st = entry->status;

    if (st != HVD_OK)
        return HVD_FAIL(err, st, 0, "%s", entry->message ? entry->message : hvd_status_str(st));
    if (output) {
        *output = entry->output;
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

hvd_status_t hvd_engine_wait(struct hvd_engine *e, int64_t handle, struct horovod_output **output,
                             struct hvd_err *err)
{
    struct hvd_waiter waiter = {0};
    struct hvd_err why = {0};

    if (hvd_cond_init(&waiter.cond) != HVD_OK)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "no condition variable");
    pthread_mutex_lock(&e->mu);
    struct hvd_entry *entry = claim(e, handle, &waiter, &why);
    if (entry) {
        if (!atomic_load(&entry->is_done))
            hvd_drive_wait(e, &waiter);
        hvd_handles_remove(&e->handles, entry);
    }
    pthread_mutex_unlock(&e->mu);
    pthread_cond_destroy(&waiter.cond);
    if (!entry)
        return HVD_FAIL(err, why.status, 0, "%s", why.msg);
    hvd_status_t st = read_result(entry, output, err);
    destroy_entry(entry);
    return st;
}

bool hvd_engine_step(struct hvd_engine *e)
{
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
    while (is_quiet && e->orphans) {
        struct horovod_output *next = e->orphans->next_orphan;
        hvd_output_destroy(e->orphans);
        e->orphans = next;
    }
    return HVD_OK;
}
