/*
 * Process sets through the public API: those given to horovod_init, those made and removed later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

/* A sum over the members of a set: each brings its rank of the job, plus 1. */
static void sum_in(int set, const char *name, int64_t want)
{
    horovod_error_t err = {0};
    int64_t value = horovod_rank() + 1;
    const horovod_status_t st = horovod_allreduce(
        &value, &value,
        HOROVOD_TENSOR(.name = name, .dtype = HOROVOD_INT64, .op = HOROVOD_SUM, .process_set = set),
        &err);

    check(st == HOROVOD_OK, name, err.message);
    check(value == want, name, "the sum is wrong");
}

/* The members alone take part; the others do not even know. */
static void use_evens_and_odds(int evens, int odds)
{
    const int size = horovod_size();
    const bool is_even = horovod_rank() % 2 == 0;
    int64_t wants[2] = {0, 0};
    horovod_error_t err = {0};

    for (int rank = 0; rank < size; rank++)
        wants[rank % 2] += rank + 1;
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < (is_even ? 3 : 1); k++) /* sets do not wait for each other */
            sum_in(is_even ? evens : odds, "own", wants[!is_even]);
        check_sum("all");
    }
    check(horovod_process_set_included(evens) == is_even, "included", "wrong");
    check(horovod_process_set_rank(is_even ? evens : odds) == horovod_rank() / 2, "rank", "wrong");
    check(horovod_process_set_rank(is_even ? odds : evens) == HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET,
          "rank", "in a foreign set");
    check(horovod_process_set_size(is_even ? odds : evens) == (size + !is_even) / 2, "size",
          "of a foreign set");
    check(horovod_process_set_barrier(is_even ? evens : odds, &err) == HOROVOD_OK, "barrier",
          err.message);
    check(horovod_process_set_barrier(is_even ? odds : evens, &err) == HOROVOD_INVALID_ARGUMENT &&
              strstr(err.message, "BARRIER: Rank ") != NULL,
          "barrier", "in a foreign set");
}

static void cast_in(int set)
{
    const int root = 1; /* of the job */
    int32_t value = horovod_rank() == root ? 77 : 0;
    horovod_error_t err = {0};

    if (horovod_process_set_included(set) != 1)
        return;
    check(horovod_broadcast(&value, &value,
                            HOROVOD_TENSOR(.name = "cast", .dtype = HOROVOD_INT32,
                                           .root_rank = root, .process_set = set),
                            &err) == HOROVOD_OK,
          "cast", err.message);
    check(value == 77, "cast", "a value is wrong");
}

/* Rank 0 of the job is not in the set: no rank waits for it, and the set goes on. */
static void cast_from_outside(int odds)
{
    const int roots[] = {0, horovod_size(), -1};
    horovod_error_t err = {0};
    int32_t value = 1;

    if (horovod_process_set_included(odds) != 1)
        return;
    for (int i = 0; i < 3; i++) {
        const horovod_status_t st =
            horovod_broadcast(&value, &value,
                              HOROVOD_TENSOR(.name = "outside", .dtype = HOROVOD_INT32,
                                             .root_rank = roots[i], .process_set = odds),
                              &err);
        check(st == HOROVOD_INVALID_ARGUMENT, "outside", horovod_status_name(st));
        check(strstr(err.message, "invalid root rank") && strstr(err.message, "its ranks are 1"),
              "outside", err.message);
    }
    cast_in(odds);
}

static void refuse(int foreign, int removed)
{
    horovod_error_t err = {0};
    int64_t value = 0;
    horovod_tensor_t tensor = {
        .size = sizeof(tensor), .name = "t", .dtype = HOROVOD_INT64, .op = HOROVOD_SUM};

    tensor.process_set = foreign;
    check(horovod_allreduce(&value, &value, &tensor, &err) == HOROVOD_INVALID_ARGUMENT &&
              strstr(err.message, "is not a member of the provided process set."),
          "foreign", err.message);
    tensor.process_set = removed;
    check(horovod_allreduce(&value, &value, &tensor, &err) == HOROVOD_INVALID_ARGUMENT &&
              strstr(err.message, "Process set provided does not exist"),
          "removed", err.message);
}

