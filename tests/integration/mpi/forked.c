/*
 * fork() in a rank while its threads are in the middle of things.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define N_CHILDREN 12
#define CHILD_SECONDS 20

/* What only the stacks of the parent's other threads pointed to looks leaked in a child. */
#ifdef __SANITIZE_ADDRESS__
#define SEES_LEAKS true
#else
#define SEES_LEAKS false
#endif

static atomic_bool is_over;

/* Sums as fast as they go, the same number on every rank. */
static void *keep_busy(void *arg)
{
    horovod_error_t err = {0};
    int64_t go_on = 1;

    (void)arg;
    while (go_on > 0) { /* until every rank is done with its children */
        go_on = !atomic_load(&is_over);
        const horovod_tensor_t *t =
            HOROVOD_TENSOR(.name = "busy", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM);
        if (horovod_allreduce(&go_on, &go_on, t, &err) != HOROVOD_OK) {
            check(false, "busy", err.message);
            break;
        }
    }
    return NULL;
}

static void expect_told(horovod_status_t st, const horovod_error_t *err, int parent)
{
    char words[64];

    snprintf(words, sizeof(words), "This process was forked from rank %d", parent);
    check(st == HOROVOD_PRECONDITION_ERROR, "child", horovod_status_name(st));
    check(strstr(err->message, words) != NULL, "child", err->message);
}

/* Everything that a child may try. */
static void try_all(int rank, int size, horovod_handle_t handle)
{
    horovod_error_t err = {0};
    horovod_counters_t counters = {.size = sizeof(counters)};
    int64_t value = 0;
    int last = 0;

    check(horovod_rank() == rank && horovod_size() == size, "child", "does not know its parent");
    check(horovod_is_initialized() == 0, "child", "is initialised");
    expect_told(horovod_allreduce(&value, &value,
                                  HOROVOD_TENSOR(.name = "t", .dtype = HOROVOD_INT64), &err),
                &err, rank);
    expect_told(horovod_wait(handle, &err), &err, rank);
    expect_told(horovod_barrier(&err), &err, rank);
    expect_told(horovod_join(&last, &err), &err, rank);
    expect_told(horovod_counters(&counters, &err), &err, rank);
    expect_told(horovod_dump_flight_recorder("no", &err), &err, rank);
    check(horovod_poll(handle) == -1, "child", "polls");
    check(horovod_add_process_set(&last, 1) == HOROVOD_PROCESS_SET_ERROR_INIT, "child",
          "adds sets");
    check(horovod_start_timeline("/nowhere", false) == -1, "child", "starts a timeline");
    check(!horovod_init(NULL, 0, NULL, NULL, 0), "child", "initialises");
    expect_told(horovod_init_error(&err), &err, rank);
    horovod_shutdown();
}

static void have_a_child(int number, horovod_handle_t handle)
{
    const int rank = horovod_rank();
    const int size = horovod_size();
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        alarm(CHILD_SECONDS); /* a child that hangs is one that failed */
        try_all(rank, size, handle);
        if (number % 2 == 0 && !SEES_LEAKS)
            exit(checks_failed()); /* with everything that runs at exit */
        _exit(checks_failed());
    }
    check(child > 0 && waitpid(child, &status, 0) == child, "fork", "failed");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child", "ended badly");
}

void mode_fork(void)
{
    pthread_t thread;
    float data = 1;
    horovod_handle_t handle = 0;
    horovod_error_t err = {0};

    must_init();
    check(pthread_create(&thread, NULL, keep_busy, NULL) == 0, "thread", "not created");
    check(horovod_allreduce_async(&data, &data,
                                  HOROVOD_TENSOR(.name = "pending", .dtype = HOROVOD_FLOAT32),
                                  &handle, &err) == HOROVOD_OK,
          "async", err.message);
    for (int i = 0; i < N_CHILDREN; i++) {
        have_a_child(i, handle);
        check_sum("the parent goes on");
    }
    check(horovod_wait(handle, &err) == HOROVOD_OK, "wait", err.message);
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    horovod_shutdown();
}
