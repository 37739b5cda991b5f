/*
 * Ranks that stand still, and data that moves nowhere: who is named, when, and how the job ends. On
 * a clock of the test's: nothing waits for real.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/unit/worker/engine/world.h"

#define MS ((int64_t)1000000)
#define WARNING (2000 * MS)
#define SHUTDOWN (4000 * MS)
#define TICK (WARNING / 8)
#define RANKS_MAX 13
#define LOG_MAX 8192

/* The clock of the whole program. */
static int64_t now_ns = 1000 * MS;

int __wrap_clock_gettime(clockid_t clock, struct timespec *at);

int __wrap_clock_gettime(clockid_t clock, struct timespec *at)
{
    (void)clock;
    *at = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
    return 0;
}

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
 *
 * With fewer, on one host, a star.
 */
struct scene {
    int size;
    struct hvd_sim *sim;
    struct hvd_engine *engines[RANKS_MAX];
    struct hvd_log sinks[RANKS_MAX];
    char logs[RANKS_MAX][LOG_MAX]; /* WARN and worse */
    int64_t warned_ns;             /* when the first line of any came; 0: none did */
    int64_t value[RANKS_MAX];
    int64_t handles[RANKS_MAX];
    bool is_frozen[RANKS_MAX];
};

static struct scene scene;

static void keep(void *ctx, const struct hvd_log_record *record)
{
    char *log = ctx;
    const size_t len = strlen(log);

    snprintf(log + len, LOG_MAX - len, "%s\n", record->msg);
    if (scene.warned_ns == 0)
        scene.warned_ns = now_ns;
}

