/*
 * Failures of the GPU and of NCCL, and the abort. Calls return some of them. Others are found only
 * by looking: a lost GPU, and what NCCL's own threads have met. Whoever asks for old work looks, so
 * a training loop never does.
 */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "worker/device/cuda/cuda_internal.h"

#define ABORT_NS INT64_C(5000000000)
#define GRACE_NS INT64_C(300000000) /* a call that takes longer waits for a peer */
#define FRESH_NS INT64_C(300000000) /* the engine tests work more often */
#define OLD_NS INT64_C(1000000000)
#define LOOK_NS INT64_C(250000000) /* between two looks */
#define LOST_NS INT64_C(500000000) /* until then the engine names the rank that is lost */

/* Returns what a message needs in front of it to name the GPU: "GPU 0 (NVIDIA H200)", or "". */
static const char *name_for(const struct hvd_cuda_device *g, const char *message)
{
    return strstr(message, g->name) ? "" : g->name;
}

hvd_status_t hvd_cuda_name(const struct hvd_cuda_device *g, hvd_status_t status,
                           const char *message, struct hvd_err *err)
{
    const char *name = name_for(g, message);

    return HVD_FAIL(err, status, 0, "%s%s%s", name, name[0] ? ": " : "", message);
}

hvd_status_t hvd_cuda_fail(struct hvd_cuda_device *g, hvd_status_t status, struct hvd_err *err)
{
    const char *message = err ? err->msg : "failed";
    const char *name = name_for(g, message);

    pthread_mutex_lock(&g->mu);
    if (!g->cause[0])
        snprintf(g->cause, sizeof(g->cause), "%s%s%s", name, name[0] ? ": " : "", message);
    if (!atomic_load(&g->has_failed))
        atomic_store(&g->failed_ns, hvd_clock_now_ns());
    atomic_store(&g->has_failed, true);
    pthread_mutex_unlock(&g->mu);
    return status;
}

bool hvd_cuda_is_fresh(struct hvd_cuda_device *g)
{
    return atomic_load(&g->has_failed) && !atomic_load(&g->is_aborted) &&
           hvd_clock_now_ns() - atomic_load(&g->failed_ns) < FRESH_NS;
}

/* --- Looking for errors ----------------------------------------------------------------------- */

/* Returns the first error of a communicator, of a thread of NCCL. comms_mu is held. */
static hvd_nccl_result_t find_nccl_error(struct hvd_cuda_device *g)
{
    hvd_nccl_result_t result = HVD_NCCL_SUCCESS;

    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        const struct hvd_cuda_set *set = g->sets[i];
        if (!set || set->is_aborted ||
            atomic_load_explicit(&set->state, memory_order_acquire) != HVD_CUDA_SET_READY)
            continue;
        for (int k = 0; k < HVD_CUDA_COMMS && result == HVD_NCCL_SUCCESS; k++)
            if (hvd_cuda_comms_of(set).at[k])
                (void)g->library->nccl.ncclCommGetAsyncError(hvd_cuda_comms_of(set).at[k], &result);
    }
    return result == HVD_NCCL_IN_PROGRESS ? HVD_NCCL_SUCCESS : result;
}

/* Whether the error counts now. That a peer is lost counts once it is old. comms_mu is held. */
static bool is_ripe(struct hvd_cuda_device *g, hvd_nccl_result_t result, int64_t now_ns)
{
    if (result != HVD_NCCL_REMOTE_ERROR)
        return result != HVD_NCCL_SUCCESS;
    if (g->lost_since_ns == 0)
        g->lost_since_ns = now_ns;
    return now_ns - g->lost_since_ns >= LOST_NS;
}

