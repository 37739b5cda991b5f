/*
 * The adapter for CUDA and NCCL behind the engine, over the doubles of both: ranks are threads with
 * a GPU each. Every collective, type and number of ranks, against sums that are computed here.
 */
#include "tests/unit/support.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fake/gpu/control.h"
#include "tests/fake/gpu/driver.h"
#include "tests/sim/sim.h"
#include "tests/unit/worker/reduce/reference.h"
#include "worker/device/cuda/cuda.h"
#include "worker/device/cuda/route.h"
#include "worker/engine/engine.h"
#include "worker/engine/output.h"

#define RANKS_MAX 5
#define N_FUSED 6
#define MANY 300000 /* elements: a collective of its own for every type */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* ten times as slow */
static const int sizes[] = {1, 3};
#define DTYPE_STEP 5
#define CALLS_MAX 2
#else
static const int sizes[] = {1, 2, 3, 5};
#define DTYPE_STEP 1
#define CALLS_MAX 12
#endif
#define N_SIZES (sizeof(sizes) / sizeof(*sizes))

struct world {
    int size;
    struct hvd_sim *sim;
    struct hvd_transport *transports[RANKS_MAX];
    void (*body)(struct world *w, int rank);
    void *shared;
};

/* A rank, whose thread is the program. */
struct rank {
    struct hvd_device_port *port;
    struct hvd_engine *engine;
    struct CUctx_st *context;
    struct CUstream_st *stream; /* of the program */
    struct hvd_sim *sim;
    int rank;
    int size;
};

static void fail_rank(int rank, const char *what, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    abort(); /* threads cannot assert */
}

#define GOOD(r, call)                                                                              \
    do {                                                                                           \
        if ((call) != HVD_CU_SUCCESS)                                                              \
            fail_rank((r)->rank, #call, "failed");                                                 \
    } while (0)

static void expect_ok(const struct rank *r, hvd_status_t st, const char *what,
                      const struct hvd_err *err)
{
    if (st != HVD_OK)
        fail_rank(r->rank, what, err->msg);
}

/* --- Elements --------------------------------------------------------------------------------- */

static double get(enum hvd_dtype dtype, const void *data, int64_t i)
{
    switch ((int)dtype) {
    case HVD_UINT8:
    case HVD_BOOL:
        return ((const uint8_t *)data)[i];
    case HVD_INT8:
        return ((const int8_t *)data)[i];
    case HVD_UINT16:
        return ((const uint16_t *)data)[i];
    case HVD_INT16:
        return ((const int16_t *)data)[i];
    case HVD_UINT32:
        return ((const uint32_t *)data)[i];
    case HVD_INT32:
        return ((const int32_t *)data)[i];
    case HVD_UINT64:
        return (double)((const uint64_t *)data)[i];
    case HVD_INT64:
        return (double)((const int64_t *)data)[i];
    case HVD_FLOAT32:
        return (double)((const float *)data)[i];
    case HVD_FLOAT64:
        return ((const double *)data)[i];
    default:
        return reference_half_value(dtype, ((const uint16_t *)data)[i]);
    }
}

static void set(enum hvd_dtype dtype, void *data, int64_t i, double value)
{
    if (hvd_dtype_is_real(dtype)) {
        reference_write(dtype, (char *)data + (size_t)i * hvd_dtype_size((int)dtype), value);
        return;
    }
    const int64_t whole = (int64_t)value; /* little endian: its first bytes are the element */
    memcpy((char *)data + (size_t)i * hvd_dtype_size((int)dtype), &whole,
           hvd_dtype_size((int)dtype));
}

/* The input of a rank: small whole numbers, so that results are exact in every type. */
static double value_of(enum hvd_dtype dtype, int rank, int64_t i)
{
    return dtype == HVD_BOOL ? (double)((rank + i) % 2) : (double)((rank + i) % 3 + 1);
}

static double combine(enum hvd_dtype dtype, enum hvd_reduce reduce, double a, double b)
{
    if (reduce == HVD_MIN)
        return a < b ? a : b;
    if (reduce == HVD_MAX || (dtype == HVD_BOOL && reduce != HVD_PRODUCT))
        return a > b ? a : b;
    return reduce == HVD_PRODUCT ? a * b : a + b;
}

static double reduced(enum hvd_dtype dtype, enum hvd_reduce reduce, int size, int64_t i)
{
    double result = value_of(dtype, 0, i);

    for (int rank = 1; rank < size; rank++)
        result = combine(dtype, reduce, result, value_of(dtype, rank, i));
    if (reduce == HVD_AVERAGE && dtype != HVD_BOOL)
        result /= size;
    return hvd_dtype_is_real(dtype) ? result : trunc(result);
}

/* --- Tensors ---------------------------------------------------------------------------------- */

/* A tensor of the program in device memory, and its copy in pinned memory. */
struct tensor {
    hvd_cu_ptr_t memory;
    void *host;
    size_t bytes;
    int64_t handle;
    char name[48];
};

static struct tensor create(const struct rank *r, size_t bytes)
{
    struct tensor t = {.bytes = bytes};

    GOOD(r, cuMemAllocAsync(&t.memory, bytes + 1, r->stream));
    GOOD(r, cuMemHostAlloc(&t.host, bytes + 1, 0));
    return t;
}

static void destroy(const struct rank *r, struct tensor *t)
{
    GOOD(r, cuMemFreeAsync(t->memory, r->stream));
    GOOD(r, cuStreamSynchronize(r->stream));
    GOOD(r, cuMemFreeHost(t->host));
}

/* Writes the input of this rank on the program's stream. */
static void fill(const struct rank *r, struct tensor *t, enum hvd_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        set(dtype, t->host, i, value_of(dtype, r->rank, i));
    GOOD(r, cuMemcpyHtoDAsync_v2(t->memory, t->host, t->bytes, r->stream));
}

static struct hvd_request request(enum hvd_op op, enum hvd_dtype dtype, enum hvd_reduce reduce,
                                  int64_t count)
{
    return (struct hvd_request){.op = op,
                                .dtype = dtype,
                                .reduce = reduce,
                                .device = HVD_GPU,
                                .prescale = 1,
                                .postscale = 1,
                                .ndim = 1,
                                .shape = {count}};
}

/* Submits as a program does: behind the work on its stream, without waiting for it. */
static void submit(const struct rank *r, struct tensor *t, struct hvd_submission *s)
{
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};

    s->request.name = hvd_strview_of(t->name);
    s->input = fake_pointer(t->memory);
    expect_ok(r, r->port->ops->mark(r->port, r->stream, &ready, &err), "mark", &err);
    s->ready = ready;
    expect_ok(r, hvd_engine_submit(r->engine, s, &t->handle, &err), t->name, &err);
    hvd_device_event_release(ready);
}