static void open_scene(int size, int64_t shutdown_ns, const struct hvd_sim_faults *faults)
{
    const bool is_deep = size == RANKS_MAX;
    struct hvd_sim_options sim = {.size = size, .seed = 5, .max_delay = 3};
    struct hvd_engine_options options = {.cycle_ns = 200000,
                                         .no_background = true,
                                         .cache_capacity = 64,
                                         .stall_warning_ns = WARNING,
                                         .stall_shutdown_ns = shutdown_ns,
                                         .tree_fanout = is_deep ? 2 : 0};
    struct hvd_transport *t[RANKS_MAX];

    scene = (struct scene){.size = size};
    sim.ranks_per_host = is_deep ? 1 : 0;
    if (faults)
        sim.faults = *faults;
    assert_int_equal(hvd_sim_create(&sim, &scene.sim, NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(hvd_sim_join(scene.sim, rank, &t[rank], NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++) {
        scene.sinks[rank] =
            (struct hvd_log){.level = HVD_LOG_WARN, .sink = keep, .ctx = scene.logs[rank]};
        options.log = &scene.sinks[rank];
        assert_int_equal(hvd_engine_create(t[rank], &options, &scene.engines[rank], NULL), HVD_OK);
    }
}

static void close_scene(void)
{
    for (int rank = 0; rank < scene.size; rank++)
        hvd_engine_destroy(scene.engines[rank]);
    hvd_sim_destroy(scene.sim);
}

static void submit(int rank, uint32_t set, const char *name)
{
    const struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, name, 1),
                                     .set = set,
                                     .input = &scene.value[rank],
                                     .output = &scene.value[rank]};

    scene.value[rank] = 1;
    assert_int_equal(hvd_engine_submit(scene.engines[rank], &s, &scene.handles[rank], NULL),
                     HVD_OK);
}

/* All that are not frozen do what they can for so long, and look often. */
static void pass(int64_t ns)
{
    for (const int64_t until = now_ns + ns; now_ns < until; now_ns += 20 * MS)
        for (int looks = 0; looks < 40; looks++)
            for (int rank = 0; rank < scene.size; rank++)
                if (!scene.is_frozen[rank])
                    (void)hvd_engine_step(scene.engines[rank]);
}

static void is_in(const char *text, const char *part, int victim, int rank)
{
    if (!strstr(text, part))
        fail_msg("of %d ranks %d stands still; rank %d says: %s (not: %s)", scene.size, victim,
                 rank, text, part);
}

/* Somebody who runs has said so, and nobody has said it of anyone else. */
static void expect_warning(int victim, const char *parts[])
{
    char name[64];
    char silent[64];
    int n_found = 0;

    snprintf(name, sizeof(name), "Rank %d on host ", victim);
    snprintf(silent, sizeof(silent), "has not answered");
    for (int rank = 0; rank < scene.size; rank++) {
        const char *log = scene.logs[rank];
        for (const char *at = strstr(log, silent); at; at = strstr(at + 1, silent)) {
            const char *line = at;
            while (line > log && line[-1] != '\n')
                line--;
            if (strncmp(line, name, strlen(name)) != 0)
                fail_msg("%d stands still, rank %d blames: %s", victim, rank, line);
            for (int i = 0; parts[i]; i++)
                is_in(line, parts[i], victim, rank);
            n_found++;
        }
    }
    if (n_found == 0)
        fail_msg("nobody warned of rank %d of %d", victim, scene.size);
}

/* What everybody who runs waits for ends, because of that rank. */
static void expect_end(int victim, const char *name)
{
    char who[64];
    struct hvd_err err;

    snprintf(who, sizeof(who), "ank %d on host ", victim);
    for (int rank = 0; rank < scene.size; rank++) {
        if (scene.is_frozen[rank])
            continue;
        hvd_err_clear(&err);
        if (hvd_engine_poll(scene.engines[rank], scene.handles[rank]) != 1)
            fail_msg("%d of %d stands still, and rank %d still waits", victim, scene.size, rank);
        assert_int_equal(hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, &err),
                         HVD_ERR_SHUTDOWN);
        is_in(err.msg, who, victim, rank);
        is_in(err.msg, name, victim, rank);
        is_in(err.msg, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", victim, rank);
        if (strstr(err.msg, " failed: ")) /* who reports it has not */
            fail_msg("%d of %d stands still, and rank %d hears: %s", victim, scene.size, rank,
                     err.msg);
    }
}

static bool has_ended(void)
{
    for (int rank = 0; rank < scene.size; rank++)
        if (!scene.is_frozen[rank] &&
            hvd_engine_poll(scene.engines[rank], scene.handles[rank]) == 1)
            return true;
    return false;
}

static const int sizes[] = {2, 5, RANKS_MAX};

/* A rank asks for the tensor and stands still from then on, so that data waits for it. */
static void freeze_in_transfer(int size, int victim, int64_t shutdown_ns)
{
    open_scene(size, shutdown_ns, NULL);
    for (int rank = 0; rank < size; rank++)
        submit(rank, 0, "before");
    pass(100 * MS);
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, NULL),
                         HVD_OK);
    for (int rank = 0; rank < size; rank++)
        submit(rank, 0, "gradient");
    /* What it says is said, and what it passes on as well; the plan, if it makes it, is sent. */
    for (int looks = 0; looks < 40; looks++) {
        if (victim > 0)
            (void)hvd_engine_step(scene.engines[victim]);
        for (int rank = 0; victim > 0 && rank < size; rank++)
            if (rank != 0)
                (void)hvd_engine_step(scene.engines[rank]);
    }
}

static void a_rank_that_stands_still_under_a_transfer_is_named_and_ends_the_job(void **state)
{
    const char *parts[] = {"tensor gradient ", NULL};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int victim = 1; victim < sizes[i]; victim++) {
            freeze_in_transfer(sizes[i], victim, SHUTDOWN);
            const int64_t began_ns = now_ns;
            scene.is_frozen[victim] = true;
            pass(WARNING - TICK);
            assert_int_equal(scene.warned_ns, 0);
            pass(3 * TICK);
            expect_warning(victim, parts);
            assert_in_range(scene.warned_ns - began_ns, WARNING, WARNING + TICK + 20 * MS);
            pass(SHUTDOWN - WARNING - 3 * TICK);
            assert_false(has_ended());
            pass(3 * TICK);
            expect_end(victim, "gradient");
            close_scene();
        }
    }
}

