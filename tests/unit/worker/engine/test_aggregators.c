/* Sets whose tree is deep: what only such a tree can get wrong. */
#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/engine/world.h"

/*
 * Thirteen ranks, each on a host of its own, fan-out 2:
 *
 *                 0
 *           /           \
 *          1             7
 *        /   \         /   \
 *       2     5       8     11
 *      / \    |      / \    |
 *     3   4   6     9   10  12
 */
#define N_RANKS 13
#define LOOKS_MAX 2000000

struct deep_world {
    struct hvd_sim *sim;
    struct hvd_engine *engines[N_RANKS];
    char log[4096];
};

static void keep_message(void *ctx, const struct hvd_log_record *record)
{
    char *log = ctx;
    const size_t len = strlen(log);

    snprintf(log + len, 4096 - len, "%s\n", record->msg);
}

static const struct hvd_network network = {
    .near = {.latency_ns = 200, .overhead_ns = 100, .gap_ns = 100},
    .far = {.latency_ns = 2600, .overhead_ns = 200, .gap_ns = 200}};

static void open_world(struct deep_world *w, struct hvd_engine_options options,
                       const struct hvd_sim_faults *faults)
{
    static struct hvd_log log;
    struct hvd_sim_options sim = {.size = N_RANKS, .seed = 7, .max_delay = 3, .ranks_per_host = 1};
    struct hvd_transport *t[N_RANKS];

    *w = (struct deep_world){0};
    log = (struct hvd_log){.level = HVD_LOG_WARN, .sink = keep_message, .ctx = w->log};
    if (faults)
        sim.faults = *faults;
    else if (options.no_background && options.stall_warning_ns == 0)
        sim.network = &network;
    options.tree_fanout = 2;
    options.cycle_ns = 200000;
    options.cache_capacity = 64;
    assert_int_equal(hvd_sim_create(&sim, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < N_RANKS; rank++)
        assert_int_equal(hvd_sim_join(w->sim, rank, &t[rank], NULL), HVD_OK);
    for (int rank = 0; rank < N_RANKS; rank++) {
        options.log = rank == 0 ? &log : NULL;
        assert_int_equal(hvd_engine_create(t[rank], &options, &w->engines[rank], NULL), HVD_OK);
    }
}

static atomic_int n_down;

static void *shut_down(void *engine)
{
    (void)hvd_engine_shutdown(engine, NULL);
    atomic_fetch_add(&n_down, 1);
    return NULL;
}

static void close_world(struct deep_world *w)
{
    pthread_t threads[N_RANKS];

    atomic_store(&n_down, 0);
    for (int rank = 0; rank < N_RANKS; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, shut_down, w->engines[rank]), 0);
    while (atomic_load(&n_down) < N_RANKS) { /* where time is modelled somebody moves it on */
        (void)hvd_sim_advance(w->sim);
        sched_yield();
    }
    for (int rank = 0; rank < N_RANKS; rank++)
        pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < N_RANKS; rank++)
        hvd_engine_destroy(w->engines[rank]);
    hvd_sim_destroy(w->sim);
}

static int64_t values[N_RANKS];

static int64_t submit(struct deep_world *w, int rank, const char *name)
{
    const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, name, 1),
                                     .input = &values[rank],
                                     .output = &values[rank]};
    int64_t handle = -1;

    values[rank] = 1;
    assert_int_equal(hvd_engine_submit(w->engines[rank], &s, &handle, NULL), HVD_OK);
    return handle;
}

static void step_all(struct deep_world *w)
{
    for (int rank = 0; rank < N_RANKS; rank++)
        (void)hvd_engine_step(w->engines[rank]);
}

