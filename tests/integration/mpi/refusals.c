/*
 * What one rank refuses while the others submit it: they hear who refused what, and why.
 */
#include <stdio.h>
#include <string.h>

#include "tests/integration/mpi/mpi_runtime.h"

#define N_BAD 18

static bool is_last(void)
{
    return horovod_rank() == horovod_size() - 1;
}

/* The others' end of a call that the last rank refused for that reason. */
static void expect_refused(horovod_status_t st, const horovod_error_t *err, const char *name,
                           const char *reason)
{
    char words[200];

    check(st == HOROVOD_PRECONDITION_ERROR, name, horovod_status_name(st));
    snprintf(words, sizeof(words), "Rank %d", horovod_size() - 1);
    check(strstr(err->message, words) != NULL, words, err->message);
    snprintf(words, sizeof(words), "refused tensor %s: ", name);
    check(strstr(err->message, words) != NULL, words, err->message);
    check(strstr(err->message, reason) != NULL, reason, err->message);
}

/* How the end differs between the rank that refused and the others. */
static void expect(horovod_status_t st, const horovod_error_t *err, const char *name,
                   const char *reason)
{
    if (!is_last()) {
        expect_refused(st, err, name, reason);
        return;
    }
    check(st == HOROVOD_INVALID_ARGUMENT, name, horovod_status_name(st));
    check(strstr(err->message, reason) != NULL, reason, err->message);
}

/* One thing is wrong with what the last rank describes. */
static const char *spoil(int n, horovod_tensor_t *t)
{
    static const int64_t negative[] = {-4};
    static const int64_t huge[] = {INT64_MAX};

    switch (n) {
    case 0:
        t->reserved = 1;
        return "reserved is not 0";
    case 1:
        t->dtype = (horovod_dtype_t)13;
        return "data type 13 does not exist";
    case 2:
        t->op = (horovod_reduce_op_t)6;
        return "reduction 6 does not exist";
    case 3:
        t->shape = negative;
        return "dimension 0 has the size -4";
    case 4:
        t->shape = huge;
        return "more elements than memory can";
    case 5:
        t->shape = NULL;
        return "shape is NULL";
    case 6:
        t->ndim = 17;
        return "17 dimensions";
    default:
        return NULL;
    }
}

/* A call whose arguments are wrong on the last rank. */
static horovod_status_t call_badly(int n, const horovod_tensor_t *t, horovod_error_t *err,
                                   const char **reason)
{
    static double data[32];
    const int64_t splits[16] = {100};
    horovod_handle_t handle = 0;
    const bool bad = is_last();
    horovod_tensor_t with_splits = *t;

    with_splits.splits = bad ? splits : NULL;
    with_splits.n_splits = bad ? horovod_process_set_size(t->process_set) : 0;
    switch (n) {
    case 7:
        *reason = "input is NULL";
        return horovod_allreduce(bad ? NULL : data, data, t, err);
    case 8:
        *reason = "output is NULL";
        return horovod_allreduce(data, bad ? NULL : data, t, err);
    case 9:
        *reason = "input and output overlap in part";
        return horovod_allreduce(data, bad ? data + 1 : data, t, err);
    case 10:
        *reason = "input and output overlap in part";
        return horovod_reducescatter(data, bad ? data + 1 : data, t, err);
    case 11:
        *reason = "handle is NULL";
        if (bad)
            return horovod_allreduce_async(data, data, t, NULL, err);
        return horovod_allreduce_for(data, data, t, 1 << 30, &handle, err);
    case 12:
        *reason = "handle is NULL";
        if (bad)
            return horovod_allreduce_for(data, data, t, 0, NULL, err);
        return horovod_allreduce(data, data, t, err);
    case 13:
        *reason = "Sum of splits entries is greater";
        return horovod_alltoall(data, &with_splits, NULL, err);
    case 14:
        with_splits.root_rank = bad ? horovod_size() : 0;
        *reason = "invalid root rank";
        return horovod_broadcast(data, data, &with_splits, err);
    case 15:
        *reason = "input is NULL";
        return horovod_allgather(bad ? NULL : data, t, NULL, err);
    case 16:
        *reason = "input is NULL";
        return horovod_alltoall(bad ? NULL : data, t, NULL, err);
    default:
        *reason = "output is NULL";
        return horovod_broadcast(data, bad ? NULL : data, t, err);
    }
}

static void one_call(int n, const char *name, const char *full_name, int set)
{
    static double data[32];
    horovod_tensor_t t = {.size = sizeof(t),
                          .name = name,
                          .dtype = HOROVOD_FLOAT64,
                          .op = HOROVOD_SUM,
                          .ndim = 1,
                          .shape = (const int64_t[]){12},
                          .process_set = set};
    horovod_error_t err = {0};
    horovod_tensor_t spoilt = t;
    const char *reason = spoil(n, &spoilt);
    horovod_status_t st;

    if (reason)
        st = horovod_allreduce(data, data, is_last() ? &spoilt : &t, &err);
    else
        st = call_badly(n, &t, &err, &reason);
    expect(st, &err, full_name, reason);
}

