/* Ranks over the adapter for CUDA; see ranks.h. */
#include "tests/unit/support.h"

#include "tests/unit/worker/device/cuda/ranks.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/worker/reduce/reference.h"

struct world {
    const struct ranks_machine *machine;
    struct hvd_sim *sim;
    struct hvd_transport *transports[RANKS_MAX];
};

int64_t ranks_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void rank_fail(int rank, const char *what, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    abort();
}

void rank_ok(const struct rank *r, hvd_status_t st, const char *what, const struct hvd_err *err)
{
    if (st != HVD_OK)
        rank_fail(r->rank, what, err->msg);
}

/* --- Elements --------------------------------------------------------------------------------- */

/* The input of a rank: small whole numbers, so that results are exact in every type. */
double element_input(enum hvd_dtype dtype, int rank, int64_t i)
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

double element_reduced(enum hvd_dtype dtype, enum hvd_reduce reduce, int size, int64_t i)
{
    double result = element_input(dtype, 0, i);

    for (int rank = 1; rank < size; rank++)
        result = combine(dtype, reduce, result, element_input(dtype, rank, i));
    if (reduce == HVD_AVERAGE && dtype != HVD_BOOL)
        result /= size;
    return hvd_dtype_is_real(dtype) ? result : trunc(result);
}

/* --- Tensors ---------------------------------------------------------------------------------- */

struct tensor tensor_create(const struct rank *r, size_t bytes)
{
    struct tensor t = {.bytes = bytes};

    GOOD(r, cuMemAllocAsync(&t.memory, bytes + 1, r->stream));
    GOOD(r, cuMemHostAlloc(&t.host, bytes + 1, 0));
    return t;
}

void tensor_destroy(const struct rank *r, struct tensor *t)
{
    GOOD(r, cuMemFreeAsync(t->memory, r->stream));
    GOOD(r, cuStreamSynchronize(r->stream));
    GOOD(r, cuMemFreeHost(t->host));
}

/* Writes the input of this rank on the program's stream. */
void tensor_fill(const struct rank *r, struct tensor *t, enum hvd_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        reference_set(dtype, t->host, i, element_input(dtype, r->rank, i));
    GOOD(r, cuMemcpyHtoDAsync_v2(t->memory, t->host, t->bytes, r->stream));
}

struct hvd_request tensor_request(enum hvd_op op, enum hvd_dtype dtype, enum hvd_reduce reduce,
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
void tensor_submit(const struct rank *r, struct tensor *t, struct hvd_submission *s)
{
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};

    s->request.name = hvd_strview_of(t->name);
    s->input = fake_pointer(t->memory);
    rank_ok(r, r->port->ops->mark(r->port, r->stream, &ready, &err), "mark", &err);
    s->ready = ready;
    rank_ok(r, hvd_engine_submit(r->engine, s, &t->handle, &err), t->name, &err);
    hvd_device_event_release(ready);
}

/* Waits until it is launched, and orders the program's stream behind it. */
struct horovod_output *tensor_wait(const struct rank *r, const struct tensor *t)
{
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};

    rank_ok(r, hvd_engine_wait(r->engine, t->handle, &outcome, &err), t->name, &err);
    if (outcome.event)
        rank_ok(r, r->port->ops->order(r->port, outcome.event, r->stream, &err), "order", &err);
    hvd_device_event_release(outcome.event);
    return outcome.output;
}

/* Copies a result to the host. */
void *tensor_fetch(const struct rank *r, struct tensor *t, const void *from, size_t bytes)
{
    if (bytes > 0)
        GOOD(r, cuMemcpyDtoHAsync_v2(t->host, (hvd_cu_ptr_t)(uintptr_t)from, bytes, r->stream));
    GOOD(r, cuStreamSynchronize(r->stream));
    return t->host;
}

void tensor_check(const struct rank *r, const struct tensor *t, enum hvd_dtype dtype, int64_t i,
                  double wanted)
{
    const double seen = reference_get(dtype, t->host, i);
    const double slack = hvd_dtype_is_real(dtype) ? fabs(wanted) / 64 : 0;
    char text[160];

    if (fabs(seen - wanted) <= slack)
        return;
    snprintf(text, sizeof(text), "%s of %d ranks: element %lld is %g, not %g",
             hvd_dtype_name((int)dtype), r->size, (long long)i, seen, wanted);
    rank_fail(r->rank, t->name, text);
}

