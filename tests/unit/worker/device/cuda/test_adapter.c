/*
 * The adapter for CUDA and NCCL behind the engine, over the doubles of both: every collective, type
 * and number of ranks, against sums that are computed here; and what a steady step costs.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/device/cuda/ranks.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* ten times as slow */
static const int sizes[] = {1, 3};
#else
static const int sizes[] = {1, 2, 3, 5};
#endif
#define N_SIZES (sizeof(sizes) / sizeof(*sizes))

static const struct ranks_machine torus = {
    .size = 4, .ranks_per_host = 2, .options = {.has_torus = true}};
static const struct ranks_machine over_host = {
    .size = 4, .ranks_per_host = 2, .options = {.has_hierarchy = true}};

/* --- Collectives ------------------------------------------------------------------------------ */

static void every_reduction(const struct rank *r, void *shared)
{
    static const enum hvd_reduce reductions[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX,
                                                 HVD_PRODUCT};

    (void)shared;
    for (int dtype = 0; dtype < HVD_DTYPES; dtype += DTYPE_STEP)
        for (size_t i = 0; i < sizeof(reductions) / sizeof(*reductions); i++)
            ranks_reduce(r, (enum hvd_dtype)dtype, reductions[i]);
}

static void allreduce_reduces_every_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        ranks_run(sizes[i], every_reduction, NULL);
}

static void gather_one(const struct rank *r, enum hvd_dtype dtype)
{
    const size_t width = hvd_dtype_size((int)dtype);
    const int64_t count = 3 * (int64_t)r->rank; /* rank 0 has none */
    struct tensor t = tensor_create(r, (size_t)(64 * r->size) * width);
    struct hvd_submission s = {.request = tensor_request(HVD_ALLGATHER, dtype, HVD_SUM, count)};
    int64_t at = 0;

    snprintf(t.name, sizeof(t.name), "g%d", (int)dtype);
    tensor_fill(r, &t, dtype, count);
    tensor_submit(r, &t, &s);
    struct horovod_output *output = tensor_wait(r, &t);
    (void)tensor_fetch(r, &t, output->data, output->bytes);
    for (int from = 0; from < r->size; from++)
        for (int64_t i = 0; i < 3 * from; i++)
            tensor_check(r, &t, dtype, at++, element_input(dtype, from, i));
    hvd_output_destroy(output);
    tensor_destroy(r, &t);
}

static void exchange_one(const struct rank *r, enum hvd_dtype dtype)
{
    const size_t width = hvd_dtype_size((int)dtype);
    const int64_t count = (int64_t)r->size * (r->rank + 1);
    struct tensor t = tensor_create(r, (size_t)(64 * r->size) * width);
    struct hvd_submission s = {.request = tensor_request(HVD_ALLTOALL, dtype, HVD_SUM, count)};
    int64_t splits[RANKS_MAX];
    int64_t at = 0;

    for (int i = 0; i < r->size; i++)
        splits[i] = r->rank + 1;
    s.splits = splits;
    snprintf(t.name, sizeof(t.name), "a%d", (int)dtype);
    tensor_fill(r, &t, dtype, count);
    tensor_submit(r, &t, &s);
    struct horovod_output *output = tensor_wait(r, &t);
    (void)tensor_fetch(r, &t, output->data, output->bytes);
    for (int from = 0; from < r->size; from++)
        for (int64_t i = 0; i < from + 1; i++)
            tensor_check(r, &t, dtype, at++,
                         element_input(dtype, from, (int64_t)r->rank * (from + 1) + i));
    hvd_output_destroy(output);
    tensor_destroy(r, &t);
}

static void broadcast_one(const struct rank *r, enum hvd_dtype dtype)
{
    const int64_t count = 50;
    struct tensor t = tensor_create(r, (size_t)count * hvd_dtype_size((int)dtype));
    struct hvd_submission s = {.request = tensor_request(HVD_BROADCAST, dtype, HVD_SUM, count)};

    s.request.root = r->size - 1;
    s.output = fake_pointer(t.memory);
    snprintf(t.name, sizeof(t.name), "b%d", (int)dtype);
    tensor_fill(r, &t, dtype, count);
    tensor_submit(r, &t, &s);
    (void)tensor_wait(r, &t);
    (void)tensor_fetch(r, &t, fake_pointer(t.memory), t.bytes);
    for (int64_t i = 0; i < count; i++)
        tensor_check(r, &t, dtype, i, element_input(dtype, r->size - 1, i));
    tensor_destroy(r, &t);
}