/* Waits until it is launched, and orders the program's stream behind it. */
static struct horovod_output *wait(const struct rank *r, const struct tensor *t)
{
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};

    expect_ok(r, hvd_engine_wait(r->engine, t->handle, &outcome, &err), t->name, &err);
    if (outcome.event)
        expect_ok(r, r->port->ops->order(r->port, outcome.event, r->stream, &err), "order", &err);
    hvd_device_event_release(outcome.event);
    return outcome.output;
}

/* Copies a result to the host. */
static void *fetch(const struct rank *r, struct tensor *t, const void *from, size_t bytes)
{
    if (bytes > 0)
        GOOD(r, cuMemcpyDtoHAsync_v2(t->host, (hvd_cu_ptr_t)(uintptr_t)from, bytes, r->stream));
    GOOD(r, cuStreamSynchronize(r->stream));
    return t->host;
}

static void check_value(const struct rank *r, const struct tensor *t, enum hvd_dtype dtype,
                        int64_t i, double wanted)
{
    const double seen = get(dtype, t->host, i);
    const double slack = hvd_dtype_is_real(dtype) ? fabs(wanted) / 64 : 0;
    char text[160];

    if (fabs(seen - wanted) <= slack)
        return;
    snprintf(text, sizeof(text), "%s of %d ranks: element %lld is %g, not %g",
             hvd_dtype_name((int)dtype), r->size, (long long)i, seen, wanted);
    fail_rank(r->rank, t->name, text);
}

/* --- Worlds ----------------------------------------------------------------------------------- */

struct start {
    struct world *w;
    int rank;
    void (*body)(const struct rank *r, void *shared);
    void *shared;
};

