/*
 * The adapter under attack: sets that come and go while others move, a peer that never connects, a
 * GPU that is lost, and errors that NCCL's own threads meet.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/worker/device/cuda/ranks.h"
#include "worker/device/cuda/nccl_api.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* ten times as slow */
#define N_SETS 4
#define MOST_NS INT64_C(15000000000)
#else
#define N_SETS 70 /* more than can be connected at once */
#define MOST_NS INT64_C(5000000000)
#endif
#define COUNT 400

static void submit_sum(const struct rank *r, struct tensor *t, uint32_t set, const char *name)
{
    struct hvd_submission s = {
        .request = tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, COUNT), .set = set};

    snprintf(t->name, sizeof(t->name), "%s", name);
    s.output = fake_pointer(t->memory);
    tensor_submit(r, t, &s);
}

/* --- Sets ------------------------------------------------------------------------------------- */

/* The events of a set's operations are asked for when the set is gone. */
static void make_sets(const struct rank *r, void *shared)
{
    const int pair[] = {0, 1};
    struct tensor all = tensor_create(r, COUNT * sizeof(float));
    struct tensor some = tensor_create(r, COUNT * sizeof(float));
    struct hvd_device_event *last = NULL;
    struct hvd_err err = {0};

    (void)shared;
    tensor_fill(r, &all, HVD_FLOAT32, COUNT);
    tensor_fill(r, &some, HVD_FLOAT32, COUNT);
    for (int i = 0; i < N_SETS; i++) {
        struct hvd_outcome outcome = {0};
        uint32_t id = 0;
        rank_ok(r, hvd_engine_add_set(r->engine, pair, 2, &id, &err), "a set", &err);
        submit_sum(r, &all, 0, "all");
        rank_ok(r, hvd_engine_await(r->engine, last, &err), "an event of a set that is gone", &err);
        hvd_device_event_release(last);
        if (r->rank < 2) {
            submit_sum(r, &some, id, "some");
            rank_ok(r, hvd_engine_wait(r->engine, some.handle, &outcome, &err), "some", &err);
        }
        last = outcome.event;
        (void)tensor_wait(r, &all);
        rank_ok(r, hvd_engine_remove_set(r->engine, id, &err), "the end of a set", &err);
    }
    rank_ok(r, hvd_engine_await(r->engine, last, &err), "the last event", &err);
    hvd_device_event_release(last);
    tensor_destroy(r, &all);
    tensor_destroy(r, &some);
}

static void sets_come_and_go_while_others_move(void **state)
{
    (void)state;
    ranks_run(3, make_sets, NULL);
}

/* A set that has packed tensors, with tables in pinned memory, ends while another one moves. To
 * free that memory would wait for the other one's peers. */
static void end_beside_a_collective(const struct rank *r, void *shared)
{
    const int pair[] = {0, 1};
    struct tensor all = tensor_create(r, COUNT * sizeof(float));
    struct tensor few = tensor_create(r, 7 * sizeof(float));
    struct hvd_submission s = {.request = tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, 7)};
    struct hvd_err err = {0};

    (void)shared;
    tensor_fill(r, &all, HVD_FLOAT32, COUNT);
    tensor_fill(r, &few, HVD_FLOAT32, 7);
    for (int i = 0; i < 4; i++) {
        rank_ok(r, hvd_engine_add_set(r->engine, pair, 2, &s.set, &err), "a set", &err);
        snprintf(few.name, sizeof(few.name), "few");
        s.request.prescale = 2;
        s.output = fake_pointer(few.memory);
        if (r->rank < 2) {
            tensor_submit(r, &few, &s);
            (void)tensor_wait(r, &few);
        }
        submit_sum(r, &all, 0, "all");
        rank_ok(r, hvd_engine_remove_set(r->engine, s.set, &err), "the end of a set", &err);
        (void)tensor_wait(r, &all);
    }
    tensor_destroy(r, &all);
    tensor_destroy(r, &few);
}

static void a_set_ends_beside_the_collective_of_another(void **state)
{
    (void)state;
    fake_gpu_set(FAKE_GPU_DELAY_US, 20000);
    ranks_run(3, end_beside_a_collective, NULL);
    fake_gpu_set(FAKE_GPU_DELAY_US, 20);
}

