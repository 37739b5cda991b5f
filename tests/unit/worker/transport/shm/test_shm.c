#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/worker/transport/conformance.h"
#include "tests/unit/worker/transport/shm/shm_world.h"
#include "worker/transport/hybrid/hybrid.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static void shared_memory_keeps_what_the_port_promises(void **state)
{
    (void)state;
    shm_world_try_sizes(hvd_transport_conformance, 1024);
    shm_world_try_sizes(hvd_transport_conformance, 0);
}

static void ranks_in_localities_keep_it_too(void **state)
{
    (void)state;
    shm_world_try_localities(hvd_transport_conformance, 1024);
    shm_world_try_localities(hvd_transport_conformance, 0);
}

/* --- Every type and reduction ----------------------------------------------------------------- */

/* Ones: every type can hold them, and sums of eight. */
static void store_one(enum hvd_dtype dtype, void *to)
{
    const float one = 1;
    const double precise = 1;
    const uint16_t half = 0x3c00;
    const uint16_t brain = 0x3f80;
    const size_t width = hvd_dtype_size((int)dtype);

    memset(to, 0, width);
    if (dtype == HVD_FLOAT32)
        memcpy(to, &one, width);
    else if (dtype == HVD_FLOAT64)
        memcpy(to, &precise, width);
    else if (dtype == HVD_FLOAT16)
        memcpy(to, &half, width);
    else if (dtype == HVD_BFLOAT16)
        memcpy(to, &brain, width);
    else
        *(uint8_t *)to = 1;
}

static const char *every_type_is_reduced(struct hvd_transport *t)
{
    static const enum hvd_reduce ops[] = {HVD_MIN, HVD_MAX, HVD_PRODUCT, HVD_SUM};
    static const int64_t counts[] = {3, 700};
    const size_t room = 700 * sizeof(double);
    char *input = hvd_malloc(room, 1);
    char *output = hvd_malloc(room, 1);
    const char *problem = input && output ? NULL : "out of memory";

    for (int n = 0; n < HVD_DTYPES * 8 && !problem; n++) {
        struct hvd_collective c = {.op = HVD_ALLREDUCE,
                                   .dtype = (enum hvd_dtype)(n % HVD_DTYPES),
                                   .reduce = ops[n / HVD_DTYPES % 4],
                                   .scaling = shm_unscaled,
                                   .count = counts[n / HVD_DTYPES / 4],
                                   .input = input,
                                   .output = output};
        const size_t width = hvd_dtype_size((int)c.dtype);
        if (width == 0)
            continue;
        for (int64_t i = 0; i < c.count; i++)
            store_one(c.dtype, input + (size_t)i * width);
        if (c.reduce == HVD_SUM) /* the average of ones is one */
            c.scaling.divisor = t->topology.size;
        memset(output, 0, room);
        problem = shm_finish(t, &c);
        /* bool is not divided, but "or" of true is true */
        if (!problem && memcmp(input, output, (size_t)c.count * width) != 0)
            problem = "a type is reduced wrongly";
    }
    hvd_free(input);
    hvd_free(output);
    return problem;
}

static void every_type_and_reduction_works(void **state)
{
    (void)state;
    shm_world_try_sizes(every_type_is_reduced, 1024);
    shm_world_try_localities(every_type_is_reduced, 1024);
}

/* --- Messages that do not fit ----------------------------------------------------------------- */

enum call { RECEIVE, TEST, SLEEP, SEND, N_CALLS };

/* A call of the sender, by which what waits moves on. c: a collective that moves. */
static void call(struct hvd_transport *t, enum call which, struct hvd_collective *c)
{
    struct hvd_inbound in;

    switch (which) {
    case RECEIVE:
        assert_int_equal(t->ops->receive(t, &in, NULL), HVD_INPROGRESS);
        break;
    case TEST:
        assert_int_equal(t->ops->test(t, c, NULL), HVD_INPROGRESS);
        break;
    case SLEEP:
        t->ops->sleep(t, t->ops->listen(t), 0);
        break;
    default:
        assert_int_equal(t->ops->send(t, 1, "", 1, NULL), HVD_OK);
    }
}

/* The receiver takes what is there; whether the first message is complete. */
static bool is_received(struct hvd_transport *t, size_t len)
{
    struct hvd_inbound in;

    for (int i = 0; i < 100; i++) {
        if (t->ops->receive(t, &in, NULL) != HVD_OK)
            continue;
        assert_int_equal(in.len, len);
        t->ops->recycle(t, &in);
        return true;
    }
    return false;
}