/* Records a failure of the GPU that a query of the event returns. */
static void look_at_gpu(struct hvd_cuda_device *g, const struct hvd_cuda_event *event)
{
    unsigned int mode = HVD_CU_CAPTURE_RELAXED; /* the program may capture in another thread */
    struct hvd_err err = {0};

    if (hvd_cuda_enter(g, &err) != HVD_OK) {
        (void)hvd_cuda_fail(g, HVD_ERR_SYSTEM, &err);
        return;
    }
    (void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);
    const hvd_cu_result_t result = g->library->cu.cuEventQuery(event->event);
    (void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);
    hvd_cuda_leave(g);
    if (result != HVD_CU_SUCCESS && result != HVD_CU_NOT_READY)
        (void)hvd_cuda_fail(
            g, hvd_cuda_library_failure(g->library, result, "work on the GPU", &err), &err);
}

void hvd_cuda_look_for_errors(struct hvd_cuda_device *g, const struct hvd_cuda_event *event)
{
    const int64_t now_ns = hvd_clock_now_ns();
    hvd_nccl_result_t result = HVD_NCCL_SUCCESS;
    struct hvd_err err = {0};

    if (now_ns - event->since_ns < OLD_NS || pthread_mutex_trylock(&g->comms_mu) != 0)
        return;
    const bool is_due = now_ns - g->looked_ns >= LOOK_NS;
    if (is_due) {
        g->looked_ns = now_ns;
        result = find_nccl_error(g);
    }
    const bool is_failure = is_ripe(g, result, now_ns);
    pthread_mutex_unlock(&g->comms_mu);
    if (is_failure)
        (void)hvd_cuda_fail(
            g, hvd_cuda_library_nccl_failure(g->library, result, "a collective between GPUs", &err),
            &err);
    else if (is_due)
        look_at_gpu(g, event);
}

/* --- The abort -------------------------------------------------------------------------------- */

/* What an abort works on, which a thread that hangs keeps. */
struct aborting {
    struct hvd_cuda_device *g;
    struct ncclComm *comms[HVD_CUDA_COMMS * HVD_CUDA_SETS_MAX];
    int n_comms;
    atomic_int n_users; /* the thread, and who waits for it */
    atomic_bool is_done;
};

static void drop(struct aborting *a)
{
    if (atomic_fetch_sub(&a->n_users, 1) == 1)
        hvd_free(a);
}

/* All communicators end in one group: to free one would wait for the kernels of another. */
static void *run_abort(void *arg)
{
    struct aborting *a = arg;
    const struct hvd_nccl_api *n = &a->g->library->nccl;

    pthread_setname_np(pthread_self(), "horovod-abort");
    if (hvd_cuda_enter(a->g, NULL) == HVD_OK) {
        (void)n->ncclGroupStart();
        for (int i = 0; i < a->n_comms; i++)
            (void)n->ncclCommAbort(a->comms[i]);
        (void)n->ncclGroupEnd();
        hvd_cuda_leave(a->g);
    }
    hvd_device_release(&a->g->port); /* first: who waits for is_done may destroy the device */
    atomic_store(&a->is_done, true);
    drop(a);
    return NULL;
}

/* Whether the stream has no work. One of a lost GPU never writes its number. */
static bool is_stream_quiet(const struct hvd_cuda_device *g, const struct hvd_cuda_stream *s)
{
    const bool is_done = hvd_cuda_is_done(s->done, s->n_launched);

    if (is_done && !atomic_load(&s->has_more))
        return true;
    const hvd_cu_result_t result = g->library->cu.cuStreamQuery(s->stream);
    return result == HVD_CU_SUCCESS ? is_done : result != HVD_CU_NOT_READY;
}

bool hvd_cuda_set_is_quiet(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    return !set || (hvd_cuda_queue_is_idle(&set->queue) && is_stream_quiet(g, &set->pack) &&
                    is_stream_quiet(g, &set->move));
}

/* Whether nothing that was launched accesses memory any more. In the context. */
static bool is_quiet(struct hvd_cuda_device *g)
{
    bool is_quiet = hvd_cuda_queue_is_idle(&g->queue) && is_stream_quiet(g, &g->in) &&
                    is_stream_quiet(g, &g->out) && hvd_cuda_set_is_quiet(g, g->alone);

    for (int i = 0; i < HVD_CUDA_SETS_MAX && is_quiet; i++)
        is_quiet = hvd_cuda_set_is_quiet(g, g->sets[i]);
    return is_quiet;
}