/* All ranks submit it, and get their sum. */
static void perform(struct deep_world *w, const char *name)
{
    int64_t handles[N_RANKS];
    int n_done = 0;

    for (int rank = 0; rank < N_RANKS; rank++)
        handles[rank] = submit(w, rank, name);
    for (int looks = 0; looks < LOOKS_MAX && n_done < N_RANKS; looks++) {
        const int rank_next = hvd_sim_advance(w->sim); /* -1 also where no time is modelled */
        if (rank_next >= 0)
            (void)hvd_engine_step(w->engines[rank_next]);
        else
            step_all(w);
        n_done = 0;
        for (int rank = 0; rank < N_RANKS; rank++)
            n_done += hvd_engine_poll(w->engines[rank], handles[rank]) == 1;
    }
    assert_int_equal(n_done, N_RANKS);
    for (int rank = 0; rank < N_RANKS; rank++) {
        assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank], NULL, NULL), HVD_OK);
        assert_int_equal(values[rank], N_RANKS);
    }
}

static bool is_late(int rank)
{
    return rank == 1 || rank == 6 || rank == 12; /* an inner node, a leaf, one elsewhere */
}

/* Some ranks do not submit it until the warning has come. */
static void stall(struct deep_world *w, const char *name)
{
    int64_t handles[N_RANKS];
    char expected[256];

    w->log[0] = '\0';
    for (int rank = 0; rank < N_RANKS; rank++)
        if (!is_late(rank))
            handles[rank] = submit(w, rank, name);
    for (int looks = 0; looks < LOOKS_MAX && !w->log[0]; looks++)
        step_all(w);
    snprintf(expected, sizeof(expected),
             "Missing ranks:\n1 on host sim-1: [%s]\n6 on host sim-6: [%s]\n"
             "12 on host sim-12: [%s]\n",
             name, name, name);
    if (!strstr(w->log, expected))
        fail_msg("%s", w->log);
    for (int rank = 0; rank < N_RANKS; rank++)
        if (is_late(rank))
            handles[rank] = submit(w, rank, name);
    for (int rank = 0; rank < N_RANKS; rank++) {
        for (int looks = 0; looks < LOOKS_MAX; looks++) {
            if (hvd_engine_poll(w->engines[rank], handles[rank]) == 1)
                break;
            step_all(w);
        }
        assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank], NULL, NULL), HVD_OK);
        assert_int_equal(values[rank], N_RANKS);
    }
}

static void a_stall_names_exactly_the_ranks_that_are_missing(void **state)
{
    /* An aggregator tells what it knows half of this before the warning: so long may a busy machine
     * keep this thread from stepping them. */
    const struct hvd_engine_options options = {.no_background = true,
                                               .stall_warning_ns = 1000000000};
    struct deep_world w;

    (void)state;
    open_world(&w, options, NULL);
    stall(&w, "new");
    perform(&w, "new");
    stall(&w, "new"); /* by bits */
    perform(&w, "new");
    close_world(&w);
}

static void a_step_takes_one_message_up_and_one_down_a_rank_and_the_hops_between(void **state)
{
    const struct hvd_engine_options options = {.no_background = true};
    struct deep_world w;

    (void)state;
    open_world(&w, options, NULL);
    perform(&w, "t");
    for (int round = 0; round < 3; round++) {
        const uint64_t messages = hvd_sim_messages(w.sim);
        const int64_t began_ns = hvd_sim_time(w.sim, -1);
        perform(&w, "t");
        assert_int_equal(hvd_sim_messages(w.sim) - messages, 2 * (N_RANKS - 1));
        /* Three hops up and down at 3 us, as many waits for a sibling; then four rounds of data. */
        const int64_t ns = hvd_sim_time(w.sim, -1) - began_ns;
        assert_in_range(ns, 6 * 3000 + 8 * 3000, 6 * 3400 + 8 * 3000 + 1000);
    }
    close_world(&w);
}

/* Waits for a tensor that can only fail; the reason. */
static void expect_end(struct deep_world *w, int rank, int64_t handle, const char *reason)
{
    struct hvd_err err = {0};

    for (int looks = 0; looks < LOOKS_MAX && hvd_engine_poll(w->engines[rank], handle) != 1;
         looks++)
        step_all(w);
    assert_int_equal(hvd_engine_wait(w->engines[rank], handle, NULL, &err), HVD_ERR_SHUTDOWN);
    if (!strstr(err.msg, reason))
        fail_msg("rank %d: %s", rank, err.msg);
}