static void *live(void *arg)
{
    const struct start *start = arg;
    struct world *w = start->w;
    struct rank r = {.sim = w->sim, .rank = start->rank, .size = w->size};
    const struct hvd_cuda_options options = {.ordinal = r.rank};
    struct hvd_err err = {0};

    fake_gpu_as_program(true);
    GOOD(&r, cuInit(0));
    GOOD(&r, cuDevicePrimaryCtxRetain(&r.context, r.rank));
    GOOD(&r, cuCtxPushCurrent_v2(r.context));
    GOOD(&r, cuStreamCreateWithPriority(&r.stream, HVD_CU_STREAM_NON_BLOCKING, 0));
    expect_ok(&r, hvd_cuda_create(&options, &r.port, &err), "create", &err);
    const struct hvd_engine_options engine = {.cycle_ns = 1000000,
                                              .idle_poll_ns = 1000000,
                                              .cache_capacity = 1024,
                                              .fusion_bytes = 64 << 20,
                                              .device = r.port};
    expect_ok(&r, hvd_engine_create(w->transports[r.rank], &engine, &r.engine, &err), "engine",
              &err);
    start->body(&r, start->shared);
    (void)hvd_engine_shutdown(r.engine, NULL);
    hvd_engine_destroy(r.engine);
    GOOD(&r, cuStreamSynchronize(r.stream));
    GOOD(&r, cuStreamDestroy_v2(r.stream));
    hvd_cuda_destroy(r.port);
    struct CUctx_st *context = NULL;
    GOOD(&r, cuCtxPopCurrent_v2(&context));
    GOOD(&r, cuDevicePrimaryCtxRelease_v2(r.rank));
    if (fake_gpu_context_depth() != 0)
        fail_rank(r.rank, "the context stack", "is not as it was");
    return NULL;
}