/* --- Connecting ------------------------------------------------------------------------------- */

static struct hvd_device_port *open_port(int ordinal)
{
    const struct hvd_cuda_options options = {.ordinal = ordinal};
    struct hvd_device_port *port = NULL;

    assert_int_equal(hvd_cuda_create(&options, &port, NULL), HVD_OK);
    return port;
}

static void wait_until_nothing_is_left(void)
{
    for (int i = 0; i < 500 && hvd_mem_live() > 0; i++)
        usleep(10000);
    ranks_no_leaks();
}

/* The device is aborted and destroyed while its thread waits inside NCCL. The thread frees what it
 * uses when the peer comes after all. */
static void a_device_ends_while_a_peer_does_not_connect(void **state)
{
    const int both[] = {0, 1};
    struct hvd_device_set set = {.set = 5, .rank = 0, .size = 2, .ranks = both};
    struct hvd_device_port *ports[2] = {open_port(0), open_port(1)};
    char key[HVD_DEVICE_KEY_MAX];

    (void)state;
    fake_gpu_forget();
    assert_int_equal(ports[0]->ops->make_key(ports[0], key, NULL), HVD_OK);
    assert_int_equal(ports[0]->ops->connect(ports[0], &set, key, NULL), HVD_OK);
    while (fake_gpu_calls("ncclCommInitRankConfig") == 0)
        usleep(1000);
    const int64_t begin_ns = ranks_now_ns();
    ports[0]->ops->abort(ports[0], "the peer is gone");
    ports[0]->ops->disconnect(ports[0], set.set);
    hvd_device_release(ports[0]);
    assert_true(ranks_now_ns() - begin_ns < INT64_C(2000000000));
    assert_true(hvd_mem_live() > 0);
    set.rank = 1;
    assert_int_equal(ports[1]->ops->connect(ports[1], &set, key, NULL), HVD_OK);
    while (ports[1]->ops->connected(ports[1], set.set, NULL) == HVD_INPROGRESS)
        usleep(1000);
    ports[1]->ops->disconnect(ports[1], set.set);
    hvd_device_release(ports[1]);
    wait_until_nothing_is_left();
    assert_int_equal(fake_gpu_found_any(), 0);
}

/* --- Errors that no call returns -------------------------------------------------------------- */

/* What happens to rank 0 while its collective waits for the last rank, and what it reports. */
struct trouble {
    void (*begin)(void);
    void (*end)(void);
    const char *text;
    pthread_barrier_t barrier;
    bool is_unwatched; /* no stall checks, and nobody waits for the GPU */
};

static void lose_gpu(void)
{
    fake_gpu_stop_device(0, true);
    fake_gpu_break_device(0, HVD_CU_LAUNCH_FAILED);
}

static void find_gpu(void)
{
    fake_gpu_break_device(0, 0);
    fake_gpu_stop_device(0, false);
}

static void meet_system_error(void)
{
    fake_gpu_set_async_error(0, HVD_NCCL_SYSTEM_ERROR);
}

static void meet_remote_error(void)
{
    fake_gpu_set_async_error(0, HVD_NCCL_REMOTE_ERROR);
}

static void meet_no_error(void)
{
    fake_gpu_set_async_error(0, HVD_NCCL_SUCCESS);
}

/* Waits for a tensor that the other rank does not submit, and not for the GPU. */
static hvd_status_t wait_for_another(const struct rank *r, struct hvd_err *err)
{
    struct tensor t = tensor_create(r, COUNT * sizeof(float));

    tensor_fill(r, &t, HVD_FLOAT32, COUNT);
    submit_sum(r, &t, 0, "another");
    const hvd_status_t st = hvd_engine_wait(r->engine, t.handle, NULL, err);
    tensor_destroy(r, &t);
    return st;
}