/* The last tensor of a group is wrong on the last rank, or there is nowhere to put the handles. */
static void one_group(const char *const names[2], const char *const full_names[2], bool no_handles)
{
    double data[2][4] = {{0}};
    const void *const inputs[] = {data[0], data[1]};
    void *const outputs[] = {data[0], data[1]};
    void *const bad_outputs[] = {data[0], NULL};
    horovod_handle_t handles[2] = {0};
    horovod_error_t err = {0};
    const horovod_tensor_t *const tensors[] = {
        HOROVOD_TENSOR(.name = names[0], .dtype = HOROVOD_FLOAT64, .op = HOROVOD_SUM, .ndim = 1,
                       .shape = (const int64_t[]){4}),
        HOROVOD_TENSOR(.name = names[1], .dtype = HOROVOD_FLOAT64, .op = HOROVOD_SUM, .ndim = 1,
                       .shape = (const int64_t[]){4})};
    const char *member = names[1] ? "tensor two: output is NULL" : "tensor 2 of 2: output is NULL";
    const bool bad = is_last();
    horovod_status_t st =
        horovod_grouped_allreduce_async(2, inputs, bad && !no_handles ? bad_outputs : outputs,
                                        tensors, bad && no_handles ? NULL : handles, &err);

    if (bad) {
        check(st == HOROVOD_INVALID_ARGUMENT, "group", horovod_status_name(st));
        return;
    }
    check(st == HOROVOD_OK, "group", err.message);
    for (int i = 0; i < 2; i++)
        expect_refused(horovod_wait(handles[i], &err), &err, full_names[i],
                       no_handles ? "a group of 2 tensors" : member);
}

/* Tensors that the library names; the next one that is good meets its own kind. */
static void without_names(int round)
{
    static const char *const none[2] = {NULL, NULL};
    char names[2][64];
    const char *const full_names[2] = {names[1], names[1]}; /* of a group the head is refused */

    snprintf(names[0], sizeof(names[0]), "allreduce.noname.%d", 3 * round + 2);
    one_call(9, NULL, names[0], 0);
    snprintf(names[1], sizeof(names[1]), "grouped_allreduce.noname.%d_1of2", 3 * round + 3);
    one_group(none, full_names, false);
    check_sum(NULL);
}

/* The last rank refuses by itself what the others submit, as a binding does. */
static void by_itself(const char *name, const char *full_name)
{
    const horovod_tensor_t t = {.size = sizeof(t), .name = name, .dtype = HOROVOD_INT64};
    const horovod_tensor_t *const tensors[] = {&t};
    int64_t data = 1;
    horovod_error_t err = {0};

    if (is_last())
        check(horovod_refuse("broadcast", 0, tensors, "no such\nthing", &err) == HOROVOD_OK,
              "horovod_refuse", err.message);
    else
        expect_refused(horovod_broadcast(&data, &data, &t, &err), &err, full_name, "no such thing");
}

static void group_by_itself(const char *const names[2], const char *const full_names[2])
{
    const horovod_tensor_t first = {
        .size = sizeof(first), .name = names[0], .dtype = HOROVOD_INT64, .op = HOROVOD_SUM};
    horovod_tensor_t second = first;
    const horovod_tensor_t *const tensors[] = {&first, &second};
    int64_t data[2] = {0};
    const void *const inputs[] = {&data[0], &data[1]};
    void *const outputs[] = {&data[0], &data[1]};
    horovod_handle_t handles[2] = {0};
    horovod_error_t err = {0};

    second.name = names[1];
    if (is_last()) {
        check(horovod_refuse("allreduce", 2, tensors, "the second is none", &err) == HOROVOD_OK,
              "horovod_refuse", err.message);
        return;
    }
    check(horovod_grouped_allreduce_async(2, inputs, outputs, tensors, handles, &err) == HOROVOD_OK,
          "group", err.message);
    for (int i = 0; i < 2; i++)
        expect_refused(horovod_wait(handles[i], &err), &err, full_names[i], "the second is none");
}

