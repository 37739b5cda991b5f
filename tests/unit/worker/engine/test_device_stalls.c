/*
 * Collectives between devices that do not end although all ranks answer: who is to blame. Every
 * rank has a fake device. On a clock of the test's: nothing waits for real.
 */
#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/unit/worker/device/fake.h"
#include "tests/unit/worker/engine/world.h"
#include "worker/engine/output.h"

#define MS ((int64_t)1000000)
#define WARNING (2000 * MS)
#define SHUTDOWN (4000 * MS)
#define TICK (WARNING / 8)
#define RANKS_MAX 5
#define TENSORS_MAX 40
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

struct scene {
    int size;
    struct hvd_sim *sim;
    struct hvd_sim *inner; /* what the devices move over */
    struct hvd_transport *movers[RANKS_MAX];
    struct hvd_device_port *devices[RANKS_MAX];
    struct hvd_engine *engines[RANKS_MAX];
    struct hvd_log sinks[RANKS_MAX];
    char logs[RANKS_MAX][LOG_MAX]; /* WARN and worse */
    int n_tensors;
    float *memory[RANKS_MAX][TENSORS_MAX];
    int64_t handles[RANKS_MAX][TENSORS_MAX];
    struct hvd_device_event *ready[RANKS_MAX];
};

static struct scene scene;
static int mute_rank = -1; /* its engine does not check for stalls */
static int ranks_per_host; /* allreduces take three steps; 0: all are on one */

static void keep(void *ctx, const struct hvd_log_record *record)
{
    char *log = ctx;
    const size_t len = strlen(log);

    snprintf(log + len, LOG_MAX - len, "%s\n", record->msg);
}

