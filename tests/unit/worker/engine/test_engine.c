#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"

#define N_TENSORS 24
#define N_THREADS 3

static const int sizes[] = {1, 2, 3, 5, 8};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static hvd_status_t submit_and_wait(struct world *w, int rank, const struct hvd_request *req,
                                    void *data, struct hvd_err *err)
{
    const struct hvd_submission s = {
        .request = *req, .input = data, .output = data, .is_waited_now = true};
    int64_t handle = 0;
    hvd_status_t st = hvd_engine_submit(w->engines[rank], &s, &handle, err);

    return st == HVD_OK ? hvd_engine_wait(w->engines[rank], handle, NULL, err) : st;
}

static void expect_sum(struct world *w, int rank, const char *name)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, name, 1);
    struct hvd_err err = {0};
    int64_t data = rank + 1;

    world_expect(submit_and_wait(w, rank, &req, &data, &err) == HVD_OK, err.msg, rank);
    world_expect(data == w->size * (w->size + 1) / 2, "a sum is wrong", rank);
}

/* A permutation of 0..n-1 that depends on the seed. */
static void shuffle(int *order, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)((unsigned)rand_r(&seed) % (unsigned)(i + 1));
        int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

/* --- Results ---------------------------------------------------------------------------------- */

/* Submits all tensors of a rank in an order of its own; data[i] holds tensor i. */
static void submit_shuffled(struct world *w, int rank, unsigned seed, int64_t *data,
                            int64_t *handles)
{
    int order[N_TENSORS];
    char name[16];

    shuffle(order, N_TENSORS, seed);
    for (int i = 0; i < N_TENSORS; i++) {
        int t = order[i];
        snprintf(name, sizeof(name), "t%d", t);
        struct hvd_request req = world_request(t % 3 ? HVD_ALLREDUCE : HVD_BROADCAST, name, 1);
        req.root = t % w->size;
        if (t % 3 == 0)
            req.reduce = HVD_SUM;
        else if (t % 3 == 1)
            req.reduce = HVD_MAX;
        else
            req.reduce = HVD_AVERAGE;
        data[t] = rank * 10 + t;
        handles[t] = world_submit(w, rank, &req, &data[t], &data[t]);
    }
}

static int64_t expected(int size, int t)
{
    if (t % 3 == 0)
        return t % size * 10 + t;
    if (t % 3 == 1)
        return (size - 1) * 10 + t;
    return 5 * (size - 1) + t; /* the average of rank * 10 + t */
}