/* The last rank has a group without tensors, as a binding announces it. */
static void empty_group(void)
{
    const horovod_tensor_t first = {
        .size = sizeof(first), .name = "grouped_c_1of2", .dtype = HOROVOD_INT64};
    horovod_tensor_t other = first;
    const horovod_tensor_t *const tensors[] = {&first, &other};
    int64_t data[2] = {0};
    const void *const inputs[] = {&data[0], &data[1]};
    horovod_handle_t handles[2] = {0};
    horovod_error_t err = {0};

    if (is_last()) {
        other.name = "grouped_c_1of0";
        check(horovod_refuse("allreduce", HOROVOD_EMPTY_GROUP, &tensors[1], "there is none",
                             &err) == HOROVOD_OK,
              "horovod_refuse", err.message);
        return;
    }
    other.name = "grouped_c_2of2";
    void *const outputs[] = {&data[0], &data[1]};
    check(horovod_grouped_allreduce_async(2, inputs, outputs, tensors, handles, &err) == HOROVOD_OK,
          "group", err.message);
    for (int i = 0; i < 2; i++) {
        expect_refused(horovod_wait(handles[i], &err), &err, "grouped_c_1of0", "there is none");
        check(strstr(err.message, "Mismatched number of tensors in group grouped_c: 2 on rank"),
              "the numbers", err.message);
    }
}

static void wrong_refusals(void)
{
    const horovod_tensor_t t = {.size = sizeof(t), .name = "never"};
    const horovod_tensor_t *const tensors[] = {&t};
    const horovod_status_t bad = HOROVOD_INVALID_ARGUMENT;

    check(horovod_refuse("barrier", 0, tensors, "why", NULL) == bad, "a barrier", "is refused");
    check(horovod_refuse(NULL, 0, tensors, "why", NULL) == bad, "no collective", "is refused");
    check(horovod_refuse("allreduce", 0, NULL, "why", NULL) == bad, "nothing", "is refused");
    check(horovod_refuse("allreduce", -2, tensors, "why", NULL) == bad, "-2", "is refused");
    check(horovod_refuse("allreduce", 0, tensors, NULL, NULL) == bad, "no reason", "is given");
}

/* What the last rank refuses by itself, with names and without. */
static void all_by_itself(void)
{
    static const char *const none[2] = {NULL, NULL};
    static const char *const names[2] = {"group.a", "group.b"};
    static const char *const unnamed[2] = {"grouped_allreduce.noname.1_1of2",
                                           "grouped_allreduce.noname.1_1of2"};

    wrong_refusals();
    by_itself("mine", "mine");
    by_itself(NULL, "broadcast.noname.1");
    by_itself("mine", "mine");
    by_itself(NULL, "broadcast.noname.2");
    group_by_itself(names, names);
    group_by_itself(none, unnamed);
    empty_group();
    check_sum("after refusals of its own");
}

/* A join that the last rank refuses is none: the others, who have joined, wait for the next one,
 * and bring zeros until then. */
static void about_joins(void)
{
    double data[2] = {1, 2};
    int last = -1;
    horovod_error_t err = {0};
    const horovod_tensor_t *t =
        HOROVOD_TENSOR(.name = "joined", .dtype = HOROVOD_FLOAT64, .op = HOROVOD_SUM, .ndim = 1,
                       .shape = (const int64_t[]){2});

    if (is_last()) {
        for (int i = 0; i < 2; i++)
            check(horovod_join_async(NULL, &err) == HOROVOD_INVALID_ARGUMENT &&
                      strstr(err.message, "handle is NULL"),
                  "join", err.message);
        check(horovod_allreduce(data, data, t, &err) == HOROVOD_OK, "joined", err.message);
        check(data[1] >= 2 && data[1] <= 2, "joined", "the others bring more than zeros");
    }
    check(horovod_join(&last, &err) == HOROVOD_OK, "join", err.message);
    check(last == horovod_size() - 1, "join", "the last rank is wrong");
}

/* Calls about process sets that the last rank refuses. */
static void about_sets(void)
{
    const int wrong[] = {0, horovod_size() + 7};
    const int right[] = {0, 1};

    check(horovod_add_process_set(is_last() ? wrong : right, 2) < 0, "process set", "added");
    check(horovod_remove_process_set(is_last() ? 0 : 1) < 0, "process set", "removed");
}

void mode_refusals(void)
{
    static const char *const names[2] = {"one", "two"};

    must_init();
    const int ends[] = {0, horovod_size() - 1};
    const int set = horovod_size() > 2 ? horovod_add_process_set(ends, 2) : 0;
    check(set >= 0, "process set", "not added");
    all_by_itself();
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < N_BAD; n++) {
            check_sum("bad"); /* cached, then not any more */
            one_call(n, "bad", "bad", 0);
            if (set > 0 && (horovod_rank() == 0 || is_last()))
                one_call(n, "bad", "bad", set);
        }
        one_group(names, names, false);
        one_group(names, names, true);
        without_names(round);
        about_sets();
        about_joins();
        check_sum("at the end");
    }
    horovod_shutdown();
}