static void open_scene(int size, bool is_staged, bool has_data)
{
    const struct hvd_sim_options sim = {
        .size = size, .seed = 5, .max_delay = 3, .ranks_per_host = ranks_per_host};
    struct hvd_sim_options inner = sim;
    struct hvd_engine_options options = {.cycle_ns = 200000,
                                         .no_background = true,
                                         .cache_capacity = 64,
                                         .stall_warning_ns = WARNING,
                                         .stall_shutdown_ns = SHUTDOWN};
    struct hvd_transport *t[RANKS_MAX];

    scene = (struct scene){.size = size};
    inner.faults.no_data = !has_data;
    assert_int_equal(hvd_sim_create(&sim, &scene.sim, NULL), HVD_OK);
    assert_int_equal(hvd_sim_create(&inner, &scene.inner, NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++) {
        assert_int_equal(hvd_sim_join(scene.sim, rank, &t[rank], NULL), HVD_OK);
        if (!is_staged)
            assert_int_equal(hvd_sim_join(scene.inner, rank, &scene.movers[rank], NULL), HVD_OK);
        scene.devices[rank] = fake_create(&(struct fake_options){
            .seed = (uint64_t)rank, .mover = scene.movers[rank], .in_steps = ranks_per_host > 0});
    }
    for (int rank = 0; rank < size; rank++) {
        scene.sinks[rank] =
            (struct hvd_log){.level = HVD_LOG_WARN, .sink = keep, .ctx = scene.logs[rank]};
        options.log = &scene.sinks[rank];
        options.device = scene.devices[rank];
        options.stall_warning_ns = rank == mute_rank ? 0 : WARNING;
        assert_int_equal(hvd_engine_create(t[rank], &options, &scene.engines[rank], NULL), HVD_OK);
    }
}

static void close_scene(void)
{
    for (int rank = 0; rank < scene.size; rank++) {
        fake_ready_free(scene.ready[rank]);
        hvd_engine_destroy(scene.engines[rank]);
    }
    for (int rank = 0; rank < scene.size; rank++) {
        for (int i = 0; i < scene.n_tensors; i++)
            scene.devices[rank]->ops->free(scene.devices[rank], scene.memory[rank][i], NULL);
        fake_destroy(scene.devices[rank]);
        if (scene.movers[rank])
            scene.movers[rank]->ops->destroy(scene.movers[rank], true);
    }
    hvd_sim_destroy(scene.inner);
    hvd_sim_destroy(scene.sim);
}

/* Submits a tensor on all ranks. Where there is `ready`, the input depends on it. */
static void submit(const char *name, int64_t count)
{
    const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int n = scene.n_tensors++;

    assert_true(n < TENSORS_MAX);
    for (int rank = 0; rank < scene.size; rank++) {
        struct hvd_submission s = {.request = world_request(HVD_ALLREDUCE, name, count)};
        s.request.dtype = HVD_FLOAT32;
        s.request.device = HVD_GPU;
        s.ready = hvd_device_event_retain(scene.ready[rank]);
        s.output = fake_put(scene.devices[rank], values, sizeof(values));
        s.input = scene.memory[rank][n] = s.output;
        assert_int_equal(hvd_engine_submit(scene.engines[rank], &s, &scene.handles[rank][n], NULL),
                         HVD_OK);
        hvd_device_event_release(s.ready);
    }
}

/* All do what they can for so long, and look often. */
static void pass(int64_t ns)
{
    for (const int64_t until = now_ns + ns; now_ns < until; now_ns += 20 * MS)
        for (int looks = 0; looks < 40; looks++) {
            fake_look();
            for (int rank = 0; rank < scene.size; rank++)
                (void)hvd_engine_step(scene.engines[rank]);
        }
}

/* Ends a tensor and waits for its event. */
static hvd_status_t end(int rank, int n, struct hvd_err *err)
{
    struct hvd_outcome outcome = {0};
    hvd_status_t st = hvd_engine_wait(scene.engines[rank], scene.handles[rank][n], &outcome, err);

    if (st == HVD_OK)
        st = hvd_engine_await(scene.engines[rank], outcome.event, err);
    hvd_device_event_release(outcome.event);
    hvd_output_destroy(outcome.output);
    return st;
}

/* A first tensor, so that the devices are connected. */
static void move_one(void)
{
    submit("before", 3);
    pass(100 * MS);
    for (int rank = 0; rank < scene.size; rank++)
        assert_int_equal(end(rank, scene.n_tensors - 1, NULL), HVD_OK);
}

static void is_in(const char *text, const char *part, int rank)
{
    if (!strstr(text, part))
        fail_msg("rank %d of %d has: %s (not: %s)", rank, scene.size, text, part);
}

/* Every rank has warned in time with these words, and ends with them. */
static void expect(const char *name, const char *why)
{
    char warning[500];
    struct hvd_err err;

    snprintf(warning, sizeof(warning), "Tensor %s (ALLREDUCE) has been in transfer for 2", name);
    pass(WARNING - TICK);
    for (int rank = 0; rank < scene.size; rank++)
        assert_string_equal(scene.logs[rank], "");
    pass(3 * TICK);
    for (int rank = 0; rank < scene.size; rank++) {
        is_in(scene.logs[rank], warning, rank);
        is_in(scene.logs[rank], why, rank);
    }
    pass(SHUTDOWN - WARNING);
    for (int rank = 0; rank < scene.size; rank++) {
        hvd_err_clear(&err);
        assert_true(end(rank, scene.n_tensors - 1, &err) < 0);
        is_in(err.msg, name, rank);
        is_in(err.msg, why, rank);
        is_in(err.msg, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", rank);
    }
}

static const int sizes[] = {2, 3, 5};
#define N_SIZES (sizeof(sizes) / sizeof(*sizes))

static void the_rank_whose_input_is_late_is_named(void **state)
{
    char why[200];

    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        for (int victim = 0; victim < sizes[i]; victim++) {
            open_scene(sizes[i], false, true);
            move_one();
            scene.ready[victim] = fake_ready_create();
            submit("gradient", 5);
            snprintf(why, sizeof(why),
                     "seconds: the GPU of rank %d on host sim-0 has not reached it: the program's "
                     "work before it is not done",
                     victim);
            expect("gradient", why);
            fake_ready_fire(scene.ready[victim], false);
            close_scene();
        }
    }
}

static void ranks_whose_inputs_are_late_are_named_together(void **state)
{
    (void)state;
    open_scene(5, false, true);
    move_one();
    scene.ready[1] = fake_ready_create();
    scene.ready[3] = fake_ready_create();
    submit("gradient", 5);
    expect("gradient",
           ": the GPUs of rank 1 on host sim-0 and rank 3 on host sim-0 have not reached "
           "it: the program's work");
    close_scene();
}

static void the_rank_that_does_not_launch_is_named(void **state)
{
    char why[200];

    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        for (int victim = 0; victim < sizes[i]; victim++) {
            open_scene(sizes[i], false, true);
            move_one();
            fake_break(scene.devices[victim], FAKE_HANGS);
            submit("gradient", 5);
            snprintf(why, sizeof(why), "seconds: rank %d on host sim-0 has not launched it",
                     victim);
            expect("gradient", why);
            close_scene();
        }
    }
}

