/*
 * Ranks that share memory as threads of a test; see the header.
 */
#include "tests/unit/worker/transport/shm/shm_world.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support.h"

const int shm_world_sizes[SHM_WORLD_SIZES] = {1, 2, 3, 4, 5, 8};
const struct hvd_scaling shm_unscaled = {.prescale = 1, .postscale = 1, .divisor = 1};

void shm_world_open_with(struct shm_world *w, int size, const struct hvd_shm_options *options)
{
    struct hvd_shm_options full = *options;

    full.shape.n_ranks = size;
    const size_t bytes = hvd_shm_size(&full.shape);
    assert_true(bytes > 0);
    *w = (struct shm_world){.segment = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096),
                            .size = size};
    assert_non_null(w->segment);
    memset(w->segment, 0, bytes);
    full.segment = w->segment;
    full.fd = -1;
    for (int rank = 0; rank < size; rank++) {
        full.cpu_location = options->cpu_location ? &options->cpu_location[rank] : NULL;
        full.topology = (struct hvd_topology){
            .rank = rank, .size = size, .local_rank = rank, .local_size = size};
        assert_int_equal(hvd_shm_create(&full, &w->ranks[rank], NULL), HVD_OK);
    }
}

void shm_world_open(struct shm_world *w, int size, size_t stage_bytes)
{
    const struct hvd_shm_options options = {
        .shape = {.stage_bytes = stage_bytes, .small_bytes = 256, .ring_bytes = 4096},
        .is_crowded = true};

    shm_world_open_with(w, size, &options);
}

void shm_world_close(struct shm_world *w)
{
    for (int rank = 0; rank < w->size; rank++)
        assert_true(w->ranks[rank]->ops->destroy(w->ranks[rank], true));
    free(w->segment);
}

struct trial {
    struct hvd_transport *transport;
    shm_trial_fn run;
    const char *problem;
};

static void *run_trial(void *arg)
{
    struct trial *trial = arg;

    trial->problem = trial->run(trial->transport);
    return NULL;
}

void shm_world_run(const struct shm_world *w, shm_trial_fn run)
{
    pthread_t threads[SHM_WORLD_MAX];
    struct trial trials[SHM_WORLD_MAX];

    for (int rank = 0; rank < w->size; rank++) {
        trials[rank] = (struct trial){.transport = w->ranks[rank], .run = run};
        assert_int_equal(pthread_create(&threads[rank], NULL, run_trial, &trials[rank]), 0);
    }
    for (int rank = 0; rank < w->size; rank++) {
        pthread_join(threads[rank], NULL);
        if (trials[rank].problem)
            fail_msg("rank %d of %d: %s", rank, w->size, trials[rank].problem);
    }
}

void shm_world_try_sizes(shm_trial_fn run, size_t stage_bytes)
{
    struct shm_world w;

    for (size_t i = 0; i < SHM_WORLD_SIZES; i++) {
        shm_world_open(&w, shm_world_sizes[i], stage_bytes);
        shm_world_run(&w, run);
        shm_world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

void shm_world_cpu_location(struct hvd_cpu_location *cpu_locations, int size, int n_packages)
{
    for (int rank = 0; rank < size; rank++) {
        hvd_cpu_location_init(&cpu_locations[rank]);
        cpu_locations[rank].package = rank % n_packages;
    }
}

void shm_world_try_localities(shm_trial_fn run, size_t stage_bytes)
{
    static const int scenes[][2] = {{4, 2}, {8, 2}, {8, 4}};
    struct hvd_cpu_location cpu_locations[SHM_WORLD_MAX];
    const struct hvd_shm_options options = {
        .shape = {.stage_bytes = stage_bytes, .small_bytes = 256, .ring_bytes = 4096},
        .is_crowded = true,
        .cpu_location = cpu_locations};
    struct shm_world w;

    for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++) {
        shm_world_cpu_location(cpu_locations, scenes[i][0], scenes[i][1]);
        shm_world_open_with(&w, scenes[i][0], &options);
        shm_world_run(&w, run);
        shm_world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

struct hvd_collective shm_sum(int32_t *value)
{
    return (struct hvd_collective){.op = HVD_ALLREDUCE,
                                   .dtype = HVD_INT32,
                                   .reduce = HVD_SUM,
                                   .scaling = shm_unscaled,
                                   .input = value,
                                   .output = value,
                                   .count = 1};
}

const char *shm_finish(struct hvd_transport *t, struct hvd_collective *c)
{
    if (t->ops->start(t, c, NULL) != HVD_OK)
        return "an operation does not start";
    for (;;) {
        hvd_status_t st = t->ops->test(t, c, NULL);
        if (st != HVD_INPROGRESS)
            return st == HVD_OK ? NULL : "an operation failed";
        sched_yield();
    }
}
