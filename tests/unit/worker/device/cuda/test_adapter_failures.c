/* The adapter for CUDA and NCCL when a call fails, a rank dies, or a GPU cannot be opened. */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/device/cuda/ranks.h"

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
    int n_tried[RANKS_MAX]; /* tensors */
};

static const enum hvd_op tried_ops[N_TRIED] = {HVD_ALLREDUCE, HVD_ALLGATHER, HVD_ALLREDUCE,
                                               HVD_BROADCAST, HVD_ALLREDUCE};
static const enum hvd_dtype tried_dtypes[N_TRIED] = {HVD_FLOAT32, HVD_FLOAT32, HVD_INT16,
                                                     HVD_FLOAT32, HVD_FLOAT32};

/* Submits, waits and fetches, or returns the failure. */
static hvd_status_t try_tensor(const struct rank *r, struct tensor *t, int i, struct hvd_err *err)
{
    const enum hvd_op op = tried_ops[i];
    struct hvd_submission s = {.request = tensor_request(op, tried_dtypes[i], HVD_SUM, 100)};
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
        tensors[i] = tensor_create(r, 1000);
        snprintf(tensors[i].name, sizeof(tensors[i].name), "f%d", i);
        tensor_fill(r, &tensors[i], tried_dtypes[i], 100);
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
        f->n_tried[r->rank]++;
        if (try_tensor(r, &tensors[i], i, &err) == HVD_OK)
            continue;
        snprintf(f->text[r->rank], sizeof(f->text[r->rank]), "%s", err.msg);
        f->n_failed++;
        break;
    }
    fake_gpu_as_program(true);
    for (int i = 0; i < N_TRIED; i++)
        tensor_destroy(r, &tensors[i]);
}

/* Fails unless the text names a GPU once at most, and of a collective its tensor. */
static void check_words(const char *symbol, int nth, const char *text)
{
    static const char *const gpus[] = {"GPU 0 (", "GPU 1 ("};
    static const struct {
        const char *symbol;
        const char *tensor;
    } of[] = {{"ncclAllGather", "tensor f1: "}, {"ncclBroadcast", "tensor f3: "}};

    for (int i = 0; i < 2; i++) {
        const char *gpu = strstr(text, gpus[i]);
        if (gpu && strstr(gpu + 1, gpus[i]))
            fail_msg("%s, call %d: %s", symbol, nth, text);
    }
    for (size_t i = 0; symbol && i < sizeof(of) / sizeof(*of); i++)
        if (strcmp(symbol, of[i].symbol) == 0 && !strstr(text, of[i].tensor))
            fail_msg("%s, call %d: %s", symbol, nth, text);
}