/* The ranks of the other host have their parts, and wait in the step across hosts. */
static void all_hosts_name_the_rank_that_delays_an_operation_in_three_steps(void **state)
{
    char why[200];

    (void)state;
    ranks_per_host = 2;
    for (int k = 0; k < 8; k++) {
        const int victim = k / 2;
        open_scene(4, false, true);
        move_one();
        if (k % 2)
            fake_break(scene.devices[victim], FAKE_HANGS);
        else
            scene.ready[victim] = fake_ready_create();
        submit("gradient", 5);
        if (k % 2)
            snprintf(why, sizeof(why), "seconds: rank %d on host sim-%d has not launched it",
                     victim, victim / 2);
        else
            snprintf(why, sizeof(why), "seconds: the GPU of rank %d on host sim-%d has not reached",
                     victim, victim / 2);
        expect("gradient", why);
        if (k % 2 == 0)
            fake_ready_fire(scene.ready[victim], false);
        pass(2 * TICK);
        close_scene();
    }
    ranks_per_host = 0;
}

static void an_operation_in_three_steps_that_is_handed_over_late_is_no_different(void **state)
{
    struct hvd_device_event *first = fake_ready_create();

    (void)state;
    ranks_per_host = 2;
    open_scene(4, false, true);
    move_one();
    scene.ready[2] = first;
    submit("first", 5);
    scene.ready[2] = fake_ready_create();
    submit("gradient", 6);
    pass(2 * TICK); /* both are agreed, and the second one waits for the first */
    fake_ready_fire(first, false);
    pass(WARNING + 4 * TICK);
    for (int rank = 0; rank < scene.size; rank++) {
        is_in(scene.logs[rank], "Tensor gradient (ALLREDUCE) has been in transfer for ", rank);
        is_in(scene.logs[rank], "seconds: the GPU of rank 2 on host sim-1 has not reached it",
              rank);
    }
    fake_ready_fire(scene.ready[2], false);
    pass(2 * TICK); /* nothing is freed while a device uses it */
    close_scene();
    fake_ready_free(first);
    ranks_per_host = 0;
}

static void a_device_that_hangs_in_an_operation_in_three_steps_is_named(void **state)
{
    (void)state;
    ranks_per_host = 2;
    open_scene(4, false, true);
    move_one();
    fake_break(scene.devices[1], FAKE_STOPPED);
    submit("gradient", 5);
    pass(WARNING + 4 * TICK);
    for (int rank = 2; rank < 4; rank++)
        is_in(scene.logs[rank],
              ": the GPU of rank 1 on host sim-0 is not done with the step of it within the host: ",
              rank);
    is_in(scene.logs[1], "seconds: the GPUs of all ranks have reached it, and that of rank 1 ", 1);
    pass(SHUTDOWN); /* nothing is freed while a device uses it */
    close_scene();
    ranks_per_host = 0;
}