static void no_leaks(void)
{
    char text[2048];

    if (fake_gpu_check_leaks() > 0) {
        fake_gpu_last_finding(text, sizeof(text));
        fail_msg("%s", text);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

static void run(int size, void (*body)(const struct rank *r, void *shared), void *shared)
{
    const struct hvd_sim_options sim = {.size = size, .seed = 3, .max_delay = 2};
    struct world w = {.size = size};
    pthread_t threads[RANKS_MAX];
    struct start starts[RANKS_MAX];

    assert_int_equal(hvd_sim_create(&sim, &w.sim, NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(hvd_sim_join(w.sim, rank, &w.transports[rank], NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++) {
        starts[rank] = (struct start){.w = &w, .rank = rank, .body = body, .shared = shared};
        assert_int_equal(pthread_create(&threads[rank], NULL, live, &starts[rank]), 0);
    }
    for (int rank = 0; rank < size; rank++)
        pthread_join(threads[rank], NULL);
    hvd_sim_destroy(w.sim);
    if (fake_gpu_found_any()) {
        char text[2048];
        fake_gpu_last_finding(text, sizeof(text));
        fail_msg("%d ranks: %s", size, text);
    }
    no_leaks();
}

/* --- Collectives ------------------------------------------------------------------------------ */

static void reduce_all(const struct rank *r, enum hvd_dtype dtype, enum hvd_reduce reduce)
{
    static const int64_t counts[N_FUSED] = {1, 7, 0, 1000, 33, MANY};
    struct tensor tensors[N_FUSED];
    const size_t width = hvd_dtype_size((int)dtype);

    for (int i = 0; i < N_FUSED; i++) {
        struct hvd_submission s = {.request = request(HVD_ALLREDUCE, dtype, reduce, counts[i])};
        tensors[i] = create(r, (size_t)counts[i] * width);
        snprintf(tensors[i].name, sizeof(tensors[i].name), "r%d.%d.%d", (int)dtype, (int)reduce, i);
        fill(r, &tensors[i], dtype, counts[i]);
        s.output = fake_pointer(tensors[i].memory);
        submit(r, &tensors[i], &s);
    }
    for (int i = 0; i < N_FUSED; i++) {
        (void)wait(r, &tensors[i]);
        (void)fetch(r, &tensors[i], fake_pointer(tensors[i].memory), tensors[i].bytes);
        for (int64_t k = 0; k<counts[i]; k += counts[i]> 2000 ? 997 : 1)
            check_value(r, &tensors[i], dtype, k, reduced(dtype, reduce, r->size, k));
        destroy(r, &tensors[i]);
    }
}

static void every_reduction(const struct rank *r, void *shared)
{
    static const enum hvd_reduce reductions[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX,
                                                 HVD_PRODUCT};

    (void)shared;
    for (int dtype = 0; dtype < HVD_DTYPES; dtype += DTYPE_STEP)
        for (size_t i = 0; i < sizeof(reductions) / sizeof(*reductions); i++)
            reduce_all(r, (enum hvd_dtype)dtype, reductions[i]);
}

static void allreduce_reduces_every_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++)
        run(sizes[i], every_reduction, NULL);
}

static void gather_one(const struct rank *r, enum hvd_dtype dtype)
{
    const size_t width = hvd_dtype_size((int)dtype);
    const int64_t count = 3 * (int64_t)r->rank; /* rank 0 has none */
    struct tensor t = create(r, (size_t)(64 * r->size) * width);
    struct hvd_submission s = {.request = request(HVD_ALLGATHER, dtype, HVD_SUM, count)};
    int64_t at = 0;

    snprintf(t.name, sizeof(t.name), "g%d", (int)dtype);
    fill(r, &t, dtype, count);
    submit(r, &t, &s);
    struct horovod_output *output = wait(r, &t);
    (void)fetch(r, &t, output->data, output->bytes);
    for (int from = 0; from < r->size; from++)
        for (int64_t i = 0; i < 3 * from; i++)
            check_value(r, &t, dtype, at++, value_of(dtype, from, i));
    hvd_output_destroy(output);
    destroy(r, &t);
}

static void exchange_one(const struct rank *r, enum hvd_dtype dtype)
{
    const size_t width = hvd_dtype_size((int)dtype);
    const int64_t count = (int64_t)r->size * (r->rank + 1);
    struct tensor t = create(r, (size_t)(64 * r->size) * width);
    struct hvd_submission s = {.request = request(HVD_ALLTOALL, dtype, HVD_SUM, count)};
    int64_t splits[RANKS_MAX];
    int64_t at = 0;

    for (int i = 0; i < r->size; i++)
        splits[i] = r->rank + 1;
    s.splits = splits;
    snprintf(t.name, sizeof(t.name), "a%d", (int)dtype);
    fill(r, &t, dtype, count);
    submit(r, &t, &s);
    struct horovod_output *output = wait(r, &t);
    (void)fetch(r, &t, output->data, output->bytes);
    for (int from = 0; from < r->size; from++)
        for (int64_t i = 0; i < from + 1; i++)
            check_value(r, &t, dtype, at++,
                        value_of(dtype, from, (int64_t)r->rank * (from + 1) + i));
    hvd_output_destroy(output);
    destroy(r, &t);
}

static void broadcast_one(const struct rank *r, enum hvd_dtype dtype)
{
    const int64_t count = 50;
    struct tensor t = create(r, (size_t)count * hvd_dtype_size((int)dtype));
    struct hvd_submission s = {.request = request(HVD_BROADCAST, dtype, HVD_SUM, count)};

    s.request.root = r->size - 1;
    s.output = fake_pointer(t.memory);
    snprintf(t.name, sizeof(t.name), "b%d", (int)dtype);
    fill(r, &t, dtype, count);
    submit(r, &t, &s);
    (void)wait(r, &t);
    (void)fetch(r, &t, fake_pointer(t.memory), t.bytes);
    for (int64_t i = 0; i < count; i++)
        check_value(r, &t, dtype, i, value_of(dtype, r->size - 1, i));
    destroy(r, &t);
}

static void scatter_one(const struct rank *r, enum hvd_dtype dtype, bool is_scaled)
{
    const size_t width = hvd_dtype_size((int)dtype);
    const int64_t count = 4 * (int64_t)r->size + (dtype % 2); /* even and uneven */
    struct tensor t = create(r, (size_t)count * width);
    struct tensor out = create(r, (size_t)count * width);
    struct hvd_submission s = {.request = request(HVD_REDUCESCATTER, dtype, HVD_SUM, count)};
    int64_t before = 0;

    s.request.prescale = is_scaled ? 2 : 1;
    s.output = fake_pointer(out.memory);
    snprintf(t.name, sizeof(t.name), "s%d.%d", (int)dtype, is_scaled);
    fill(r, &t, dtype, count);
    submit(r, &t, &s);
    (void)wait(r, &t);
    for (int rank = 0; rank < r->rank; rank++)
        before += hvd_rows_of(count, rank, r->size);
    const int64_t mine = hvd_rows_of(count, r->rank, r->size);
    (void)fetch(r, &out, fake_pointer(out.memory), (size_t)mine * width);
    snprintf(out.name, sizeof(out.name), "%s", t.name);
    for (int64_t i = 0; i < mine; i++)
        check_value(r, &out, dtype, i,
                    (is_scaled && dtype != HVD_BOOL ? 2 : 1) *
                        reduced(dtype, HVD_SUM, r->size, before + i));
    destroy(r, &t);
    destroy(r, &out);
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
        run(sizes[i], every_other_collective, NULL);
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
    expect_ok(r, hvd_engine_add_set(r->engine, odd, 2, &ids[0], &err), "a set", &err);
    expect_ok(r, hvd_engine_add_set(r->engine, ranks + 1, 1, &ids[1], &err), "a set of one", &err);
    for (int i = 0; i < 2; i++) {
        const bool is_member = i == 0 ? r->rank == 0 || r->rank == r->size - 1 : r->rank == 1;
        struct tensor t = create(r, (size_t)count * sizeof(int32_t));
        struct hvd_submission s = {.request = request(HVD_ALLREDUCE, HVD_INT32, HVD_SUM, count)};
        s.set = ids[i];
        s.output = fake_pointer(t.memory);
        snprintf(t.name, sizeof(t.name), "set %d", i);
        fill(r, &t, HVD_INT32, count);
        if (is_member) {
            submit(r, &t, &s);
            (void)wait(r, &t);
            (void)fetch(r, &t, fake_pointer(t.memory), t.bytes);
        }
        for (int64_t k = 0; k < count && is_member; k++)
            check_value(r, &t, HVD_INT32, k,
                        i == 1 ? value_of(HVD_INT32, 1, k)
                               : value_of(HVD_INT32, 0, k) + value_of(HVD_INT32, r->size - 1, k));
        destroy(r, &t);
    }
    reduce_all(r, HVD_FLOAT32, HVD_SUM);
    expect_ok(r, hvd_engine_remove_set(r->engine, ids[0], &err), "the end of a set", &err);
    reduce_all(r, HVD_FLOAT64, HVD_SUM);
}

static void sets_move_by_themselves(void **state)
{
    (void)state;
    run(3, reduce_in_sets, NULL);
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
    reduce_all(r, HVD_INT64, HVD_SUM);
    for (int i = 0; i < 2; i++) {
        struct hvd_submission s = {.request =
                                       request(HVD_ALLREDUCE, HVD_INT64, HVD_SUM, counts[i])};
        tensors[i] = create(r, (size_t)counts[i] * sizeof(int64_t));
        snprintf(tensors[i].name, sizeof(tensors[i].name), "j%d", i);
        fill(r, &tensors[i], HVD_INT64, counts[i]);
        s.output = fake_pointer(tensors[i].memory);
        if (r->rank > 0)
            submit(r, &tensors[i], &s);
    }
    for (int i = 0; i < 2 && r->rank > 0; i++) {
        (void)wait(r, &tensors[i]);
        (void)fetch(r, &tensors[i], fake_pointer(tensors[i].memory), tensors[i].bytes);
        for (int64_t k = 0; k < counts[i]; k += 1 + counts[i] / 100)
            check_value(r, &tensors[i], HVD_INT64, k,
                        reduced(HVD_INT64, HVD_SUM, r->size, k) - value_of(HVD_INT64, 0, k));
    }
    expect_ok(r, hvd_engine_submit(r->engine, &join, &handle, &err), "join", &err);
    expect_ok(r, hvd_engine_wait(r->engine, handle, NULL, &err), "join", &err);
    for (int i = 0; i < 2; i++)
        destroy(r, &tensors[i]);
}

static void a_rank_that_has_joined_contributes_zeros(void **state)
{
    (void)state;
    run(3, join_early, NULL);
}

/* --- Costs ------------------------------------------------------------------------------------ */

#define N_STEADY 8
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
};

static void step(const struct rank *r, struct tensor *tensors, const struct costs *c)
{
    struct hvd_submission group[N_STEADY];
    int64_t handles[N_STEADY];
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};

    expect_ok(r, r->port->ops->mark(r->port, r->stream, &ready, &err), "mark", &err);
    for (int i = 0; i < c->n; i++) { /* as a group, because others may be fused differently */
        const int64_t count = i == 0 ? c->first : 100;
        group[i] = (struct hvd_submission){
            .request = request(HVD_ALLREDUCE, HVD_FLOAT32, c->reduce, count), .ready = ready};
        group[i].request.name = hvd_strview_of(tensors[i].name);
        group[i].input = group[i].output = fake_pointer(tensors[i].memory);
    }
    expect_ok(r, hvd_engine_submit_group(r->engine, group, (uint32_t)c->n, handles, &err), "group",
              &err);
    hvd_device_event_release(ready);
    for (int i = 0; i < c->n; i++) {
        tensors[i].handle = handles[i];
        (void)wait(r, &tensors[i]);
    }
    GOOD(r, cuStreamSynchronize(r->stream));
}

static void measure(const struct rank *r, void *shared)
{
    struct costs *c = shared;
    struct tensor tensors[N_STEADY];

    for (int i = 0; i < c->n; i++) {
        tensors[i] = create(r, (size_t)(i == 0 ? c->first : 100) * sizeof(float));
        snprintf(tensors[i].name, sizeof(tensors[i].name), "t%d", i);
        fill(r, &tensors[i], HVD_FLOAT32, i == 0 ? c->first : 100);
    }
    for (int i = 0; i < WARM_STEPS; i++)
        step(r, tensors, c);
    (void)pthread_barrier_wait(&c->barrier);
    if (r->rank == 0) {
        fake_gpu_counts(&c->before);
        c->live_before = hvd_mem_live();
    }
    (void)pthread_barrier_wait(&c->barrier);
    for (int i = 0; i < STEPS; i++)
        step(r, tensors, c);
    (void)pthread_barrier_wait(&c->barrier);
    if (r->rank == 0) {
        fake_gpu_counts(&c->after);
        c->live_after = hvd_mem_live();
    }
    (void)pthread_barrier_wait(&c->barrier);
    for (int i = 0; i < c->n; i++)
        destroy(r, &tensors[i]);
}

static void run_costs(struct costs *c, int size)
{
    assert_int_equal(pthread_barrier_init(&c->barrier, NULL, (unsigned)size), 0);
    run(size, measure, c);
    pthread_barrier_destroy(&c->barrier);
    assert_int_equal(c->after.allocations, c->before.allocations);
    assert_int_equal(c->after.frees, c->before.frees);
    assert_int_equal(c->after.queries, c->before.queries);
    assert_int_equal(c->after.uploads, c->before.uploads);
    assert_int_equal(c->after.downloads, c->before.downloads);
    assert_int_equal(c->after.blocking, c->before.blocking);
    assert_int_equal(c->after.syncs, c->before.syncs);
    assert_int_equal(c->live_after, c->live_before);
}

static void a_steady_step_allocates_uploads_and_asks_for_nothing(void **state)
{
    (void)state;
    for (size_t i = 1; i < N_SIZES; i++) {
        struct costs c = {.first = MANY, .n = N_STEADY, .reduce = HVD_SUM};
        run_costs(&c, sizes[i]);
    }
}

static void a_large_average_moves_where_it_is(void **state)
{
    struct costs c = {.first = MANY, .n = 1, .reduce = HVD_AVERAGE};

    (void)state;
    run_costs(&c, 2);
    /* one kernel of NCCL on each GPU, and no copy */
    assert_int_equal(c.after.launches - c.before.launches, 2 * STEPS);
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
        fail_rank(r->rank, "mark", err.msg);
    if (cuStreamEndCapture(r->stream, &graph) != HVD_CU_SUCCESS)
        fail_rank(r->rank, "the capture", "is broken");
    (void)pthread_barrier_wait(shared);
    reduce_all(r, HVD_FLOAT32, HVD_SUM);
}

static void a_capture_is_refused_and_goes_on(void **state)
{
    pthread_barrier_t barrier;

    (void)state;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    run(2, capture_one, &barrier);
    pthread_barrier_destroy(&barrier);
}

/* --- Failures --------------------------------------------------------------------------------- */

#define N_TRIED 5 /* tensors of a job in which a call fails */
#define CODE 719  /* CUDA_ERROR_LAUNCH_FAILED */

/* A call that fails in a job of two ranks. */
struct fault {
    const char *symbol;
    int nth;
    pthread_barrier_t barrier;
    _Atomic int n_failed; /* tensors */
    char text[RANKS_MAX][HVD_ERR_MSG_MAX];
};

static const enum hvd_op tried_ops[N_TRIED] = {HVD_ALLREDUCE, HVD_ALLGATHER, HVD_ALLREDUCE,
                                               HVD_BROADCAST, HVD_ALLREDUCE};
static const enum hvd_dtype tried_dtypes[N_TRIED] = {HVD_FLOAT32, HVD_FLOAT32, HVD_INT16,
                                                     HVD_FLOAT32, HVD_FLOAT32};

/* Submits, waits and fetches, or returns the failure. */
static hvd_status_t try_tensor(const struct rank *r, struct tensor *t, int i, struct hvd_err *err)
{
    const enum hvd_op op = tried_ops[i];
    struct hvd_submission s = {.request = request(op, tried_dtypes[i], HVD_SUM, 100)};
    struct hvd_device_event *ready = NULL;
    struct hvd_outcome outcome = {0};

    s.request.name = hvd_strview_of(t->name);
    s.request.prescale = i == N_TRIED - 1 ? 2 : 1; /* so that it is packed */
    s.input = fake_pointer(t->memory);
    s.output = op == HVD_ALLGATHER ? NULL : fake_pointer(t->memory);
    hvd_status_t st = r->port->ops->mark(r->port, r->stream, &ready, err);
    s.ready = ready;
    if (st == HVD_OK)
        st = hvd_engine_submit(r->engine, &s, &t->handle, err);
    hvd_device_event_release(ready);
    if (st == HVD_OK)
        st = hvd_engine_wait(r->engine, t->handle, &outcome, err);
    if (st == HVD_OK)
        st = hvd_engine_await(r->engine, outcome.event, err);
    hvd_device_event_release(outcome.event);
    hvd_output_destroy(outcome.output);
    return st;
}

static void live_with_fault(const struct rank *r, void *shared)
{
    struct fault *f = shared;
    struct tensor tensors[N_TRIED];

    for (int i = 0; i < N_TRIED; i++) {
        tensors[i] = create(r, 1000);
        snprintf(tensors[i].name, sizeof(tensors[i].name), "f%d", i);
        fill(r, &tensors[i], tried_dtypes[i], 100);
    }
    (void)pthread_barrier_wait(&f->barrier);
    if (r->rank == 0 && !f->symbol) { /* NCCL cannot be interrupted while it waits for a peer */
        fake_gpu_fail("ncclCommInitRankConfig", 1, 2);
        fake_gpu_fail("ncclCommInitRankConfig", 2, 2);
    } else if (r->rank == 0)
        fake_gpu_fail(f->symbol, f->nth, strncmp(f->symbol, "nccl", 4) == 0 ? 1 : CODE);
    (void)pthread_barrier_wait(&f->barrier);
    fake_gpu_as_program(false); /* what this thread calls in the adapter may fail */
    for (int i = 0; i < N_TRIED; i++) {
        struct hvd_err err = {0};
        if (try_tensor(r, &tensors[i], i, &err) == HVD_OK)
            continue;
        snprintf(f->text[r->rank], sizeof(f->text[r->rank]), "%s", err.msg);
        f->n_failed++;
        break;
    }
    fake_gpu_as_program(true);
    for (int i = 0; i < N_TRIED; i++)
        destroy(r, &tensors[i]);
}

/* Whether the call failed in the job, which then ended with a reason on each rank. */
static bool run_with_fault(const char *symbol, int nth)
{
    static struct fault f;

    f = (struct fault){.symbol = symbol, .nth = nth};
    assert_int_equal(pthread_barrier_init(&f.barrier, NULL, 2), 0);
    run(2, live_with_fault, &f);
    pthread_barrier_destroy(&f.barrier);
    fake_gpu_forget();
    if (f.n_failed == 0)
        return false;
    for (int rank = 0; rank < 2; rank++)
        if (!f.text[rank][0])
            fail_msg("%s, call %d: rank %d has no reason", symbol, nth, rank);
    return true;
}

static void a_call_that_fails_ends_the_job_with_its_reason(void **state)
{
    static const char *const symbols[] = {"cuEventRecord",        "cuStreamWaitEvent",
                                          "cuLaunchKernel",       "cuMemAllocAsync",
                                          "cuMemHostAlloc",       "cuMemcpyHtoDAsync_v2",
                                          "cuMemcpyDtoHAsync_v2", "cuStreamWriteValue32_v2",
                                          "cuMemsetD8Async",      "ncclAllReduce",
                                          "ncclAllGather",        "ncclBroadcast",
                                          "ncclGroupStart",       "ncclGroupEnd",
                                          "ncclGetUniqueId"};

    (void)state;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        int nth = 1;
        while (nth < CALLS_MAX && run_with_fault(symbols[i], nth))
            nth++;
        if (nth == 1)
            fail_msg("%s was not called", symbols[i]);
    }
    assert_true(run_with_fault(NULL, 1));
}