/* The coordinator agrees, and does not come to its own part. */
static void a_coordinator_that_stands_still_under_a_transfer_is_named(void **state)
{
    const char *parts[] = {"gradient", NULL};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        freeze_in_transfer(sizes[i], 0, SHUTDOWN);
        scene.is_frozen[0] = true;
        pass(WARNING + 2 * TICK);
        expect_warning(0, parts);
        pass(SHUTDOWN - WARNING + TICK);
        expect_end(0, "gradient");
        close_scene();
    }
}

/* Before it sees that others have ended, whom it would blame. */
static void a_coordinator_that_was_given_up_hears_so_when_it_goes_on(void **state)
{
    struct hvd_err err;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        freeze_in_transfer(sizes[i], 0, SHUTDOWN);
        scene.is_frozen[0] = true;
        pass(SHUTDOWN + 4 * TICK);
        expect_end(0, "gradient");
        for (int rank = 1; rank < sizes[i]; rank++) {
            hvd_engine_destroy(scene.engines[rank]);
            scene.engines[rank] = NULL;
            scene.is_frozen[rank] = true;
        }
        scene.is_frozen[0] = false;
        pass(100 * MS);
        hvd_err_clear(&err);
        assert_int_equal(hvd_engine_poll(scene.engines[0], scene.handles[0]), 1);
        assert_int_equal(hvd_engine_wait(scene.engines[0], scene.handles[0], NULL, &err),
                         HVD_ERR_SHUTDOWN);
        is_in(err.msg, "Rank 0 on host sim-0 is lost: it has not answered for", 0, 0);
        close_scene();
    }
}

static bool is_leaf(int size, int rank)
{
    return size < RANKS_MAX                                   ? rank > 0
           : rank == 3 || rank == 4 || rank == 6 || rank >= 9 ? rank != 11
                                                              : false;
}

/* A node that passes on what others say stands still before it does: it alone is to blame. */
static void an_inner_node_that_stands_still_is_named_and_nobody_behind_it(void **state)
{
    const char *parts[] = {"tensor t waits to be agreed on", NULL};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int victim = 0; victim < sizes[i]; victim++) {
            if (is_leaf(sizes[i], victim))
                continue;
            char report[64];
            open_scene(sizes[i], SHUTDOWN, NULL);
            scene.is_frozen[victim] = true;
            for (int rank = 0; rank < sizes[i]; rank++)
                submit(rank, 0, "t");
            const int64_t began_ns = now_ns;
            pass(WARNING + 3 * TICK);
            assert_in_range(scene.warned_ns - began_ns, WARNING, WARNING + 2 * TICK + 40 * MS);
            expect_warning(victim, parts);
            snprintf(report, sizeof(report), "Missing ranks:\n%d on host sim-%d: [t]\n", victim,
                     sizes[i] == RANKS_MAX ? victim : 0);
            if (victim > 0)
                is_in(scene.logs[0], report, victim, 0);
            pass(SHUTDOWN - WARNING + TICK);
            expect_end(victim, "t");
            close_scene();
        }
    }
}

/* Two at once: whoever is told of one of them is the other one. */
static void rank_0_and_another_one_stand_still(void **state)
{
    (void)state;
    for (int victim = 1; victim < RANKS_MAX; victim++) {
        freeze_in_transfer(RANKS_MAX, victim, SHUTDOWN);
        scene.is_frozen[0] = scene.is_frozen[victim] = true;
        pass(SHUTDOWN + WARNING + 4 * TICK);
        for (int rank = 1; rank < RANKS_MAX; rank++)
            if (rank != victim && hvd_engine_poll(scene.engines[rank], scene.handles[rank]) != 1)
                fail_msg("0 and %d stand still, rank %d still waits", victim, rank);
        close_scene();
    }
}

