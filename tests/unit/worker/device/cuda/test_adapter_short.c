/*
 * A short program over the adapter, which uses each of its parts once in a way in which a race or a
 * misuse would be found. tests/integration/planted runs it with bugs in the adapter.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/device/cuda/ranks.h"

#define N_SMALL 12
#define SMALL 500

static pthread_barrier_t meeting;

static void meet(void)
{
    (void)pthread_barrier_wait(&meeting);
}

/* Submits an allreduce in place. */
static struct tensor start(const struct rank *r, const char *name, int64_t count, double prescale)
{
    struct tensor t = tensor_create(r, (size_t)count * sizeof(float));
    struct hvd_submission s = {.request =
                                   tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, count)};

    snprintf(t.name, sizeof(t.name), "%s", name);
    tensor_fill(r, &t, HVD_FLOAT32, count);
    s.request.prescale = prescale;
    s.output = fake_pointer(t.memory);
    tensor_submit(r, &t, &s);
    return t;
}

/* A long tensor that moves where it is, and then others of equal sizes at different addresses. The
 * GPU is stopped until all are launched, so the host learns of no end meanwhile. */
static void reduce(const struct rank *r)
{
    struct hvd_outcome outcomes[N_SMALL] = {0};
    struct tensor tensors[N_SMALL];
    struct hvd_err err = {0};
    char name[24];

    fake_gpu_stop_device(r->rank, true);
    struct tensor whole = start(r, "long", MANY, 1);
    for (int i = 0; i < N_SMALL; i++) {
        snprintf(name, sizeof(name), "small.%d", i);
        tensors[i] = start(r, name, SMALL, 2);
        rank_ok(r, hvd_engine_wait(r->engine, tensors[i].handle, &outcomes[i], &err), name, &err);
    }
    fake_gpu_stop_device(r->rank, false);
    for (int i = 0; i < N_SMALL; i++) {
        struct tensor *t = &tensors[i];
        rank_ok(r, r->port->ops->order(r->port, outcomes[i].event, r->stream, &err), "order", &err);
        hvd_device_event_release(outcomes[i].event);
        (void)tensor_fetch(r, t, fake_pointer(t->memory), t->bytes);
        for (int64_t k = 0; k < SMALL; k++)
            tensor_check(r, t, HVD_FLOAT32, k,
                         2 * element_reduced(HVD_FLOAT32, HVD_SUM, r->size, k));
        tensor_destroy(r, t);
    }
    (void)tensor_wait(r, &whole);
    tensor_destroy(r, &whole);
}

/* An output is freed as soon as it is there for the host. */
static void gather(const struct rank *r)
{
    struct tensor t = tensor_create(r, SMALL * sizeof(float));
    struct hvd_submission s = {.request =
                                   tensor_request(HVD_ALLGATHER, HVD_FLOAT32, HVD_SUM, SMALL)};

    snprintf(t.name, sizeof(t.name), "gather");
    tensor_fill(r, &t, HVD_FLOAT32, SMALL);
    tensor_submit(r, &t, &s);
    hvd_output_destroy(tensor_wait(r, &t));
    tensor_destroy(r, &t);
}

static void broadcast(const struct rank *r)
{
    struct tensor t = tensor_create(r, SMALL * sizeof(float));
    struct hvd_submission s = {.request =
                                   tensor_request(HVD_BROADCAST, HVD_FLOAT32, HVD_SUM, SMALL)};

    s.request.root = r->size - 1;
    s.output = fake_pointer(t.memory);
    snprintf(t.name, sizeof(t.name), "broadcast");
    tensor_fill(r, &t, HVD_FLOAT32, SMALL);
    tensor_submit(r, &t, &s);
    (void)tensor_wait(r, &t);
    (void)tensor_fetch(r, &t, fake_pointer(t.memory), t.bytes);
    for (int64_t i = 0; i < SMALL; i++)
        tensor_check(r, &t, HVD_FLOAT32, i, element_input(HVD_FLOAT32, r->size - 1, i));
    tensor_destroy(r, &t);
}

/* The program captures its stream while the adapter moves a tensor. It calls the adapter as the
 * library that it is. */
