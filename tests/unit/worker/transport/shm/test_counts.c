#include "tests/unit/support.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/unit/worker/transport/shm/shm_world.h"
#include "worker/transport/shm/shm_internal.h"

/* --- Bytes read and written ------------------------------------------------------------------- */

#define MOST ((size_t)1 << 20)

/* A collective, and what a rank reads and writes for it: times its payload, in n-ths, n the ranks.
 */
struct design {
    const char *name;
    enum hvd_op op;
    size_t bytes; /* of the payload, a multiple of all n and lines */
    int n_pieces;
    int n_ranks;
    unsigned reads;
    unsigned writes;
    int n_localities;
};

static const struct design designs[] = {
    {"a rank alone", HVD_ALLREDUCE, 4096, 1, 1, 1, 1, 1},
    /* behind the flag, and all of them back: 1 + n reads */
    {"a small allreduce of 2", HVD_ALLREDUCE, 256, 1, 2, 6, 4, 1},
    {"a small allreduce of 4", HVD_ALLREDUCE, 256, 1, 4, 20, 8, 1},
    {"a small allreduce of 2, in pieces", HVD_ALLREDUCE, 256, 4, 2, 8, 6, 1},
    /* staged, then my own and the other's */
    {"an exchange", HVD_ALLREDUCE, MOST, 1, 2, 6, 4, 1},
    {"an exchange of long pieces", HVD_ALLREDUCE, MOST, 8, 2, 6, 4, 1},
    {"an exchange of short pieces", HVD_ALLREDUCE, MOST, 4096, 2, 8, 6, 1},
    /* (n - 1) / n staged, n / n reduced, to two places, (n - 1) / n fetched */
    {"slices of 4", HVD_ALLREDUCE, MOST, 1, 4, 10, 8, 1},
    {"slices of 8", HVD_ALLREDUCE, MOST, 1, 8, 22, 16, 1},
    /* (g - 1) / g staged, g / g reduced, what 2 groups made of 1 / g, to two places, (g - 1) / g
       fetched; g of a group */
    {"slices of 2 groups of 2", HVD_ALLREDUCE, MOST, 1, 4, 12, 10, 2},
    {"slices of 2 groups of 4", HVD_ALLREDUCE, MOST, 1, 8, 24, 18, 2},
    {"a reducescatter of 2", HVD_REDUCESCATTER, MOST, 1, 2, 4, 3, 1},
    {"a reducescatter of 8", HVD_REDUCESCATTER, MOST, 1, 8, 16, 9, 1},
    /* of all outputs: 1 / n staged, n / n fetched */
    {"an allgather of 4", HVD_ALLGATHER, MOST, 1, 4, 5, 5, 1},
    /* (n - 1) / n staged, n / n fetched */
    {"an alltoall of 4", HVD_ALLTOALL, MOST, 1, 4, 7, 7, 1},
};

static const struct design *design; /* of the running test */
static _Alignas(64) char tensors[SHM_WORLD_MAX][2][MOST];

static void describe(int rank, struct hvd_collective *c, struct hvd_piece *pieces, int64_t *counts)
{
    const int64_t n = (int64_t)(design->bytes / sizeof(float));

    *c = (struct hvd_collective){.op = design->op,
                                 .dtype = HVD_FLOAT32,
                                 .reduce = HVD_SUM,
                                 .scaling = shm_unscaled,
                                 .input = tensors[rank][0],
                                 .output = tensors[rank][1],
                                 .count = design->op == HVD_ALLGATHER ? n / design->n_ranks : n,
                                 .counts = counts,
                                 .received = counts};
    c->scaling.divisor = 2;
    for (int i = 0; i < design->n_ranks; i++)
        counts[i] = n / design->n_ranks;
    for (int i = 0; i < design->n_pieces; i++) {
        const int64_t at = n / design->n_pieces * i;
        pieces[i] =
            (struct hvd_piece){(float *)(void *)tensors[rank][0] + at,
                               (float *)(void *)tensors[rank][1] + at, n / design->n_pieces};
    }
    if (design->n_pieces > 1) {
        c->pieces = pieces;
        c->n_pieces = design->n_pieces;
    }
}

static const char *count_bytes(struct hvd_transport *t)
{
    static struct hvd_piece pieces[SHM_WORLD_MAX][4096];
    const uint64_t unit = design->bytes / (size_t)design->n_ranks;
    int64_t counts[SHM_WORLD_MAX];
    struct hvd_collective c;

    describe(t->topology.rank, &c, pieces[t->topology.rank], counts);
    const char *problem = shm_finish(t, &c);
    if (!problem && hvd_shm_counts(t)->bytes_read != design->reads * unit)
        problem = "reads another number of bytes than designed";
    if (!problem && hvd_shm_counts(t)->bytes_written != design->writes * unit)
        problem = "writes another number of bytes than designed";
    return problem;
}

