/*
 * Process sets: a communicator of NCCL, two streams, buffers and a thread each. The thread makes
 * the communicator, which waits for all ranks, and launches the collectives of the set afterwards.
 * The first one of each algorithm waits for the ranks as well. Other sets move meanwhile.
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

#define CTAS_FIRST 32 /* of the first set; NCCL uses fewer where that is enough */
#define CTAS_OTHERS 8
#define SETTLE_PAUSES 25000 /* of 200 us */
#define N_SHARE 2           /* at least half of the GPU is left to the program */

struct hvd_cuda_comms hvd_cuda_comms_of(const struct hvd_cuda_set *set)
{
    return (struct hvd_cuda_comms){.at = {set->cross, set->local, set->comm}};
}

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
    if (set->ordered)
        (void)cu->cuEventDestroy_v2(set->ordered);
    for (int i = 0; i < HVD_CUDA_COMMS && !set->is_aborted; i++)
        if (hvd_cuda_comms_of(set).at[i])
            (void)g->library->nccl.ncclCommDestroy(hvd_cuda_comms_of(set).at[i]);
    hvd_cuda_stream_destroy(g, &set->pack);
    hvd_cuda_stream_destroy(g, &set->move);
    hvd_cuda_queue_fini(&set->queue);
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
    hvd_cuda_queue_init(&set->queue, g);
    hvd_status_t st = hvd_cuda_stream_create(g, &set->pack, err);
    if (st == HVD_OK)
        st = hvd_cuda_stream_create(g, &set->move, err);
    if (st == HVD_OK)
        st = hvd_cuda_check(g, cu->cuEventCreate(&set->ordered, HVD_CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate", err);
    for (int i = 0; i < HVD_CUDA_BUFFERS && st == HVD_OK; i++) {
        struct hvd_cuda_buffer *b = &set->buffers[i];
        st = hvd_cuda_check(g, cu->cuEventCreate(&b->packed, HVD_CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate", err);
        if (st == HVD_OK)
            st = hvd_cuda_check(g, cu->cuEventCreate(&b->free, HVD_CU_EVENT_DISABLE_TIMING),
                                "cuEventCreate", err);
    }
    if (st == HVD_OK) {
        set->n_before = set->move.n_launched;
        set->begun = set->move.done + HVD_CUDA_NUMBERS;
        set->begun_at = set->move.done_at + HVD_CUDA_NUMBERS * sizeof(uint32_t);
    }
    if (st == HVD_OK)
        *out = set;
    else
        destroy_set(g, set);
    return st;
}

struct hvd_cuda_set *hvd_cuda_set_find(const struct hvd_cuda_device *g, uint32_t id)
{
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++)
        if (g->sets[i] && g->sets[i]->id == id)
            return g->sets[i];
    return NULL;
}

hvd_status_t hvd_cuda_set_alone(struct hvd_cuda_device *g, struct hvd_cuda_set **out,
                                struct hvd_err *err)
{
    hvd_status_t st = g->alone ? HVD_OK : hvd_cuda_enter(g, err);

    if (st == HVD_OK && !g->alone) {
        st = create_set(g, &g->alone, err);
        hvd_cuda_leave(g);
    }
    if (st == HVD_OK)
        *out = g->alone;
    return st;
}

/* Returns the place of a set; -1: there is none. */
static int place_of(const struct hvd_cuda_device *g, const struct hvd_cuda_set *set)
{
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++)
        if (g->sets[i] == set)
            return i;
    return -1;
}

/* Stores a set, or NULL. */
static void put_set(struct hvd_cuda_device *g, int place, struct hvd_cuda_set *set)
{
    pthread_mutex_lock(&g->comms_mu);
    g->sets[place] = set;
    pthread_mutex_unlock(&g->comms_mu);
}

/* --- Connecting ------------------------------------------------------------------------------- */

bool hvd_cuda_has_room(struct hvd_device_port *d)
{
    const struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    int n_used = 0;
    int n_sets = 0;

    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        n_sets += g->sets[i] != NULL;
        n_used += g->sets[i] ? g->sets[i]->max_ctas : 0;
    }
    return n_sets == 0 ||
           (n_sets < HVD_CUDA_SETS_MAX && n_used + CTAS_OTHERS <= g->n_multiprocessors);
}

/* Returns the most multiprocessors of a collective of the next set. */
static int choose_ctas(const struct hvd_cuda_device *g)
{
    const int share = g->n_multiprocessors / N_SHARE > 0 ? g->n_multiprocessors / N_SHARE : 1;
    int most = CTAS_FIRST;

    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++)
        if (g->sets[i])
            most = CTAS_OTHERS;
    return most < share ? most : share;
}

