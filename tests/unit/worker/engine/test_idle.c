#include "tests/unit/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/worker/engine/world.h"
#include "tests/unit/worker/transport/shm/shm_world.h"

#define QUIET_NS 300000000
#define TIMEOUT_NS 20000000000

static const struct hvd_engine_options threaded = {.cycle_ns = 200000,
                                                   .idle_poll_ns = 1000000,
                                                   .stall_warning_ns = 60000000000,
                                                   .cache_capacity = 1024,
                                                   .fusion_bytes = 1 << 20};

struct job {
    struct hvd_engine *engines[SHM_WORLD_MAX];
    struct shm_world shm;
};

struct rank {
    struct hvd_engine *engine;
    bool has_failed;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *add_up(void *arg)
{
    struct rank *rank = arg;
    const struct hvd_request request = world_request(HVD_ALLREDUCE, "t", 1);
    int64_t data = 1;
    const struct hvd_submission s = {.request = request, .input = &data, .output = &data};
    int64_t handle = 0;

    rank->has_failed = hvd_engine_submit(rank->engine, &s, &handle, NULL) != HVD_OK ||
                       hvd_engine_wait(rank->engine, handle, NULL, NULL) != HVD_OK;
    return NULL;
}

static void *shut_down(void *arg)
{
    struct rank *rank = arg;

    rank->has_failed = hvd_engine_shutdown(rank->engine, NULL) != HVD_OK;
    return NULL;
}

static void on_all(struct job *job, void *(*what)(void *))
{
    pthread_t threads[SHM_WORLD_MAX];
    struct rank ranks[SHM_WORLD_MAX];

    for (int i = 0; i < job->shm.size; i++) {
        ranks[i] = (struct rank){.engine = job->engines[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, what, &ranks[i]), 0);
    }
    for (int i = 0; i < job->shm.size; i++) {
        pthread_join(threads[i], NULL);
        assert_false(ranks[i].has_failed);
    }
}

static uint64_t count_wakeups(const struct job *job)
{
    struct hvd_engine_counters counters;
    uint64_t n = 0;

    for (int i = 0; i < job->shm.size; i++) {
        hvd_engine_read_counters(job->engines[i], &counters);
        n += counters.idle_wakeups;
    }
    return n;
}

/* Waits until no rank has woken up for a while: then all sleep for good. */
static void wait_until_quiet(const struct job *job)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    const int64_t begin = now_ns();
    uint64_t n = count_wakeups(job);

    for (int64_t since = begin; now_ns() - since < QUIET_NS; nanosleep(&nap, NULL)) {
        assert_true(now_ns() - begin < TIMEOUT_NS);
        if (count_wakeups(job) == n)
            continue;
        n = count_wakeups(job);
        since = now_ns();
    }
}

static void nobody_wakes_up_while_nothing_is_outstanding(void **state)
{
    static const int sizes[] = {1, 2, 5};
    struct job job = {.shm = {.size = 0}};

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        shm_world_open(&job.shm, sizes[s], 0);
        for (int i = 0; i < job.shm.size; i++) {
            assert_int_equal(hvd_engine_create(job.shm.ranks[i], &threaded, &job.engines[i], NULL),
                             HVD_OK);
            job.shm.ranks[i] = NULL;
        }
        for (int round = 0; round < 3; round++) {
            on_all(&job, add_up); /* who sleeps is woken for work */
            wait_until_quiet(&job);
        }
        on_all(&job, shut_down);
        for (int i = 0; i < job.shm.size; i++)
            hvd_engine_destroy(job.engines[i]);
        free(job.shm.segment); /* the transports are gone with the engines */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_wakes_up_while_nothing_is_outstanding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