/* It has the port's guarantee and no more: without a call of its sender it goes no further. */
static void a_message_that_does_not_fit_moves_on_when_its_sender_calls(void **state)
{
    const size_t len = 1 << 14; /* four rings full */
    char *message = hvd_malloc(len, 1);

    (void)state;
    assert_non_null(message);
    memset(message, 7, len);
    for (int which = 0; which < N_CALLS; which++) {
        int32_t one = 1, other = 1;
        struct hvd_collective c = shm_sum(&one), d = shm_sum(&other);
        struct shm_world w;
        int n_calls = 0;

        shm_world_open(&w, 2, 0);
        assert_int_equal(w.ranks[0]->ops->start(w.ranks[0], &c, NULL), HVD_OK);
        assert_int_equal(w.ranks[0]->ops->send(w.ranks[0], 1, message, len, NULL), HVD_OK);
        while (!is_received(w.ranks[1], len)) {
            assert_true(++n_calls < 1000);
            call(w.ranks[0], (enum call)which, &c);
        }
        assert_true(n_calls > 1);
        assert_int_equal(w.ranks[1]->ops->start(w.ranks[1], &d, NULL), HVD_OK);
        while (w.ranks[0]->ops->test(w.ranks[0], &c, NULL) == HVD_INPROGRESS)
            (void)w.ranks[1]->ops->test(w.ranks[1], &d, NULL);
        while (w.ranks[1]->ops->test(w.ranks[1], &d, NULL) == HVD_INPROGRESS)
            ;
        shm_world_close(&w);
    }
    hvd_free(message);
}

/* --- Fusion and scaling ----------------------------------------------------------------------- */

#define PIECES 40

static int64_t piece_count(int n)
{
    return n % 5 == 2 ? 0 : n % 7 == 3 ? 300 : n + 1;
}

/* Pieces of all lengths, every other one in place; with scale: (2 x summed) * 3 / size. */
static const char *fuse(struct hvd_transport *t, int n_pieces, bool scales)
{
    static float values[SHM_WORLD_MAX][2][PIECES][320];
    float(*const input)[320] = values[t->topology.rank][0];
    float(*const output)[320] = values[t->topology.rank][1];
    const int size = t->topology.size;
    struct hvd_piece pieces[PIECES];
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .reduce = HVD_SUM,
                               .scaling = shm_unscaled,
                               .pieces = pieces,
                               .n_pieces = n_pieces};

    if (scales)
        c.scaling = (struct hvd_scaling){.prescale = 2, .postscale = 3, .divisor = size};
    for (int n = 0; n < n_pieces; n++) {
        pieces[n] = (struct hvd_piece){input[n], n % 2 ? input[n] : output[n], piece_count(n)};
        c.count += pieces[n].count;
        for (int64_t i = 0; i < 320; i++) {
            output[n][i] = -1;
            input[n][i] = (float)(t->topology.rank + n + i);
        }
    }
    const char *problem = shm_finish(t, &c);
    for (int n = 0; n < n_pieces && !problem; n++) {
        const float *out = pieces[n].output;
        for (int64_t i = 0; i < pieces[n].count; i++) {
            const int exact = size * (size - 1) / 2 + size * (n + (int)i);
            const float sum = (float)exact;
            const float want = scales ? 2 * sum * 3 / (float)size : sum;
            if (out[i] > want * 1.00001F || out[i] < want * 0.99999F)
                problem = "a fused tensor has a wrong element";
        }
        if (n % 2 == 0 && out[pieces[n].count] != -1)
            problem = "a fused tensor was written past its end";
    }
    return problem;
}

static const char *pieces_are_fused(struct hvd_transport *t)
{
    const char *problem = fuse(t, PIECES, false);

    if (!problem)
        problem = fuse(t, PIECES, true);
    if (!problem)
        problem = fuse(t, 5, false); /* small */
    if (!problem)
        problem = fuse(t, 3, true); /* the last one is empty */
    return problem;
}

static void fused_tensors_go_straight_to_and_from_their_memory(void **state)
{
    (void)state;
    shm_world_try_sizes(pieces_are_fused, 1024);
    shm_world_try_sizes(pieces_are_fused, 0);
    shm_world_try_localities(pieces_are_fused, 1024);
    shm_world_try_localities(pieces_are_fused, 0);
}