/* Makes the communicators of three steps, which wait for the ranks as well. */
static hvd_status_t split(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    const struct hvd_nccl_api *n = &g->library->nccl;
    const struct hvd_torus *t = &set->torus;
    hvd_nccl_result_t result = n->ncclCommSplit(set->comm, t->host, set->rank, &set->local, NULL);

    if (result == HVD_NCCL_SUCCESS && g->has_torus)
        result = n->ncclCommSplit(set->comm, t->local_rank, set->rank, &set->cross, NULL);
    return result == HVD_NCCL_SUCCESS
               ? HVD_OK
               : hvd_cuda_library_nccl_failure(g->library, result, "ncclCommSplit", &set->err);
}

static hvd_status_t make_comms(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    struct hvd_nccl_config config = {.size = sizeof(config),
                                     .magic = HVD_NCCL_CONFIG_MAGIC,
                                     .version = HVD_NCCL_CONFIG_VERSION,
                                     .blocking = 1,
                                     .cga_cluster_size = HVD_NCCL_CONFIG_UNSET,
                                     .min_ctas = HVD_NCCL_CONFIG_UNSET,
                                     .max_ctas = set->max_ctas,
                                     .split_share = set->torus.local_size > 0};
    const hvd_nccl_result_t result = g->library->nccl.ncclCommInitRankConfig(
        &set->comm, set->size, set->key, set->rank, &config);

    if (result != HVD_NCCL_SUCCESS)
        return hvd_cuda_library_nccl_failure(g->library, result, "ncclCommInitRankConfig",
                                             &set->err);
    return set->torus.local_size > 0 ? split(g, set) : HVD_OK;
}

/* Frees a set whose thread was abandoned, in that thread. Peers may be gone, so nothing waits for
 * them. In the context. */
static void give_up(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    const struct hvd_nccl_api *n = &g->library->nccl;

    if (!set->is_aborted) {
        (void)n->ncclGroupStart();
        for (int i = 0; i < HVD_CUDA_COMMS; i++)
            if (hvd_cuda_comms_of(set).at[i])
                (void)n->ncclCommAbort(hvd_cuda_comms_of(set).at[i]);
        (void)n->ncclGroupEnd();
        set->is_aborted = true;
    }
    destroy_set(g, set);
}

static void *run_set(void *arg)
{
    struct hvd_cuda_set *set = arg;
    struct hvd_cuda_device *g = set->device;
    unsigned int mode = HVD_CU_CAPTURE_RELAXED;

    pthread_setname_np(pthread_self(), "horovod-nccl");
    set->status = hvd_cuda_enter(g, &set->err); /* until the thread ends */
    const bool has_entered = set->status == HVD_OK;
    if (has_entered) {
        (void)g->library->cu.cuThreadExchangeStreamCaptureMode(&mode);
        set->status = make_comms(g, set);
    }
    atomic_store_explicit(&set->state, HVD_CUDA_SET_READY, memory_order_release);
    hvd_cuda_queue_serve(&set->queue);
    pthread_mutex_lock(&g->mu);
    const enum hvd_cuda_set_end end = set->end;
    pthread_mutex_unlock(&g->mu);
    if (end == HVD_CUDA_SET_ABANDONED)
        give_up(g, set);
    else if (end == HVD_CUDA_SET_LEAVES)
        destroy_set(g, set);
    if (has_entered)
        hvd_cuda_leave(g);
    if (end == HVD_CUDA_SET_ABANDONED)
        hvd_device_release(&g->port);
    else if (end == HVD_CUDA_SET_LEAVES)
        atomic_fetch_sub(&g->n_leaving, 1); /* the device may go now */
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
    const int place = place_of(g, NULL);
    struct hvd_cuda_set *set = NULL;

    if (place < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, 0, "%s: process set %u: only %d can be connected",
                        g->name, device_set->set, HVD_CUDA_SETS_MAX);
    hvd_status_t st = hvd_cuda_enter(g, err);
    if (st != HVD_OK)
        return st;
    st = create_set(g, &set, err);
    hvd_cuda_leave(g);
    if (st != HVD_OK)
        return st;
    set->id = device_set->set;
    set->rank = device_set->rank;
    set->size = device_set->size;
    set->max_ctas = choose_ctas(g);
    if (g->has_torus || g->has_hierarchy)
        set->torus = hvd_torus_of(device_set->hosts, device_set->local_ranks, device_set->size,
                                  device_set->rank);
    memcpy(set->key.bytes, key, sizeof(set->key.bytes));
    atomic_store(&set->state, HVD_CUDA_SET_CONNECTING);
    put_set(g, place, set);
    const int error = pthread_create(&set->queue.thread, NULL, run_set, set);
    set->queue.has_thread = error == 0;
    return error ? HVD_FAIL(err, HVD_ERR_SYSTEM, error, "%s: no thread", g->name) : HVD_OK;
}