/* As ranks of a host whose link is down: below rank 0, and below another one. */
static void ranks_that_are_silent_together_are_all_named(void **state)
{
    static const struct {
        int size, first, n;
        const char *others;
    } cases[] = {
        {5, 2, 2, "; rank 3 on host sim-0 has not answered either"},
        {5, 1, 4,
         "; rank 2 on host sim-0, rank 3 on host sim-0 and rank 4 on host sim-0 have not "},
        {RANKS_MAX, 3, 2, "; rank 4 on host sim-4 has not answered either"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        freeze_in_transfer(cases[i].size, cases[i].first, SHUTDOWN);
        for (int k = 0; k < cases[i].n; k++)
            scene.is_frozen[cases[i].first + k] = true;
        pass(SHUTDOWN + 4 * TICK);
        expect_end(cases[i].first, cases[i].others);
        close_scene();
    }
}

/* The link goes down when one of two ranks has submitted the tensor: it waits for the other alone.
 */
static void ranks_that_are_silent_are_named_whether_the_tensor_waits_for_them_or_not(void **state)
{
    static const struct {
        int size, missing, silent;
        const char *words;
    } cases[] = {
        {5, 2, 3, "waits for rank 2 on host sim-0; rank 3 on host sim-0 has not answered either"},
        {5, 3, 2, "waits for rank 3 on host sim-0; rank 2 on host sim-0 has not answered either"},
        {RANKS_MAX, 3, 4,
         "waits for rank 3 on host sim-3; rank 4 on host sim-4 has not answered either"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_scene(cases[i].size, SHUTDOWN, NULL);
        for (int rank = 0; rank < cases[i].size; rank++)
            if (rank != cases[i].missing)
                submit(rank, 0, "gradient");
        pass(100 * MS);
        scene.is_frozen[cases[i].missing] = scene.is_frozen[cases[i].silent] = true;
        pass(SHUTDOWN + 4 * TICK);
        expect_end(cases[i].missing, cases[i].words);
        close_scene();
    }
}

struct pair {
    int rank;
    uint32_t set;
};

static void *add_pair(void *arg)
{
    struct pair *p = arg;

    assert_int_equal(
        hvd_engine_add_set(scene.engines[p->rank], (const int[]){1, 2}, 2, &p->set, NULL), HVD_OK);
    return NULL;
}

/* The coordinator of the set ends the job, and has not failed. */
static void a_rank_that_stands_still_in_a_set_is_named_to_the_whole_job(void **state)
{
    struct pair pairs[3];
    pthread_t threads[3];

    (void)state;
    open_scene(3, SHUTDOWN, NULL);
    for (int rank = 0; rank < 3; rank++) {
        pairs[rank].rank = rank;
        assert_int_equal(pthread_create(&threads[rank], NULL, add_pair, &pairs[rank]), 0);
    }
    for (int rank = 0; rank < 3; rank++)
        pthread_join(threads[rank], NULL);
    scene.is_frozen[2] = true;
    submit(1, pairs[1].set, "gradient");
    pass(SHUTDOWN + 4 * TICK);
    for (int rank = 0; rank < 2; rank++) {
        struct hvd_err err = {0};
        assert_int_equal(hvd_engine_check(scene.engines[rank], &err), HVD_ERR_SHUTDOWN);
        is_in(err.msg, "shut down. Tensor gradient is stalled for longer than 4 seconds ", 2, rank);
        is_in(err.msg, "it waits for rank 2 on host sim-0", 2, rank);
    }
    close_scene();
}

static void a_rank_that_goes_on_in_time_ends_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int victim = 1; victim < sizes[i]; victim++) {
            freeze_in_transfer(sizes[i], victim, SHUTDOWN);
            scene.is_frozen[victim] = true;
            pass(SHUTDOWN - TICK);
            scene.is_frozen[victim] = false;
            pass(100 * MS);
            for (int rank = 0; rank < sizes[i]; rank++)
                assert_int_equal(
                    hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, NULL), HVD_OK);
            close_scene();
        }
    }
}

