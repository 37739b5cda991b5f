/*
 * Watches libhorovod.so under mpirun, one way a run: mpi_watch MODE [FILE]. Exits 0 when everything
 * held on this rank, 1 when not; says what did not on standard error.
 */
#include <horovod/horovod.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_TENSORS 50

static int n_problems;

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: %s\n", horovod_rank(), what);
    n_problems++;
}

static void must_init(void)
{
    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        exit(1);
}

static horovod_status_t sum(const char *name, float *data)
{
    return horovod_allreduce(data, data,
                             HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32,
                                            .op = HOROVOD_SUM, .ndim = 2,
                                            .shape = (const int64_t[]){2, 3}),
                             NULL);
}

static void steps(int n)
{
    float data[6] = {0};
    char name[64];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "layer \"%d\"\\weight\n", i % 10);
        check(sum(name, data) == HOROVOD_OK, "an allreduce failed");
    }
}

/* All that the environment asks for. */
static void mode_run(const char *file)
{
    (void)file;
    must_init();
    steps(N_TENSORS);
    check(horovod_barrier(NULL) == HOROVOD_OK, "barrier");
    horovod_shutdown();
}

/* Tensors without end, until somebody kills the process. */
static void mode_forever(const char *file)
{
    (void)file;
    must_init();
    for (;;)
        steps(1000);
}

/* Starts and stops the timeline by hand. */
static void mode_dynamic(const char *file)
{
    check(horovod_start_timeline(file, true) == -1, "started before init");
    check(horovod_stop_timeline() == -1, "stopped before init");
    check(!horovod_timeline_mark("BACKWARD", true), "a phase before init");
    must_init();
    steps(5);
    check(horovod_start_timeline("/nowhere/t.json", true) == (horovod_rank() == 0 ? -3 : 1),
          "a file that cannot be written");
    check(horovod_start_timeline(NULL, true) == -3, "no file");
    check(horovod_start_timeline(file, true) == 1, "start");
    check(horovod_start_timeline(file, true) == 1, "start again");
    const bool writes = horovod_rank() == 0;
    check(horovod_timeline_mark("BACKWARD", true) == writes, "a phase begins");
    steps(7);
    check(horovod_timeline_mark("BACKWARD", false) == writes, "a phase ends");
    check(!horovod_timeline_mark(NULL, true) && !horovod_timeline_mark("", true), "no name");
    check(horovod_stop_timeline() == 1, "stop");
    check(!horovod_timeline_mark("BACKWARD", true), "a phase without a timeline");
    steps(9);
    check(horovod_stop_timeline() == 1, "stop again");
    horovod_shutdown();
    check(horovod_start_timeline(file, true) == -1, "started after shutdown");
}

/* HOROVOD_TIMELINE is not set. */
static void mode_disabled(const char *file)
{
    must_init();
    check(horovod_start_timeline(file, false) == -2, "started, not enabled");
    check(horovod_stop_timeline() == -2, "stopped, not enabled");
    check(horovod_dump_flight_recorder("x", NULL) == HOROVOD_PRECONDITION_ERROR, "dumped");
    horovod_shutdown();
}

static void mode_counters(const char *file)
{
    horovod_counters_t c = {.size = sizeof(c)};
    struct {
        horovod_counters_t known;
        uint64_t later;
    } newer = {.known.size = sizeof(newer), .later = 7};
    horovod_counters_t older = {.size = offsetof(horovod_counters_t, completed), .completed = 99};

    (void)file;
    check(horovod_counters(&c, NULL) == HOROVOD_PRECONDITION_ERROR, "counted before init");
    must_init();
    steps(N_TENSORS);
    check(horovod_barrier(NULL) == HOROVOD_OK, "barrier");
    check(horovod_counters(NULL, NULL) == HOROVOD_INVALID_ARGUMENT, "NULL");
    check(horovod_counters(&c, NULL) == HOROVOD_OK, "counters");
    check(c.submitted == N_TENSORS + 1 && c.completed == N_TENSORS + 1, "tensors");
    check(c.allreduce_tensors == N_TENSORS && c.barriers == 1 && c.failed == 0, "operations");
    check(c.allreduce_bytes == N_TENSORS * 24, "bytes");
    check(c.plans > 0, "plans");
    check(horovod_counters(&newer.known, NULL) == HOROVOD_OK && newer.later == 0, "newer");
    check(horovod_counters(&older, NULL) == HOROVOD_OK && older.completed == 99 &&
              older.submitted == c.submitted,
          "older");
    horovod_shutdown();
}

/* The last rank shuts down while the others have a tensor pending that it does not come to. */
static void mode_leave(const char *file)
{
    float data[6] = {0};
    horovod_handle_t handle = 0;

    (void)file;
    must_init();
    steps(3);
    check(horovod_dump_flight_recorder("by hand", NULL) == HOROVOD_OK, "dump by hand");
    const bool is_last = horovod_rank() == horovod_size() - 1;
    if (!is_last)
        check(horovod_allreduce_async(data, data,
                                      HOROVOD_TENSOR(.name = "never agreed",
                                                     .dtype = HOROVOD_FLOAT32, .op = HOROVOD_SUM,
                                                     .ndim = 2, .shape = (const int64_t[]){2, 3}),
                                      &handle, NULL) == HOROVOD_OK,
              "submitted");
    check(horovod_barrier(NULL) == HOROVOD_OK, "barrier"); /* now it is pending everywhere else */
    if (!is_last)
        check(horovod_wait(handle, NULL) == HOROVOD_ABORTED, "a sum without the last rank");
    horovod_shutdown();
}

/* The last rank does not come to a tensor, until it hears why nobody waits for it any more. */
static void mode_stall(const char *file)
{
    horovod_error_t err = {0};
    float data[6] = {0};

    (void)file;
    must_init();
    const char *name = horovod_rank() == horovod_size() - 1 ? "another" : "stalled";
    const horovod_status_t st =
        horovod_allreduce(data, data,
                          HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32, .op = HOROVOD_SUM,
                                         .ndim = 2, .shape = (const int64_t[]){2, 3}),
                          &err);
    check(st == HOROVOD_ABORTED, "the stall did not end the job");
    printf("rank %d: %s\n", horovod_rank(), err.message);
    horovod_shutdown();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *file);
    } modes[] = {
        {"run", mode_run},           {"forever", mode_forever},   {"dynamic", mode_dynamic},
        {"disabled", mode_disabled}, {"counters", mode_counters}, {"leave", mode_leave},
        {"stall", mode_stall},
    };

    for (size_t i = 0; argc >= 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        modes[i].run(argc > 2 ? argv[2] : NULL);
        return n_problems > 0;
    }
    fprintf(stderr, "usage: mpi_watch MODE [FILE]\n");
    return 2;
}