/* --- The same bits ---------------------------------------------------------------------------- */

#define SUMMANDS 5000

static _Alignas(float) char sums[SHM_WORLD_MAX][SUMMANDS * sizeof(float)];

/* Summands of all sizes, so that every order of adding has a result of its own. */
static const char *add_up(struct hvd_transport *t)
{
    static float summands[SHM_WORLD_MAX][SUMMANDS];
    float *mine = summands[t->topology.rank];
    struct hvd_collective c = {.op = HVD_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 0.3, .postscale = 1, .divisor = 7},
                               .input = mine,
                               .output = sums[t->topology.rank],
                               .count = SUMMANDS};
    uint32_t seed = (uint32_t)t->topology.rank + 1;

    for (int i = 0; i < SUMMANDS; i++) {
        seed = seed * 1664525 + 1013904223;
        mine[i] = (float)(int32_t)seed / (float)(1u << (seed >> 8) % 24);
    }
    return shm_finish(t, &c);
}

static const char *add_up_alike(struct hvd_transport *t)
{
    /* Barriers of a kind: nobody compares before all have finished, or goes on before all have. */
    const char *problem = add_up(t);
    int32_t zero = 0;
    struct hvd_collective meet = shm_sum(&zero);

    if (!problem)
        problem = shm_finish(t, &meet);
    for (int rank = 0; rank < t->topology.size && !problem; rank++)
        if (memcmp(sums[rank], sums[t->topology.rank], sizeof(sums[rank])) != 0)
            problem = "a sum has other bits on another rank";
    return problem ? problem : shm_finish(t, &meet);
}

static void sums_are_the_same_bits_on_every_rank(void **state)
{
    (void)state;
    shm_world_try_sizes(add_up_alike, 1024);
    shm_world_try_sizes(add_up_alike, 0);
    shm_world_try_localities(add_up_alike, 1024);
    shm_world_try_localities(add_up_alike, 0);
}

/* --- Alltoall and reducescatter --------------------------------------------------------------- */

#define LONGEST 900

/* How much rank `from` sends to rank `to`. */
static int64_t sent(int from, int to, int64_t scale)
{
    return (from * 3 + to) % 4 * scale;
}

static const char *exchange(struct hvd_transport *t, int64_t scale, bool in_place)
{
    static int32_t room[SHM_WORLD_MAX][2][SHM_WORLD_MAX * LONGEST];
    const int rank = t->topology.rank;
    int32_t *input = room[rank][0];
    int32_t *output = in_place ? input : room[rank][1];
    int64_t counts[SHM_WORLD_MAX];
    int64_t received[SHM_WORLD_MAX];
    int64_t at = 0;
    struct hvd_collective c = {.op = HVD_ALLTOALL,
                               .dtype = HVD_INT32,
                               .reduce = HVD_SUM,
                               .input = input,
                               .output = output,
                               .counts = counts,
                               .received = received};

    for (int peer = 0; peer < t->topology.size; peer++) {
        counts[peer] = sent(rank, peer, scale);
        received[peer] = sent(peer, rank, scale);
        for (int64_t i = 0; i < counts[peer]; i++)
            input[at++] = (int32_t)(rank * 100000 + peer * 10000 + i);
    }
    c.count = at;
    const char *problem = shm_finish(t, &c);
    at = 0;
    for (int peer = 0; peer < t->topology.size; peer++)
        for (int64_t i = 0; i < received[peer]; i++)
            if (output[at++] != peer * 100000 + rank * 10000 + (int32_t)i)
                problem = "an alltoall has a wrong element";
    return problem;
}

