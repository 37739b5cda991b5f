/*
 * What goes wrong, and what the program is told then.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/mpi/mpi_runtime.h"

static bool is_last(void)
{
    return horovod_rank() == horovod_size() - 1;
}

static void expect_failure(horovod_status_t st, horovod_status_t want, const horovod_error_t *err,
                           const char *words)
{
    check(st == want, words, horovod_status_name(st));
    check(err->status == want && strstr(err->message, words) != NULL, words, err->message);
}

/* The last rank differs in one respect; every rank must hear of it. */
static void differ(int n, horovod_tensor_t tensor, const char *words)
{
    const int64_t other_shape[] = {3, 2};
    int64_t data[6] = {0};
    horovod_error_t err = {0};

    if (is_last() && n == 0)
        tensor.dtype = HOROVOD_FLOAT32;
    if (is_last() && n == 2)
        tensor.shape = other_shape;
    if (is_last() && n == 3)
        tensor.op = HOROVOD_MAX;
    if (is_last() && n == 4)
        tensor.root_rank = 1;
    if (is_last() && n == 5)
        tensor.ndim = 1;
    horovod_status_t st;
    if (n == 4)
        st = horovod_broadcast(data, data, &tensor, &err);
    else if (n >= 5 || (n == 1 && is_last()))
        st = horovod_allgather(data, &tensor, NULL, &err);
    else
        st = horovod_allreduce(data, data, &tensor, &err);
    expect_failure(st, HOROVOD_PRECONDITION_ERROR, &err, words);
    check_sum("after a mismatch");
}

void mode_mismatch(void)
{
    static const char *const words[] = {
        "Mismatched data types: One rank had type ",
        "Mismatched operations: One rank did an ",
        "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape ",
        "Mismatched reduction operation: One rank sent reduction op ",
        "Mismatched BROADCAST root ranks: One rank specified root rank ",
        "Mismatched ALLGATHER tensor shapes: One rank sent a tensor of rank ",
        "Mismatched ALLGATHER tensor shapes: One rank sent a tensor with dimension 1 equal to ",
    };
    const int64_t shape[] = {2, 3};
    const int64_t wide[] = {2, 2};
    horovod_tensor_t tensor = {.size = sizeof(tensor),
                               .name = "differs",
                               .dtype = HOROVOD_INT64,
                               .op = HOROVOD_SUM,
                               .ndim = 2,
                               .shape = shape};

    must_init();
    for (int n = 0; n < 7; n++) {
        if (n == 6 && is_last())
            tensor.shape = wide;
        differ(n, tensor, words[n]);
    }
    horovod_shutdown();
}

/* A tensor with one thing wrong, on every rank. */
static void refuse(horovod_tensor_t tensor, const char *words)
{
    float data[8] = {0};
    horovod_error_t err = {0};

    expect_failure(horovod_allreduce(data, data, &tensor, &err), HOROVOD_INVALID_ARGUMENT, &err,
                   words);
}

static void refuse_tensors(void)
{
    const int64_t shape[] = {4};
    const int64_t negative[] = {-4};
    const int64_t huge[] = {INT64_MAX};
    char long_name[1100];
    const horovod_tensor_t good = {
        .size = sizeof(good), .name = "good", .dtype = HOROVOD_FLOAT32, .ndim = 1, .shape = shape};
    horovod_tensor_t bad[10];

    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    for (int i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].size = 8;
    refuse(bad[0], "size is 8");
    bad[1].reserved = 1;
    refuse(bad[1], "reserved is not 0");
    bad[2].name = long_name;
    refuse(bad[2], "1 to 1023");
    bad[3].dtype = (horovod_dtype_t)13;
    refuse(bad[3], "data type 13 does not exist");
    bad[4].op = (horovod_reduce_op_t)6;
    refuse(bad[4], "reduction 6 does not exist");
    bad[5].shape = negative;
    refuse(bad[5], "dimension 0 has the size -4");
    bad[6].shape = huge;
    refuse(bad[6], "more elements than memory can");
    bad[7].shape = NULL;
    refuse(bad[7], "shape is NULL");
    bad[8].ndim = 17;
    refuse(bad[8], "17 dimensions");
    bad[9].process_set = 7;
    refuse(bad[9], "ALLREDUCE: Process set provided does not exist, or has not been registered.");
}

/* A program that was compiled for fewer fields: a description of each size, at the end of memory.
 */