void ranks_reduce(const struct rank *r, enum hvd_dtype dtype, enum hvd_reduce reduce)
{
    static const int64_t counts[N_FUSED] = {1, 7, 0, 1000, 33, MANY};
    struct tensor tensors[N_FUSED];
    const size_t width = hvd_dtype_size((int)dtype);

    for (int i = 0; i < N_FUSED; i++) {
        struct hvd_submission s = {.request =
                                       tensor_request(HVD_ALLREDUCE, dtype, reduce, counts[i])};
        tensors[i] = tensor_create(r, (size_t)counts[i] * width);
        snprintf(tensors[i].name, sizeof(tensors[i].name), "r%d.%d.%d", (int)dtype, (int)reduce, i);
        tensor_fill(r, &tensors[i], dtype, counts[i]);
        s.output = fake_pointer(tensors[i].memory);
        tensor_submit(r, &tensors[i], &s);
    }
    for (int i = 0; i < N_FUSED; i++) {
        (void)tensor_wait(r, &tensors[i]);
        (void)tensor_fetch(r, &tensors[i], fake_pointer(tensors[i].memory), tensors[i].bytes);
        for (int64_t k = 0; k<counts[i]; k += counts[i]> 2000 ? 997 : 1)
            tensor_check(r, &tensors[i], dtype, k, element_reduced(dtype, reduce, r->size, k));
        tensor_destroy(r, &tensors[i]);
    }
}

void ranks_sum_in_place(const struct rank *r, int64_t count)
{
    enum { N = 4 };
    struct tensor t = tensor_create(r, (size_t)count * sizeof(float));
    struct tensor handles[N];
    double wanted = 1;

    tensor_fill(r, &t, HVD_FLOAT32, count);
    for (int i = 0; i < N; i++) {
        struct hvd_submission s = {.request =
                                       tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, count)};
        s.request.prescale = i + 1;
        s.output = fake_pointer(t.memory);
        handles[i] = t;
        snprintf(handles[i].name, sizeof(handles[i].name), "again.%d", i);
        tensor_submit(r, &handles[i], &s);
        wanted *= (i + 1) * (i > 0 ? r->size : 1);
    }
    for (int i = 0; i < N; i++)
        (void)tensor_wait(r, &handles[i]);
    (void)tensor_fetch(r, &t, fake_pointer(t.memory), t.bytes);
    for (int64_t i = 0; i < count; i += 1 + count / 100)
        tensor_check(r, &t, HVD_FLOAT32, i,
                     wanted * element_reduced(HVD_FLOAT32, HVD_SUM, r->size, i));
    tensor_destroy(r, &t);
}

/* --- Ranks ------------------------------------------------------------------------------------ */

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
    struct rank r = {.sim = w->sim, .rank = start->rank, .size = w->machine->size};
    struct hvd_cuda_options options = w->machine->options;
    struct hvd_err err = {0};

    options.ordinal = r.rank;
    fake_gpu_as_program(true);
    GOOD(&r, cuInit(0));
    GOOD(&r, cuDevicePrimaryCtxRetain(&r.context, r.rank));
    GOOD(&r, cuCtxPushCurrent_v2(r.context));
    GOOD(&r, cuStreamCreateWithPriority(&r.stream, HVD_CU_STREAM_NON_BLOCKING, 0));
    rank_ok(&r, hvd_cuda_create(&options, &r.port, &err), "create", &err);
    const struct hvd_engine_options engine = {.cycle_ns = 1000000,
                                              .idle_poll_ns = 1000000,
                                              .cache_capacity = 1024,
                                              .fusion_bytes = 64 << 20,
                                              .stall_warning_ns = w->machine->stall_warning_ns,
                                              .device = r.port};
    rank_ok(&r, hvd_engine_create(w->transports[r.rank], &engine, &r.engine, &err), "engine", &err);
    start->body(&r, start->shared);
    (void)hvd_engine_shutdown(r.engine, NULL);
    hvd_engine_destroy(r.engine);
    GOOD(&r, cuStreamSynchronize(r.stream));
    GOOD(&r, cuStreamDestroy_v2(r.stream));
    hvd_device_release(r.port);
    struct CUctx_st *context = NULL;
    GOOD(&r, cuCtxPopCurrent_v2(&context));
    GOOD(&r, cuDevicePrimaryCtxRelease_v2(r.rank));
    if (fake_gpu_context_depth() != 0)
        rank_fail(r.rank, "the context stack", "is not as it was");
    return NULL;
}

void ranks_no_leaks(void)
{
    char text[2048];

    if (fake_gpu_check_leaks() > 0) {
        fake_gpu_last_finding(text, sizeof(text));
        fail_msg("%s", text);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

void ranks_run_on(const struct ranks_machine *machine,
                  void (*body)(const struct rank *r, void *shared), void *shared)
{
    const int size = machine->size;
    const struct hvd_sim_options sim = {
        .size = size, .seed = 3, .max_delay = 2, .ranks_per_host = machine->ranks_per_host};
    struct world w = {.machine = machine};
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
    ranks_no_leaks();
}

void ranks_run(int size, void (*body)(const struct rank *r, void *shared), void *shared)
{
    const struct ranks_machine machine = {.size = size};

    ranks_run_on(&machine, body, shared);
}

int ranks_begin(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_GPUS, RANKS_MAX);
    fake_gpu_set(FAKE_GPU_FATAL, 0);
    fake_gpu_set(FAKE_GPU_DELAY_US, 20);
    return 0;
}