static void scatter_one(const struct rank *r, enum hvd_dtype dtype, bool is_scaled)
{
    const size_t width = hvd_dtype_size((int)dtype);
    const int64_t count = 4 * (int64_t)r->size + (dtype % 2); /* even and uneven */
    struct tensor t = tensor_create(r, (size_t)count * width);
    struct tensor out = tensor_create(r, (size_t)count * width);
    struct hvd_submission s = {.request = tensor_request(HVD_REDUCESCATTER, dtype, HVD_SUM, count)};
    int64_t before = 0;

    s.request.prescale = is_scaled ? 2 : 1;
    s.output = fake_pointer(out.memory);
    snprintf(t.name, sizeof(t.name), "s%d.%d", (int)dtype, is_scaled);
    tensor_fill(r, &t, dtype, count);
    tensor_submit(r, &t, &s);
    (void)tensor_wait(r, &t);
    for (int rank = 0; rank < r->rank; rank++)
        before += hvd_rows_of(count, rank, r->size);
    const int64_t mine = hvd_rows_of(count, r->rank, r->size);
    (void)tensor_fetch(r, &out, fake_pointer(out.memory), (size_t)mine * width);
    snprintf(out.name, sizeof(out.name), "%s", t.name);
    for (int64_t i = 0; i < mine; i++)
        tensor_check(r, &out, dtype, i,
                     (is_scaled && dtype != HVD_BOOL ? 2 : 1) *
                         element_reduced(dtype, HVD_SUM, r->size, before + i));
    tensor_destroy(r, &t);
    tensor_destroy(r, &out);
}

static void every_other_collective(const struct rank *r, void *shared)
{
    (void)shared;
    for (int dtype = 0; dtype < HVD_DTYPES; dtype += DTYPE_STEP) {
        gather_one(r, (enum hvd_dtype)dtype);
        exchange_one(r, (enum hvd_dtype)dtype);
        broadcast_one(r, (enum hvd_dtype)dtype);
        scatter_one(r, (enum hvd_dtype)dtype, false);
        scatter_one(r, (enum hvd_dtype)dtype, true);
    }
}

static void other_collectives_move_every_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        ranks_run(sizes[i], every_other_collective, NULL);
}

/* --- Sets, joins ------------------------------------------------------------------------------ */

static void reduce_in_sets(const struct rank *r, void *shared)
{
    const int odd[] = {0, r->size - 1};
    const int ranks[RANKS_MAX] = {0, 1, 2, 3, 4};
    const int64_t count = 1000;
    uint32_t ids[2];
    struct hvd_err err = {0};

    (void)shared;
    rank_ok(r, hvd_engine_add_set(r->engine, odd, 2, &ids[0], &err), "a set", &err);
    rank_ok(r, hvd_engine_add_set(r->engine, ranks + 1, 1, &ids[1], &err), "a set of one", &err);
    for (int i = 0; i < 2; i++) {
        const bool is_member = i == 0 ? r->rank == 0 || r->rank == r->size - 1 : r->rank == 1;
        struct tensor t = tensor_create(r, (size_t)count * sizeof(int32_t));
        struct hvd_submission s = {.request =
                                       tensor_request(HVD_ALLREDUCE, HVD_INT32, HVD_SUM, count)};
        s.set = ids[i];
        s.output = fake_pointer(t.memory);
        snprintf(t.name, sizeof(t.name), "set %d", i);
        tensor_fill(r, &t, HVD_INT32, count);
        if (is_member) {
            tensor_submit(r, &t, &s);
            (void)tensor_wait(r, &t);
            (void)tensor_fetch(r, &t, fake_pointer(t.memory), t.bytes);
        }
        for (int64_t k = 0; k < count && is_member; k++)
            tensor_check(r, &t, HVD_INT32, k,
                         i == 1 ? element_input(HVD_INT32, 1, k)
                                : element_input(HVD_INT32, 0, k) +
                                      element_input(HVD_INT32, r->size - 1, k));
        tensor_destroy(r, &t);
    }
    ranks_reduce(r, HVD_FLOAT32, HVD_SUM);
    rank_ok(r, hvd_engine_remove_set(r->engine, ids[0], &err), "the end of a set", &err);
    ranks_reduce(r, HVD_FLOAT64, HVD_SUM);
}

