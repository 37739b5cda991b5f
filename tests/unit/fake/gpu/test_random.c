/*
 * Random programs on three streams, with events, synchronisations and accesses to parts of two
 * buffers. An oracle that knows nothing of clocks computes which pairs are ordered, as paths in a
 * graph. The double finds a race exactly where the oracle has an unordered pair, in any schedule.
 */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake/gpu/gpu.h"

#define N_STREAMS 3
#define N_EVENTS 3
#define N_BUFFERS 2
#define BUFFER_BYTES 64
#define MAX_OPS 60

struct op {
    int stream;
    int buffer;
    unsigned from;
    unsigned bytes;
    bool is_write;
};

/* The oracle: what is in front of each op, as a bit for each op. */
struct oracle {
    struct op ops[MAX_OPS];
    uint64_t before[MAX_OPS];
    int n;
    uint64_t stream[N_STREAMS]; /* what later work on the stream is behind */
    uint64_t event[N_EVENTS];
    uint64_t host;
};

static unsigned draw(uint64_t *random, unsigned n)
{
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(*random >> 33) % n;
}

static void add_op(struct oracle *o, const struct op *op)
{
    o->stream[op->stream] |= o->host;
    o->ops[o->n] = *op;
    o->before[o->n] = o->stream[op->stream];
    o->stream[op->stream] |= 1ULL << o->n;
    o->n++;
}

static bool conflict(const struct op *a, const struct op *b)
{
    return a->buffer == b->buffer && (a->is_write || b->is_write) && a->from < b->from + b->bytes &&
           b->from < a->from + a->bytes;
}

/* The number of pairs that conflict without an order. */
static int count_races(const struct oracle *o)
{
    int n = 0;

    for (int i = 0; i < o->n; i++)
        for (int j = i + 1; j < o->n; j++)
            n += conflict(&o->ops[i], &o->ops[j]) && !(o->before[j] & 1ULL << i) &&
                 !(o->before[i] & 1ULL << j);
    return n;
}

struct world {
    struct CUstream_st *streams[N_STREAMS];
    struct CUevent_st *events[N_EVENTS];
    hvd_cu_ptr_t buffers[N_BUFFERS];
    hvd_cu_ptr_t scratch; /* where reads go, each to a place of its own */
};

static void do_access(struct world *w, struct oracle *o, uint64_t *random)
{
    const struct op op = {.stream = (int)draw(random, N_STREAMS),
                          .buffer = (int)draw(random, N_BUFFERS),
                          .from = draw(random, BUFFER_BYTES / 2),
                          .bytes = 1 + draw(random, BUFFER_BYTES / 2),
                          .is_write = draw(random, 2) == 0};
    const hvd_cu_ptr_t at = w->buffers[op.buffer] + op.from;
    struct CUstream_st *stream = w->streams[op.stream];

    if (op.is_write)
        GPU_OK(cuMemsetD8Async(at, 1, op.bytes, stream));
    else
        GPU_OK(
            cuMemcpyDtoDAsync_v2(w->scratch + (unsigned)o->n * BUFFER_BYTES, at, op.bytes, stream));
    add_op(o, &op);
}

/* One call that makes an order. */
static void do_order(struct world *w, struct oracle *o, uint64_t *random)
{
    const unsigned s = draw(random, N_STREAMS);
    const unsigned e = draw(random, N_EVENTS);

    switch (draw(random, 5)) {
    case 0:
    case 1:
        GPU_OK(cuEventRecord(w->events[e], w->streams[s]));
        o->event[e] = o->stream[s] |= o->host;
        break;
    case 2:
    case 3:
        GPU_OK(cuStreamWaitEvent(w->streams[s], w->events[e], 0));
        o->stream[s] |= o->event[e];
        break;
    default:
        if (draw(random, 4) == 0) {
            GPU_OK(cuStreamSynchronize(w->streams[s]));
            o->host |= o->stream[s];
        } else if (cuEventQuery(w->events[e]) == HVD_CU_SUCCESS) {
            o->host |= o->event[e];
        }
        break;
    }
}

static struct world open_world(void)
{
    struct world w;

    for (int i = 0; i < N_STREAMS; i++)
        w.streams[i] = gpu_stream();
    for (int i = 0; i < N_EVENTS; i++)
        w.events[i] = gpu_event();
    for (int i = 0; i < N_BUFFERS; i++)
        w.buffers[i] = gpu_floats(BUFFER_BYTES / sizeof(float), 0);
    GPU_OK(cuMemAlloc_v2(&w.scratch, (size_t)MAX_OPS * BUFFER_BYTES));
    return w;
}

static void close_world(struct world *w)
{
    for (int i = 0; i < N_STREAMS; i++)
        GPU_OK(cuStreamSynchronize(w->streams[i]));
    for (int i = 0; i < N_STREAMS; i++)
        GPU_OK(cuStreamDestroy_v2(w->streams[i]));
    for (int i = 0; i < N_EVENTS; i++)
        GPU_OK(cuEventDestroy_v2(w->events[i]));
    for (int i = 0; i < N_BUFFERS; i++)
        GPU_OK(cuMemFree_v2(w->buffers[i]));
    GPU_OK(cuMemFree_v2(w->scratch));
}

/* Runs the program of a seed; returns the oracle's number of races, and compares. */
static int run_program(uint64_t seed)
{
    uint64_t random = seed * 7919 + 1;
    struct oracle o = {.n = 0};
    const unsigned n_steps = 6 + draw(&random, MAX_OPS - 6);
    const unsigned chance = 2 + draw(&random, 10); /* of an access, among so many */

    fake_gpu_set(FAKE_GPU_SEED, (long)seed);
    gpu_begin(1);
    struct world w = open_world();
    for (unsigned i = 0; i < n_steps; i++) {
        if (draw(&random, chance) == 0)
            do_access(&w, &o, &random);
        else
            do_order(&w, &o, &random);
    }
    assert_true(fake_gpu_settle(60000));
    const int expected = count_races(&o);
    const int found = fake_gpu_found(FAKE_GPU_RACE);
    if ((expected > 0) != (found > 0))
        print_error("seed %llu: the oracle has %d races, the double found %d\n",
                    (unsigned long long)seed, expected, found);
    assert_int_equal(expected > 0, found > 0);
    assert_true(found <= expected);
    assert_int_equal(found, fake_gpu_found_any());
    fake_gpu_forget();
    close_world(&w);
    gpu_end();
    return expected;
}

static void races_are_found_where_the_oracle_has_them(void **state)
{
    const char *number = getenv("HVD_FAKE_GPU_PROGRAMS");
    const uint64_t n = number ? strtoull(number, NULL, 10) : 1000;
    uint64_t n_racy = 0;

    (void)state;
    fake_gpu_set(FAKE_GPU_DELAY_US, 20);
    for (uint64_t seed = 1; seed <= n; seed++)
        n_racy += run_program(seed) > 0;
    assert_in_range(n_racy, n / 10, n - n / 10); /* both kinds of programs are there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(races_are_found_where_the_oracle_has_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
