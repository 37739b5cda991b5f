/* What a job's end looks like to its telemetry, and that names without end take no memory without
 * end.
 */
#include "tests/unit/support.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/unit/worker/engine/world.h"
#include "worker/telemetry/telemetry.h"

#define SEEDS 60

static void sum_once(struct world *w, int rank)
{
    const struct hvd_request request = world_request(HVD_ALLREDUCE, "last", 1);
    int64_t data = 1;
    const int64_t handle = world_submit(w, rank, &request, &data, &data);

    world_expect(hvd_engine_wait(w->engines[rank], handle, NULL, NULL) == HVD_OK, "a sum", rank);
    world_expect(hvd_engine_shutdown(w->engines[rank], NULL) == HVD_OK, "the end", rank);
}

static atomic_bool is_pending;

/* The others of a rank that waits for nobody: 0 leaves first in some runs, and others in others,
 * all behind its tensor. */
static void sum_pending(struct world *w, int rank)
{
    const struct hvd_request request = world_request(HVD_ALLREDUCE, "never", 1);
    int64_t data = 1;

    if (rank == 0)
        (void)world_submit(w, rank, &request, &data, &data);
    if (rank == 0)
        atomic_store(&is_pending, true);
    while (!atomic_load(&is_pending))
        sched_yield();
    world_expect(hvd_engine_shutdown(w->engines[rank], NULL) == HVD_OK, "the end", rank);
}

/* How many failures telemetry of all ranks has counted. */
static uint64_t failures_of(void (*body)(struct world *w, int rank), int size, uint64_t seed)
{
    const struct hvd_sim_options sim = {.size = size, .seed = seed, .max_delay = 3};
    struct hvd_telemetry *telemetries[MAX_RANKS];
    struct world w = {.size = size};
    uint64_t n = 0;

    assert_int_equal(hvd_sim_create(&sim, &w.sim, NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++) {
        const struct hvd_telemetry_options about = {.rank = rank, .size = size};
        struct hvd_engine_options options = world_threaded;
        struct hvd_transport *t;
        assert_int_equal(hvd_telemetry_create(&about, &telemetries[rank], NULL), HVD_OK);
        options.telemetry = telemetries[rank];
        assert_int_equal(hvd_sim_join(w.sim, rank, &t, NULL), HVD_OK);
        assert_int_equal(hvd_engine_create(t, &options, &w.engines[rank], NULL), HVD_OK);
    }
    world_run(&w, body);
    world_destroy(&w);
    for (int rank = 0; rank < size; rank++) {
        struct hvd_counts counts;
        hvd_telemetry_counts(telemetries[rank], &counts);
        hvd_telemetry_destroy(telemetries[rank]);
        n += counts.job_failures;
    }
    assert_int_equal(world_problems(), 0);
    return n;
}

/* A rank is done with its last tensor and leaves while that still is on its way on another. */
static void a_job_that_ends_well_reports_no_failure(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        assert_int_equal(failures_of(sum_once, 2 + (int)(seed % 3), seed), 0);
}

static void a_job_that_ends_under_a_pending_tensor_reports_one(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        atomic_store(&is_pending, false);
        assert_int_equal(failures_of(sum_pending, 3, seed), 1);
    }
}

/* Sums under names that nobody has used before. */
static void sum_new(struct world *w, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        char name[32];
        int64_t data[2] = {1, 1};
        int64_t handles[2];

        (void)snprintf(name, sizeof(name), "loss.%d", 100000 + i);
        for (int rank = 0; rank < 2; rank++) {
            const struct hvd_request request = world_request(HVD_ALLREDUCE, name, 1);
            handles[rank] = world_submit(w, rank, &request, &data[rank], &data[rank]);
        }
        world_settle(w);
        for (int rank = 0; rank < 2; rank++)
            assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank], NULL, NULL), HVD_OK);
        assert_int_equal(data[0], 2);
    }
}

static void names_without_end_take_the_memory_of_the_cache_alone(void **state)
{
    struct hvd_engine_options options = world_manual;
    struct world w;

    (void)state;
    options.cache_capacity = 64;
    world_open(&w, 2, 1, &options);
    sum_new(&w, 0, 2000); /* who is not used for 1,000 plans may go */
    const long before = hvd_mem_live();
    sum_new(&w, 2000, 3000);
    assert_int_equal(hvd_mem_live(), before);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_ends_well_reports_no_failure),
        cmocka_unit_test(a_job_that_ends_under_a_pending_tensor_reports_one),
        cmocka_unit_test(names_without_end_take_the_memory_of_the_cache_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