static void sets_move_by_themselves(void **state)
{
    (void)state;
    ranks_run(3, reduce_in_sets, NULL);
    ranks_run_on(&torus, reduce_in_sets, NULL);
}

/* Rank 0 joins at once, and the others go on with small and large tensors. */
static void join_early(const struct rank *r, void *shared)
{
    static const int64_t counts[] = {10, MANY};
    const struct hvd_submission join = {.request = {.op = HVD_JOIN,
                                                    .reduce = HVD_SUM,
                                                    .prescale = 1,
                                                    .postscale = 1,
                                                    .name = hvd_strview_of("join.noname")}};
    struct tensor tensors[2];
    struct hvd_err err = {0};
    int64_t handle = 0;

    (void)shared;
    ranks_reduce(r, HVD_INT64, HVD_SUM);
    for (int i = 0; i < 2; i++) {
        struct hvd_submission s = {
            .request = tensor_request(HVD_ALLREDUCE, HVD_INT64, HVD_SUM, counts[i])};
        tensors[i] = tensor_create(r, (size_t)counts[i] * sizeof(int64_t));
        snprintf(tensors[i].name, sizeof(tensors[i].name), "j%d", i);
        tensor_fill(r, &tensors[i], HVD_INT64, counts[i]);
        s.output = fake_pointer(tensors[i].memory);
        if (r->rank > 0)
            tensor_submit(r, &tensors[i], &s);
    }
    for (int i = 0; i < 2 && r->rank > 0; i++) {
        (void)tensor_wait(r, &tensors[i]);
        (void)tensor_fetch(r, &tensors[i], fake_pointer(tensors[i].memory), tensors[i].bytes);
        for (int64_t k = 0; k < counts[i]; k += 1 + counts[i] / 100)
            tensor_check(r, &tensors[i], HVD_INT64, k,
                         element_reduced(HVD_INT64, HVD_SUM, r->size, k) -
                             element_input(HVD_INT64, 0, k));
    }
    rank_ok(r, hvd_engine_submit(r->engine, &join, &handle, &err), "join", &err);
    rank_ok(r, hvd_engine_wait(r->engine, handle, NULL, &err), "join", &err);
    for (int i = 0; i < 2; i++)
        tensor_destroy(r, &tensors[i]);
}

static void a_rank_that_has_joined_contributes_zeros(void **state)
{
    (void)state;
    ranks_run(3, join_early, NULL);
    ranks_run_on(&torus, join_early, NULL);
    ranks_run_on(&over_host, join_early, NULL);
}

static void sum_in_place(const struct rank *r, void *shared)
{
    ranks_sum_in_place(r, *(const int64_t *)shared);
}

static void operations_on_the_same_memory_keep_their_order(void **state)
{
    static const int64_t counts[] = {5, MANY};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        ranks_run(1, sum_in_place, (void *)&counts[i]);
        ranks_run(3, sum_in_place, (void *)&counts[i]);
        ranks_run_on(&torus, sum_in_place, (void *)&counts[i]);
        ranks_run_on(&over_host, sum_in_place, (void *)&counts[i]);
    }
}

static void note_end(const struct hvd_completion *self, hvd_status_t status, const char *message,
                     struct horovod_output *output)
{
    if (status != HVD_OK)
        rank_fail(-1, "a callback", message);
    hvd_output_destroy(output);
    sem_post(self->context);
}

/* Tensors that end by a callback, with elements and without. */
static void end_by_callbacks(const struct rank *r, void *shared)
{
    static const enum hvd_op ops[] = {HVD_ALLREDUCE, HVD_ALLGATHER};
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};
    sem_t has_ended;

    (void)shared;
    sem_init(&has_ended, 0, 0);
    const struct hvd_completion completion = {.call = note_end, .context = &has_ended};
    for (size_t i = 0; i < 2 * sizeof(ops) / sizeof(*ops); i++) {
        const int64_t count = i % 2 ? 100 : 0;
        struct tensor t = tensor_create(r, 400);
        struct hvd_submission s = {.completion = &completion};
        int64_t handle = 0;
        s.request = tensor_request(ops[i / 2], HVD_FLOAT32, HVD_SUM, count);
        snprintf(t.name, sizeof(t.name), "told.%zu", i);
        s.request.name = hvd_strview_of(t.name);
        tensor_fill(r, &t, HVD_FLOAT32, 100);
        rank_ok(r, r->port->ops->mark(r->port, r->stream, &ready, &err), "mark", &err);
        s.ready = ready;
        s.input = fake_pointer(t.memory);
        s.output = i / 2 ? NULL : fake_pointer(t.memory);
        rank_ok(r, hvd_engine_submit(r->engine, &s, &handle, &err), t.name, &err);
        hvd_device_event_release(ready);
        while (sem_wait(&has_ended) != 0)
            ;
        tensor_destroy(r, &t);
    }
    sem_destroy(&has_ended);
}