/* Groups get made up names: those of a set do not count for those of all. */
static void reduce_unnamed_groups(int evens)
{
    const int sets[] = {evens, 0};
    horovod_error_t err = {0};

    for (int i = 0; i < 2; i++) {
        const horovod_tensor_t *t =
            HOROVOD_TENSOR(.dtype = HOROVOD_INT64, .op = HOROVOD_SUM, .process_set = sets[i]);
        const horovod_tensor_t *tensors[] = {t, t};
        horovod_handle_t handles[2];
        int64_t values[] = {1, 2};
        void *const data[] = {&values[0], &values[1]};
        const int n = sets[i] == 0 ? horovod_size() : (horovod_size() + 1) / 2;
        if (sets[i] == evens && horovod_rank() % 2 != 0)
            continue;
        check(horovod_grouped_allreduce_async(2, (const void *const *)data, data, tensors, handles,
                                              &err) == HOROVOD_OK,
              "unnamed group", err.message);
        for (int j = 0; j < 2; j++)
            check(horovod_wait(handles[j], &err) == HOROVOD_OK, "unnamed group", err.message);
        check(values[0] == n && values[1] == 2 * n, "unnamed group", "a sum is wrong");
    }
}

void mode_fixed_sets(void)
{
    const int ranks[] = {0, 1, 2, 1, 0, 1, 0};
    const int sizes[] = {3, 2, 2}; /* the job, a set, and the same set */
    horovod_error_t err = {0};

    for (int i = 0; i < 2; i++)
        check(!horovod_init(NULL, 0, (const int[]){99}, (const int[]){1}, 1), "init",
              "a set of a rank that does not exist");
    if (!horovod_init(NULL, 0, ranks, sizes, 3)) {
        horovod_init_error(&err);
        check(false, "init", err.message);
        return;
    }
    check(horovod_number_of_process_sets() == 2, "number", "wrong");
    check(horovod_add_process_set(ranks, 1) == HOROVOD_PROCESS_SET_ERROR_DYNAMIC, "add", "allowed");
    check(horovod_remove_process_set(1) == HOROVOD_PROCESS_SET_ERROR_DYNAMIC, "remove", "allowed");
    check_sum("the job goes on");
    horovod_shutdown();
}

void mode_sets(void)
{
    int ranks[64];
    int sizes[2] = {0, 0};
    int n = 0;
    horovod_error_t err = {0};
    const char *told = getenv("OMPI_COMM_WORLD_SIZE");
    const int size = told ? atoi(told) : 1;

    for (int parity = 0; parity < 2; parity++)
        for (int rank = parity; rank < size; rank += 2, sizes[parity]++)
            ranks[n++] = rank;
    setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1", 1);
    if (!horovod_init(NULL, 0, ranks, sizes, 2)) {
        horovod_init_error(&err);
        check(false, "init", err.message);
        return;
    }
    use_evens_and_odds(1, 2);
    reduce_unnamed_groups(1);
    cast_from_outside(2);
    const int backwards[] = {1, 0};
    const int again = horovod_add_process_set(backwards, 2);
    check(again == (size == 2 ? HOROVOD_PROCESS_SET_ERROR_EXISTING_SET : 3), "add", "wrong number");
    if (again > 0) {
        cast_in(again);
        int two[2] = {-1, -1};
        check(horovod_process_set_ranks(again, two) == 0 && two[0] == 0 && two[1] == 1, "ranks",
              "wrong");
    }
    check(horovod_number_of_process_sets() == (again > 0 ? 4 : 3), "number", "wrong");
    check(horovod_remove_process_set(1) == 1, "remove", "failed");
    check(horovod_remove_process_set(1) == HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET, "remove",
          "twice");
    check(horovod_remove_process_set(0) == HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET, "remove",
          "the whole job");
    int ids[8];
    horovod_process_set_ids(ids);
    check(ids[0] == 0 && ids[1] == 2, "ids", "wrong");
    if (horovod_rank() % 2 == 0)
        refuse(2, 1);
    check_sum("in the end");
    horovod_shutdown();
    check(horovod_add_process_set(backwards, 2) == HOROVOD_PROCESS_SET_ERROR_INIT, "add",
          "after the end");
}