bool hvd_cuda_is_stuck(struct hvd_cuda_device *g)
{
    if (!atomic_load(&g->is_aborted) || hvd_cuda_enter(g, NULL) != HVD_OK)
        return false;
    const bool is_stuck = !is_quiet(g);
    hvd_cuda_leave(g);
    return is_stuck;
}

/* Whether a thread calls NCCL for a set. */
static bool is_in_nccl(struct hvd_cuda_device *g)
{
    bool is_inside = false;

    pthread_mutex_lock(&g->mu);
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++)
        is_inside = is_inside || (g->sets[i] && g->sets[i]->is_in_nccl);
    pthread_mutex_unlock(&g->mu);
    return is_inside;
}

hvd_status_t hvd_cuda_nccl_enter(struct hvd_cuda_device *g, struct hvd_cuda_set *set,
                                 struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    pthread_mutex_lock(&g->mu);
    set->is_in_nccl = !atomic_load(&g->is_aborted);
    if (!set->is_in_nccl)
        st = HVD_FAIL(err, HVD_ERR_UNAVAILABLE, 0, "%s", g->cause);
    pthread_mutex_unlock(&g->mu);
    return st;
}

void hvd_cuda_nccl_leave(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    pthread_mutex_lock(&g->mu);
    set->is_in_nccl = false;
    pthread_mutex_unlock(&g->mu);
}

/* Starts the thread that aborts all communicators; NULL: there are none, or no memory. */
static struct aborting *start_abort(struct hvd_cuda_device *g)
{
    struct aborting *a = hvd_calloc(1, sizeof(*a));
    pthread_t thread;

    if (!a)
        return NULL;
    a->g = g;
    pthread_mutex_lock(&g->comms_mu);
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        struct hvd_cuda_set *set = g->sets[i];
        if (!set || atomic_load_explicit(&set->state, memory_order_acquire) != HVD_CUDA_SET_READY ||
            !set->comm)
            continue;
        for (int k = 0; k < HVD_CUDA_COMMS; k++)
            if (hvd_cuda_comms_of(set).at[k])
                a->comms[a->n_comms++] = hvd_cuda_comms_of(set).at[k];
        set->is_aborted = true;
    }
    pthread_mutex_unlock(&g->comms_mu);
    atomic_init(&a->n_users, 2);
    (void)hvd_device_retain(&g->port);
    if (a->n_comms == 0 || pthread_create(&thread, NULL, run_abort, a) != 0) {
        hvd_device_release(&g->port);
        hvd_free(a);
        return NULL;
    }
    pthread_detach(thread);
    return a;
}

void hvd_cuda_abort(struct hvd_device_port *d, const char *cause)
{
    const struct timespec pause = {.tv_nsec = 200000};
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    const int64_t until_ns = hvd_clock_now_ns() + ABORT_NS;

    pthread_mutex_lock(&g->mu);
    const bool is_first = !atomic_exchange(&g->is_aborted, true);
    if (is_first && !g->cause[0])
        snprintf(g->cause, sizeof(g->cause), "%s", cause);
    pthread_mutex_unlock(&g->mu);
    if (!is_first)
        return;
    /* Nothing enters NCCL after this. A thread that is inside must not find its communicator gone,
     * unless it waits there. */
    const int64_t grace_ns = hvd_clock_now_ns() + GRACE_NS;
    while (is_in_nccl(g) && hvd_clock_now_ns() < grace_ns)
        (void)nanosleep(&pause, NULL);
    struct aborting *a = start_abort(g);
    const bool has_entered = hvd_cuda_enter(g, NULL) == HVD_OK;
    while (!(is_quiet(g) && (!a || atomic_load(&a->is_done))) && hvd_clock_now_ns() < until_ns)
        (void)nanosleep(&pause, NULL);
    if (has_entered)
        hvd_cuda_leave(g);
    if (a)
        drop(a);
}