static void callbacks_leave_nothing_behind(void **state)
{
    (void)state;
    ranks_run(1, end_by_callbacks, NULL);
    ranks_run(2, end_by_callbacks, NULL);
}

/* Tensors without elements, whose memory is allocated on one stream and freed on the one that waits
 * for the result. */
static void move_nothing(const struct rank *r, void *shared)
{
    static const enum hvd_op ops[] = {HVD_ALLREDUCE, HVD_ALLGATHER, HVD_BROADCAST,
                                      HVD_REDUCESCATTER};
    static const enum hvd_dtype dtypes[] = {HVD_FLOAT32, HVD_INT16}; /* int16 is staged */
    struct rank elsewhere = *r;

    (void)shared;
    GOOD(r, cuStreamCreateWithPriority(&elsewhere.stream, HVD_CU_STREAM_NON_BLOCKING, 0));
    for (size_t i = 0; i < 2 * sizeof(ops) / sizeof(*ops); i++) {
        struct tensor t = tensor_create(r, 4);
        struct hvd_submission s = {.request =
                                       tensor_request(ops[i / 2], dtypes[i % 2], HVD_SUM, 0)};
        snprintf(t.name, sizeof(t.name), "nothing.%zu", i);
        tensor_fill(r, &t, HVD_UINT8, 4);
        s.output = ops[i / 2] == HVD_ALLGATHER ? NULL : fake_pointer(t.memory);
        tensor_submit(r, &t, &s);
        struct horovod_output *output = tensor_wait(&elsewhere, &t);
        hvd_output_destroy(output);
        tensor_destroy(&elsewhere, &t);
    }
    GOOD(r, cuStreamDestroy_v2(elsewhere.stream));
}

static void a_stream_waits_for_tensors_without_elements(void **state)
{
    (void)state;
    ranks_run(1, move_nothing, NULL);
    ranks_run(2, move_nothing, NULL);
}

/* --- Costs ------------------------------------------------------------------------------------ */

#define N_STEADY 8
#define N_LISTS 3
#define WARM_STEPS 6
#define STEPS 10

/* What all GPUs did in the measured steps. */
struct costs {
    pthread_barrier_t barrier;
    struct fake_gpu_counts before;
    struct fake_gpu_counts after;
    long live_before;
    long live_after;
    int64_t first; /* elements of the first tensor */
    int n;         /* of the tensors */
    enum hvd_reduce reduce;
    bool takes_turns;                 /* several lists of the same sizes do */
    uint64_t n_parts;                 /* that each rank copies to host memory and back in a step */
    uint64_t most_queries[RANKS_MAX]; /* by rank, of slow steps; others ask for nothing */
};

static void step(const struct rank *r, struct tensor *tensors, const struct costs *c)
{
    struct hvd_submission group[N_STEADY];
    int64_t handles[N_STEADY];
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};

    rank_ok(r, r->port->ops->mark(r->port, r->stream, &ready, &err), "mark", &err);
    for (int i = 0; i < c->n; i++) { /* as a group, because others may be fused differently */
        const int64_t count = i == 0 ? c->first : 100;
        group[i] = (struct hvd_submission){
            .request = tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, c->reduce, count),
            .ready = ready};
        group[i].request.name = hvd_strview_of(tensors[i].name);
        group[i].input = group[i].output = fake_pointer(tensors[i].memory);
    }
    rank_ok(r, hvd_engine_submit_group(r->engine, group, (uint32_t)c->n, handles, &err), "group",
            &err);
    hvd_device_event_release(ready);
    for (int i = 0; i < c->n; i++) {
        tensors[i].handle = handles[i];
        (void)tensor_wait(r, &tensors[i]);
    }
    GOOD(r, cuStreamSynchronize(r->stream));
}

/* A step. While a collective of it is older than a second, as on a machine that is too busy, the
 * adapter asks for a failed GPU, four times a second at most. */