static void one_thread_can_drive_all_ranks_in_any_order_of_submission(void **state)
{
    int64_t data[MAX_RANKS][N_TENSORS] = {0};
    int64_t handles[MAX_RANKS][N_TENSORS] = {0};
    struct world w = {0};

    (void)state;
    for (size_t n = 0; n < N_SIZES * 4; n++) {
        world_open(&w, sizes[n % N_SIZES], n, &world_manual);
        for (int rank = 0; rank < w.size; rank++)
            submit_shuffled(&w, rank, (unsigned)(n * 100) + (unsigned)rank, data[rank],
                            handles[rank]);
        world_settle(&w);
        for (int rank = 0; rank < w.size; rank++) {
            for (int t = 0; t < N_TENSORS; t++) {
                assert_int_equal(hvd_engine_poll(w.engines[rank], handles[rank][t]), 1);
                assert_int_equal(hvd_engine_wait(w.engines[rank], handles[rank][t], NULL, NULL),
                                 HVD_OK);
                assert_int_equal(data[rank][t], expected(w.size, t));
            }
        }
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

struct thread_of_rank {
    struct world *w;
    int rank;
    int number;
};

/* Each thread has tensors of its own; the threads of a rank compete for driving. */
static void *run_thread(void *arg)
{
    const struct thread_of_rank *self = arg;
    int order[N_TENSORS];
    int64_t handles[N_TENSORS];
    int64_t data[N_TENSORS];
    char name[32];

    for (unsigned round = 0; round < 3; round++) {
        shuffle(order, N_TENSORS, (unsigned)self->rank * 17 + (unsigned)self->number + round);
        for (int i = 0; i < N_TENSORS; i++) {
            snprintf(name, sizeof(name), "thread%d.%d", self->number, order[i]);
            struct hvd_request req = world_request(HVD_ALLREDUCE, name, 1);
            data[order[i]] = self->rank + order[i];
            handles[order[i]] =
                world_submit(self->w, self->rank, &req, &data[order[i]], &data[order[i]]);
        }
        const int size = self->w->size;
        for (int t = 0; t < N_TENSORS; t++) {
            hvd_status_t st = hvd_engine_wait(self->w->engines[self->rank], handles[t], NULL, NULL);
            world_expect(st == HVD_OK, "a wait failed", self->rank);
            world_expect(data[t] == size * (size - 1) / 2 + size * t, "a sum is wrong", self->rank);
        }
        snprintf(name, sizeof(name), "sync%d", self->number);
        expect_sum(self->w, self->rank, name);
    }
    return NULL;
}

static void run_threads(struct world *w, int rank)
{
    pthread_t threads[N_THREADS];
    struct thread_of_rank args[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        args[i] = (struct thread_of_rank){.w = w, .rank = rank, .number = i};
        if (pthread_create(&threads[i], NULL, run_thread, &args[i]) != 0)
            abort();
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void threads_of_all_ranks_submit_and_wait_at_once(void **state)
{
    struct world w;

    (void)state;
    for (size_t n = 0; n < N_SIZES; n++) {
        world_open(&w, sizes[n], n, &world_threaded);
        world_run(&w, run_threads);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

static void poll_until_done(struct world *w, int rank)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, "polled", 1);
    int64_t data = 1;
    int64_t handle = world_submit(w, rank, &req, &data, &data);

    while (hvd_engine_poll(w->engines[rank], handle) == 0)
        sched_yield();
    world_expect(data == w->size, "a polled sum is wrong", rank);
    world_expect(hvd_engine_wait(w->engines[rank], handle, NULL, NULL) == HVD_OK, "wait", rank);
    world_expect(hvd_engine_poll(w->engines[rank], handle) == -1, "an ended handle lives", rank);
    world_expect(hvd_engine_wait(w->engines[rank], handle, NULL, NULL) == HVD_ERR_NOT_FOUND,
                 "an ended handle can be waited for", rank);
}

static void gather_rows(struct world *w, int rank)
{
    struct hvd_request req = world_request(HVD_ALLGATHER, "rows", rank % 3);
    struct hvd_outcome outcome = {0};
    int64_t rows[3] = {rank, rank, rank};

    req.ndim = 2;
    req.shape[1] = 1;
    int64_t handle = world_submit(w, rank, &req, rows, NULL);
    world_expect(hvd_engine_wait(w->engines[rank], handle, &outcome, NULL) == HVD_OK, "gather",
                 rank);
    struct horovod_output *output = outcome.output;
    const int64_t *data = output ? output->data : NULL;
    int64_t at = 0;
    for (int from = 0; output && from < w->size; from++) {
        world_expect(output->rows[from] == from % 3, "a gathered size is wrong", rank);
        for (int i = 0; i < from % 3; i++)
            world_expect(data[at++] == from, "a gathered row is wrong", rank);
    }
    world_expect(output && output->n_rows == at, "the number of rows is wrong", rank);
    hvd_output_destroy(output);
}

static void move_nothing(struct world *w, int rank)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, "empty", 0);
    struct hvd_request barrier = {.op = HVD_BARRIER, .name = hvd_strview_of("barrier")};
    struct hvd_request gather = world_request(HVD_ALLGATHER, "no rows", 0);
    struct hvd_outcome outcome = {0};

    world_expect(submit_and_wait(w, rank, &req, NULL, NULL) == HVD_OK, "an empty tensor failed",
                 rank);
    world_expect(submit_and_wait(w, rank, &barrier, NULL, NULL) == HVD_OK, "a barrier failed",
                 rank);
    int64_t handle = world_submit(w, rank, &gather, NULL, NULL);
    world_expect(hvd_engine_wait(w->engines[rank], handle, &outcome, NULL) == HVD_OK, "gather",
                 rank);
    struct horovod_output *output = outcome.output;
    world_expect(output && !output->data && output->n_rows == 0, "rows out of nowhere", rank);
    hvd_output_destroy(output);
}

static void polls_gathers_and_empty_tensors_complete(void **state)
{
    struct world w;

    (void)state;
    for (size_t n = 0; n < N_SIZES; n++) {
        world_open(&w, sizes[n], n, &world_threaded);
        world_run(&w, poll_until_done);
        world_run(&w, gather_rows);
        world_run(&w, move_nothing);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

static void nothing_is_sent_while_nothing_is_submitted(void **state)
{
    int64_t data[3] = {1, 2, 3};
    int64_t handles[3];
    struct hvd_request req = world_request(HVD_ALLREDUCE, "t", 1);
    struct world w;

    (void)state;
    world_open(&w, 3, 5, &world_manual);
    world_settle(&w);
    assert_int_equal(hvd_sim_messages(w.sim), 0);
    for (int rank = 0; rank < 3; rank++)
        handles[rank] = world_submit(&w, rank, &req, &data[rank], &data[rank]);
    world_settle(&w);
    assert_int_equal(hvd_sim_messages(w.sim), 4); /* two requests, two plans */
    world_settle(&w);
    assert_int_equal(hvd_sim_messages(w.sim), 4);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(hvd_engine_wait(w.engines[rank], handles[rank], NULL, NULL), HVD_OK);
    world_close(&w);
}

/* --- Mismatches ------------------------------------------------------------------------------- */

static const char *const mismatch_texts[] = {
    "Mismatched data types",
    "Mismatched operations",
    "Mismatched ALLREDUCE tensor shapes",
    "Mismatched reduction op",
    "Mismatched BROADCAST root ranks",
};

/* The last rank differs from the others in one respect. */
static void differ(struct world *w, int rank)
{
    const bool is_odd = rank == w->size - 1;
    int64_t data[8] = {0};

    for (int n = 0; n < 5; n++) {
        struct hvd_request req = world_request(n == 4 ? HVD_BROADCAST : HVD_ALLREDUCE, "m", 2);
        struct hvd_err err = {0};
        if (is_odd && n == 0)
            req.dtype = HVD_FLOAT32;
        if (is_odd && n == 1)
            req.op = HVD_BROADCAST;
        if (is_odd && n == 2)
            req.shape[0] = 3;
        if (is_odd && n == 3)
            req.reduce = HVD_MIN;
        if (is_odd && n == 4)
            req.root = 1;
        hvd_status_t st = submit_and_wait(w, rank, &req, data, &err);
        world_expect(st == HVD_ERR_MISMATCH, "no mismatch was reported", rank);
        world_expect(strstr(err.msg, mismatch_texts[n]) != NULL, err.msg, rank);
        expect_sum(w, rank, "the job goes on");
    }
}

static void a_mismatch_fails_the_tensor_on_every_rank_and_the_job_goes_on(void **state)
{
    struct world w;

    (void)state;
    for (size_t n = 1; n < N_SIZES; n++) {
        world_open(&w, sizes[n], n, &world_threaded);
        world_run(&w, differ);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

/* --- Ends ------------------------------------------------------------------------------------- */

static void one_leaves(struct world *w, int rank)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, "never", 1);
    struct hvd_err err = {0};
    int64_t data = 0;

    if (rank == 1) {
        (void)hvd_engine_shutdown(w->engines[rank], NULL);
        return;
    }
    world_expect(submit_and_wait(w, rank, &req, &data, &err) == HVD_ERR_SHUTDOWN, "not ended",
                 rank);
    world_expect(strstr(err.msg, "Horovod has been shut down. Rank 1") != NULL, err.msg, rank);
    hvd_err_clear(&err);
    req.name = hvd_strview_of("later");
    world_expect(submit_and_wait(w, rank, &req, &data, &err) == HVD_ERR_SHUTDOWN, "not refused",
                 rank);
    (void)hvd_engine_shutdown(w->engines[rank], NULL);
}

static void a_rank_that_shuts_down_is_named_to_those_who_wait(void **state)
{
    struct world w;

    (void)state;
    for (size_t n = 1; n < N_SIZES; n++) {
        world_open(&w, sizes[n], n, &world_threaded);
        world_run(&w, one_leaves);
        world_destroy(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

static void one_is_killed(struct world *w, int rank)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, "orphan", 1);
    struct hvd_err err = {0};
    int64_t data = 0;

    if (rank == w->size - 1) {
        hvd_sim_kill(w->sim, rank);
    } else {
        world_expect(submit_and_wait(w, rank, &req, &data, &err) == HVD_ERR_SHUTDOWN, "not ended",
                     rank);
        char want[64];
        snprintf(want, sizeof(want), "Rank %d on host sim-0 is lost", w->size - 1);
        world_expect(strstr(err.msg, want) != NULL, err.msg, rank);
    }
    (void)hvd_engine_shutdown(w->engines[rank], NULL);
}

static void a_rank_that_dies_ends_the_wait_of_the_others_and_is_named(void **state)
{
    struct world w;

    (void)state;
    for (size_t n = 1; n < N_SIZES; n++) {
        world_open(&w, sizes[n], n, &world_threaded);
        world_run(&w, one_is_killed);
        world_destroy(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
    assert_int_equal(world_problems(), 0);
}

static void a_tensor_nobody_waited_for_is_freed_with_the_engine(void **state)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, "t", 1);
    int64_t data = 1;
    struct world w;

    (void)state;
    world_open(&w, 2, 1, &world_threaded);
    world_submit(&w, 0, &req, &data, &data);
    world_close(&w);
    assert_int_equal(hvd_mem_live(), 0);
}

static void a_pending_name_is_refused_and_free_again_once_done(void **state)
{
    struct hvd_request req = world_request(HVD_ALLREDUCE, "t", 1);
    const struct hvd_submission s = {.request = req};
    struct hvd_err err = {0};
    int64_t data = 1;
    int64_t handle;
    struct world w;

    (void)state;
    world_open(&w, 1, 1, &world_manual);
    int64_t first = world_submit(&w, 0, &req, &data, &data);
    assert_int_equal(hvd_engine_submit(w.engines[0], &s, &handle, &err), HVD_ERR_EXISTS);
    assert_non_null(strstr(err.msg, "same name"));
    assert_int_equal(hvd_engine_wait(w.engines[0], first, NULL, NULL), HVD_OK);
    int64_t second = world_submit(&w, 0, &req, &data, &data);
    assert_int_equal(hvd_engine_wait(w.engines[0], second, NULL, NULL), HVD_OK);
    world_close(&w);
}

/* --- Warnings and memory ---------------------------------------------------------------------- */

static void keep_message(void *ctx, const struct hvd_log_record *record)
{
    snprintf(ctx, 1024, "%s", record->msg);
}

static void a_stall_is_warned_about_with_tensor_and_missing_rank(void **state)
{
    char message[1024] = "";
    const struct hvd_log log = {.level = HVD_LOG_WARN, .sink = keep_message, .ctx = message};
    const struct hvd_engine_options options = {
        .cycle_ns = 200000, .no_background = true, .stall_warning_ns = 1000000, .log = &log};
    struct hvd_request req = world_request(HVD_ALLREDUCE, "lonely", 1);
    int64_t data = 1;
    struct world w;

    (void)state;
    world_open(&w, 2, 1, &options);
    world_submit(&w, 0, &req, &data, &data);
    for (int i = 0; i < 100000000 && !message[0]; i++)
        hvd_engine_step(w.engines[0]);
    assert_non_null(strstr(message, "Missing ranks:\n1 on host sim-0: [lonely]"));
    world_close(&w);
}

static void a_stall_that_lasts_ends_the_job_on_every_rank_with_its_cause(void **state)
{
    const struct hvd_engine_options options = {.cycle_ns = 200000,
                                               .no_background = true,
                                               .cache_capacity = 100,
                                               .stall_warning_ns = 1000000,
                                               .stall_shutdown_ns = 2000000};
    struct hvd_request req = world_request(HVD_ALLREDUCE, "lonely", 1);
    struct hvd_request other = world_request(HVD_ALLREDUCE, "other", 1);
    struct hvd_err errs[3] = {0};
    int64_t handles[3];
    int64_t data[3] = {1, 1, 1};
    struct world w;

    (void)state;
    world_open(&w, 3, 1, &options);
    for (int rank = 0; rank < 3; rank++)
        handles[rank] = world_submit(&w, rank, rank == 1 ? &other : &req, &data[rank], &data[rank]);
    for (int i = 0; i < 100000000 && hvd_engine_poll(w.engines[2], handles[2]) == 0; i++)
        for (int rank = 0; rank < 3; rank++)
            hvd_engine_step(w.engines[rank]);
    world_settle(&w);
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(hvd_engine_wait(w.engines[rank], handles[rank], NULL, &errs[rank]),
                         HVD_ERR_SHUTDOWN);
        assert_non_null(strstr(errs[rank].msg, "is stalled for longer than 0.002 seconds"));
        assert_non_null(strstr(errs[rank].msg, "it waits for rank "));
    }
    world_close(&w);
}

/* One rank from start to end; how its tensors ended. */
static hvd_status_t live(void)
{
    const struct hvd_sim_options sim_options = {.size = 1};
    struct hvd_request req = world_request(HVD_ALLGATHER, "g", 2);
    int64_t data[2] = {3, 4};
    const struct hvd_submission s = {.request = req, .input = data};
    struct hvd_outcome outcome = {0};
    struct hvd_engine *e = NULL;
    struct hvd_transport *t = NULL;
    struct hvd_sim *sim = NULL;
    int64_t handle;
    hvd_status_t st = hvd_sim_create(&sim_options, &sim, NULL);

    if (st == HVD_OK)
        st = hvd_sim_join(sim, 0, &t, NULL);
    if (st == HVD_OK)
        st = hvd_engine_create(t, &world_manual, &e, NULL);
    if (st == HVD_OK)
        st = hvd_engine_submit(e, &s, &handle, NULL);
    if (st == HVD_OK)
        st = hvd_engine_wait(e, handle, &outcome, NULL);
    hvd_output_destroy(outcome.output);
    if (e)
        (void)hvd_engine_shutdown(e, NULL);
    hvd_engine_destroy(e);
    hvd_sim_destroy(sim);
    return st;
}

static void every_allocation_may_fail_and_nothing_hangs(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        hvd_status_t st = live();
        /* A failure at the very end, in leaving, comes after the result. */
        assert_true(st == HVD_OK || hvd_mem_fired());
        assert_true(st == HVD_OK || st == HVD_ERR_NOMEM || st == HVD_ERR_SHUTDOWN);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_can_drive_all_ranks_in_any_order_of_submission),
        cmocka_unit_test(threads_of_all_ranks_submit_and_wait_at_once),
        cmocka_unit_test(polls_gathers_and_empty_tensors_complete),
        cmocka_unit_test(nothing_is_sent_while_nothing_is_submitted),
        cmocka_unit_test(a_mismatch_fails_the_tensor_on_every_rank_and_the_job_goes_on),
        cmocka_unit_test(a_rank_that_shuts_down_is_named_to_those_who_wait),
        cmocka_unit_test(a_rank_that_dies_ends_the_wait_of_the_others_and_is_named),
        cmocka_unit_test(a_tensor_nobody_waited_for_is_freed_with_the_engine),
        cmocka_unit_test(a_pending_name_is_refused_and_free_again_once_done),
        cmocka_unit_test(a_stall_is_warned_about_with_tensor_and_missing_rank),
        cmocka_unit_test(a_stall_that_lasts_ends_the_job_on_every_rank_with_its_cause),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
