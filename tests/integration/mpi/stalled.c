/*
 * A stall ends the job, and the program goes on to its own end: mpi_stalled WHAT VICTIM. All but
 * the victim wait for a tensor that it does not submit. They handle the error, leave and exit with
 * 0; WHAT it does meanwhile, and what else is special:
 *
 *     other   submits another tensor, and handles that it fails
 *     group   submits a group without the tensor, and the others one with it
 *     late    submits the tensor once the others were told
 *     again   the same; then all begin another job
 *     set     the same, with a tensor of a process set without rank 0
 *     stay    computes for ever
 *     stop    is stopped, before the stall
 *     hang    submits another tensor, is told, and is stopped before it leaves
 *     fail    computes for ever, and the others exit with 1, after the shutdown
 *     quit    the same, without the shutdown
 *
 * What ranks are told stands on standard output; test_stalled.py judges. MARK names a file that the
 * others make once they were told. STALLED_OWNS: the program has initialised MPI.
 */
#include <horovod/horovod.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *what;
static const char *mark;

static bool is(const char *word)
{
    return strcmp(what, word) == 0;
}

static horovod_status_t reduce(const char *name, int set, horovod_error_t *err)
{
    const int64_t n = 4;
    float data[4] = {1, 2, 3, 4};

    return horovod_allreduce(data, data,
                             HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                            .shape = &n, .op = HOROVOD_SUM, .process_set = set),
                             err);
}

/* The first n of two tensors, as a group; what becomes of the first. */
static horovod_status_t reduce_group(int n, horovod_error_t *err)
{
    const int64_t shape = 4;
    float data[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    const void *inputs[2] = {data[0], data[1]};
    void *outputs[2] = {data[0], data[1]};
    const horovod_tensor_t *tensors[2];
    horovod_handle_t handles[2];

    tensors[0] = HOROVOD_TENSOR(.name = "first", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                .shape = &shape, .op = HOROVOD_SUM);
    tensors[1] = HOROVOD_TENSOR(.name = "second", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                .shape = &shape, .op = HOROVOD_SUM);
    if (horovod_grouped_allreduce_async(n, inputs, outputs, tensors, handles, err) != HOROVOD_OK)
        return err->status;
    for (int i = n - 1; i > 0; i--)
        (void)horovod_wait(handles[i], err);
    return horovod_wait(handles[0], err);
}

static void say(const char *word, const char *rest)
{
    printf("%s %d %d %s\n", word, horovod_rank(), (int)getpid(), rest);
    fflush(stdout);
}

/* The victim, once the others were told. */
static void wait_for_mark(void)
{
    const struct timespec moment = {.tv_nsec = 20000000};

    while (access(mark, F_OK) != 0)
        nanosleep(&moment, NULL);
}

static void make_mark(void)
{
    FILE *file = fopen(mark, "w");

    if (file)
        (void)fclose(file);
}

static void compute_for_ever(void)
{
    for (;;)
        (void)pause();
}

static horovod_status_t be_the_victim(int set, horovod_error_t *err)
{
    if (is("other") || is("hang"))
        return reduce("other", set, err);
    if (is("group"))
        return reduce_group(1, err);
    if (is("stop"))
        (void)raise(SIGSTOP);
    if (is("late") || is("again") || is("set"))
        wait_for_mark();
    else
        compute_for_ever();
    return reduce("gradient", set, err);
}

/* Every rank but 0. */
static int make_set(void)
{
    int ranks[64];
    int n = 0;

    for (int rank = 1; rank < horovod_size(); rank++)
        ranks[n++] = rank;
    return horovod_add_process_set(ranks, n);
}

/* Another job, in the same processes. */
static int begin_again(void)
{
    horovod_error_t err = {0};

    if (!horovod_init(NULL, 0, NULL, NULL, 0)) {
        horovod_init_error(&err);
        printf("init: %s\n", err.message);
        return 1;
    }
    const bool is_good = reduce("again", 0, &err) == HOROVOD_OK;
    say(is_good ? "again" : "not", err.message);
    horovod_shutdown();
    return !is_good;
}

static int run(int victim)
{
    const int rank = horovod_rank();
    const int set = is("set") ? make_set() : 0;
    horovod_error_t err = {0};

    for (int i = 0; i < 3; i++) /* cached from then on */
        if (set < 0 || (rank >= (set > 0) && reduce("gradient", set, &err) != HOROVOD_OK))
            return 3;
    say("here", "");
    if (rank == victim) {
        (void)be_the_victim(set, &err);
    } else if (set > 0 && rank == 0) { /* is no member */
        wait_for_mark();
        (void)reduce("alone", 0, &err);
    } else if (is("group")) {
        (void)reduce_group(2, &err);
    } else {
        (void)reduce("gradient", set, &err);
        make_mark();
    }
    printf("told %d %s: %s\n", rank, horovod_status_name(err.status), err.message);
    fflush(stdout);
    if (is("fail") || is("quit"))
        fprintf(stderr, "%s\n", err.message);
    if (rank == victim && is("hang"))
        (void)raise(SIGSTOP);
    if (rank != victim && is("quit"))
        exit(1);
    if (is("again"))
        horovod_shutdown_job();
    else
        horovod_shutdown();
    printf("down %d\n", rank);
    fflush(stdout);
    return is("fail") ? 1 : 0;
}

int main(int argc, char **argv)
{
    const bool owns_mpi = getenv("STALLED_OWNS") != NULL;
    int level = 0;

    mark = getenv("MARK");
    if (argc != 3 || !mark)
        return 2;
    what = argv[1];
    if (owns_mpi)
        (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (!horovod_init(NULL, 0, NULL, NULL, 0))
        return 1;
    int code = run(atoi(argv[2]));
    if (code == 0 && is("again"))
        code = begin_again();
    if (owns_mpi)
        (void)MPI_Finalize();
    return code;
}