static void timed_step(const struct rank *r, struct tensor *tensors, struct costs *c)
{
    const int64_t begin_ns = ranks_now_ns();

    step(r, tensors, c);
    const int64_t took_ns = ranks_now_ns() - begin_ns;
    if (took_ns >= 1000000000)
        c->most_queries[r->rank] += 1 + (uint64_t)(took_ns / 250000000);
}

static void measure(const struct rank *r, void *shared)
{
    struct costs *c = shared;
    struct tensor lists[N_LISTS][N_STEADY] = {0};
    const int n_lists = c->takes_turns ? N_LISTS : 1;

    for (int k = 0; k < n_lists * c->n; k++) {
        const int i = k % c->n;
        struct tensor *t = &lists[k / c->n][i];
        *t = tensor_create(r, (size_t)(i == 0 ? c->first : 100) * sizeof(float));
        snprintf(t->name, sizeof(t->name), "t%d", i);
        tensor_fill(r, t, HVD_FLOAT32, i == 0 ? c->first : 100);
    }
    for (int i = 0; i < n_lists * WARM_STEPS; i++)
        step(r, lists[i % n_lists], c);
    (void)pthread_barrier_wait(&c->barrier);
    if (r->rank == 0) {
        fake_gpu_counts(&c->before);
        c->live_before = hvd_mem_live();
    }
    (void)pthread_barrier_wait(&c->barrier);
    for (int i = 0; i < STEPS; i++)
        timed_step(r, lists[i % n_lists], c);
    (void)pthread_barrier_wait(&c->barrier);
    if (r->rank == 0) {
        fake_gpu_counts(&c->after);
        c->live_after = hvd_mem_live();
    }
    (void)pthread_barrier_wait(&c->barrier);
    for (int k = 0; k < n_lists * c->n; k++)
        tensor_destroy(r, &lists[k / c->n][k % c->n]);
}

static void run_costs(struct costs *c, const struct ranks_machine *machine)
{
    uint64_t most_queries = 0;

    memset(c->most_queries, 0, sizeof(c->most_queries));
    assert_int_equal(pthread_barrier_init(&c->barrier, NULL, (unsigned)machine->size), 0);
    ranks_run_on(machine, measure, c);
    pthread_barrier_destroy(&c->barrier);
    for (int rank = 0; rank < machine->size; rank++)
        most_queries += c->most_queries[rank];
    assert_int_equal(c->after.allocations, c->before.allocations);
    assert_int_equal(c->after.frees, c->before.frees);
    assert_in_range(c->after.queries - c->before.queries, 0, most_queries);
    const uint64_t n_parts = c->n_parts * (uint64_t)machine->size * STEPS;
    assert_int_equal(c->after.uploads - c->before.uploads, n_parts);
    assert_int_equal(c->after.downloads - c->before.downloads, n_parts);
    assert_int_equal(c->after.blocking, c->before.blocking);
    assert_int_equal(c->after.syncs, c->before.syncs);
    assert_int_equal(c->live_after, c->live_before);
}

static void a_steady_step_allocates_uploads_and_asks_for_nothing(void **state)
{
    (void)state;
    for (size_t i = 1; i < N_SIZES; i++) {
        struct costs c = {.first = MANY, .n = N_STEADY, .reduce = HVD_SUM};
        run_costs(&c, &(struct ranks_machine){.size = sizes[i]});
    }
    struct costs c = {.first = MANY, .n = N_STEADY, .reduce = HVD_AVERAGE};
    run_costs(&c, &torus);
    c.n_parts = 2; /* of the first tensor, and of the others together */
    run_costs(&c, &over_host);
}

static void lists_of_the_same_sizes_keep_their_tables(void **state)
{
    struct costs c = {.first = 1000, .n = N_STEADY, .reduce = HVD_SUM, .takes_turns = true};

    (void)state;
    run_costs(&c, &(struct ranks_machine){.size = 2});
}

static void a_large_average_moves_where_it_is(void **state)
{
    struct costs c = {.first = MANY, .n = 1, .reduce = HVD_AVERAGE};

    (void)state;
    run_costs(&c, &(struct ranks_machine){.size = 2});
    /* one kernel of NCCL on each GPU, and no copy */
    assert_int_equal(c.after.launches - c.before.launches, 2 * STEPS);
    run_costs(&c, &torus);
    assert_int_equal(c.after.launches - c.before.launches, 4 * 3 * STEPS);
    c.n_parts = 1;
    run_costs(&c, &over_host);
    assert_int_equal(c.after.launches - c.before.launches, 4 * 2 * STEPS);
}