/* Whether the call failed in the job, which then ended with a reason on each rank. */
static bool run_with_fault(const char *symbol, int nth)
{
    static struct fault f;

    f = (struct fault){.symbol = symbol, .nth = nth};
    assert_int_equal(pthread_barrier_init(&f.barrier, NULL, 2), 0);
    ranks_run(2, live_with_fault, &f);
    pthread_barrier_destroy(&f.barrier);
    fake_gpu_forget();
    if (f.n_failed == 0)
        return false;
    for (int rank = 0; rank < 2; rank++) {
        /* it may have all its results when the last tensor of the other one fails */
        if (!f.text[rank][0] && f.n_tried[1 - rank] < N_TRIED)
            fail_msg("%s, call %d: rank %d has no reason", symbol, nth, rank);
        if (f.text[rank][0])
            check_words(symbol, nth, f.text[rank]);
    }
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

static void see_death(const struct rank *r, void *shared)
{
    struct death *d = shared;
    const int victim = r->size - 1;
    struct tensor t = tensor_create(r, 1000);
    struct hvd_err err = {0};
    int64_t begin_ns = 0;

    ranks_reduce(r, HVD_FLOAT32, HVD_SUM);
    snprintf(t.name, sizeof(t.name), "last");
    tensor_fill(r, &t, HVD_FLOAT32, 100);
    GOOD(r, cuStreamSynchronize(r->stream));
    (void)pthread_barrier_wait(&d->barrier);
    if (r->rank == 0)
        fake_gpu_stop_device(victim, true);
    (void)pthread_barrier_wait(&d->barrier);
    struct hvd_submission s = {.request = tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, 100)};
    struct hvd_outcome outcome = {0};
    s.output = fake_pointer(t.memory);
    tensor_submit(r, &t, &s);
    rank_ok(r, hvd_engine_wait(r->engine, t.handle, &outcome, &err), "the launch", &err);
    (void)pthread_barrier_wait(&d->barrier);
    if (r->rank == victim) { /* what its process would leave behind */
        hvd_sim_kill(r->sim, victim);
        (void)pthread_barrier_wait(&d->barrier);
        fake_gpu_stop_device(victim, false);
        (void)hvd_engine_await(r->engine, outcome.event, &err); /* before its memory goes */
    } else {
        begin_ns = ranks_now_ns();
        if (hvd_engine_await(r->engine, outcome.event, &err) != HVD_ERR_SHUTDOWN ||
            !strstr(err.msg, "ank 2 "))
            rank_fail(r->rank, "the end", err.msg);
        if (ranks_now_ns() - begin_ns > INT64_C(5000000000))
            rank_fail(r->rank, "the end", "took more than 5 seconds");
        (void)pthread_barrier_wait(&d->barrier);
    }
    hvd_device_event_release(outcome.event);
    tensor_destroy(r, &t);
}

static void a_killed_rank_ends_the_collective_on_the_others(void **state)
{
    struct death d;

    (void)state;
    assert_int_equal(pthread_barrier_init(&d.barrier, NULL, 3), 0);
    ranks_run(3, see_death, &d);
    pthread_barrier_destroy(&d.barrier);
}

static void a_gpu_that_cannot_be_opened_leaves_nothing(void **state)
{
    static const char *const symbols[] = {
        "cuDeviceGet",           "cuDevicePrimaryCtxRetain",    "cuCtxPushCurrent_v2",
        "cuMemHostAlloc",        "cuStreamCreateWithPriority",  "cuEventCreate",
        "cuModuleLoadData",      "cuModuleGetFunction",         "cuFuncGetAttribute",
        "cuDeviceGetAttribute",  "cuCtxGetStreamPriorityRange", "cuDeviceGetMemPool",
        "cuMemPoolGetAttribute", "cuMemPoolSetAttribute"};
    const struct hvd_cuda_options options = {.ordinal = 0};
    const struct hvd_cuda_options none = {.ordinal = 77};
    struct CUmemPoolHandle_st *pool = NULL;

    (void)state;
    assert_int_equal(cuDeviceGetMemPool(&pool, 0), HVD_CU_SUCCESS);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        struct hvd_device_port *port = NULL;
        struct hvd_err err = {0};
        uint64_t kept = 0; /* so that it has to be set */
        assert_int_equal(cuMemPoolSetAttribute(pool, HVD_CU_POOL_RELEASE_THRESHOLD, &kept),
                         HVD_CU_SUCCESS);
        fake_gpu_fail(symbols[i], 1, CODE);
        if (hvd_cuda_create(&options, &port, &err) == HVD_OK)
            fail_msg("%s fails, and nothing came of it", symbols[i]);
        assert_null(port);
        assert_true(err.msg[0] != '\0');
        fake_gpu_forget();
        ranks_no_leaks();
    }
    struct hvd_device_port *port = NULL;
    struct hvd_err err = {0};
    assert_int_equal(hvd_cuda_create(&none, &port, &err), HVD_ERR_NOT_FOUND);
    assert_string_equal(err.msg, "there is no GPU 77: this process sees 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_ends_the_collective_on_the_others),
        cmocka_unit_test(a_call_that_fails_ends_the_job_with_its_reason),
        cmocka_unit_test(a_gpu_that_cannot_be_opened_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, ranks_begin, NULL);
}