static void be_in_trouble(const struct rank *r, void *shared)
{
    struct trouble *trouble = shared;
    struct tensor t = tensor_create(r, COUNT * sizeof(float));
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};

    ranks_reduce(r, HVD_FLOAT32, HVD_SUM);
    tensor_fill(r, &t, HVD_FLOAT32, COUNT);
    GOOD(r, cuStreamSynchronize(r->stream));
    (void)pthread_barrier_wait(&trouble->barrier);
    if (r->rank == 1)
        fake_gpu_stop_device(1, true);
    (void)pthread_barrier_wait(&trouble->barrier);
    submit_sum(r, &t, 0, "in flight");
    rank_ok(r, hvd_engine_wait(r->engine, t.handle, &outcome, &err), "the launch", &err);
    (void)pthread_barrier_wait(&trouble->barrier);
    const int64_t begin_ns = ranks_now_ns();
    if (r->rank == 0) {
        trouble->begin();
        const hvd_status_t st = trouble->is_unwatched
                                    ? wait_for_another(r, &err)
                                    : hvd_engine_await(r->engine, outcome.event, &err);
        if (st != HVD_ERR_SHUTDOWN)
            rank_fail(r->rank, "the wait", "did not fail");
        const int64_t took_ns = ranks_now_ns() - begin_ns;
        if (took_ns > MOST_NS) {
            fprintf(stderr, "%g s: %s\n", (double)took_ns / 1e9, err.msg);
            rank_fail(r->rank, "the error", "comes late");
        }
        trouble->end();
        (void)pthread_barrier_wait(&trouble->barrier);
        if (!strstr(err.msg, trouble->text) || !strstr(err.msg, "GPU 0 (") ||
            !strstr(err.msg, "Rank 0 "))
            rank_fail(r->rank, "the error", err.msg);
    } else { /* an abort does not end what a stopped GPU runs. The result may have arrived */
        (void)pthread_barrier_wait(&trouble->barrier);
        fake_gpu_stop_device(1, false);
        (void)hvd_engine_await(r->engine, outcome.event, &err);
    }
    (void)pthread_barrier_wait(&trouble->barrier);
    hvd_device_event_release(outcome.event);
    GOOD(r, cuCtxSynchronize()); /* a GPU that is found again ends its work */
    tensor_destroy(r, &t);
}

static const struct ranks_machine watched = {.size = 2, .stall_warning_ns = INT64_C(60000000000)};
static const struct ranks_machine unwatched = {.size = 2};

static void run_in_trouble(struct trouble trouble)
{
    assert_int_equal(pthread_barrier_init(&trouble.barrier, NULL, 2), 0);
    ranks_run_on(trouble.is_unwatched ? &unwatched : &watched, be_in_trouble, &trouble);
    pthread_barrier_destroy(&trouble.barrier);
}

static void a_lost_gpu_is_noticed(void **state)
{
    (void)state;
    run_in_trouble(
        (struct trouble){.begin = lose_gpu, .end = find_gpu, .text = "work on the GPU: "});
}

static void an_error_of_nccl_is_noticed(void **state)
{
    (void)state;
    run_in_trouble((struct trouble){
        .begin = meet_system_error, .end = meet_no_error, .text = "a collective between GPUs: "});
}

static void an_error_is_noticed_without_a_wait_and_without_stall_checks(void **state)
{
    (void)state;
    run_in_trouble((struct trouble){.begin = meet_system_error,
                                    .end = meet_no_error,
                                    .text = "a collective between GPUs: ",
                                    .is_unwatched = true});
}

/* The engine has the first chance to name the rank that is lost. */
static void a_peer_that_nccl_has_lost_is_noticed_later(void **state)
{
    (void)state;
    run_in_trouble((struct trouble){
        .begin = meet_remote_error, .end = meet_no_error, .text = "remote process exited"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_ends_while_a_peer_does_not_connect),
        cmocka_unit_test(sets_come_and_go_while_others_move),
        cmocka_unit_test(a_set_ends_beside_the_collective_of_another),
        cmocka_unit_test(a_lost_gpu_is_noticed),
        cmocka_unit_test(an_error_of_nccl_is_noticed),
        cmocka_unit_test(an_error_is_noticed_without_a_wait_and_without_stall_checks),
        cmocka_unit_test(a_peer_that_nccl_has_lost_is_noticed_later),
    };

    return cmocka_run_group_tests(tests, ranks_begin, NULL);
}
