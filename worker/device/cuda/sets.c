/*
 * Process sets: a communicator of NCCL, two streams and buffers each. A communicator is made in a
 * thread of its own, because that waits for all ranks, and other sets move meanwhile.
 *
 * Collectives of different sets may start in different orders on different ranks. Each occupies
 * multiprocessors until its peers run, so all sets together must fit on the GPU.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "worker/device/cuda/cuda_internal.h"

#define ABORT_NS INT64_C(5000000000)
#define GRACE_NS INT64_C(100000000) /* a launch that takes longer hangs in NCCL */
#define CTAS_FIRST 32               /* of the first set; NCCL uses fewer where that is enough */
#define CTAS_OTHERS 8
#define N_SHARE 2 /* at least half of the GPU is left to the program */

/* --- Resources -------------------------------------------------------------------------------- */

static void destroy_set(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;

    if (set->pack.stream)
        (void)cu->cuStreamSynchronize(set->pack.stream);
    if (set->move.stream)
        (void)cu->cuStreamSynchronize(set->move.stream);
    if (set->move.stream)
        hvd_cuda_tables_destroy(g, set);
    for (int i = 0; i < HVD_CUDA_BUFFERS; i++) {
        struct hvd_cuda_buffer *b = &set->buffers[i];
        if (b->memory)
            (void)cu->cuMemFreeAsync(b->memory, set->move.stream);
        if (b->packed)
            (void)cu->cuEventDestroy_v2(b->packed);
        if (b->free)
            (void)cu->cuEventDestroy_v2(b->free);
    }
    if (set->comm && !set->is_aborted)
        (void)g->library->nccl.ncclCommDestroy(set->comm);
    hvd_cuda_stream_destroy(g, &set->pack);
    hvd_cuda_stream_destroy(g, &set->move);
    hvd_free(set);
}

/* Creates a set without a communicator. In the context. */
static hvd_status_t create_set(struct hvd_cuda_device *g, struct hvd_cuda_set **out,
                               struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;
    struct hvd_cuda_set *set = hvd_calloc(1, sizeof(*set));

    if (!set)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory for a process set", g->name);
    set->device = g;
    set->size = 1;
    hvd_status_t st = hvd_cuda_stream_create(g, &set->pack, err);
    if (st == HVD_OK)
        st = hvd_cuda_stream_create(g, &set->move, err);
    for (int i = 0; i < HVD_CUDA_BUFFERS && st == HVD_OK; i++) {
        struct hvd_cuda_buffer *b = &set->buffers[i];
        st = hvd_cuda_check(g, cu->cuEventCreate(&b->packed, HVD_CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate", err);
        if (st == HVD_OK)
            st = hvd_cuda_check(g, cu->cuEventCreate(&b->free, HVD_CU_EVENT_DISABLE_TIMING),
                                "cuEventCreate", err);
    }
    if (st == HVD_OK)
        *out = set;
    else
        destroy_set(g, set);
    return st;
}

static hvd_status_t check_number(const struct hvd_cuda_device *g, uint32_t id, struct hvd_err *err)
{
    return id < HVD_CUDA_SETS_MAX
               ? HVD_OK
               : HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: process set %u: at most %d are possible",
                          g->name, id, HVD_CUDA_SETS_MAX);
}

hvd_status_t hvd_cuda_set_of(struct hvd_cuda_device *g, uint32_t id, bool is_alone,
                             struct hvd_cuda_set **out, struct hvd_err *err)
{
    hvd_status_t st = check_number(g, id, err);

    if (st == HVD_OK && !g->sets[id] && is_alone)
        st = create_set(g, &g->sets[id], err);
    if (st == HVD_OK)
        *out = g->sets[id];
    return st;
}

/* --- Connecting ------------------------------------------------------------------------------- */

bool hvd_cuda_has_room(struct hvd_device_port *d)
{
    const struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    int n_used = 0;
    int n_sets = 0;

    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        if (!g->sets[i] || g->sets[i]->size == 1)
            continue;
        n_sets++;
        n_used += g->sets[i]->max_ctas;
    }
    return n_sets == 0 || n_used + CTAS_OTHERS <= g->n_multiprocessors;
}