static void capture_one(const struct rank *r, void *shared)
{
    struct hvd_device_event *ready = NULL;
    struct CUgraph_st *graph = NULL;
    struct hvd_err err = {0};

    (void)pthread_barrier_wait(shared); /* both GPUs are open: to open one breaks a capture */
    GOOD(r, cuStreamBeginCapture_v2(r->stream, HVD_CU_CAPTURE_GLOBAL));
    if (r->port->ops->mark(r->port, r->stream, &ready, &err) != HVD_ERR_INVALID ||
        !strstr(err.msg, "being captured into a graph"))
        rank_fail(r->rank, "mark", err.msg);
    if (cuStreamEndCapture(r->stream, &graph) != HVD_CU_SUCCESS)
        rank_fail(r->rank, "the capture", "is broken");
    (void)pthread_barrier_wait(shared);
    ranks_reduce(r, HVD_FLOAT32, HVD_SUM);
}

static void a_capture_is_refused_and_goes_on(void **state)
{
    pthread_barrier_t barrier;

    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    ranks_run(2, capture_one, &barrier);
    pthread_barrier_destroy(&barrier);
}

/* Opens a GPU whose pool keeps `before`, allocates, frees and waits; returns what the pool has. */
static uint64_t kept_behind_a_result(uint64_t before, size_t bytes)
{
    const struct hvd_cuda_options options = {.ordinal = 0};
    struct hvd_device_port *port = NULL;
    struct CUmemPoolHandle_st *pool = NULL;
    struct CUctx_st *context = NULL;
    void *memory = NULL;
    uint64_t none = 0;
    uint64_t kept = 0;

    assert_int_equal(cuDeviceGetMemPool(&pool, 0), HVD_CU_SUCCESS);
    assert_int_equal(cuMemPoolSetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &none),
                     HVD_CU_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), HVD_CU_SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(context), HVD_CU_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), HVD_CU_SUCCESS); /* what other tests have left goes */
    assert_int_equal(cuCtxPopCurrent_v2(&context), HVD_CU_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), HVD_CU_SUCCESS);
    assert_int_equal(cuMemPoolSetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &before),
                     HVD_CU_SUCCESS);
    assert_int_equal(hvd_cuda_create(&options, &port, NULL), HVD_OK);
    assert_int_equal(port->ops->alloc(port, bytes, &memory, NULL), HVD_OK);
    port->ops->free(port, memory, NULL);
    hvd_cuda_destroy(port); /* waits for the stream of memory */
    assert_int_equal(cuMemPoolGetAttribute(pool, HVD_CU_POOL_RESERVED_CURRENT, &kept),
                     HVD_CU_SUCCESS);
    assert_int_equal(cuMemPoolGetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &before),
                     HVD_CU_SUCCESS);
    assert_true(before >= (uint64_t)128 << 20);
    return kept;
}

static void the_memory_of_a_result_is_kept_for_the_next_one(void **state)
{
    const size_t small = (size_t)3 << 20;
    const size_t large = (size_t)200 << 20;

    (void)state;
    assert_int_equal(kept_behind_a_result(0, small), small);
    assert_int_equal(kept_behind_a_result(0, large), (size_t)128 << 20);
    assert_int_equal(kept_behind_a_result(UINT64_MAX, large), large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_reduces_every_type),
        cmocka_unit_test(other_collectives_move_every_type),
        cmocka_unit_test(sets_move_by_themselves),
        cmocka_unit_test(a_rank_that_has_joined_contributes_zeros),
        cmocka_unit_test(operations_on_the_same_memory_keep_their_order),
        cmocka_unit_test(callbacks_leave_nothing_behind),
        cmocka_unit_test(a_stream_waits_for_tensors_without_elements),
        cmocka_unit_test(a_steady_step_allocates_uploads_and_asks_for_nothing),
        cmocka_unit_test(lists_of_the_same_sizes_keep_their_tables),
        cmocka_unit_test(a_large_average_moves_where_it_is),
        cmocka_unit_test(a_capture_is_refused_and_goes_on),
        cmocka_unit_test(the_memory_of_a_result_is_kept_for_the_next_one),
    };

    return cmocka_run_group_tests(tests, ranks_begin, NULL);
}