static void data_that_moves_nowhere_while_all_answer_is_named(void **state)
{
    const struct hvd_sim_faults faults = {.no_data = true};
    struct hvd_err err = {0};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_scene(sizes[i], SHUTDOWN, &faults);
        for (int rank = 0; rank < sizes[i]; rank++)
            submit(rank, 0, "gradient");
        pass(WARNING + 2 * TICK);
        is_in(scene.logs[0], "Tensor gradient (ALLREDUCE) has been in transfer for 2", -1, 0);
        pass(SHUTDOWN - WARNING);
        for (int rank = 0; rank < sizes[i]; rank++) {
            assert_int_equal(hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, &err),
                             HVD_ERR_SHUTDOWN);
            is_in(err.msg, "gradient (ALLREDUCE) has been in transfer for 4", -1, rank);
            is_in(err.msg, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", -1, rank);
        }
        is_in(scene.logs[0],
              "though all ranks answer: rank 0 on host sim-0 waits for rank 1 on host ", -1, 0);
        if (sizes[i] > 2) /* to the ranks beside it in a ring */
            is_in(scene.logs[0],
                  sizes[i] == 5 ? " waits for rank 1 on host sim-0 and rank 4 on host sim-0"
                                : " waits for rank 1 on host sim-1 and rank 12 on host sim-12",
                  -1, 0);
        close_scene();
    }
}

/* A slow link: something moves now and then, and the whole takes ten times the shutdown time. */
static void data_that_creeps_comes_to_its_end(void **state)
{
    const int64_t pause = WARNING * 3 / 4;
    const struct hvd_sim_faults faults = {.n_moves = (uint64_t)(10 * SHUTDOWN / pause)};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        open_scene(sizes[i], SHUTDOWN, &faults);
        for (int rank = 0; rank < sizes[i]; rank++)
            submit(rank, 0, "gradient");
        for (uint64_t n = 0; n < faults.n_moves; n++) {
            pass(pause);
            hvd_sim_move(scene.sim);
        }
        pass(TICK);
        for (int rank = 0; rank < sizes[i]; rank++) {
            assert_int_equal(hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, NULL),
                             HVD_OK);
            assert_int_equal(scene.value[rank], sizes[i]);
            assert_string_equal(scene.logs[rank], "");
        }
        close_scene();
    }
}

/* Then it stops: the times count from its last move, which the text has both of. */
static void data_that_creeps_and_stops_is_named_from_then_on(void **state)
{
    const struct hvd_sim_faults faults = {.n_moves = 100};
    struct hvd_err err = {0};

    (void)state;
    open_scene(5, SHUTDOWN, &faults);
    for (int rank = 0; rank < 5; rank++)
        submit(rank, 0, "gradient");
    for (int n = 0; n < 5; n++) {
        pass(WARNING * 3 / 4);
        hvd_sim_move(scene.sim);
    }
    const int64_t stopped_ns = now_ns;
    pass(WARNING - TICK);
    assert_int_equal(scene.warned_ns, 0);
    pass(3 * TICK);
    assert_true(scene.warned_ns >= stopped_ns + WARNING);
    is_in(scene.logs[0], "Tensor gradient (ALLREDUCE) has been in transfer for 9", -1, 0);
    is_in(scene.logs[0], " seconds and has not moved for 2", -1, 0);
    pass(SHUTDOWN - WARNING);
    for (int rank = 0; rank < 5; rank++) {
        assert_int_equal(hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, &err),
                         HVD_ERR_SHUTDOWN);
        is_in(err.msg, " seconds and has not moved for 4", -1, rank);
        is_in(err.msg, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", -1, rank);
    }
    close_scene();
}

