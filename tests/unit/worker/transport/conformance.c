/*
 * The promises of the transport port, tried from one rank's side: order and integrity of messages,
 * results of every collective against closed forms, several collectives moving at once. Runs in
 * threads and in processes, so it returns texts and asserts nothing.
 */
#include "tests/unit/worker/transport/conformance.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define N_MESSAGES 20
#define LONG_MESSAGE 100000
#define MAX_RANKS 16
#define MAX_ELEMENTS 3000

static const struct hvd_scaling unscaled = {.prescale = 1, .postscale = 1, .divisor = 1};

/* The bytes of the nth message between two ranks: its number, then a pattern. */
static size_t message_len(int number)
{
    return number % 7 == 3 ? LONG_MESSAGE : (size_t)number % 50 + 1;
}

static void fill_message(char *data, size_t len, int from, int number)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (char)((size_t)from * 31 + (size_t)number * 7 + i);
}

static const char *send_all(struct hvd_transport *t, char *scratch)
{
    for (int number = 0; number < N_MESSAGES; number++) {
        size_t len = message_len(number);
        fill_message(scratch, len, t->topology.rank, number);
        for (int to = 0; to < t->topology.size; to++)
            if (to != t->topology.rank && t->ops->send(t, to, scratch, len, NULL) != HVD_OK)
                return "send failed";
        memset(scratch, 0, len); /* the transport has its own copy */
    }
    return NULL;
}

static const char *check_message(const struct hvd_inbound *in, int number, char *scratch)
{
    if (in->len != message_len(number))
        return "a message has the length of another one: order or integrity is lost";
    fill_message(scratch, in->len, in->from, number);
    return memcmp(in->data, scratch, in->len) == 0 ? NULL : "a message has other bytes";
}

static const char *messages_arrive_whole_and_in_order(struct hvd_transport *t)
{
    char *scratch = hvd_malloc(LONG_MESSAGE, 1);
    int seen[MAX_RANKS] = {0};
    int left = N_MESSAGES * (t->topology.size - 1);
    const char *problem = scratch ? send_all(t, scratch) : "out of memory";

    while (!problem && left > 0) {
        struct hvd_inbound in;
        hvd_status_t st = t->ops->receive(t, &in, NULL);
        if (st == HVD_INPROGRESS) {
            sched_yield();
            continue;
        }
        if (st != HVD_OK)
            problem = "receive failed";
        else
            problem = check_message(&in, seen[in.from]++, scratch);
        if (st == HVD_OK && t->ops->recycle)
            t->ops->recycle(t, &in);
        else if (st == HVD_OK)
            hvd_free(in.data);
        left--;
    }
    hvd_free(scratch);
    return problem;
}

/* How far it is never falls. */
static const char *check_moved(struct hvd_transport *t, const struct hvd_collective *c,
                               uint64_t *before)
{
    const uint64_t now = t->ops->moved ? t->ops->moved(t, c) : 0;

    if (now < *before)
        return "a collective moves backwards";
    *before = now;
    return NULL;
}

static const char *finish(struct hvd_transport *t, struct hvd_collective *c)
{
    const char *problem = NULL;
    uint64_t moved = 0;

    for (;;) {
        hvd_status_t st = t->ops->test(t, c, NULL);
        if (st != HVD_INPROGRESS)
            return st == HVD_OK ? problem : "a collective failed";
        if (!problem)
            problem = check_moved(t, c, &moved);
        sched_yield();
    }
}

/* Element i of a rank: small enough for every type, and exact in all of them. */
static int value(int rank, int64_t i)
{
    return (int)((rank * 3 + i) % 11);
}

static void store(enum hvd_dtype dtype, void *data, int64_t i, int v)
{
    if (dtype == HVD_UINT8)
        ((uint8_t *)data)[i] = (uint8_t)v;
    else if (dtype == HVD_INT32)
        ((int32_t *)data)[i] = v;
    else if (dtype == HVD_INT64)
        ((int64_t *)data)[i] = v;
    else if (dtype == HVD_FLOAT32)
        ((float *)data)[i] = (float)v;
    else
        ((double *)data)[i] = v;
}

static int load(enum hvd_dtype dtype, const void *data, int64_t i)
{
    if (dtype == HVD_UINT8)
        return ((const uint8_t *)data)[i];
    if (dtype == HVD_INT32)
        return ((const int32_t *)data)[i];
    if (dtype == HVD_INT64)
        return (int)((const int64_t *)data)[i];
    if (dtype == HVD_FLOAT32)
        return (int)((const float *)data)[i];
    return (int)((const double *)data)[i];
}