static void take_descriptions_of_every_size(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    check(room != MAP_FAILED && mprotect(room + page, page, PROT_NONE) == 0, "sizes", "no memory");
    for (size_t size = offsetof(horovod_tensor_t, prescale_factor);
         size <= sizeof(horovod_tensor_t); size += sizeof(int64_t)) {
        horovod_tensor_t t = {
            .size = size, .name = "sizes", .dtype = HOROVOD_FLOAT32, .op = HOROVOD_SUM};
        horovod_error_t err = {0};
        float data = 1;
        memcpy(room + page - size, &t, size);
        check(horovod_allreduce(&data, &data, (const horovod_tensor_t *)(room + page - size),
                                &err) == HOROVOD_OK,
              "sizes", err.message);
        check(data == (float)horovod_size(), "sizes", "a wrong sum");
    }
    (void)munmap(room, 2 * page);
}

static void refuse_calls(void)
{
    float data[8] = {0};
    horovod_error_t err = {0};
    horovod_handle_t handle = 0;
    horovod_handle_t other = 0;
    const horovod_tensor_t *t = HOROVOD_TENSOR(.name = "calls", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                               .shape = (const int64_t[]){4});
    const horovod_tensor_t *cast =
        HOROVOD_TENSOR(.name = "cast", .dtype = HOROVOD_FLOAT32, .root_rank = horovod_size());

    expect_failure(horovod_allreduce(data, data + 2, t, &err), HOROVOD_INVALID_ARGUMENT, &err,
                   "overlap");
    expect_failure(horovod_allreduce(NULL, data, t, &err), HOROVOD_INVALID_ARGUMENT, &err,
                   "input is NULL");
    expect_failure(horovod_allreduce(data, NULL, t, &err), HOROVOD_INVALID_ARGUMENT, &err,
                   "output is NULL");
    expect_failure(horovod_allreduce(data, data, NULL, &err), HOROVOD_INVALID_ARGUMENT, &err,
                   "tensor is NULL");
    expect_failure(horovod_allreduce_async(data, data, t, NULL, &err), HOROVOD_INVALID_ARGUMENT,
                   &err, "handle is NULL");
    expect_failure(horovod_broadcast(data, data, cast, &err), HOROVOD_INVALID_ARGUMENT, &err,
                   "invalid root rank");
    expect_failure(horovod_wait(12345, &err), HOROVOD_INVALID_ARGUMENT, &err, "no such handle");
    check(horovod_poll(0) == -1, "poll", "knows a handle that was never given");

    /* The last rank holds the tensor back, so that the first submission is pending for sure. */
    if (!is_last() || horovod_size() == 1) {
        check(horovod_allreduce_async(data, data, t, &handle, &err) == HOROVOD_OK, "async",
              err.message);
        if (horovod_size() > 1)
            expect_failure(horovod_allreduce_async(data, data, t, &other, &err),
                           HOROVOD_INVALID_ARGUMENT, &err, "same name as another tensor");
    }
    check_sum("now the last rank follows");
    if (handle == 0)
        check(horovod_allreduce_async(data, data, t, &handle, &err) == HOROVOD_OK, "async",
              err.message);
    check(horovod_wait(handle, &err) == HOROVOD_OK, "wait", err.message);
    expect_failure(horovod_wait(handle, &err), HOROVOD_INVALID_ARGUMENT, &err, "no such handle");
}

void mode_arguments(void)
{
    horovod_error_t err = {0};

    expect_failure(horovod_barrier(&err), HOROVOD_PRECONDITION_ERROR, &err,
                   "Horovod has not been initialized");
    expect_failure(horovod_refuse("allreduce", 0,
                                  (const horovod_tensor_t *const[]){HOROVOD_TENSOR(.name = "t")},
                                  "why", &err),
                   HOROVOD_PRECONDITION_ERROR, &err, "Horovod has not been initialized");
    check(horovod_rank() == -1 && horovod_size() == -1, "rank", "known before init");
    horovod_shutdown(); /* does nothing */
    must_init();
    check(horovod_init(NULL, 0, NULL, NULL, 0), "init", "not idempotent");
    refuse_tensors();
    take_descriptions_of_every_size();
    refuse_calls();
    check_sum("the job goes on");
    horovod_shutdown();
    horovod_shutdown();
    expect_failure(horovod_barrier(&err), HOROVOD_PRECONDITION_ERROR, &err,
                   "Horovod has not been initialized");
}

void mode_leave(void)
{
    float data[4] = {0};
    horovod_error_t err = {0};
    horovod_handle_t handle = 0;
    char words[64];

    must_init();
    check_sum("before");
    if (is_last()) {
        horovod_shutdown();
        return;
    }
    snprintf(words, sizeof(words), "Horovod has been shut down. Rank %d on host ",
             horovod_size() - 1);
    const horovod_tensor_t *t = HOROVOD_TENSOR(.name = "never", .dtype = HOROVOD_FLOAT32, .ndim = 1,
                                               .shape = (const int64_t[]){4});
    check(horovod_allreduce_async(data, data, t, &handle, &err) == HOROVOD_OK || err.message[0],
          "async", "failed without a reason");
    if (handle)
        expect_failure(horovod_wait(handle, &err), HOROVOD_ABORTED, &err, words);
    expect_failure(horovod_allreduce(data, data, t, &err), HOROVOD_ABORTED, &err, words);
    horovod_shutdown();
}