/* A rank that has not launched one waits for nothing else of its own: it is to blame. */
static void a_rank_that_does_not_launch_is_named_before_one_that_is_late(void **state)
{
    (void)state;
    open_scene(3, false, true);
    move_one();
    fake_break(scene.devices[2], FAKE_HANGS);
    scene.ready[0] = fake_ready_create();
    submit("gradient", 5);
    expect("gradient", "seconds: rank 2 on host sim-0 has not launched it");
    close_scene();
}

static void devices_that_hang_are_told_from_late_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SIZES; i++) {
        open_scene(sizes[i], false, false);
        submit("gradient", 5);
        expect("gradient", "seconds: the GPUs of all ranks have reached it: look for errors of the "
                           "GPUs (nvidia-smi, dmesg) and of the network between them "
                           "(NCCL_DEBUG=INFO)");
        close_scene();
    }
}

/* The others are done: the rank itself names its GPU, and they do so once they wait for it. */
static void a_device_that_hangs_alone_is_named(void **state)
{
    (void)state;
    for (int victim = 0; victim < 3; victim++) {
        char who[64];
        snprintf(who, sizeof(who), "rank %d on host sim-0 is not done", victim);
        open_scene(3, false, true);
        move_one();
        fake_break(scene.devices[victim], FAKE_STOPPED);
        submit("gradient", 5);
        pass(WARNING + 2 * TICK);
        for (int rank = 0; rank < 3; rank++) {
            if (rank != victim)
                assert_string_equal(scene.logs[rank], "");
        }
        is_in(scene.logs[victim], "seconds: the GPUs of all ranks have reached it, and that of ",
              victim);
        is_in(scene.logs[victim], who, victim);
        scene.logs[victim][0] = '\0';
        submit("next", 5);
        pass(SHUTDOWN - WARNING - 3 * TICK); /* the rank itself ends the job then */
        for (int rank = 0; rank < 3; rank++)
            assert_string_equal(scene.logs[rank], "");
        pass(4 * TICK);
        close_scene();
    }
}

static void a_device_that_hangs_in_an_earlier_operation_is_named(void **state)
{
    char who[100];

    (void)state;
    open_scene(3, false, true);
    move_one();
    fake_break(scene.devices[1], FAKE_STOPPED);
    submit("gradient", 5);
    submit("next", 6);
    pass(WARNING + 2 * TICK);
    snprintf(who, sizeof(who), ": the GPU of rank 1 on host sim-0 is not done with an earlier ");
    is_in(scene.logs[0], who, 0);
    is_in(scene.logs[0], "Tensor next ", 0);
    is_in(scene.logs[1], "Tensor gradient ", 1);
    pass(SHUTDOWN); /* nothing is freed while a device uses it */
    close_scene();
}

/* A rank that does not check for stalls reports nothing, so all that is known is what others say.
 */
static void a_rank_that_reports_nothing_is_not_taken_for_one_that_has_come(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) {
        mute_rank = 2;
        open_scene(3, false, is_late);
        mute_rank = -1;
        if (is_late) {
            move_one();
            scene.ready[1] = fake_ready_create();
        }
        submit("gradient", 5);
        pass(WARNING + WARNING / 2 - TICK);
        assert_string_equal(scene.logs[0], "");
        pass(3 * TICK);
        is_in(scene.logs[0],
              is_late ? ": the GPU of rank 1 on host sim-0 has not reached it: the program's work "
                        "before it is not done (2 of 3 ranks have reported)"
                      : ": no GPU is known to be late (2 of 3 ranks have reported)",
              0);
        pass(SHUTDOWN);
        close_scene();
    }
}

/* The program has gone on: the first one that hangs is named, and not the last one. */
static void of_many_that_wait_the_first_one_is_named(void **state)
{
    char name[32];

    (void)state;
    open_scene(3, false, true);
    move_one();
    scene.ready[1] = fake_ready_create();
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "gradient %d", i);
        submit(name, 5);
        pass(20 * MS); /* each is launched by itself */
    }
    expect("gradient 0", ": the GPU of rank 1 on host sim-0 has not reached it");
    close_scene();
}

