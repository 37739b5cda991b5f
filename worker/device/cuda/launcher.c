/*
 * The threads that launch work, each in the order in which the engine hands it over. They alone
 * make calls that may block. Items are reused, so a training loop allocates nothing.
 */
#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "worker/device/cuda/cuda_internal.h"

#define N_ITEMS 16
#define N_PIECES 64

/* --- Items ------------------------------------------------------------------------------------ */

/* Grows an owned array of an item. */
static hvd_status_t make_room(void **array, int *room, int n, size_t width, struct hvd_err *err)
{
    if (*room >= n)
        return HVD_OK;
    void *grown = hvd_realloc(*array, (size_t)n, width);
    if (!grown)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for work of the GPU");
    *array = grown;
    *room = n;
    return HVD_OK;
}

static struct hvd_cuda_item *take_item(struct hvd_cuda_device *g)
{
    pthread_mutex_lock(&g->mu);
    struct hvd_cuda_item *item = g->free_items;
    if (item)
        g->free_items = item->next;
    pthread_mutex_unlock(&g->mu);
    return item ? item : hvd_calloc(1, sizeof(*item));
}

static void put_item(struct hvd_cuda_device *g, struct hvd_cuda_item *item)
{
    for (int i = 0; i < item->work.n_ready; i++)
        hvd_device_event_release(item->ready[i]);
    item->work.n_ready = 0;
    pthread_mutex_lock(&g->mu);
    item->next = g->free_items;
    g->free_items = item;
    pthread_mutex_unlock(&g->mu);
}

void hvd_cuda_items_destroy(struct hvd_cuda_device *g)
{
    while (g->free_items) {
        struct hvd_cuda_item *item = g->free_items;
        g->free_items = item->next;
        hvd_free(item->pieces);
        hvd_free(item->counts);
        hvd_free(item->ready);
        hvd_free(item);
    }
}

/* Returns the ranks of a set whose counts a collective has; 0: it has none. */
static int count_ranks(const struct hvd_cuda_item *item, const struct hvd_device_work *work)
{
    return item->set && work->move->counts ? item->set->size : 0;
}

/* Copies what the work refers to into the item. */
static hvd_status_t copy_work(struct hvd_cuda_item *item, const struct hvd_device_work *work,
                              struct hvd_err *err)
{
    const struct hvd_collective *c = work->move;
    const struct hvd_piece whole = {.input = c->input, .output = c->output, .count = c->count};
    const bool is_move = hvd_device_is_between(work->kind);
    const bool is_fused = is_move ? c->n_pieces > 0 : work->n_pieces > 0;
    const struct hvd_piece *pieces = &whole;
    const int n = is_fused ? (is_move ? c->n_pieces : work->n_pieces) : 1;
    const int n_ranks = count_ranks(item, work);
    hvd_status_t st = make_room((void **)&item->pieces, &item->n_room, n, sizeof(whole), err);

    if (is_fused)
        pieces = is_move ? c->pieces : work->pieces;
    if (st == HVD_OK)
        st = make_room((void **)&item->counts, &item->counts_room, 2 * n_ranks, sizeof(int64_t),
                       err);
    if (st == HVD_OK)
        st = make_room((void **)&item->ready, &item->ready_room, work->n_ready,
                       sizeof(struct hvd_device_event *), err);
    if (st != HVD_OK)
        return st;
    memcpy(item->pieces, pieces, (size_t)n * sizeof(whole));
    if (n_ranks > 0)
        memcpy(item->counts, c->counts, (size_t)n_ranks * sizeof(int64_t));
    if (n_ranks > 0 && c->received)
        memcpy(item->counts + n_ranks, c->received, (size_t)n_ranks * sizeof(int64_t));
    for (int i = 0; i < work->n_ready; i++)
        item->ready[i] = hvd_device_event_retain(work->ready[i]);
    item->move = *c;
    item->move.pieces = item->pieces;
    item->move.n_pieces = n;
    item->move.counts = item->counts;
    item->move.received = item->counts + n_ranks;
    item->work = *work;
    item->work.move = &item->move;
    item->work.pieces = item->pieces;
    item->work.n_pieces = n;
    item->work.ready = item->ready;
    item->work.event = NULL;
    return HVD_OK;
}