/* Returns the most multiprocessors of a collective of the next set. */
static int choose_ctas(const struct hvd_cuda_device *g)
{
    const int share = g->n_multiprocessors / N_SHARE > 0 ? g->n_multiprocessors / N_SHARE : 1;

    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++)
        if (g->sets[i] && g->sets[i]->size > 1)
            return CTAS_OTHERS < share ? CTAS_OTHERS : share;
    return CTAS_FIRST < share ? CTAS_FIRST : share;
}

static void *run_connect(void *arg)
{
    struct hvd_cuda_set *set = arg;
    struct hvd_cuda_device *g = set->device;
    struct hvd_nccl_config config = {.size = sizeof(config),
                                     .magic = HVD_NCCL_CONFIG_MAGIC,
                                     .version = HVD_NCCL_CONFIG_VERSION,
                                     .blocking = 1,
                                     .cga_cluster_size = HVD_NCCL_CONFIG_UNSET,
                                     .min_ctas = HVD_NCCL_CONFIG_UNSET,
                                     .max_ctas = set->max_ctas,
                                     .split_share = HVD_NCCL_CONFIG_UNSET};
    unsigned int mode = HVD_CU_CAPTURE_RELAXED;

    pthread_setname_np(pthread_self(), "horovod-nccl");
    set->status = hvd_cuda_enter(g, &set->err);
    if (set->status == HVD_OK) {
        (void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);
        const hvd_nccl_result_t result = g->library->nccl.ncclCommInitRankConfig(
            &set->comm, set->size, set->id, set->rank, &config);
        if (result != HVD_NCCL_SUCCESS)
            set->status = hvd_cuda_library_nccl_failure(g->library, result,
                                                        "ncclCommInitRankConfig", &set->err);
        hvd_cuda_leave(g);
    }
    atomic_store_explicit(&set->state, HVD_CUDA_SET_READY, memory_order_release);
    return NULL;
}

hvd_status_t hvd_cuda_make_key(struct hvd_device_port *d, char key[HVD_DEVICE_KEY_MAX],
                               struct hvd_err *err)
{
    const struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_nccl_id id;
    const hvd_nccl_result_t result = g->library->nccl.ncclGetUniqueId(&id);

    if (result != HVD_NCCL_SUCCESS)
        return hvd_cuda_library_nccl_failure(g->library, result, "ncclGetUniqueId", err);
    memcpy(key, id.bytes, sizeof(id.bytes));
    return HVD_OK;
}

hvd_status_t hvd_cuda_connect(struct hvd_device_port *d, const struct hvd_device_set *device_set,
                              const char key[HVD_DEVICE_KEY_MAX], struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_cuda_set *set = NULL;
    hvd_status_t st = check_number(g, device_set->set, err);

    if (st == HVD_OK)
        st = hvd_cuda_enter(g, err);
    if (st != HVD_OK)
        return st;
    st = create_set(g, &set, err);
    hvd_cuda_leave(g);
    if (st != HVD_OK)
        return st;
    set->rank = device_set->rank;
    set->size = device_set->size;
    set->max_ctas = choose_ctas(g);
    memcpy(set->id.bytes, key, sizeof(set->id.bytes));
    g->sets[device_set->set] = set;
    atomic_store(&set->state, HVD_CUDA_SET_CONNECTING);
    const int error = pthread_create(&set->thread, NULL, run_connect, set);
    set->has_thread = error == 0;
    return error ? HVD_FAIL(err, HVD_ERR_SYSTEM, error, "%s: no thread", g->name) : HVD_OK;
}

hvd_status_t hvd_cuda_connected(struct hvd_device_port *d, uint32_t id, struct hvd_err *err)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_cuda_set *set = g->sets[id];

    if (atomic_load_explicit(&set->state, memory_order_acquire) != HVD_CUDA_SET_READY)
        return HVD_INPROGRESS;
    if (set->has_thread)
        pthread_join(set->thread, NULL);
    set->has_thread = false;
    return set->status == HVD_OK ? HVD_OK
                                 : HVD_FAIL(err, set->status, 0, "%s: %s", g->name, set->err.msg);
}