static void bytes_are_copied_as_often_as_designed(void **state)
{
    struct hvd_cpu_location cpu_locations[SHM_WORLD_MAX];
    const struct hvd_shm_options options = {.is_crowded = true, .cpu_location = cpu_locations};
    struct shm_world w;

    (void)state;
    for (design = designs; design < designs + sizeof(designs) / sizeof(*designs); design++) {
        print_message("# %s\n", design->name);
        shm_world_cpu_location(cpu_locations, design->n_ranks, design->n_localities);
        shm_world_open_with(&w, design->n_ranks, &options);
        shm_world_run(&w, count_bytes);
        shm_world_close(&w);
    }
}

/* --- System calls ----------------------------------------------------------------------------- */

#define STEPS 400

static _Atomic int n_returned;

static const char *sleep_once(struct hvd_transport *t)
{
    t->ops->sleep(t, t->ops->listen(t), -1);
    atomic_fetch_add(&n_returned, 1);
    return NULL;
}

static void *run_all(void *world)
{
    shm_world_run(world, sleep_once);
    return NULL;
}

static void nobody_wakes_an_idle_rank(void **state)
{
    struct shm_world w;
    pthread_t runner;

    (void)state;
    shm_world_open(&w, 4, 0);
    atomic_store(&n_returned, 0);
    assert_int_equal(pthread_create(&runner, NULL, run_all, &w), 0);
    for (int n = 0; n < 20; n++) { /* time enough for whatever should not be there */
        assert_int_equal(atomic_load(&n_returned), 0);
        poll(NULL, 0, 10);
    }
    for (int rank = 0; rank < w.size; rank++)
        w.ranks[rank]->ops->wake(w.ranks[rank]);
    pthread_join(runner, NULL);
    for (int rank = 0; rank < w.size; rank++) {
        const struct hvd_shm_counts *counts = hvd_shm_counts(w.ranks[rank]);
        assert_true(counts->sleeps <= 1); /* and ended by no peer */
        assert_int_equal(counts->wakes, 0);
        assert_int_equal(counts->looks, 0);
        assert_int_equal(counts->messages, 0);
        assert_int_equal(counts->rounds, 0);
    }
    shm_world_close(&w);
}

/* Steps of one small allreduce, waiting asleep or by looking. */
static const char *take_steps(struct hvd_transport *t, bool sleeps)
{
    for (int n = 0; n < STEPS; n++) {
        int32_t one = 1;
        struct hvd_collective c = shm_sum(&one);
        if (t->ops->start(t, &c, NULL) != HVD_OK)
            return "an operation does not start";
        while (t->ops->test(t, &c, NULL) == HVD_INPROGRESS)
            if (sleeps)
                t->ops->sleep(t, t->ops->listen(t), -1);
        if (one != t->topology.size)
            return "a sum is wrong";
    }
    return NULL;
}

static const char *steps_asleep(struct hvd_transport *t)
{
    return take_steps(t, true);
}

static const char *steps_awake(struct hvd_transport *t)
{
    return take_steps(t, false);
}

static uint64_t calls(const struct hvd_transport *t)
{
    const struct hvd_shm_counts *counts = hvd_shm_counts(t);

    return counts->sleeps + counts->wakes + counts->looks;
}

static void a_step_that_blocks_takes_two_system_calls_at_most(void **state)
{
    struct shm_world w;

    (void)state;
    shm_world_open(&w, 2, 0);
    shm_world_run(&w, steps_asleep);
    for (int rank = 0; rank < w.size; rank++) {
        assert_true(calls(w.ranks[rank]) <= 2 * STEPS);
        assert_int_equal(hvd_shm_counts(w.ranks[rank])->rounds, STEPS);
        assert_int_equal(hvd_shm_counts(w.ranks[rank])->messages, 0);
    }
    shm_world_close(&w);
}

static void a_step_that_looks_takes_no_system_call(void **state)
{
    const struct hvd_shm_options options = {.is_crowded = false};
    struct shm_world w;

    (void)state;
    shm_world_open_with(&w, 2, &options);
    shm_world_run(&w, steps_awake);
    for (int rank = 0; rank < w.size; rank++)
        assert_int_equal(calls(w.ranks[rank]), 0);
    shm_world_close(&w);
}

/* --- Polls ------------------------------------------------------------------------------------ */

