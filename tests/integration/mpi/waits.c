/*
 * Waits that give up and are taken up again, and jobs that follow one another.
 */
#include <mpi.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define UNTOUCHED "untouched"
#define LONG_MS 60000

/* What is still under way leaves the error alone. */
static void expect_in_progress(horovod_handle_t handle, int64_t timeout_ms, const char *what)
{
    horovod_error_t err = {.status = HOROVOD_OK, .message = UNTOUCHED};

    check(horovod_wait_for(handle, timeout_ms, NULL, &err) == HOROVOD_IN_PROGRESS, what,
          "not in progress");
    check(err.status == HOROVOD_OK && strcmp(err.message, UNTOUCHED) == 0, what, err.message);
}

static void expect_done(horovod_handle_t handle, const char *what)
{
    horovod_error_t err = {0};

    check(horovod_wait_for(handle, LONG_MS, NULL, &err) == HOROVOD_OK, what, err.message);
    check(horovod_wait_for(handle, 0, NULL, &err) == HOROVOD_INVALID_ARGUMENT, what,
          "ended, and can be waited for");
}

/* Rank 0 gives up again and again until the others submit what it waits for. */
static void wait_for_the_others(void)
{
    const int is_first = horovod_rank() == 0;
    horovod_error_t err = {0};
    horovod_handle_t handle = 0;
    int64_t data = 1;

    if (!is_first)
        check(horovod_barrier(&err) == HOROVOD_OK, "barrier", err.message);
    check(horovod_allreduce_async(
              &data, &data,
              HOROVOD_TENSOR(.name = "late", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM), &handle,
              &err) == HOROVOD_OK,
          "late", err.message);
    if (is_first && horovod_size() > 1) {
        expect_in_progress(handle, -1, "before its time");
        expect_in_progress(handle, 0, "at once");
        expect_in_progress(handle, 20, "for a while");
    }
    if (is_first)
        check(horovod_barrier(&err) == HOROVOD_OK, "barrier", err.message);
    expect_done(handle, "late");
    check(data == horovod_size(), "late", "the sum is wrong");
}

/* A wait of no time ends what takes no time. */
static void wait_for_outputs(void)
{
    const int64_t shape[] = {2};
    const int64_t rows[] = {1, 2};
    horovod_status_t status = HOROVOD_IN_PROGRESS;
    horovod_output_t *output = NULL;
    horovod_error_t err = {0};
    horovod_handle_t handle = 0;

    check(horovod_allgather_async(
              rows,
              HOROVOD_TENSOR(.name = "rows", .dtype = HOROVOD_INT64, .ndim = 1, .shape = shape),
              &handle, &err) == HOROVOD_OK,
          "rows", err.message);
    while (status == HOROVOD_IN_PROGRESS)
        status = horovod_wait_for(handle, 0, &output, &err);
    check(status == HOROVOD_OK, "rows", err.message);
    check(output && horovod_output_rows(output) == 2 * horovod_size(), "rows", "wrong");
    horovod_output_release(output);
}

/* Rank 0 calls before the others do, and they once it has given up. */
static horovod_status_t call_for(const char *what, int64_t *data, int64_t timeout_ms,
                                 horovod_handle_t *handle, horovod_output_t **output)
{
    const int64_t shape[] = {horovod_size()};
    horovod_error_t err = {.status = HOROVOD_OK, .message = UNTOUCHED};
    const horovod_tensor_t t = {.size = sizeof(t),
                                .name = what,
                                .dtype = HOROVOD_INT64,
                                .ndim = 1,
                                .shape = shape,
                                .op = HOROVOD_SUM};
    horovod_status_t status = HOROVOD_UNKNOWN_ERROR;

    if (strcmp(what, "allreduce") == 0)
        status = horovod_allreduce_for(data, data, &t, timeout_ms, handle, &err);
    else if (strcmp(what, "allgather") == 0)
        status = horovod_allgather_for(data, &t, timeout_ms, handle, output, &err);
    else if (strcmp(what, "broadcast") == 0)
        status = horovod_broadcast_for(data, data, &t, timeout_ms, handle, &err);
    else if (strcmp(what, "alltoall") == 0)
        status = horovod_alltoall_for(data, &t, timeout_ms, handle, output, &err);
    else if (strcmp(what, "reducescatter") == 0)
        status =
            horovod_reducescatter_for(data, data + horovod_size(), &t, timeout_ms, handle, &err);
    check(strcmp(err.message, UNTOUCHED) == 0, what, err.message);
    return status;
}

/* Each rank sends its rank in all elements; root 0. */
static void check_result(const char *what, const int64_t *data, const horovod_output_t *output)
{
    const int64_t n = horovod_size();
    const int64_t *made = output ? horovod_output_data(output) : NULL;

    if (strcmp(what, "allreduce") == 0)
        check(data[n - 1] == n * (n - 1) / 2, what, "the sum is wrong");
    else if (strcmp(what, "broadcast") == 0)
        check(data[n - 1] == 0, what, "the root's is something else");
    else if (strcmp(what, "reducescatter") == 0)
        check(data[n] == n * (n - 1) / 2, what, "the sum is wrong");
    else
        check(made && made[horovod_output_rows(output) - 1] == n - 1, what, "the output is wrong");
}