hvd_status_t hvd_cuda_connected(struct hvd_device_port *d, uint32_t id, struct hvd_err *err)
{
    const struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    const struct hvd_cuda_set *set = hvd_cuda_set_find(g, id);

    if (atomic_load_explicit(&set->state, memory_order_acquire) != HVD_CUDA_SET_READY)
        return HVD_INPROGRESS;
    return set->status == HVD_OK ? HVD_OK : hvd_cuda_name(g, set->status, set->err.msg, err);
}

struct hvd_device_progress hvd_cuda_progress(struct hvd_device_port *d, uint32_t number)
{
    const struct hvd_cuda_set *set = hvd_cuda_set_find(hvd_cuda_gpu(d), number);
    const uint32_t begun = atomic_load_explicit(set->begun, memory_order_acquire);
    const uint32_t done = atomic_load_explicit(set->move.done, memory_order_acquire);

    /* before the first work, `begun` is what an earlier stream wrote */
    return (struct hvd_device_progress){.n_begun = ((int32_t)(begun - done) > 0 ? begun : done) -
                                                   set->n_before,
                                        .n_done = done - set->n_before};
}

/* --- The end ---------------------------------------------------------------------------------- */

/* Whether the thread of a set cannot be waited for: its peers never came, and NCCL cannot be
 * interrupted; or an abort has not ended its work. In the context. */
static bool must_abandon(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    if (!set->queue.has_thread)
        return false;
    if (atomic_load(&set->state) != HVD_CUDA_SET_READY)
        return true;
    return atomic_load(&g->is_aborted) && !hvd_cuda_set_is_quiet(g, set);
}

/* Makes the set's thread free it when it has launched everything. */
static void leave_to_thread(struct hvd_cuda_device *g, struct hvd_cuda_set *set,
                            enum hvd_cuda_set_end end)
{
    if (end == HVD_CUDA_SET_ABANDONED)
        (void)hvd_device_retain(&g->port);
    else
        atomic_fetch_add(&g->n_leaving, 1);
    pthread_mutex_lock(&g->mu);
    set->end = end;
    pthread_mutex_unlock(&g->mu);
    hvd_cuda_queue_abandon(&set->queue);
}

/* Frees a set, or leaves that to its thread. In the context. */
static void end_set(struct hvd_cuda_device *g, struct hvd_cuda_set *set)
{
    if (must_abandon(g, set)) {
        leave_to_thread(g, set, HVD_CUDA_SET_ABANDONED);
        return;
    }
    hvd_cuda_queue_stop(&set->queue);
    destroy_set(g, set);
}

void hvd_cuda_disconnect(struct hvd_device_port *d, uint32_t id)
{
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    struct hvd_cuda_set *set = hvd_cuda_set_find(g, id);

    if (!set)
        return;
    put_set(g, place_of(g, set), NULL);
    const bool has_entered = hvd_cuda_enter(g, NULL) == HVD_OK;
    /* To destroy a communicator waits for the peers, which may wait for this thread. */
    if (set->queue.has_thread && !must_abandon(g, set))
        leave_to_thread(g, set, HVD_CUDA_SET_LEAVES);
    else if (has_entered)
        end_set(g, set);
    if (has_entered)
        hvd_cuda_leave(g);
}

void hvd_cuda_settle(struct hvd_device_port *d)
{
    const struct timespec pause = {.tv_nsec = 200000};
    struct hvd_cuda_device *g = hvd_cuda_gpu(d);

    for (int i = 0; i < SETTLE_PAUSES && atomic_load(&g->n_leaving) > 0; i++)
        (void)nanosleep(&pause, NULL);
}

void hvd_cuda_sets_destroy(struct hvd_cuda_device *g)
{
    for (int i = 0; i < HVD_CUDA_SETS_MAX; i++) {
        struct hvd_cuda_set *set = g->sets[i];
        if (!set)
            continue;
        put_set(g, i, NULL);
        end_set(g, set);
    }
    if (g->alone)
        destroy_set(g, g->alone);
    g->alone = NULL;
}
