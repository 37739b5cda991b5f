/*
 * Tensors that nobody waits for: their ends are called, and the program makes their outputs.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define STEPS 20
#define MANY 40
#define ROWS_MAX 64

/* What one tensor's calls have brought. */
struct ending {
    atomic_int n_calls;
    horovod_status_t status;
    char message[256];
    horovod_output_t *output;
    int n_allocations;
    int64_t rows;
    size_t bytes;
    int64_t memory[ROWS_MAX];
};

static void note_end(void *context, horovod_status_t status, const char *message,
                     horovod_output_t *output)
{
    struct ending *end = context;

    end->status = status;
    snprintf(end->message, sizeof(end->message), "%s", message);
    end->output = output;
    atomic_fetch_add(&end->n_calls, 1);
}

static void *give_memory(void *context, int64_t rows, size_t bytes)
{
    struct ending *end = context;

    end->n_allocations++;
    end->rows = rows;
    end->bytes = bytes;
    return bytes <= sizeof(end->memory) ? end->memory : NULL;
}

static void await(struct ending *end, horovod_status_t status, const char *what)
{
    while (atomic_load(&end->n_calls) == 0)
        sched_yield();
    check(end->status == status, what, end->message);
    check((status == HOROVOD_OK) == (end->message[0] == '\0'), what, end->message);
}

/* Many at once, again and again: by name first, cached then, with handles or without. */
static void reduce_many(void)
{
    static int64_t data[MANY];
    static struct ending ends[MANY];
    horovod_error_t err = {0};
    horovod_handle_t handle;
    char name[32];

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < MANY; i++) {
            ends[i] = (struct ending){0};
            data[i] = step + i;
            handle = 17;
            snprintf(name, sizeof(name), "called.%d", i);
            check(horovod_allreduce_async(&data[i], &data[i],
                                          HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_INT64,
                                                         .op = HOROVOD_SUM, .done = note_end,
                                                         .context = &ends[i]),
                                          i % 2 ? &handle : NULL, &err) == HOROVOD_OK,
                  name, err.message);
            check(handle == (i % 2 ? 0 : 17), name, "it has a handle");
        }
        for (int i = 0; i < MANY; i++) {
            await(&ends[i], HOROVOD_OK, "many");
            check(data[i] == (int64_t)(step + i) * horovod_size(), "many", "the sum is wrong");
            check(!ends[i].output, "many", "an allreduce has an output");
        }
    }
    for (int i = 0; i < MANY; i++)
        check(atomic_load(&ends[i].n_calls) == 1, "many", "called twice");
}

/* Allocators of tensors that need none are not called, by name or cached, waited for or not. */
static void reduce_with_an_allocator(void)
{
    horovod_error_t err = {0};
    horovod_handle_t handle = 0;
    struct ending end = {0};
    int64_t data = 0;

    for (int step = 0; step < STEPS; step++) {
        const horovod_tensor_t *tensor =
            HOROVOD_TENSOR(.name = "allocates", .dtype = HOROVOD_INT64, .op = HOROVOD_MAX,
                           .allocate = give_memory, .context = &end);
        data = horovod_rank();
        if (step % 2) {
            check(horovod_allreduce(&data, &data, tensor, &err) == HOROVOD_OK, "allocates",
                  err.message);
        } else {
            check(horovod_allreduce_async(&data, &data, tensor, &handle, &err) == HOROVOD_OK,
                  "allocates", err.message);
            check(handle != 0 && horovod_wait(handle, &err) == HOROVOD_OK, "allocates",
                  err.message);
        }
        check(data == horovod_size() - 1, "allocates", "the maximum is wrong");
    }
    check(end.n_allocations == 0, "allocates", "an allreduce has an output");
}