/* One rank dies under a tensor, and of the others one alone is told by the transport. */
static void lose(int victim, int witness, const char *reason)
{
    const struct hvd_engine_options options = {.no_background = true};
    const struct hvd_sim_faults faults = {.only_witness = witness + 1};
    int64_t handles[N_RANKS];
    struct deep_world w;

    open_world(&w, options, &faults);
    perform(&w, "before");
    for (int rank = 0; rank < N_RANKS; rank++)
        if (rank != victim)
            handles[rank] = submit(&w, rank, "after");
    step_all(&w); /* what they ask for is on its way: only word of the loss can end it */
    hvd_sim_kill(w.sim, victim);
    for (int rank = 0; rank < N_RANKS; rank++)
        if (rank != victim)
            expect_end(&w, rank, handles[rank], reason);
    close_world(&w);
}

static void whoever_sees_an_inner_node_die_everybody_hears_of_it(void **state)
{
    (void)state;
    for (int witness = 0; witness < N_RANKS; witness++)
        if (witness != 1)
            lose(1, witness, "Rank 1 on host sim-1 is lost");
}

/* Its neighbours in the tree may be on other hosts, where nobody sees it. */
static void whoever_sees_a_leaf_die_everybody_hears_of_it(void **state)
{
    (void)state;
    for (int witness = 0; witness < 12; witness++)
        lose(12, witness, "Rank 12 on host sim-12 is lost");
}

static void whoever_sees_the_coordinator_die_everybody_hears_of_it(void **state)
{
    (void)state;
    for (int witness = 1; witness < N_RANKS; witness++)
        lose(0, witness, "Rank 0 on host sim-0 is lost");
}

static void a_leaf_that_leaves_is_heard_of_while_all_others_are_idle(void **state)
{
    const struct hvd_engine_options options = {.idle_poll_ns = 1000000};
    const struct timespec moment = {.tv_nsec = 1000000};
    pthread_t leaver;
    struct deep_world w;

    (void)state;
    open_world(&w, options, NULL);
    assert_int_equal(pthread_create(&leaver, NULL, shut_down, w.engines[12]), 0);
    for (int rank = 0; rank < 12; rank++) {
        struct hvd_err err = {0};
        hvd_status_t st = HVD_OK;
        for (int looks = 0; looks < 20000 && st == HVD_OK; looks++) {
            const struct hvd_submission s = {.request = {.op = HVD_BARRIER,
                                                         .reduce = HVD_SUM,
                                                         .prescale = 1,
                                                         .postscale = 1,
                                                         .name = hvd_strview_of("b")}};
            int64_t handle;
            nanosleep(&moment, NULL);
            if (hvd_engine_submit(w.engines[rank], &s, &handle, &err) == HVD_ERR_SHUTDOWN)
                st = HVD_ERR_SHUTDOWN;
            else
                st = hvd_engine_wait(w.engines[rank], handle, NULL, &err);
        }
        assert_int_equal(st, HVD_ERR_SHUTDOWN);
        if (!strstr(err.msg, "Rank 12 on host sim-12 called horovod_shutdown"))
            fail_msg("rank %d: %s", rank, err.msg);
    }
    pthread_t threads[12];
    for (int rank = 0; rank < 12; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, shut_down, w.engines[rank]), 0);
    for (int rank = 0; rank < 12; rank++)
        pthread_join(threads[rank], NULL);
    pthread_join(leaver, NULL);
    for (int rank = 0; rank < N_RANKS; rank++)
        hvd_engine_destroy(w.engines[rank]);
    hvd_sim_destroy(w.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_one_message_up_and_one_down_a_rank_and_the_hops_between),
        cmocka_unit_test(a_stall_names_exactly_the_ranks_that_are_missing),
        cmocka_unit_test(whoever_sees_an_inner_node_die_everybody_hears_of_it),
        cmocka_unit_test(whoever_sees_a_leaf_die_everybody_hears_of_it),
        cmocka_unit_test(whoever_sees_the_coordinator_die_everybody_hears_of_it),
        cmocka_unit_test(a_leaf_that_leaves_is_heard_of_while_all_others_are_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