void mode_exit(void)
{
    must_init();
    check_sum("before");
    if (is_last())
        _exit(3);
    check_sum("never");
    horovod_shutdown();
}

void mode_reuse(void)
{
    int level = 0;
    int sum = 0;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    for (int i = 0; i < 3; i++) {
        const int one = 1;
        must_init();
        check_sum("reused MPI");
        horovod_shutdown();
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        check(sum > 0, "MPI", "does not work after horovod_shutdown");
    }
    MPI_Finalize();
}

/* horovod_init must fail and say so. */
static void expect_refused(const char *words)
{
    horovod_error_t err = {0};

    check(!horovod_init(NULL, 0, NULL, NULL, 0), "init", "succeeded");
    horovod_init_error(&err);
    check(strstr(err.message, words) != NULL, words, err.message);
    check(horovod_is_initialized() == 0, "init", "failed and is initialised");
}

void mode_single(void)
{
    int level = 0;

    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    expect_refused("MPI was initialised at MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE is needed");
    MPI_Finalize();
}

void mode_again(void)
{
    must_init();
    check_sum("once");
    horovod_shutdown();
    expect_refused("MPI was finalised in this process and cannot be initialised again");
}

void mode_after_abort(void)
{
    float data = 1;
    horovod_error_t err = {0};

    must_init();
    check_sum("once");
    if (is_last())
        _exit(0);
    check(horovod_allreduce(&data, &data, HOROVOD_TENSOR(.name = "never", .dtype = HOROVOD_FLOAT32),
                            &err) == HOROVOD_ABORTED,
          "never", err.message);
    horovod_shutdown();
    expect_refused("The last job of this process was aborted");
    horovod_shutdown();
    if (checks_failed() == 0)
        printf("after an abort: as it should be\n");
    fflush(stdout);
}

static void *wait_elsewhere(void *arg)
{
    horovod_error_t err = {0};
    horovod_handle_t *handle = arg;

    expect_failure(horovod_wait(*handle, &err), HOROVOD_PRECONDITION_ERROR, &err,
                   "HOROVOD_MPI_THREADS_DISABLE is set");
    return NULL;
}

/* What this thread could not wait for is not submitted: nobody would know when its memory is
 * free. The first time by its name, later as the tensor that is expected. */
static void *reduce_elsewhere(void *arg)
{
    horovod_error_t err = {0};
    int64_t value = 1;

    (void)arg;
    expect_failure(horovod_allreduce(&value, &value,
                                     HOROVOD_TENSOR(.name = "elsewhere", .dtype = HOROVOD_INT64,
                                                    .op = HOROVOD_SUM),
                                     &err),
                   HOROVOD_PRECONDITION_ERROR, &err, "HOROVOD_MPI_THREADS_DISABLE is set");
    return NULL;
}

static void *join_elsewhere(void *arg)
{
    horovod_error_t err = {0};

    (void)arg;
    expect_failure(horovod_join(NULL, &err), HOROVOD_PRECONDITION_ERROR, &err,
                   "HOROVOD_MPI_THREADS_DISABLE is set");
    return NULL;
}

void mode_funneled(void)
{
    float data = 1;
    pthread_t thread;
    horovod_handle_t handle = 0;
    horovod_error_t err = {0};

    must_init();
    check_sum("by the main thread");
    const horovod_tensor_t *t = HOROVOD_TENSOR(.name = "t", .dtype = HOROVOD_FLOAT32);
    check(horovod_allreduce_async(&data, &data, t, &handle, &err) == HOROVOD_OK, "async",
          err.message);
    check(pthread_create(&thread, NULL, wait_elsewhere, &handle) == 0, "thread", "not created");
    pthread_join(thread, NULL);
    check(horovod_wait(handle, &err) == HOROVOD_OK, "wait", err.message);
    for (int i = 0; i < 3; i++) {
        check(pthread_create(&thread, NULL, reduce_elsewhere, NULL) == 0, "thread", "not created");
        pthread_join(thread, NULL);
        check_sum("elsewhere");
    }
    check(pthread_create(&thread, NULL, join_elsewhere, NULL) == 0, "thread", "not created");
    pthread_join(thread, NULL);
    check_sum("behind a join that was refused");
    check(horovod_join(NULL, &err) == HOROVOD_OK, "join", err.message);
    horovod_shutdown();
}

void mode_refused(void)
{
    horovod_error_t err = {0};

    check(!horovod_init(NULL, 0, NULL, NULL, 0), "init", "succeeded");
    horovod_init_error(&err);
    printf("%s\n", err.message);
    horovod_shutdown();
}