/* --- The end ---------------------------------------------------------------------------------- */

/* Frees a set, unless a thread hangs in it. In the context. */
static void end_set(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    if (set->has_thread && atomic_load(&set->state) != HVD_CUDA_SET_READY) {
        pthread_detach(set->thread); /* its peers never came, and NCCL cannot be interrupted */
        g->n_stuck++;
        return;
    }
    if (set->has_thread)
        pthread_join(set->thread, NULL);
    destroy_set(g, set);
}

void hvd_cuda_disconnect(struct hvd_device_port *d, uint32_t id)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_cuda_set *set = g->sets[id];

    if (!set || hvd_cuda_enter(g, NULL) != HVD_OK)
        return;
    pthread_mutex_lock(&g->mu);
    while (g->first || g->is_launching)
        pthread_cond_wait(&g->cond, &g->mu);
    pthread_mutex_unlock(&g->mu);
    g->sets[id] = NULL;
    end_set(g, set);
    hvd_cuda_leave(g);
}

void hvd_cuda_sets_destroy(struct hvd_cuda_device *g)
{
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        if (g->sets[i])
            end_set(g, g->sets[i]);
        g->sets[i] = NULL;
    }
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What an abort works on, which a thread that hangs keeps. */
struct aborting {
    struct hvd_cuda_device *g;
    struct ncclComm *comms[HVD_CUDA_SETS_MAX];
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
    atomic_store(&a->is_done, true);
    drop(a);
    return NULL;
}

static bool is_launching(struct hvd_cuda_device *g)
{
    pthread_mutex_lock(&g->mu);
    const bool is_launching = g->is_launching;
    pthread_mutex_unlock(&g->mu);
    return is_launching;
}

/* Whether nothing that was launched accesses memory any more. */
static bool is_quiet(struct hvd_cuda_device *g)
{
    bool is_idle;

    pthread_mutex_lock(&g->mu);
    is_idle = !g->first && !g->is_launching;
    pthread_mutex_unlock(&g->mu);
    if (!is_idle || !hvd_cuda_stream_is_done(&g->in, g->in.n_launched) ||
        !hvd_cuda_stream_is_done(&g->out, g->out.n_launched))
        return false;
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        const struct hvd_cuda_set *set = g->sets[i];
        if (set && (!hvd_cuda_stream_is_done(&set->pack, set->pack.n_launched) ||
                    !hvd_cuda_stream_is_done(&set->move, set->move.n_launched)))
            return false;
    }
    return true;
}

/* Starts the thread that aborts all communicators; NULL: there are none, or no memory. */
static struct aborting *start_abort(struct hvd_cuda_device *g)
{
    struct aborting *a = hvd_calloc(1, sizeof(*a));
    pthread_t thread;

    if (!a)
        return NULL;
    a->g = g;
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        struct hvd_cuda_set *set = g->sets[i];
        if (!set || atomic_load_explicit(&set->state, memory_order_acquire) != HVD_CUDA_SET_READY ||
            !set->comm)
            continue;
        a->comms[a->n_comms++] = set->comm;
        set->is_aborted = true;
    }
    atomic_init(&a->n_users, 2);
    if (a->n_comms == 0 || pthread_create(&thread, NULL, run_abort, a) != 0) {
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
    const int64_t until_ns = now_ns() + ABORT_NS;

    pthread_mutex_lock(&g->mu);
    const bool is_first = !atomic_exchange(&g->is_aborted, true);
    if (is_first && !g->cause[0])
        snprintf(g->cause, sizeof(g->cause), "%s", cause);
    pthread_mutex_unlock(&g->mu);
    if (!is_first)
        return;
    /* No launch begins after this. One that is under way must not find its communicator gone. */
    const int64_t grace_ns = now_ns() + GRACE_NS;
    while (is_launching(g) && now_ns() < grace_ns)
        (void)nanosleep(&pause, NULL);
    struct aborting *a = start_abort(g);
    while (!(is_quiet(g) && (!a || atomic_load(&a->is_done))) && now_ns() < until_ns)
        (void)nanosleep(&pause, NULL);
    if (!a)
        return;
    g->n_stuck += !atomic_load(&a->is_done);
    drop(a);
}