/* The names of the last ones are kept: the first of those waits as well. */
static void of_very_many_that_wait_an_early_one_is_named(void **state)
{
    char name[32];

    (void)state;
    open_scene(2, false, true);
    move_one();
    scene.ready[1] = fake_ready_create();
    for (int i = 0; i < 36; i++) {
        snprintf(name, sizeof(name), "gradient %d", i);
        submit(name, 5);
        for (int looks = 0; looks < 40; looks++) /* no time passes */
            for (int rank = 0; rank < 2; rank++)
                (void)hvd_engine_step(scene.engines[rank]);
    }
    expect("gradient 4", ": the GPU of rank 1 on host sim-0 has not reached it");
    close_scene();
}

static void inputs_that_come_in_time_end_nothing(void **state)
{
    (void)state;
    open_scene(3, false, true);
    move_one();
    scene.ready[1] = fake_ready_create();
    submit("gradient", 5);
    pass(SHUTDOWN - TICK);
    for (int rank = 0; rank < 3; rank++)
        is_in(scene.logs[rank], "the GPU of rank 1 on host sim-0 has not reached it", rank);
    fake_ready_fire(scene.ready[1], false);
    pass(100 * MS);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(end(rank, 1, NULL), HVD_OK);
    close_scene();
}

static void devices_that_do_not_connect_are_named(void **state)
{
    (void)state;
    open_scene(3, false, true);
    for (int rank = 0; rank < 3; rank++)
        fake_break(scene.devices[rank], FAKE_HANGS);
    submit("gradient", 5);
    expect("gradient",
           "seconds: the GPUs of the ranks do not connect to each other: look for errors "
           "of the network between them (NCCL_DEBUG=INFO, NCCL_SOCKET_IFNAME)");
    close_scene();
}

static void staged_operations_have_their_own_words(void **state)
{
    (void)state;
    open_scene(3, true, true);
    move_one();
    scene.ready[1] = fake_ready_create();
    submit("gradient", 5);
    pass(WARNING + 2 * TICK);
    is_in(scene.logs[0], "Tensor gradient (ALLREDUCE) has been in transfer for 2", 0);
    is_in(scene.logs[0], ", though all ranks answer: rank 0 on host sim-0 waits for ", 0);
    is_in(scene.logs[1], ": the GPU of rank 1 on host sim-0 is not done with its part", 1);
    fake_ready_fire(scene.ready[1], false);
    pass(100 * MS);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(end(rank, 1, NULL), HVD_OK);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_whose_input_is_late_is_named),
        cmocka_unit_test(ranks_whose_inputs_are_late_are_named_together),
        cmocka_unit_test(the_rank_that_does_not_launch_is_named),
        cmocka_unit_test(all_hosts_name_the_rank_that_delays_an_operation_in_three_steps),
        cmocka_unit_test(an_operation_in_three_steps_that_is_handed_over_late_is_no_different),
        cmocka_unit_test(a_device_that_hangs_in_an_operation_in_three_steps_is_named),
        cmocka_unit_test(a_rank_that_does_not_launch_is_named_before_one_that_is_late),
        cmocka_unit_test(devices_that_hang_are_told_from_late_ones),
        cmocka_unit_test(a_device_that_hangs_alone_is_named),
        cmocka_unit_test(a_device_that_hangs_in_an_earlier_operation_is_named),
        cmocka_unit_test(a_rank_that_reports_nothing_is_not_taken_for_one_that_has_come),
        cmocka_unit_test(of_many_that_wait_the_first_one_is_named),
        cmocka_unit_test(of_very_many_that_wait_an_early_one_is_named),
        cmocka_unit_test(inputs_that_come_in_time_end_nothing),
        cmocka_unit_test(devices_that_do_not_connect_are_named),
        cmocka_unit_test(staged_operations_have_their_own_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