static void nothing_is_probed_while_all_goes_well(void **state)
{
    (void)state;
    open_scene(RANKS_MAX, SHUTDOWN, NULL);
    for (int step = 0; step < 40; step++) {
        const uint64_t messages = hvd_sim_messages(scene.sim);
        for (int rank = 0; rank < RANKS_MAX; rank++)
            submit(rank, 0, "t");
        pass(300 * MS);
        for (int rank = 0; rank < RANKS_MAX; rank++)
            assert_int_equal(hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, NULL),
                             HVD_OK);
        assert_int_equal(hvd_sim_messages(scene.sim) - messages, 2 * (RANKS_MAX - 1));
    }
    close_scene();
}

/* A probe makes its receiver look, and probe too: two that wait do not do so in a circle. */
static void who_waits_probes_a_few_times_in_the_warning_time(void **state)
{
    const uint64_t n_times = 10;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const uint64_t n_edges = (uint64_t)sizes[i] - 1;
        open_scene(sizes[i], 0, NULL);
        for (int rank = 1; rank < sizes[i]; rank++) /* rank 0 computes for long */
            submit(rank, 0, "gradient");
        pass(WARNING);
        const uint64_t messages = hvd_sim_messages(scene.sim);
        pass((int64_t)n_times * WARNING);
        const uint64_t n_probes = (hvd_sim_messages(scene.sim) - messages) / 2; /* and answers */
        assert_in_range(n_probes, 2 * n_edges * n_times, 2 * n_edges * n_times * 16);
        close_scene();
    }
}

/* Who has joined waits for as long as the others train. */
static void nothing_is_probed_for_a_rank_that_has_joined(void **state)
{
    const struct hvd_submission join = {.request = {.op = HVD_JOIN,
                                                    .reduce = HVD_SUM,
                                                    .prescale = 1,
                                                    .postscale = 1,
                                                    .name = hvd_strview_of("join")}};

    (void)state;
    open_scene(5, SHUTDOWN, NULL);
    assert_int_equal(hvd_engine_submit(scene.engines[1], &join, &scene.handles[1], NULL), HVD_OK);
    pass(100 * MS);
    const uint64_t messages = hvd_sim_messages(scene.sim);
    pass(3 * SHUTDOWN);
    assert_int_equal(hvd_sim_messages(scene.sim), messages);
    assert_int_equal(hvd_engine_poll(scene.engines[1], scene.handles[1]), 0);
    for (int rank = 0; rank < 5; rank++)
        if (rank != 1)
            assert_int_equal(
                hvd_engine_submit(scene.engines[rank], &join, &scene.handles[rank], NULL), HVD_OK);
    pass(100 * MS);
    for (int rank = 0; rank < 5; rank++)
        assert_int_equal(hvd_engine_wait(scene.engines[rank], scene.handles[rank], NULL, NULL),
                         HVD_OK);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_stands_still_under_a_transfer_is_named_and_ends_the_job),
        cmocka_unit_test(a_coordinator_that_stands_still_under_a_transfer_is_named),
        cmocka_unit_test(a_coordinator_that_was_given_up_hears_so_when_it_goes_on),
        cmocka_unit_test(an_inner_node_that_stands_still_is_named_and_nobody_behind_it),
        cmocka_unit_test(rank_0_and_another_one_stand_still),
        cmocka_unit_test(ranks_that_are_silent_together_are_all_named),
        cmocka_unit_test(ranks_that_are_silent_are_named_whether_the_tensor_waits_for_them_or_not),
        cmocka_unit_test(a_rank_that_stands_still_in_a_set_is_named_to_the_whole_job),
        cmocka_unit_test(a_rank_that_goes_on_in_time_ends_nothing),
        cmocka_unit_test(data_that_moves_nowhere_while_all_answer_is_named),
        cmocka_unit_test(data_that_creeps_comes_to_its_end),
        cmocka_unit_test(data_that_creeps_and_stops_is_named_from_then_on),
        cmocka_unit_test(nothing_is_probed_while_all_goes_well),
        cmocka_unit_test(who_waits_probes_a_few_times_in_the_warning_time),
        cmocka_unit_test(nothing_is_probed_for_a_rank_that_has_joined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