/* --- The threads ------------------------------------------------------------------------------ */

static hvd_status_t run_item(struct hvd_cuda_device *g, struct hvd_cuda_item *item)
{
    struct hvd_cuda_event *event = NULL;
    hvd_status_t st;

    if (atomic_load(&g->is_aborted) || atomic_load(&g->has_failed)) {
        pthread_mutex_lock(&g->mu);
        st = HVD_FAIL(&item->err, HVD_ERR_UNAVAILABLE, 0, "%s", g->cause);
        pthread_mutex_unlock(&g->mu);
        item->is_refused = true;
        return st;
    }
    if (hvd_device_is_between(item->work.kind))
        st = hvd_cuda_move(g, item, &event, &item->err);
    else
        st = hvd_cuda_copy(g, item, &event, &item->err);
    if (st == HVD_OK) {
        item->work.event = event ? &event->base : NULL;
        return st;
    }
    hvd_device_event_release(event ? &event->base : NULL);
    /* what it has enqueued may still use the tensors */
    atomic_store(item->set ? &item->set->pack.has_more : &g->in.has_more, true);
    atomic_store(item->set ? &item->set->move.has_more : &g->out.has_more, true);
    return hvd_cuda_fail(g, st, &item->err);
}

/* Gives the result to whoever tests, or nobody does. */
static void finish_item(struct hvd_cuda_device *g, struct hvd_cuda_item *item, hvd_status_t st)
{
    atomic_store_explicit(&item->status, (int)st, memory_order_release);
    /* forget and this look at both fields in the opposite order, so one of them frees it */
    if (!atomic_exchange(&item->is_forgotten, true))
        return;
    hvd_device_event_release(item->work.event);
    put_item(g, item);
}

void hvd_cuda_queue_init(struct hvd_cuda_queue *q, struct hvd_cuda_device *g)
{
    q->device = g;
    q->last = &q->first;
    pthread_cond_init(&q->cond, NULL);
}

void hvd_cuda_queue_fini(struct hvd_cuda_queue *q)
{
    pthread_cond_destroy(&q->cond);
}

void hvd_cuda_queue_serve(struct hvd_cuda_queue *q)
{
    struct hvd_cuda_device *g = q->device;

    pthread_mutex_lock(&g->mu);
    for (;;) {
        while (!q->first && !q->must_stop)
            pthread_cond_wait(&q->cond, &g->mu);
        struct hvd_cuda_item *item = q->first;
        if (!item)
            break;
        q->first = item->next;
        if (!q->first)
            q->last = &q->first;
        q->is_launching = true;
        pthread_mutex_unlock(&g->mu);
        finish_item(g, item, run_item(g, item));
        pthread_mutex_lock(&g->mu);
        q->is_launching = false;
        pthread_cond_broadcast(&q->cond);
    }
    pthread_mutex_unlock(&g->mu);
}

bool hvd_cuda_queue_is_idle(struct hvd_cuda_queue *q)
{
    pthread_mutex_lock(&q->device->mu);
    const bool is_idle = !q->first && !q->is_launching;
    pthread_mutex_unlock(&q->device->mu);
    return is_idle;
}

static void end_queue(struct hvd_cuda_queue *q)
{
    pthread_mutex_lock(&q->device->mu);
    q->must_stop = true;
    pthread_cond_broadcast(&q->cond);
    pthread_mutex_unlock(&q->device->mu);
}

void hvd_cuda_queue_stop(struct hvd_cuda_queue *q)
{
    if (!q->has_thread)
        return;
    end_queue(q);
    pthread_join(q->thread, NULL);
    q->has_thread = false;
}

void hvd_cuda_queue_abandon(struct hvd_cuda_queue *q)
{
    if (!q->has_thread)
        return;
    pthread_detach(q->thread); /* first: it may free the queue when it stops */
    end_queue(q);
}

static void *run_launcher(void *arg)
{
    struct hvd_cuda_queue *q = arg;
    struct hvd_cuda_device *g = q->device;
    unsigned int mode = HVD_CU_CAPTURE_RELAXED;

    pthread_setname_np(pthread_self(), "horovod-gpu");
    (void)hvd_cuda_enter(g, NULL); /* until the thread ends */
    /* A capture in another thread must not break because of calls here. */
    (void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);
    hvd_cuda_queue_serve(q);
    hvd_cuda_leave(g);
    return NULL;
}