/* A rank that dies after all have launched a collective. */
struct death {
    pthread_barrier_t barrier;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void see_death(const struct rank *r, void *shared)
{
    struct death *d = shared;
    const int victim = r->size - 1;
    struct tensor t = create(r, 1000);
    struct hvd_err err = {0};
    int64_t begin_ns = 0;

    reduce_all(r, HVD_FLOAT32, HVD_SUM);
    snprintf(t.name, sizeof(t.name), "last");
    fill(r, &t, HVD_FLOAT32, 100);
    GOOD(r, cuStreamSynchronize(r->stream));
    (void)pthread_barrier_wait(&d->barrier);
    if (r->rank == 0)
        fake_gpu_stop_device(victim, true);
    (void)pthread_barrier_wait(&d->barrier);
    struct hvd_submission s = {.request = request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, 100)};
    struct hvd_outcome outcome = {0};
    s.output = fake_pointer(t.memory);
    submit(r, &t, &s);
    expect_ok(r, hvd_engine_wait(r->engine, t.handle, &outcome, &err), "the launch", &err);
    (void)pthread_barrier_wait(&d->barrier);
    if (r->rank == victim) { /* what its process would leave behind */
        hvd_sim_kill(r->sim, victim);
        (void)pthread_barrier_wait(&d->barrier);
        fake_gpu_stop_device(victim, false);
        (void)hvd_engine_await(r->engine, outcome.event, &err); /* before its memory goes */
    } else {
        begin_ns = now_ns();
        if (hvd_engine_await(r->engine, outcome.event, &err) != HVD_ERR_SHUTDOWN ||
            !strstr(err.msg, "ank 2 "))
            fail_rank(r->rank, "the end", err.msg);
        if (now_ns() - begin_ns > INT64_C(5000000000))
            fail_rank(r->rank, "the end", "took more than 5 seconds");
        (void)pthread_barrier_wait(&d->barrier);
    }
    hvd_device_event_release(outcome.event);
    destroy(r, &t);
}