/* One call that submits and waits so long: given up before the others come, done with them. */
static void wait_in_one_call(void)
{
    static const char *const kinds[] = {"allreduce", "allgather", "broadcast", "alltoall",
                                        "reducescatter"};
    int64_t data[64] = {0};
    horovod_error_t err = {0};

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const int64_t timeout_ms = horovod_rank() == 0 ? 0 : LONG_MS;
        horovod_output_t *output = NULL;
        horovod_handle_t handle = 12345;
        for (int i = 0; i < 32; i++)
            data[i] = horovod_rank();
        if (horovod_rank() != 0)
            MPI_Barrier(MPI_COMM_WORLD);
        horovod_status_t status = call_for(kinds[k], data, timeout_ms, &handle, &output);
        if (horovod_rank() == 0) {
            check(horovod_size() == 1 || status == HOROVOD_IN_PROGRESS, kinds[k], "ended early");
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (status == HOROVOD_IN_PROGRESS)
            status = horovod_wait_output(handle, &output, &err);
        else
            check(horovod_wait(handle, &err) == HOROVOD_INVALID_ARGUMENT, kinds[k], "not ended");
        check(status == HOROVOD_OK, kinds[k], err.message);
        check_result(kinds[k], data, output);
        if (output)
            horovod_output_release(output);
    }
}

/* What is refused was never submitted; what failed has a handle that has ended. */
static void fail_in_one_call(void)
{
    const int64_t shape[] = {1 + (horovod_rank() == 0)};
    const horovod_tensor_t t = {.size = sizeof(t),
                                .name = "differs",
                                .dtype = HOROVOD_INT64,
                                .ndim = 1,
                                .shape = shape,
                                .op = HOROVOD_SUM};
    int64_t data[2] = {1, 1};
    horovod_handle_t handle = 12345;
    horovod_error_t err = {0};

    check(horovod_allreduce_for(data, data, NULL, 0, &handle, &err) == HOROVOD_INVALID_ARGUMENT &&
              handle == 0,
          "refused", err.message);
    check(horovod_allreduce_for(data, data, &t, 0, NULL, &err) == HOROVOD_INVALID_ARGUMENT,
          "no handle", err.message);
    if (horovod_size() == 1)
        return;
    check(horovod_allreduce_for(data, data, &t, LONG_MS, &handle, &err) ==
              HOROVOD_PRECONDITION_ERROR,
          "differs", err.message);
    check(handle > 0 && horovod_wait(handle, &err) == HOROVOD_INVALID_ARGUMENT, "differs",
          "can be waited for");
}

/* The first rank joins before the others do, which MPI tells them of. */
static void wait_for_a_join(void)
{
    horovod_error_t err = {0};
    horovod_handle_t handle = 0;
    horovod_handle_t second = 0;
    int last = -1;

    if (horovod_rank() != 0)
        MPI_Barrier(MPI_COMM_WORLD);
    check(horovod_join_async(&handle, &err) == HOROVOD_OK, "join", err.message);
    if (horovod_rank() == 0) {
        if (horovod_size() > 1) {
            check(horovod_join_async(&second, &err) == HOROVOD_PRECONDITION_ERROR, "join", "twice");
            check(horovod_wait_join(handle, 0, &last, &err) == HOROVOD_IN_PROGRESS, "join", "done");
            check(horovod_wait_join(handle, 20, &last, &err) == HOROVOD_IN_PROGRESS, "join",
                  "done");
            check(last == -1, "join", "the last rank is known");
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check(horovod_wait_join(handle, LONG_MS, &last, &err) == HOROVOD_OK, "join", err.message);
    check(last >= (horovod_size() > 1) && last < horovod_size(), "join", "who was last is wrong");
    check(horovod_wait_join(handle, 0, &last, &err) == HOROVOD_INVALID_ARGUMENT, "join",
          "ended, and can be waited for");
}

void mode_waits(void)
{
    horovod_error_t err = {0};

    check(horovod_wait_for(1, 0, NULL, &err) == HOROVOD_PRECONDITION_ERROR, "no job", err.message);
    check(horovod_wait_join(1, 0, NULL, &err) == HOROVOD_PRECONDITION_ERROR, "no job", err.message);
    check(horovod_allreduce_for(NULL, NULL, NULL, 0, &(horovod_handle_t){0}, &err) ==
              HOROVOD_PRECONDITION_ERROR,
          "no job", err.message);
    must_init();
    check(horovod_wait_for(12345, 0, NULL, &err) == HOROVOD_INVALID_ARGUMENT, "unknown",
          err.message);
    for (int i = 0; i < 3; i++) { /* asked for by name, then by its bit */
        wait_for_the_others();
        wait_for_outputs();
        wait_for_a_join();
        wait_in_one_call();
        fail_in_one_call();
    }
    check_sum("the job goes on");
    horovod_shutdown();
}

/* The last rank ends the job while the others wait. */
static void leave_early(void)
{
    horovod_error_t err = {0};
    int64_t data = 1;

    if (horovod_rank() == horovod_size() - 1)
        return;
    check(horovod_allreduce(
              &data, &data,
              HOROVOD_TENSOR(.name = "pending", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM),
              &err) == HOROVOD_ABORTED,
          "pending", "did not end");
}

void mode_jobs(void)
{
    int is_finalized = 1;

    for (int i = 0; i < 4; i++) {
        must_init();
        check_sum("of a job");
        if (i % 2)
            leave_early();
        horovod_shutdown_job();
        horovod_shutdown_job(); /* does nothing */
        check(horovod_is_initialized() == 0, "shutdown_job", "is initialised");
        MPI_Finalized(&is_finalized);
        check(!is_finalized, "shutdown_job", "MPI is finalised");
    }
    horovod_shutdown();
    MPI_Finalized(&is_finalized);
    check(is_finalized, "shutdown", "MPI is not finalised");
}