/* One group: some are called, some are waited for. */
static void reduce_group(void)
{
    int64_t data[4] = {1, 2, 3, 4};
    struct ending ends[4] = {0};
    const void *inputs[4];
    void *outputs[4];
    horovod_tensor_t tensors[4];
    const horovod_tensor_t *pointers[4];
    horovod_handle_t handles[4];
    horovod_error_t err = {0};
    static const char *const names[] = {"mixed.0", "mixed.1", "mixed.2", "mixed.3"};

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 4; i++) {
            ends[i] = (struct ending){0};
            data[i] = i + 1;
            inputs[i] = outputs[i] = &data[i];
            tensors[i] =
                *HOROVOD_TENSOR(.name = names[i], .dtype = HOROVOD_INT64, .op = HOROVOD_SUM,
                                .done = i % 2 ? note_end : NULL, .context = &ends[i]);
            pointers[i] = &tensors[i];
        }
        check(horovod_grouped_allreduce_async(4, inputs, outputs, pointers, handles, &err) ==
                  HOROVOD_OK,
              "group", err.message);
        for (int i = 0; i < 4; i++) {
            check((handles[i] == 0) == (i % 2), "group", "a handle too many, or too few");
            if (i % 2)
                await(&ends[i], HOROVOD_OK, "group");
            else
                check(horovod_wait(handles[i], &err) == HOROVOD_OK, "group", err.message);
            check(data[i] == (int64_t)(i + 1) * horovod_size(), "group", "the sum is wrong");
        }
    }
}

/* Outputs: the library's, released by the program, or in the program's memory. */
static void gather(bool allocates)
{
    const int rank = horovod_rank();
    const int size = horovod_size();
    const int64_t shape[] = {rank % 3};
    const int64_t mine[] = {rank, rank};
    struct ending end = {0};
    horovod_error_t err = {0};
    int64_t total = 0;

    for (int i = 0; i < size; i++)
        total += i % 3;
    check(horovod_allgather_async(mine,
                                  HOROVOD_TENSOR(.name = "gathered", .dtype = HOROVOD_INT64,
                                                 .ndim = 1, .shape = shape, .done = note_end,
                                                 .allocate = allocates ? give_memory : NULL,
                                                 .context = &end),
                                  NULL, &err) == HOROVOD_OK,
          "gather", err.message);
    await(&end, HOROVOD_OK, "gather");
    check(end.output && horovod_output_rows(end.output) == total, "gather", "rows");
    check(end.n_allocations == (allocates ? 1 : 0), "gather", "allocations");
    if (allocates)
        check(end.rows == total && end.bytes == (size_t)total * sizeof(int64_t) &&
                  (total == 0 || horovod_output_data(end.output) == end.memory),
              "gather", "not in the program's memory");
    const int64_t *found = horovod_output_data(end.output);
    for (int i = 0; i < size; i++)
        for (int k = 0; k < i % 3; k++)
            check(*found++ == i, "gather", "a wrong value");
    horovod_output_release(end.output);
}

/* The same of an alltoall that is waited for. */
static void exchange(void)
{
    const int size = horovod_size();
    const int64_t shape[] = {size};
    int64_t mine[ROWS_MAX];
    struct ending end = {0};
    horovod_error_t err = {0};
    horovod_output_t *output = NULL;

    for (int i = 0; i < size; i++)
        mine[i] = horovod_rank() * 100 + i;
    check(horovod_alltoall(mine,
                           HOROVOD_TENSOR(.name = "exchanged", .dtype = HOROVOD_INT64, .ndim = 1,
                                          .shape = shape, .allocate = give_memory, .context = &end),
                           &output, &err) == HOROVOD_OK,
          "exchange", err.message);
    check(end.n_allocations == 1 && horovod_output_data(output) == end.memory, "exchange",
          "not in the program's memory");
    horovod_output_release(output);
    for (int i = 0; i < size; i++)
        check(end.memory[i] == i * 100 + horovod_rank(), "exchange", "a wrong value");
}

/* A chain: the end of a tensor submits the next one, under the same name. */
struct chain {
    atomic_int n_left;
    int64_t data;
};