static const char *scatter(struct hvd_transport *t, int64_t scale, bool in_place)
{
    static int64_t room[SHM_WORLD_MAX][2][SHM_WORLD_MAX * LONGEST];
    const int rank = t->topology.rank;
    const int size = t->topology.size;
    int64_t *input = room[rank][0];
    int64_t *output = in_place ? input : room[rank][1];
    int64_t counts[SHM_WORLD_MAX];
    int64_t before = 0;
    struct hvd_collective c = {.op = HVD_REDUCESCATTER,
                               .dtype = HVD_INT64,
                               .reduce = HVD_SUM,
                               .scaling = {.prescale = 1, .postscale = 3, .divisor = 1},
                               .input = input,
                               .output = output,
                               .counts = counts};

    for (int peer = 0; peer < size; peer++) {
        counts[peer] = (peer + 1) % 3 * scale;
        before += peer < rank ? counts[peer] : 0;
        c.count += counts[peer];
    }
    for (int64_t i = 0; i < c.count; i++)
        input[i] = rank * 7 + i;
    const char *problem = shm_finish(t, &c);
    for (int64_t i = 0; i < counts[rank]; i++)
        if (output[i] != 3 * (7 * size * (size - 1) / 2 + size * (before + i)))
            problem = "a reducescatter has a wrong element";
    return problem;
}

static const char *parts_reach_their_ranks(struct hvd_transport *t)
{
    const int64_t scales[] = {1, 300};
    const char *problem = NULL;

    for (int n = 0; n < 4 && !problem; n++) {
        if (t->topology.size > 1) /* alone there is nothing to send */
            problem = exchange(t, scales[n / 2], n % 2);
        if (!problem)
            problem = scatter(t, scales[n / 2], n % 2);
    }
    return problem;
}

static void alltoall_and_reducescatter_deal_with_uneven_parts(void **state)
{
    (void)state;
    shm_world_try_sizes(parts_reach_their_ranks, 1024);
    shm_world_try_sizes(parts_reach_their_ranks, 0);
}

/* --- Many at once, of all kinds --------------------------------------------------------------- */

#define ROUNDS 200

static const char *kinds_mix(struct hvd_transport *t)
{
    const char *problem = NULL;

    for (int n = 0; n < ROUNDS && !problem; n++) {
        int64_t in[2][40];
        int64_t out[2][40];
        const int root = n % t->topology.size;
        struct hvd_collective moves[2] = {{.op = HVD_ALLREDUCE,
                                           .dtype = HVD_INT64,
                                           .reduce = HVD_SUM,
                                           .scaling = shm_unscaled,
                                           .input = in[0],
                                           .output = out[0],
                                           .count = n % 40 + 1},
                                          {.op = HVD_BROADCAST,
                                           .dtype = HVD_INT64,
                                           .reduce = HVD_SUM,
                                           .root = root,
                                           .input = in[1],
                                           .output = out[1],
                                           .count = n % 17 + 1}};
        for (int i = 0; i < 40; i++) {
            in[0][i] = n + i;
            in[1][i] = t->topology.rank * 1000 + n + i;
        }
        for (int i = 0; i < 2; i++)
            if (t->ops->start(t, &moves[i], NULL) != HVD_OK)
                return "an operation does not start";
        for (int i = 1; i >= 0; i--)
            while (t->ops->test(t, &moves[i], NULL) == HVD_INPROGRESS)
                sched_yield();
        for (int i = 0; i < moves[0].count; i++)
            if (out[0][i] != t->topology.size * (n + i))
                problem = "a sum is wrong";
        for (int i = 0; i < moves[1].count; i++)
            if (out[1][i] != root * 1000 + n + i)
                problem = "a broadcast is wrong";
    }
    return problem;
}

static void rounds_of_different_kinds_do_not_mix(void **state)
{
    (void)state;
    shm_world_try_sizes(kinds_mix, 1024);
}

/* --- Shapes, memory --------------------------------------------------------------------------- */

static void a_shape_that_is_none_is_refused(void **state)
{
    (void)state;
    assert_int_equal(hvd_shm_size(&(struct hvd_shm_shape){.n_ranks = 0}), 0);
    assert_int_equal(hvd_shm_size(&(struct hvd_shm_shape){.n_ranks = 2, .ring_bytes = 1000}), 0);
    assert_int_equal(hvd_shm_size(&(struct hvd_shm_shape){.n_ranks = 2, .stage_bytes = 64}), 0);
    assert_int_equal(hvd_shm_size(&(struct hvd_shm_shape){.n_ranks = 2, .small_bytes = 4096}), 0);
    assert_true(hvd_shm_size(&(struct hvd_shm_shape){.n_ranks = 200}) > 0);
}