#define N_WAITING 8

/* Polls of a rank that tests so many collectives once, which the other rank has not started. */
static uint64_t polls_of(int n)
{
    const struct hvd_shm_options options = {.is_crowded = false};
    struct hvd_collective c[N_WAITING];
    int32_t values[N_WAITING] = {0};
    struct shm_world w;

    shm_world_open_with(&w, 2, &options);
    struct hvd_transport *t = w.ranks[0];
    for (int i = 0; i < n; i++) {
        c[i] = shm_sum(&values[i]);
        assert_int_equal(t->ops->start(t, &c[i], NULL), HVD_OK);
    }
    const uint64_t before = hvd_shm_counts(t)->polls;
    for (int i = 0; i < n; i++)
        assert_int_equal(t->ops->test(t, &c[i], NULL), HVD_INPROGRESS);
    const uint64_t n_polls = hvd_shm_counts(t)->polls - before;
    for (int i = 0; i < n; i++)
        t->ops->abandon(t, &c[i]);
    shm_world_close(&w);
    return n_polls;
}

static void collectives_that_wait_for_the_first_do_not_poll(void **state)
{
    (void)state;
    const uint64_t n_polls = polls_of(1);
    assert_true(n_polls > 0);
    assert_int_equal(polls_of(N_WAITING), n_polls);
}

/* Both ranks take a step in this thread. */
static void take_step(const struct shm_world *w)
{
    struct hvd_collective c[2];
    int32_t values[2] = {1, 1};

    for (int rank = 0; rank < 2; rank++) {
        c[rank] = shm_sum(&values[rank]);
        assert_int_equal(w->ranks[rank]->ops->start(w->ranks[rank], &c[rank], NULL), HVD_OK);
    }
    for (int rank = 1; rank >= 0; rank--)
        assert_int_equal(w->ranks[rank]->ops->test(w->ranks[rank], &c[rank], NULL), HVD_OK);
}

/* Polls of rank 0 for rank 1, which has posted on that processor before. */
static uint64_t polls_beside(const struct shm_world *w, int processor)
{
    struct hvd_transport *t = w->ranks[0];
    struct hvd_shm *s = (struct hvd_shm *)t;
    struct hvd_collective c;
    int32_t value = 1;

    for (int i = 0; i < 2; i++) {
        take_step(w);
        atomic_store(&s->cells[2 + i].processor, processor);
    }
    c = shm_sum(&value);
    assert_int_equal(t->ops->start(t, &c, NULL), HVD_OK);
    const uint64_t before = hvd_shm_counts(t)->polls;
    assert_int_equal(t->ops->test(t, &c, NULL), HVD_INPROGRESS);
    const uint64_t n_polls = hvd_shm_counts(t)->polls - before;
    assert_int_equal(t->ops->blocks_peer(t), n_polls == 0);
    t->ops->abandon(t, &c);
    return n_polls;
}

static void a_rank_does_not_poll_for_one_on_its_processor(void **state)
{
    const struct hvd_shm_options options = {.is_crowded = false};
    const int here = sched_getcpu();
    struct shm_world w;
    cpu_set_t all;
    cpu_set_t one;

    (void)state;
    CPU_ZERO(&one);
    CPU_SET((size_t)here, &one);
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    for (int is_beside = 0; is_beside < 2; is_beside++) {
        shm_world_open_with(&w, 2, &options);
        assert_int_equal(polls_beside(&w, is_beside ? here : here + 1) == 0, is_beside);
        shm_world_close(&w);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* A rank tells where it runs whenever it posts. */
static void a_rank_publishes_its_processor(void **state)
{
    struct shm_world w;

    (void)state;
    shm_world_open(&w, 2, 0);
    const struct hvd_shm *s = (const struct hvd_shm *)w.ranks[0];
    for (int cell = 0; cell < 4; cell++)
        atomic_store(&s->cells[cell].processor, -2);
    take_step(&w);
    take_step(&w);
    for (int cell = 0; cell < 4; cell++)
        assert_true(atomic_load(&s->cells[cell].processor) >= 0);
    shm_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_copied_as_often_as_designed),
        cmocka_unit_test(nobody_wakes_an_idle_rank),
        cmocka_unit_test(a_step_that_blocks_takes_two_system_calls_at_most),
        cmocka_unit_test(a_step_that_looks_takes_no_system_call),
        cmocka_unit_test(collectives_that_wait_for_the_first_do_not_poll),
        cmocka_unit_test(a_rank_does_not_poll_for_one_on_its_processor),
        cmocka_unit_test(a_rank_publishes_its_processor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
