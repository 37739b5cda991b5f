/* Worlds of simulated ranks for the tests of the engine. */
#include "tests/unit/support.h"

#include "tests/unit/worker/engine/world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

const struct hvd_engine_options world_threaded = {
    .cycle_ns = 200000, .idle_poll_ns = 1000000, .cache_capacity = 1024, .fusion_bytes = 1 << 20};
const struct hvd_engine_options world_manual = {
    .cycle_ns = 200000, .no_background = true, .cache_capacity = 1024, .fusion_bytes = 1 << 20};

static atomic_int n_problems;

void world_open(struct world *w, int size, uint64_t seed, const struct hvd_engine_options *options)
{
    const struct hvd_sim_options sim = {.size = size, .seed = seed, .max_delay = 3};
    struct hvd_transport *t[MAX_RANKS];

    *w = (struct world){.size = size};
    assert_int_equal(hvd_sim_create(&sim, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(hvd_sim_join(w->sim, rank, &t[rank], NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(hvd_engine_create(t[rank], options, &w->engines[rank], NULL), HVD_OK);
}

struct job {
    struct world *world;
    int rank;
    void (*body)(struct world *w, int rank);
};

static void *run_job(void *arg)
{
    const struct job *job = arg;

    job->body(job->world, job->rank);
    return NULL;
}

void world_run(struct world *w, void (*body)(struct world *w, int rank))
{
    pthread_t threads[MAX_RANKS];
    struct job jobs[MAX_RANKS];

    for (int rank = 0; rank < w->size; rank++) {
        jobs[rank] = (struct job){.world = w, .rank = rank, .body = body};
        assert_int_equal(pthread_create(&threads[rank], NULL, run_job, &jobs[rank]), 0);
    }
    for (int rank = 0; rank < w->size; rank++)
        pthread_join(threads[rank], NULL);
}

static void shut_down(struct world *w, int rank)
{
    (void)hvd_engine_shutdown(w->engines[rank], NULL);
}

void world_close(struct world *w)
{
    world_run(w, shut_down);
    world_destroy(w);
}

void world_destroy(struct world *w)
{
    for (int rank = 0; rank < w->size; rank++)
        hvd_engine_destroy(w->engines[rank]);
    hvd_sim_destroy(w->sim);
}

void world_settle(struct world *w)
{
    /* A delayed message shows within a few looks: this many in vain mean there is none. */
    for (int quiet = 0; quiet < 50; quiet++)
        for (int rank = 0; rank < w->size; rank++)
            if (hvd_engine_step(w->engines[rank]))
                quiet = 0;
}

void world_expect(bool good, const char *what, int rank)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    atomic_fetch_add(&n_problems, 1);
}

int world_problems(void)
{
    return atomic_load(&n_problems);
}

int64_t world_submit(struct world *w, int rank, const struct hvd_request *req, const void *in,
                     void *out)
{
    const struct hvd_submission s = {.request = *req, .input = in, .output = out};
    int64_t handle = 0;

    world_expect(hvd_engine_submit(w->engines[rank], &s, &handle, NULL) == HVD_OK, "submit failed",
                 rank);
    return handle;
}

struct hvd_request world_request(enum hvd_op op, const char *name, int64_t count)
{
    return (struct hvd_request){.op = op,
                                .dtype = HVD_INT64,
                                .reduce = HVD_SUM,
                                .prescale = 1,
                                .postscale = 1,
                                .ndim = 1,
                                .shape = {count},
                                .name = hvd_strview_of(name)};
}