static void capture(const struct rank *r)
{
    struct hvd_device_event *ready = NULL;
    struct CUgraph_st *graph = NULL;
    struct hvd_err err = {0};
    struct tensor t = tensor_create(r, SMALL * sizeof(float));
    struct hvd_submission s = {.request =
                                   tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, SMALL / 2)};

    s.request.prescale = 3; /* its table is a new one: a kernel and an allocation */
    snprintf(t.name, sizeof(t.name), "beside a capture");
    tensor_fill(r, &t, HVD_FLOAT32, SMALL);
    rank_ok(r, r->port->ops->mark(r->port, r->stream, &ready, &err), "mark", &err);
    meet();
    if (r->rank == 0)
        GOOD(r, cuStreamBeginCapture_v2(r->stream, HVD_CU_CAPTURE_GLOBAL));
    meet();
    s.input = s.output = fake_pointer(t.memory);
    s.request.name = hvd_strview_of(t.name);
    s.ready = ready;
    rank_ok(r, hvd_engine_submit(r->engine, &s, &t.handle, &err), t.name, &err);
    hvd_device_event_release(ready);
    struct hvd_outcome outcome = {0};
    rank_ok(r, hvd_engine_wait(r->engine, t.handle, &outcome, &err), t.name, &err);
    meet();
    ready = NULL;
    fake_gpu_as_program(false);
    if (r->rank == 0 && r->port->ops->mark(r->port, r->stream, &ready, &err) != HVD_ERR_INVALID)
        rank_fail(r->rank, "mark", "took a captured stream");
    fake_gpu_as_program(true);
    if (r->rank == 0)
        GOOD(r, cuStreamEndCapture(r->stream, &graph));
    meet();
    rank_ok(r, r->port->ops->order(r->port, outcome.event, r->stream, &err), "order", &err);
    hvd_device_event_release(outcome.event);
    tensor_destroy(r, &t);
}

static void use_each_part(const struct rank *r, void *shared)
{
    (void)shared;
    reduce(r);
    gather(r);
    broadcast(r);
    capture(r);
    meet();
    r->port->ops->abort(r->port, "the program ends");
}

static void each_part_is_used_without_a_finding(void **state)
{
    (void)state;
    assert_int_equal(pthread_barrier_init(&meeting, NULL, 2), 0);
    ranks_run(2, use_each_part, NULL);
    pthread_barrier_destroy(&meeting);
}

static void use_memory_again(const struct rank *r, void *shared)
{
    (void)shared;
    ranks_sum_in_place(r, SMALL);
}

static void the_same_memory_is_used_again(void **state)
{
    (void)state;
    ranks_run(2, use_memory_again, NULL);
}

#define N_STEPS 8

/* All ranks and a pair of them have collectives at the same time: of each type, for none are
 * fused. */
static void use_two_sets(const struct rank *r, void *shared)
{
    static const enum hvd_dtype dtypes[] = {HVD_FLOAT32, HVD_INT32, HVD_FLOAT64};
    const int pair[] = {0, 1};
    const int n_sets = r->rank < 2 ? 2 : 1; /* of this rank */
    struct tensor tensors[6];
    uint32_t ids[2] = {0};
    struct hvd_err err = {0};

    (void)shared;
    rank_ok(r, hvd_engine_add_set(r->engine, pair, 2, &ids[1], &err), "a set", &err);
    for (int i = 0; i < 6; i++) {
        tensors[i] = tensor_create(r, SMALL * sizeof(double));
        snprintf(tensors[i].name, sizeof(tensors[i].name), "in a set %d", i);
    }
    for (int step = 0; step < N_STEPS; step++) {
        for (int i = 0; i < 3 * n_sets; i++) {
            struct hvd_submission s = {
                .request = tensor_request(HVD_ALLREDUCE, dtypes[i % 3], HVD_SUM, SMALL),
                .set = ids[i / 3]};
            s.output = fake_pointer(tensors[i].memory);
            tensor_submit(r, &tensors[i], &s);
        }
        for (int i = 0; i < 3 * n_sets; i++)
            (void)tensor_wait(r, &tensors[i]);
    }
    for (int i = 0; i < 6; i++)
        tensor_destroy(r, &tensors[i]);
}

static void two_sets_fit_on_a_small_gpu(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_MULTIPROCESSORS, 40);
    fake_gpu_set(FAKE_GPU_STUCK_MS, 300);
    fake_gpu_set(FAKE_GPU_DELAY_US, 2000);
    ranks_run(3, use_two_sets, NULL);
}

static int begin(void **state)
{
    (void)ranks_begin(state);
    fake_gpu_set(FAKE_GPU_FATAL, 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_used_without_a_finding),
        cmocka_unit_test(the_same_memory_is_used_again),
        cmocka_unit_test(two_sets_fit_on_a_small_gpu),
    };

    return cmocka_run_group_tests(tests, begin, NULL);
}