static void go_on(void *context, horovod_status_t status, const char *message,
                  horovod_output_t *output)
{
    struct chain *chain = context;
    horovod_error_t err = {0};

    (void)output;
    check(status == HOROVOD_OK, "chain", message);
    if (atomic_fetch_sub(&chain->n_left, 1) == 1)
        return;
    check(
        horovod_allreduce_async(&chain->data, &chain->data,
                                HOROVOD_TENSOR(.name = "link", .dtype = HOROVOD_INT64,
                                               .op = HOROVOD_MAX, .done = go_on, .context = chain),
                                NULL, &err) == HOROVOD_OK,
        "chain", err.message);
}

static void follow_a_chain(void)
{
    struct chain chain = {.n_left = 100, .data = horovod_rank()};
    horovod_error_t err = {0};

    atomic_fetch_add(&chain.n_left, 1);
    go_on(&chain, HOROVOD_OK, "", NULL);
    check(horovod_barrier(&err) == HOROVOD_OK, "chain", err.message); /* which calls back, too */
    while (atomic_load(&chain.n_left) > 0)
        sched_yield();
    check(chain.data == horovod_size() - 1, "chain", "the maximum is wrong");
}

/* Failures: of one tensor, of a call that waits, and of the job. */
static void fail(void)
{
    horovod_handle_t handle = 17;
    const int64_t shape[] = {horovod_rank() + 1};
    int64_t data[ROWS_MAX] = {0};
    struct ending end = {0};
    horovod_error_t err = {0};

    check(horovod_allreduce_async(data, data,
                                  HOROVOD_TENSOR(.name = "differs", .dtype = HOROVOD_INT64,
                                                 .ndim = 1, .shape = shape, .op = HOROVOD_SUM,
                                                 .done = note_end, .context = &end),
                                  NULL, &err) == HOROVOD_OK,
          "mismatch", err.message);
    await(&end, horovod_size() > 1 ? HOROVOD_PRECONDITION_ERROR : HOROVOD_OK, "mismatch");
    check(horovod_size() == 1 || strstr(end.message, "differs"), "mismatch", end.message);
    check(horovod_allreduce(data, data,
                            HOROVOD_TENSOR(.name = "waits", .dtype = HOROVOD_INT64,
                                           .op = HOROVOD_SUM, .done = note_end),
                            &err) == HOROVOD_INVALID_ARGUMENT &&
              strstr(err.message, "done is for calls that do not wait"),
          "waits", err.message);
    check(horovod_allreduce_for(data, data,
                                HOROVOD_TENSOR(.name = "waits", .dtype = HOROVOD_INT64,
                                               .op = HOROVOD_SUM, .done = note_end),
                                10, &handle, &err) == HOROVOD_INVALID_ARGUMENT &&
              handle == 0,
          "waits", "refused, and it has a handle");
    check_sum("after failures");
}

void mode_callbacks(void)
{
    static struct ending pending;
    int64_t data = 0;
    horovod_error_t err = {0};

    must_init();
    reduce_many();
    reduce_with_an_allocator();
    reduce_group();
    gather(false);
    gather(true);
    exchange();
    follow_a_chain();
    fail();
    if (horovod_rank() == 0) /* nobody else comes to it: it ends with the job */
        check(horovod_allreduce_async(&data, &data,
                                      HOROVOD_TENSOR(.name = "lonely", .dtype = HOROVOD_INT64,
                                                     .op = HOROVOD_SUM, .done = note_end,
                                                     .context = &pending),
                                      NULL, &err) == HOROVOD_OK,
              "lonely", err.message);
    check(horovod_barrier(&err) == HOROVOD_OK, "barrier", err.message); /* it is submitted */
    horovod_shutdown();
    if (horovod_rank() == 0 || atomic_load(&pending.n_calls) > 0)
        check(atomic_load(&pending.n_calls) == 1, "lonely", "its end is not called once");
}
