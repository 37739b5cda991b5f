/*
 * Who takes part: some of the processes, or the members of communicators.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

static int from_launcher(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

static int world_rank(void)
{
    return from_launcher("OMPI_COMM_WORLD_RANK", 0);
}

static int world_size(void)
{
    return from_launcher("OMPI_COMM_WORLD_SIZE", 1);
}

static void expect_init_error(bool began, horovod_status_t want, const char *words)
{
    horovod_error_t err = {0};

    check(!began, "init", "succeeded");
    check(horovod_init_error(&err) == want, words, horovod_status_name(err.status));
    check(strstr(err.message, words) != NULL, words, err.message);
    check(horovod_is_initialized() == 0, "init", "failed and is initialised");
}

void mode_halves(void)
{
    const int parity = world_rank() % 2;
    int ranks[64];
    int n = 0;
    horovod_error_t err = {0};

    for (int rank = world_size() - 1; rank >= 0; rank--) /* in reverse */
        if (rank % 2 == parity)
            ranks[n++] = rank;
    if (!horovod_init(ranks, n, NULL, NULL, 0)) {
        horovod_init_error(&err);
        check(false, "init", err.message);
        return;
    }
    check(horovod_size() == n && ranks[horovod_rank()] == world_rank(), "place", "wrong");
    check(horovod_local_size() == n && horovod_local_rank() == horovod_rank(), "local place",
          "wrong");
    for (int i = 0; i < 20 + 50 * parity; i++) /* the jobs do not wait for each other */
        check_sum("of a half");
    horovod_shutdown();
}

void mode_some(void)
{
    const int ranks[] = {0, 1};
    const int twice[] = {0, 0};

    expect_init_error(horovod_init(ranks, -1, NULL, NULL, 0), HOROVOD_INVALID_ARGUMENT,
                      "a job of -1 ranks");
    expect_init_error(horovod_init(twice, 2, NULL, NULL, 0), HOROVOD_INVALID_ARGUMENT,
                      "rank 0 is given twice");
    if (world_rank() > 1) {
        expect_init_error(horovod_init(ranks, 2, NULL, NULL, 0), HOROVOD_INVALID_ARGUMENT,
                          "none of the 2 ranks");
        check(horovod_rank() == -1, "rank", "known without a job");
    } else if (horovod_init(ranks, 2, NULL, NULL, 0)) {
        check(horovod_size() == 2 && horovod_rank() == world_rank(), "place", "wrong");
        check_sum("of the two");
    } else {
        check(false, "init", "failed");
    }
    horovod_shutdown();
}

/* A sum over the members of a communicator's set, each bringing 1. */
static void count_in(int set, int want)
{
    horovod_error_t err = {0};
    int64_t value = 1;

    check(horovod_allreduce(&value, &value,
                            HOROVOD_TENSOR(.name = "one", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM,
                                           .process_set = set),
                            &err) == HOROVOD_OK,
          "count", err.message);
    check(value == want, "count", "wrong");
}

static void use_comms(MPI_Comm all, MPI_Comm half, MPI_Comm first)
{
    MPI_Comm comms[] = {all, half, first};
    const int ranks[] = {0};
    const int size = 1;
    int half_size = 0;
    horovod_error_t err = {0};

    if (!horovod_init_multi_comm(comms, 3, ranks, &size, 1)) {
        horovod_init_error(&err);
        check(false, "init", err.message);
        return;
    }
    MPI_Comm_size(half, &half_size);
    const int set = horovod_comm_process_set(half);
    check(set == 1 + horovod_rank() % 2, "comm", "has another number");
    check(horovod_process_set_size(set) == half_size, "comm", "has another size");
    check(horovod_comm_process_set(all) == 0, "comm", "of the job is not set 0");
    count_in(set, half_size);
    if (first != MPI_COMM_NULL) {
        check(horovod_comm_process_set(first) == 3, "comm", "of the first two");
        count_in(3, 2);
    }
    check(horovod_number_of_process_sets() == 5, "sets", "wrong number");
    check(horovod_comm_process_set(MPI_COMM_SELF) == (horovod_rank() == 0 ? 4 : -3), "comm",
          "self");
    check(horovod_comm_process_set(NULL) == HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET, "comm",
          "NULL has a set");
    check(horovod_comm_process_set(MPI_COMM_NULL) == HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET, "comm",
          "null");
    check_sum("of all");
    horovod_shutdown();
}

void mode_comms(void)
{
    MPI_Comm all = MPI_COMM_NULL;
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm first = MPI_COMM_NULL;
    int level = 0;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    check(horovod_comm_process_set(MPI_COMM_WORLD) == HOROVOD_PROCESS_SET_ERROR_INIT, "comm",
          "known before init");
    for (int round = 0; round < 2; round++) { /* the ranks of the job in order, and in reverse */
        const int key = round == 0 ? world_rank() : -world_rank();
        MPI_Comm_split(MPI_COMM_WORLD, 0, key, &all);
        int rank = 0;
        MPI_Comm_rank(all, &rank);
        MPI_Comm_split(all, rank % 2, rank, &half);
        MPI_Comm_split(all, rank < 2 ? 0 : MPI_UNDEFINED, rank, &first);
        use_comms(all, half, first);
        MPI_Comm_free(&half);
        if (first != MPI_COMM_NULL)
            MPI_Comm_free(&first);
        MPI_Comm_free(&all);
    }
    MPI_Finalize();
}

void mode_bad_comms(void)
{
    MPI_Comm reversed = MPI_COMM_NULL;
    int level = 0;

    expect_init_error(horovod_init_multi_comm(&reversed, 1, NULL, NULL, 0),
                      HOROVOD_PRECONDITION_ERROR, "MPI is not initialised");
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank(), &reversed);
    MPI_Comm comms[] = {MPI_COMM_WORLD, reversed, reversed};
    expect_init_error(horovod_init_multi_comm(comms, 2, NULL, NULL, 0), HOROVOD_INVALID_ARGUMENT,
                      "communicator 1 is no process set");
    expect_init_error(horovod_init_multi_comm(comms, world_rank() == 0 ? 2 : 3, NULL, NULL, 0),
                      HOROVOD_INVALID_ARGUMENT, "mismatching numbers of process sets");
    expect_init_error(horovod_init_multi_comm(NULL, 2, NULL, NULL, 0), HOROVOD_INVALID_ARGUMENT,
                      "2 communicators that are not given");
    comms[1] = world_rank() == 0 ? MPI_COMM_WORLD : MPI_COMM_NULL;
    expect_init_error(horovod_init_multi_comm(comms, 2, NULL, NULL, 0), HOROVOD_INVALID_ARGUMENT,
                      "communicator 1 is no process set");
    must_init();
    check_sum("the program goes on");
    horovod_shutdown();
    MPI_Comm_free(&reversed);
    MPI_Finalize();
}