/* Creates items, so that how many are in the queue at once makes no difference later. */
static hvd_status_t create_items(struct hvd_cuda_device *g, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (int i = 0; i < N_ITEMS && st == HVD_OK; i++) {
        struct hvd_cuda_item *item = hvd_calloc(1, sizeof(*item));
        if (!item)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", g->name);
        put_item(g, item);
        st = make_room((void **)&item->pieces, &item->n_room, N_PIECES, sizeof(struct hvd_piece),
                       err);
        if (st == HVD_OK)
            st = make_room((void **)&item->ready, &item->ready_room, N_PIECES,
                           sizeof(struct hvd_device_event *), err);
    }
    return st;
}

hvd_status_t hvd_cuda_launcher_start(struct hvd_cuda_device *g, struct hvd_err *err)
{
    const hvd_status_t st = create_items(g, err);

    if (st != HVD_OK)
        return st;
    const int error = pthread_create(&g->queue.thread, NULL, run_launcher, &g->queue);

    g->queue.has_thread = error == 0;
    return error ? HVD_FAIL(err, HVD_ERR_SYSTEM, error, "%s: no thread", g->name) : HVD_OK;
}

/* --- The port --------------------------------------------------------------------------------- */

/* Returns the set of a collective; NULL: it is a copy. */
static hvd_status_t find_set(struct hvd_cuda_device *g, const struct hvd_device_work *work,
                             struct hvd_cuda_set **out, struct hvd_err *err)
{
    *out = NULL;
    if (!hvd_device_is_between(work->kind))
        return HVD_OK;
    if (work->is_alone)
        return hvd_cuda_set_alone(g, out, err);
    *out = hvd_cuda_set_find(g, work->move->set);
    return *out ? HVD_OK
                : HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: process set %u is not connected", g->name,
                           work->move->set);
}

hvd_status_t hvd_cuda_launch(struct hvd_device_port *d, struct hvd_device_work *work,
                             struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_cuda_set *set = NULL;
    hvd_status_t st = find_set(g, work, &set, err);
    struct hvd_cuda_item *item = st == HVD_OK ? take_item(g) : NULL;

    if (st != HVD_OK)
        return st;
    if (!item)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", g->name);
    item->work.n_ready = 0;
    item->set = set;
    st = copy_work(item, work, err);
    if (st != HVD_OK) {
        put_item(g, item);
        return st;
    }
    item->next = NULL;
    item->is_refused = false;
    item->allocations = atomic_load(&g->n_allocations);
    hvd_err_clear(&item->err);
    atomic_store(&item->status, (int)HVD_INPROGRESS);
    atomic_store(&item->is_forgotten, false);
    work->_state = item;
    struct hvd_cuda_queue *q = set && set->queue.has_thread ? &set->queue : &g->queue;
    pthread_mutex_lock(&g->mu);
    *q->last = item;
    q->last = &item->next;
    pthread_cond_broadcast(&q->cond);
    pthread_mutex_unlock(&g->mu);
    return HVD_OK;
}

hvd_status_t hvd_cuda_test(struct hvd_device_port *d, struct hvd_device_work *work,
                           struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_cuda_item *item = work->_state;
    hvd_status_t st = (hvd_status_t)atomic_load_explicit(&item->status, memory_order_acquire);

    if (st == HVD_INPROGRESS || (st != HVD_OK && item->is_refused && hvd_cuda_is_fresh(g)))
        return HVD_INPROGRESS; /* the work that has failed is tested soon, and names its tensors */
    while (!atomic_load(&item->is_forgotten)) /* the launcher sets it next */
        sched_yield();
    if (st == HVD_OK)
        work->event = item->work.event;
    else
        st = hvd_cuda_name(g, st, item->err.msg, err);
    work->_state = NULL;
    put_item(g, item);
    return st;
}

void hvd_cuda_forget(struct hvd_device_port *d, struct hvd_device_work *work)
{
    struct hvd_cuda_item *item = work->_state;

    work->_state = NULL;
    if (!atomic_exchange(&item->is_forgotten, true))
        return; /* the launcher frees it */
    hvd_device_event_release(item->work.event);
    put_item(hvd_cuda_gpu(d), item);
}