static int reduced(enum hvd_reduce op, int size, int64_t i)
{
    int result = value(0, i);

    for (int rank = 1; rank < size; rank++) {
        int v = value(rank, i);
        if (op == HVD_SUM)
            result += v;
        else if (op == HVD_MIN ? v < result : v > result)
            result = v;
    }
    return result;
}

/* Two buffers that hold MAX_ELEMENTS for each of MAX_RANKS, of any type. */
struct room {
    int64_t *input;
    int64_t *output;
};

static const char *reduce_once(struct hvd_transport *t, const struct room *room,
                               struct hvd_collective c)
{
    for (int64_t i = 0; i < c.count; i++)
        store(c.dtype, room->input, i, value(t->topology.rank, i));
    if (t->ops->start(t, &c, NULL) != HVD_OK)
        return "an allreduce does not start";
    const char *problem = finish(t, &c);
    for (int64_t i = 0; !problem && i < c.count; i++)
        if (load(c.dtype, c.output, i) != reduced(c.reduce, t->topology.size, i))
            problem = "an allreduce has a wrong element";
    return problem;
}

static const char *allreduces_are_right(struct hvd_transport *t, const struct room *room)
{
    static const enum hvd_dtype dtypes[] = {HVD_UINT8, HVD_INT32, HVD_INT64, HVD_FLOAT32,
                                            HVD_FLOAT64};
    static const enum hvd_reduce ops[] = {HVD_SUM, HVD_MIN, HVD_MAX};
    static const int64_t counts[] = {1, 7, MAX_ELEMENTS};
    const char *problem = NULL;

    /* 5 types x 3 operations x 3 sizes x in place or not */
    for (int n = 0; n < 90 && !problem; n++)
        problem =
            reduce_once(t, room,
                        (struct hvd_collective){.op = HVD_ALLREDUCE,
                                                .dtype = dtypes[n % 5],
                                                .reduce = ops[n / 5 % 3],
                                                .scaling = unscaled,
                                                .count = counts[n / 15 % 3],
                                                .input = room->input,
                                                .output = n / 45 ? room->input : room->output});
    return problem;
}

static const char *broadcasts_are_right(struct hvd_transport *t, const struct room *room)
{
    for (int n = 0; n < 2 * t->topology.size; n++) {
        const int root = n / 2;
        const bool is_root = t->topology.rank == root;
        struct hvd_collective c = {.op = HVD_BROADCAST,
                                   .dtype = HVD_INT32,
                                   .reduce = HVD_SUM,
                                   .root = root,
                                   .count = 100 + n,
                                   .output = room->output};
        if (is_root)
            c.input = n % 2 ? room->input : room->output;
        memset(room->output, 0, sizeof(int32_t) * (size_t)c.count);
        for (int64_t i = 0; i < c.count && is_root; i++)
            store(HVD_INT32, n % 2 ? room->input : room->output, i, value(root, i));
        if (t->ops->start(t, &c, NULL) != HVD_OK)
            return "a broadcast does not start";
        const char *problem = finish(t, &c);
        for (int64_t i = 0; !problem && i < c.count; i++)
            if (load(HVD_INT32, room->output, i) != value(root, i))
                problem = "a broadcast has a wrong element";
        if (problem)
            return problem;
    }
    return NULL;
}

static const char *gather_once(struct hvd_transport *t, const struct room *room, int64_t scale)
{
    int64_t counts[MAX_RANKS];
    const char *problem;
    int64_t at = 0;

    for (int rank = 0; rank < t->topology.size; rank++)
        counts[rank] = (rank + 1) % 3 * scale; /* some are empty */
    struct hvd_collective c = {.op = HVD_ALLGATHER,
                               .dtype = HVD_FLOAT64,
                               .reduce = HVD_SUM,
                               .input = room->input,
                               .output = room->output,
                               .count = counts[t->topology.rank],
                               .counts = counts};
    for (int64_t i = 0; i < c.count; i++)
        store(HVD_FLOAT64, room->input, i, value(t->topology.rank, i));
    if (t->ops->start(t, &c, NULL) != HVD_OK)
        return "an allgather does not start";
    problem = finish(t, &c);
    for (int rank = 0; rank < t->topology.size && !problem; rank++)
        for (int64_t i = 0; i < counts[rank]; i++, at++)
            if (load(HVD_FLOAT64, room->output, at) != value(rank, i))
                problem = "an allgather has a wrong element";
    return problem;
}