static void a_killed_rank_ends_the_collective_on_the_others(void **state)
{
    struct death d;

    (void)state;
    assert_int_equal(pthread_barrier_init(&d.barrier, NULL, 3), 0);
    run(3, see_death, &d);
    pthread_barrier_destroy(&d.barrier);
}

static void a_gpu_that_cannot_be_opened_leaves_nothing(void **state)
{
    static const char *const symbols[] = {
        "cuDeviceGet",          "cuDevicePrimaryCtxRetain",   "cuCtxPushCurrent_v2",
        "cuMemHostAlloc",       "cuStreamCreateWithPriority", "cuEventCreate",
        "cuModuleLoadData",     "cuModuleGetFunction",        "cuFuncGetAttribute",
        "cuDeviceGetAttribute", "cuCtxGetStreamPriorityRange"};
    const struct hvd_cuda_options options = {.ordinal = 0};
    const struct hvd_cuda_options none = {.ordinal = 77};

    (void)state;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        struct hvd_device_port *port = NULL;
        struct hvd_err err = {0};
        fake_gpu_fail(symbols[i], 1, CODE);
        if (hvd_cuda_create(&options, &port, &err) == HVD_OK)
            fail_msg("%s fails, and nothing came of it", symbols[i]);
        assert_null(port);
        assert_true(err.msg[0] != '\0');
        fake_gpu_forget();
        no_leaks();
    }
    struct hvd_device_port *port = NULL;
    struct hvd_err err = {0};
    assert_int_equal(hvd_cuda_create(&none, &port, &err), HVD_ERR_NOT_FOUND);
    assert_string_equal(err.msg, "there is no GPU 77: this process sees 5");
}

static int begin(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_GPUS, RANKS_MAX);
    fake_gpu_set(FAKE_GPU_FATAL, 0);
    fake_gpu_set(FAKE_GPU_DELAY_US, 20);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_reduces_every_type),
        cmocka_unit_test(other_collectives_move_every_type),
        cmocka_unit_test(sets_move_by_themselves),
        cmocka_unit_test(a_rank_that_has_joined_contributes_zeros),
        cmocka_unit_test(a_killed_rank_ends_the_collective_on_the_others),
        cmocka_unit_test(a_steady_step_allocates_uploads_and_asks_for_nothing),
        cmocka_unit_test(a_large_average_moves_where_it_is),
        cmocka_unit_test(a_capture_is_refused_and_goes_on),
        cmocka_unit_test(a_call_that_fails_ends_the_job_with_its_reason),
        cmocka_unit_test(a_gpu_that_cannot_be_opened_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, begin, NULL);
}