/* Attaches a rank that is alone, and reduces once. */
static hvd_status_t reduce_alone(void *segment, const struct hvd_shm_shape *shape)
{
    const struct hvd_shm_options options = {
        .shape = *shape, .topology = {.size = 1}, .segment = segment, .fd = -1};
    struct hvd_transport *t = NULL;
    int32_t one = 1;
    struct hvd_collective c = shm_sum(&one);

    memset(segment, 0, hvd_shm_size(shape));
    hvd_status_t st = hvd_shm_create(&options, &t, NULL);
    if (st != HVD_OK)
        return st;
    st = t->ops->start(t, &c, NULL);
    if (st == HVD_OK)
        st = t->ops->test(t, &c, NULL);
    t->ops->destroy(t, false);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    const struct hvd_shm_shape shape = {.n_ranks = 1};
    void *segment = aligned_alloc(4096, (hvd_shm_size(&shape) + 4095) / 4096 * 4096);

    (void)state;
    assert_non_null(segment);
    HVD_MEM_TORTURE({
        hvd_status_t st = reduce_alone(segment, &shape);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    });
    free(segment);
}

/* --- The memory handed around ----------------------------------------------------------------- */

struct joiner {
    struct hvd_transport *far;
    struct hvd_hybrid_options options;
    struct hvd_transport *got;
    hvd_status_t status;
};

static void *join(void *arg)
{
    struct joiner *j = arg;

    j->status = hvd_hybrid_create(j->far, &j->options, &j->got, NULL);
    return NULL;
}

/* All ranks of a simulated world choose their transport; `refuses` does not want shared memory. */
static void compose(struct hvd_sim **sim, struct shm_world *w, int size, int refuses)
{
    const struct hvd_sim_options options = {.size = size, .seed = 5, .max_delay = 2};
    struct joiner joiners[SHM_WORLD_MAX];
    pthread_t threads[SHM_WORLD_MAX];

    assert_int_equal(hvd_sim_create(&options, sim, NULL), HVD_OK);
    *w = (struct shm_world){.size = size};
    for (int rank = 0; rank < size; rank++) {
        joiners[rank] = (struct joiner){.options = {.wants_shm = rank != refuses}};
        assert_int_equal(hvd_sim_join(*sim, rank, &joiners[rank].far, NULL), HVD_OK);
    }
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, join, &joiners[rank]), 0);
    for (int rank = 0; rank < size; rank++) {
        pthread_join(threads[rank], NULL);
        assert_int_equal(joiners[rank].status, HVD_OK);
        w->ranks[rank] = joiners[rank].got;
    }
}

static void ranks_of_a_host_find_each_other_by_passing_memory(void **state)
{
    static const int sizes[] = {2, 3, 4, 5, 8};
    struct hvd_sim *sim;
    struct shm_world w;

    (void)state;
    for (size_t i = 0; i < N(sizes); i++) {
        compose(&sim, &w, sizes[i], -1);
        assert_string_equal(w.ranks[0]->ops->name, "shm+mpi");
        assert_string_equal(w.ranks[0]->ops->host(w.ranks[0], 1), "sim-0");
        const uint64_t before = hvd_sim_messages(sim);
        shm_world_run(&w, hvd_transport_conformance);
        assert_int_equal(hvd_sim_messages(sim), before);
        shm_world_close(&w);
        hvd_sim_destroy(sim);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

static void one_rank_that_does_not_want_it_is_enough_for_none_to_share(void **state)
{
    struct hvd_sim *sim;
    struct shm_world w;

    (void)state;
    compose(&sim, &w, 3, 1);
    for (int rank = 0; rank < 3; rank++)
        assert_string_equal(w.ranks[rank]->ops->name, "sim");
    shm_world_run(&w, hvd_transport_conformance);
    shm_world_close(&w);
    hvd_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory_keeps_what_the_port_promises),
        cmocka_unit_test(ranks_in_localities_keep_it_too),
        cmocka_unit_test(every_type_and_reduction_works),
        cmocka_unit_test(fused_tensors_go_straight_to_and_from_their_memory),
        cmocka_unit_test(sums_are_the_same_bits_on_every_rank),
        cmocka_unit_test(alltoall_and_reducescatter_deal_with_uneven_parts),
        cmocka_unit_test(rounds_of_different_kinds_do_not_mix),
        cmocka_unit_test(a_message_that_does_not_fit_moves_on_when_its_sender_calls),
        cmocka_unit_test(a_shape_that_is_none_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(ranks_of_a_host_find_each_other_by_passing_memory),
        cmocka_unit_test(one_rank_that_does_not_want_it_is_enough_for_none_to_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