static const char *many_move_at_once(struct hvd_transport *t, const struct room *room)
{
    struct hvd_collective moving[6];
    const char *problem = NULL;

    for (int n = 0; n < 6; n++) {
        int64_t *data = room->input + n * 100;
        data[0] = t->topology.rank + n;
        moving[n] = (struct hvd_collective){.op = HVD_ALLREDUCE,
                                            .dtype = HVD_INT64,
                                            .reduce = HVD_SUM,
                                            .scaling = unscaled,
                                            .input = data,
                                            .output = data,
                                            .count = 1};
        if (t->ops->start(t, &moving[n], NULL) != HVD_OK)
            return "a collective does not start while others move";
    }
    for (int n = 5; n >= 0 && !problem; n--) {
        const int size = t->topology.size;
        problem = finish(t, &moving[n]);
        if (!problem && room->input[n * 100] != size * (size - 1) / 2 + n * size)
            problem = "collectives that move at once are mixed up";
    }
    return problem;
}

static const char *check_awaited(struct hvd_transport *t, struct hvd_collective *c)
{
    int ranks[MAX_RANKS];
    const int n = t->ops->awaits ? t->ops->awaits(t, c, ranks, MAX_RANKS) : 0;

    if (n < 0 || n > MAX_RANKS)
        return "more ranks are awaited than there is room for";
    for (int i = 0; i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= t->topology.size || ranks[i] == t->topology.rank)
            return "a rank is awaited that cannot be";
    return NULL;
}

/* Waits for the one message that comes. */
static const char *wait_for_word(struct hvd_transport *t)
{
    struct hvd_inbound in;
    hvd_status_t st;

    while ((st = t->ops->receive(t, &in, NULL)) == HVD_INPROGRESS)
        sched_yield();
    if (st != HVD_OK)
        return "receive failed";
    if (t->ops->recycle)
        t->ops->recycle(t, &in);
    else
        hvd_free(in.data);
    return NULL;
}

/* The last rank begins when rank 0 says so, which has looked meanwhile who it waits for. */
static const char *who_is_late_is_awaited(struct hvd_transport *t, const struct room *room)
{
    const int last = t->topology.size - 1;
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_INT64,
                               .reduce = HVD_SUM,
                               .scaling = unscaled,
                               .input = room->input,
                               .output = room->input,
                               .count = MAX_ELEMENTS};
    const char *problem = last > 0 && t->topology.rank == last ? wait_for_word(t) : NULL;

    if (!problem && t->ops->start(t, &c, NULL) != HVD_OK)
        problem = "a collective does not start late";
    uint64_t moved = 0;
    for (int look = 0; look < 100 && last > 0 && t->topology.rank == 0 && !problem; look++) {
        if (t->ops->test(t, &c, NULL) != HVD_INPROGRESS)
            problem = "a collective ends before all have begun";
        else
            problem = check_awaited(t, &c);
        if (!problem)
            problem = check_moved(t, &c, &moved);
    }
    if (last > 0 && t->topology.rank == 0 && t->ops->send(t, last, "go", 2, NULL) != HVD_OK)
        problem = "send failed";
    return problem ? problem : finish(t, &c);
}

const char *hvd_transport_conformance(struct hvd_transport *t)
{
    struct room room = {.input = hvd_calloc(MAX_ELEMENTS, sizeof(int64_t)),
                        .output = hvd_calloc(MAX_ELEMENTS * MAX_RANKS, sizeof(int64_t))};
    const char *problem = NULL;

    if (!room.input || !room.output || t->topology.size > MAX_RANKS)
        problem = "no room for the test";
    if (!problem)
        problem = messages_arrive_whole_and_in_order(t);
    if (!problem)
        problem = allreduces_are_right(t, &room);
    if (!problem)
        problem = broadcasts_are_right(t, &room);
    if (!problem)
        problem = gather_once(t, &room, 1);
    if (!problem)
        problem = gather_once(t, &room, 1000);
    if (!problem)
        problem = many_move_at_once(t, &room);
    if (!problem)
        problem = who_is_late_is_awaited(t, &room);
    hvd_free(room.input);
    hvd_free(room.output);
    return problem;
}
