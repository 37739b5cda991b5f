/*
 * Jobs of one process, one after the other: after an orderly end, after a lost rank, and after one
 * that could not begin.
 */
#include "tests/unit/support.h"

#include <horovod/horovod.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/worker/api/sim_bootstrap.h"
#include "worker/engine/engine.h"
#include "worker/transport/hybrid/hybrid.h"

#define RANKS_MAX 4
#define N_JOBS 5

/* A rank of the world besides the process's own. */
struct other {
    struct hvd_sim *sim;
    int rank;
    bool is_lost; /* behind the first sum */
    atomic_bool has_summed;
    atomic_bool is_killed;
    int n_bad;
    pthread_t thread;
};

static hvd_status_t sum(struct hvd_engine *e, int rank, int64_t *value)
{
    const struct hvd_submission s = {.request = {.op = HVD_ALLREDUCE,
                                                 .dtype = HVD_INT64,
                                                 .reduce = HVD_SUM,
                                                 .prescale = 1,
                                                 .postscale = 1,
                                                 .ndim = 1,
                                                 .shape = {1},
                                                 .name = hvd_strview_of("t")},
                                     .input = value,
                                     .output = value};
    int64_t handle = 0;
    hvd_status_t st;

    *value = rank + 1;
    st = hvd_engine_submit(e, &s, &handle, NULL);
    return st == HVD_OK ? hvd_engine_wait(e, handle, NULL, NULL) : st;
}

static void *live(void *arg)
{
    static const struct hvd_engine_options options = {.cycle_ns = 1000000,
                                                      .idle_poll_ns = 50000000,
                                                      .grace_ns = 300000000,
                                                      .cache_capacity = 1 << 14,
                                                      .fusion_bytes = 1 << 27};
    struct other *self = arg;
    struct hvd_transport *far = NULL, *t = NULL;
    struct hvd_engine *e = NULL;
    int64_t value = 0;

    self->n_bad += hvd_sim_join(self->sim, self->rank, &far, NULL) != HVD_OK ||
                   hvd_hybrid_create(far, &(struct hvd_hybrid_options){.wants_shm = false}, &t,
                                     NULL) != HVD_OK ||
                   hvd_engine_create(t, &options, &e, NULL) != HVD_OK;
    if (!e)
        return NULL;
    for (int i = 0; i < 2; i++) /* process sets to begin with: as groups, and as lists */
        self->n_bad += hvd_engine_agree(e, 0, NULL) != HVD_OK;
    self->n_bad += sum(e, self->rank, &value) != HVD_OK;
    atomic_store(&self->has_summed, true);
    while (self->is_lost && !atomic_load(&self->is_killed))
        sched_yield();
    if (!self->is_lost)
        (void)sum(e, self->rank, &value); /* fails where another one is lost */
    (void)hvd_engine_shutdown(e, NULL);
    hvd_engine_destroy(e);
    return NULL;
}

static horovod_status_t sum_here(double *value, horovod_error_t *err)
{
    const horovod_tensor_t *t =
        HOROVOD_TENSOR(.name = "t", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM, .ndim = 1,
                       .shape = (const int64_t[]){1});
    int64_t number = 1;
    const horovod_status_t st = horovod_allreduce(&number, &number, t, err);

    *value = (double)number;
    return st;
}

/* A job of that many ranks; whether one of them is lost in it. */
static void run_job(int size, bool loses)
{
    const struct hvd_sim_options options = {.size = size, .seed = (uint64_t)size, .max_delay = 3};
    struct other others[RANKS_MAX] = {0};
    horovod_error_t err = {0};
    struct hvd_sim *sim = NULL;
    double value = 0;

    assert_int_equal(hvd_sim_create(&options, &sim, NULL), HVD_OK);
    sim_bootstrap_set(sim);
    for (int rank = 1; rank < size; rank++) {
        others[rank] =
            (struct other){.sim = sim, .rank = rank, .is_lost = loses && rank == size - 1};
        assert_int_equal(pthread_create(&others[rank].thread, NULL, live, &others[rank]), 0);
    }
    assert_true(horovod_init(NULL, 0, NULL, NULL, 0));
    assert_int_equal(horovod_size(), size);
    assert_int_equal(sum_here(&value, &err), HOROVOD_OK);
    assert_int_equal((int)value, size * (size + 1) / 2);
    for (int rank = 1; rank < size; rank++)
        while (!atomic_load(&others[rank].has_summed))
            sched_yield();
    if (loses) {
        hvd_sim_kill(sim, size - 1);
        atomic_store(&others[size - 1].is_killed, true);
    }
    const horovod_status_t st = sum_here(&value, &err);
    assert_int_equal(st, loses ? HOROVOD_ABORTED : HOROVOD_OK);
    if (loses)
        assert_non_null(strstr(err.message, "ank "));
    horovod_shutdown();
    assert_false(horovod_is_initialized());
    for (int rank = 1; rank < size; rank++) {
        pthread_join(others[rank].thread, NULL);
        assert_int_equal(others[rank].n_bad, 0);
    }
    hvd_sim_destroy(sim);
}

static void jobs_follow_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < N_JOBS; i++)
        run_job(1 + i % RANKS_MAX, false);
    assert_true(sim_bootstrap_live() <= 1); /* the last job stays for those who wait */
}

static void a_job_begins_after_one_that_lost_a_rank(void **state)
{
    (void)state;
    for (int i = 0; i < N_JOBS; i++) {
        run_job(2 + i % (RANKS_MAX - 1), true);
        run_job(2 + (i + 1) % (RANKS_MAX - 1), false);
    }
    assert_true(sim_bootstrap_live() <= 1);
}

static void a_job_begins_after_one_that_did_not(void **state)
{
    const struct hvd_sim_options options = {.size = 1, .seed = 1, .max_delay = 1};
    struct hvd_sim *sim = NULL;
    horovod_error_t err = {0};

    (void)state;
    assert_int_equal(hvd_sim_create(&options, &sim, NULL), HVD_OK);
    sim_bootstrap_set(sim);
    sim_bootstrap_refuse(true);
    assert_false(horovod_init(NULL, 0, NULL, NULL, 0));
    assert_int_not_equal(horovod_init_error(&err), HOROVOD_OK);
    assert_string_equal(err.message, "nobody is there");
    sim_bootstrap_refuse(false);
    hvd_sim_destroy(sim);
    run_job(3, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_follow_each_other),
        cmocka_unit_test(a_job_begins_after_one_that_lost_a_rank),
        cmocka_unit_test(a_job_begins_after_one_that_did_not),
    };

    (void)setenv("HOROVOD_SHM", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
