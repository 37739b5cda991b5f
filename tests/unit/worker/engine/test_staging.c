/* Tensors on a device: every rank has a fake one, all in one process. */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/unit/worker/device/fake.h"
#include "worker/engine/engine.h"
#include "worker/engine/output.h"

#define MAX_RANKS 6
#define MAX_COUNT 24

static const int sizes[] = {1, 2, 3, 4, 5};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* What the devices of a world can do. */
enum ability { STAGED, DIRECT, MIXED, STEPPED, N_ABILITIES };

/* Three steps want several equal hosts: instead of 4 and 5 ranks, there are 3 x 2 and 2 x 3. */
static int sized(enum ability ability, int size)
{
    return ability != STEPPED ? size : size < 4 ? 4 : 6;
}

struct fleet {
    int size;
    struct hvd_sim *sim;
    struct hvd_sim *inner; /* what the devices move over */
    struct hvd_transport *movers[MAX_RANKS];
    struct hvd_device_port *devices[MAX_RANKS];
    struct hvd_engine *engines[MAX_RANKS];
};

static void open_devices(struct fleet *w, enum ability ability, struct fake_options fake)
{
    const struct hvd_sim_options sim = {.size = w->size, .seed = fake.seed + 1, .max_delay = 3};

    fake.in_steps = ability == STEPPED;
    assert_int_equal(hvd_sim_create(&sim, &w->inner, NULL), HVD_OK);
    for (int rank = 0; rank < w->size; rank++) {
        const bool moves =
            ability == DIRECT || ability == STEPPED || (ability == MIXED && rank != w->size - 1);
        struct fake_options options = fake;
        options.seed += (uint64_t)rank;
        if (rank != 0) { /* errors are rank 0's */
            options.fail_launch = 0;
            options.fail_event = 0;
            options.fail_alloc = 0;
        }
        if (moves)
            assert_int_equal(hvd_sim_join(w->inner, rank, &w->movers[rank], NULL), HVD_OK);
        options.mover = w->movers[rank];
        w->devices[rank] = fake_create(&options);
    }
}

/* without: a rank that has no device; -1: all have one; THREADS: and each engine has a thread. */
#define THREADS (-2)
static void open_fleet(struct fleet *w, int size, enum ability ability, struct fake_options fake,
                       int without)
{
    const struct hvd_sim_options sim = {.size = sized(ability, size),
                                        .seed = fake.seed,
                                        .max_delay = 3,
                                        .ranks_per_host = ability != STEPPED ? 0
                                                          : size == 5        ? 3
                                                                             : 2};
    struct hvd_transport *t[MAX_RANKS];

    size = sim.size;
    *w = (struct fleet){.size = size};
    open_devices(w, ability, fake);
    assert_int_equal(hvd_sim_create(&sim, &w->sim, NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++)
        assert_int_equal(hvd_sim_join(w->sim, rank, &t[rank], NULL), HVD_OK);
    for (int rank = 0; rank < size; rank++) {
        const struct hvd_engine_options options = {.cycle_ns = 200000,
                                                   .idle_poll_ns = 1000000,
                                                   .no_background = without != THREADS,
                                                   .cache_capacity = 1024,
                                                   .fusion_bytes = 1 << 20,
                                                   .device =
                                                       rank == without ? NULL : w->devices[rank]};
        assert_int_equal(hvd_engine_create(t[rank], &options, &w->engines[rank], NULL), HVD_OK);
    }
}

static void *shut_down(void *arg)
{
    (void)hvd_engine_shutdown(arg, NULL);
    return NULL;
}

static void shut_down_all(struct fleet *w)
{
    pthread_t threads[MAX_RANKS];

    for (int rank = 0; rank < w->size; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, shut_down, w->engines[rank]), 0);
    for (int rank = 0; rank < w->size; rank++)
        pthread_join(threads[rank], NULL);
}

static void close_engines(struct fleet *w)
{
    shut_down_all(w);
    for (int rank = 0; rank < w->size; rank++)
        hvd_engine_destroy(w->engines[rank]);
}

static void close_devices(struct fleet *w)
{
    for (int rank = 0; rank < w->size; rank++) {
        fake_destroy(w->devices[rank]);
        if (w->movers[rank])
            w->movers[rank]->ops->destroy(w->movers[rank], true);
    }
    hvd_sim_destroy(w->inner);
    hvd_sim_destroy(w->sim);
}

static void close_fleet(struct fleet *w)
{
    close_engines(w);
    close_devices(w);
}

static struct hvd_request request(enum hvd_op op, const char *name, int64_t count)
{
    return (struct hvd_request){.op = op,
                                .dtype = HVD_FLOAT32,
                                .reduce = HVD_SUM,
                                .device = HVD_GPU,
                                .prescale = 1,
                                .postscale = 1,
                                .ndim = 1,
                                .shape = {count},
                                .name = hvd_strview_of(name)};
}

/* A tensor of a rank in the memory of its device. */
struct held {
    float *input;
    float *output;
    int64_t handle;
};

static struct held submit(struct fleet *w, int rank, const struct hvd_submission *given,
                          const float *values)
{
    struct hvd_device_port *d = w->devices[rank];
    struct hvd_submission s = *given;
    const float nothing[MAX_COUNT] = {0};
    struct held held = {.handle = 0};

    held.input = fake_put(d, values, (size_t)s.request.shape[0] * sizeof(float));
    held.output = fake_put(d, nothing, sizeof(nothing));
    s.input = held.input;
    s.output = held.output;
    assert_int_equal(hvd_engine_submit(w->engines[rank], &s, &held.handle, NULL), HVD_OK);
    return held;
}

static void drop(struct fleet *w, int rank, struct held *held)
{
    struct hvd_device_port *d = w->devices[rank];

    d->ops->free(d, held->input, NULL);
    d->ops->free(d, held->output, NULL);
}

/* Waits for a tensor and its event. */
static hvd_status_t wait_for(struct fleet *w, int rank, int64_t handle, struct hvd_outcome *outcome,
                             struct hvd_err *err)
{
    struct hvd_outcome ours = {0};
    hvd_status_t st = hvd_engine_wait(w->engines[rank], handle, &ours, err);

    if (st == HVD_OK)
        st = hvd_engine_await(w->engines[rank], ours.event, err);
    hvd_device_event_release(ours.event);
    ours.event = NULL;
    if (outcome)
        *outcome = ours;
    else
        hvd_output_destroy(ours.output);
    return st;
}

/* Steps all until the handles of all ranks are done, or so many steps were in vain. */
static bool settle(struct fleet *w, struct held (*held)[MAX_RANKS], int n)
{
    for (int round = 0; round < 20000; round++) {
        bool all = true;
        fake_look();
        for (int rank = 0; rank < w->size; rank++) {
            hvd_engine_step(w->engines[rank]);
            for (int i = 0; i < n; i++)
                if (held[i][rank].handle != 0 &&
                    hvd_engine_poll(w->engines[rank], held[i][rank].handle) != 1)
                    all = false;
        }
        if (all)
            return true;
    }
    return false;
}

/* --- What every collective is to bring -------------------------------------------------------- */

enum { FIRST, SECOND, GATHERED, SENT, SPLIT, SCATTERED, ADASUM, N_TENSORS };

/* The input of a rank: small whole numbers, so that sums are exact. */
static float value_of(int tensor, int rank, int64_t i)
{
    return (float)(tensor + 3 * rank + (int)i % 5 + 1);
}

static int64_t count_of(int tensor, int rank, int size)
{
    const int64_t counts[] = {7, 5, rank + 1, 6, (int64_t)size * 2, (int64_t)size * 2 + 1, 4};

    return counts[tensor];
}

static struct hvd_submission describe(int tensor, int rank, int size, int64_t *splits)
{
    static const enum hvd_op ops[] = {HVD_ALLREDUCE, HVD_ALLREDUCE, HVD_ALLGATHER,
                                      HVD_BROADCAST, HVD_ALLTOALL,  HVD_REDUCESCATTER,
                                      HVD_ALLREDUCE};
    static const char *const names[] = {"first", "second",    "gathered", "sent",
                                        "split", "scattered", "adasum"};
    struct hvd_submission s = {
        .request = request(ops[tensor], names[tensor], count_of(tensor, rank, size))};

    if (tensor == FIRST || tensor == SECOND) {
        s.request.reduce = HVD_AVERAGE;
        s.request.prescale = 2;
        s.request.postscale = 0.5;
    }
    if (tensor == SENT)
        s.request.root = size - 1;
    if (tensor == ADASUM)
        s.request.reduce = HVD_ADASUM;
    for (int i = 0; i < size; i++)
        splits[i] = 2;
    if (tensor == SPLIT)
        s.splits = splits;
    return s;
}

static float sum_of(int tensor, int size, int64_t i)
{
    float sum = 0;

    for (int rank = 0; rank < size; rank++)
        sum += value_of(tensor, rank, i);
    return sum;
}

/* Where the rows of a rank begin when they are scattered, one element each. */
static int64_t scattered_from(int rank, int size)
{
    int64_t at = 0;

    for (int i = 0; i < rank; i++)
        at += hvd_rows_of(count_of(SCATTERED, 0, size), i, size);
    return at;
}

/* The result of a tensor on a rank; returns its elements. */
static int64_t expect(int tensor, int rank, int size, float *out)
{
    const int64_t n = count_of(tensor, rank, size);
    int64_t at = 0;

    switch (tensor) {
    case FIRST:
    case SECOND:
        for (; at < n; at++)
            out[at] = sum_of(tensor, size, at) * 2 * 0.5F / (float)size;
        return at;
    case GATHERED:
        for (int from = 0; from < size; from++)
            for (int64_t i = 0; i < count_of(tensor, from, size); i++)
                out[at++] = value_of(tensor, from, i);
        return at;
    case SENT:
        for (; at < n; at++)
            out[at] = value_of(tensor, size - 1, at);
        return at;
    case SPLIT:
        for (int from = 0; from < size; from++)
            for (int64_t i = 0; i < 2; i++)
                out[at++] = value_of(tensor, from, 2 * rank + i);
        return at;
    default:
        for (; at < hvd_rows_of(n, rank, size); at++)
            out[at] = sum_of(tensor, size, scattered_from(rank, size) + at);
        return at;
    }
}

static void check(struct fleet *w, int tensor, int rank, const struct held *held)
{
    struct hvd_device_port *d = w->devices[rank];
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};
    float expected[MAX_COUNT];
    float seen[MAX_COUNT];
    hvd_status_t st = wait_for(w, rank, held->handle, &outcome, &err);

    if (st != HVD_OK)
        fail_msg("tensor %d on rank %d: %s", tensor, rank, err.msg);
    if (tensor == ADASUM)
        return; /* test_adasum.c knows what it is; here: that it ends */
    const int64_t n = expect(tensor, rank, w->size, expected);
    fake_get(d, seen, outcome.output ? outcome.output->data : held->output,
             (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        if (seen[i] < expected[i] - 0.001F || seen[i] > expected[i] + 0.001F)
            fail_msg("tensor %d on rank %d of %d: element %d is %g, not %g", tensor, rank, w->size,
                     (int)i, (double)seen[i], (double)expected[i]);
    hvd_output_destroy(outcome.output);
}

/* One of each, submitted in another order on each rank. */
static void run_all(struct fleet *w, struct held (*held)[MAX_RANKS])
{
    const bool has_adasum = (w->size & (w->size - 1)) == 0;

    for (int rank = 0; rank < w->size; rank++) {
        for (int i = 0; i < N_TENSORS; i++) {
            const int tensor = (i + rank) % N_TENSORS;
            int64_t splits[MAX_RANKS];
            float values[MAX_COUNT];
            held[tensor][rank].handle = 0;
            if (tensor == ADASUM && !has_adasum)
                continue;
            const struct hvd_submission s = describe(tensor, rank, w->size, splits);
            for (int64_t k = 0; k < s.request.shape[0]; k++)
                values[k] = value_of(tensor, rank, k);
            held[tensor][rank] = submit(w, rank, &s, values);
        }
    }
}

/* Ends and judges what run_all submitted. */
static void check_all(struct fleet *w, struct held (*held)[MAX_RANKS])
{
    for (int i = 0; i < N_TENSORS * w->size; i++) {
        const int tensor = i / w->size;
        const int rank = i % w->size;
        if (held[tensor][rank].handle == 0)
            continue;
        check(w, tensor, rank, &held[tensor][rank]);
        drop(w, rank, &held[tensor][rank]);
    }
}

static void every_collective_is_what_it_is_on_the_host(void **state)
{
    static struct held held[N_TENSORS][MAX_RANKS];

    (void)state;
    for (unsigned k = 0; k < N_SIZES * N_ABILITIES * 4; k++) {
        struct fleet w;
        const struct fake_options fake = {.seed = k, .max_delay = k % 4 * 2};
        open_fleet(&w, sizes[k % N_SIZES], (enum ability)(k / N_SIZES % N_ABILITIES), fake, -1);
        for (int round = 0; round < 3; round++) {
            run_all(&w, held);
            assert_true(settle(&w, held, N_TENSORS));
            check_all(&w, held);
        }
        close_fleet(&w);
    }
}

static void collectives_of_the_device_are_used_when_every_rank_has_them(void **state)
{
    static struct held held[N_TENSORS][MAX_RANKS];

    (void)state;
    for (int ability = 0; ability < N_ABILITIES; ability++) {
        struct fleet w;
        const struct fake_options fake = {.seed = 5, .max_delay = 1};
        open_fleet(&w, 3, (enum ability)ability, fake, -1);
        run_all(&w, held);
        assert_true(settle(&w, held, N_TENSORS));
        if (ability == DIRECT || ability == STEPPED)
            assert_true(fake_collectives(w.devices[0]) >= (ability == STEPPED ? 6 : 5));
        else
            assert_int_equal(fake_collectives(w.devices[0]), 0);
        check_all(&w, held);
        close_fleet(&w);
    }
}

/* --- Inputs that are not there ---------------------------------------------------------------- */

/* Agreement does not wait for the input, the device does. */
static void a_late_input_delays_the_device_and_no_agreement(void **state)
{
    const float values[4] = {1, 2, 3, 4};

    (void)state;
    for (unsigned seed = 0; seed < 12; seed++) {
        struct fleet w;
        struct held held[2][MAX_RANKS] = {0};
        const struct fake_options fake = {.seed = seed, .max_delay = 3};
        struct hvd_device_event *ready = fake_ready_create();
        open_fleet(&w, 3, (enum ability)(seed % N_ABILITIES), fake, -1);
        for (int rank = 0; rank < w.size; rank++) {
            const struct hvd_submission late = {.request = request(HVD_ALLREDUCE, "late", 4),
                                                .ready = rank == 1 ? ready : NULL};
            const struct hvd_submission other = {.request = request(HVD_ALLREDUCE, "other", 4)};
            held[0][rank] = submit(&w, rank, &late, values);
            held[1][rank] = submit(&w, rank, &other, values);
        }
        assert_false(settle(&w, held, 2));
        const bool is_direct = seed % N_ABILITIES == DIRECT;
        struct hvd_outcome outcome = {0};
        assert_int_equal(hvd_engine_wait_result(w.engines[1], held[0][1].handle, 0, &outcome, NULL),
                         HVD_INPROGRESS);
        assert_int_equal(hvd_engine_wait_for(w.engines[1], held[0][1].handle, 0, &outcome, NULL),
                         is_direct ? HVD_OK : HVD_INPROGRESS); /* it is launched */
        fake_ready_fire(ready, false);
        if (is_direct) {
            assert_int_equal(hvd_engine_await(w.engines[1], outcome.event, NULL), HVD_OK);
            hvd_device_event_release(outcome.event);
            held[0][1].handle = 0;
        }
        assert_true(settle(&w, held, 2));
        for (int i = 0; i < 2 * w.size; i++) {
            const int rank = i / 2;
            float seen[4];
            if (held[i % 2][rank].handle != 0)
                assert_int_equal(hvd_engine_wait_result(w.engines[rank], held[i % 2][rank].handle,
                                                        -1, NULL, NULL),
                                 HVD_OK);
            fake_get(w.devices[rank], seen, held[i % 2][rank].output, sizeof(seen));
            assert_true(seen[3] > 4 * (float)w.size - 0.5F);
            assert_true(seen[3] < 4 * (float)w.size + 0.5F);
            drop(&w, rank, &held[i % 2][rank]);
        }
        close_fleet(&w);
        fake_ready_free(ready);
    }
}

static void a_job_may_end_before_the_device_has_done_its_work(void **state)
{
    const float values[4] = {1, 2, 3, 4};
    struct fleet w;
    struct held held[1][MAX_RANKS] = {0};
    struct hvd_device_event *ready = fake_ready_create();

    (void)state;
    open_fleet(&w, 2, DIRECT, (struct fake_options){.seed = 1}, -1);
    for (int rank = 0; rank < w.size; rank++) {
        const struct hvd_submission s = {.request = request(HVD_ALLREDUCE, "t", 4), .ready = ready};
        held[0][rank] = submit(&w, rank, &s, values);
    }
    assert_false(settle(&w, held, 1)); /* launched, and not done */
    close_engines(&w);
    fake_ready_fire(ready, false);
    for (int turn = 0; turn < 10; turn++)
        fake_look();
    for (int rank = 0; rank < w.size; rank++) {
        float seen[4];
        fake_get(w.devices[rank], seen, held[0][rank].output, sizeof(seen));
        assert_true(seen[3] > 7.5F && seen[3] < 8.5F);
        drop(&w, rank, &held[0][rank]);
    }
    close_devices(&w);
    fake_ready_free(ready);
}

struct pilot {
    struct fleet *w;
    int rank;
};

/* A rank in a thread of its own. An input comes when others have been submitted. */
static void *fly(void *arg)
{
    const struct pilot *p = arg;
    const float values[4] = {1, 2, 3, 4};
    char names[6][8];

    for (int round = 0; round < 20; round++) {
        struct held held[6];
        struct hvd_device_event *ready = fake_ready_create();
        for (int i = 0; i < 6; i++) {
            const int at = (i + p->rank) % 6;
            snprintf(names[at], sizeof(names[at]), "t%d", at);
            const struct hvd_submission s = {.request = request(HVD_ALLREDUCE, names[at], 4),
                                             .ready = at == 2 ? ready : NULL};
            held[at] = submit(p->w, p->rank, &s, values);
        }
        for (int i = 5; i >= 0; i--) {
            struct hvd_err err = {0};
            float seen[4];
            if (i == 5) /* the device and host memory keep the agreed order */
                fake_ready_fire(ready, false);
            if (wait_for(p->w, p->rank, held[i].handle, NULL, &err) != HVD_OK)
                fail_msg("rank %d: %s", p->rank, err.msg);
            fake_get(p->w->devices[p->rank], seen, held[i].output, sizeof(seen));
            assert_true(seen[3] > 4 * (float)p->w->size - 0.5F);
            assert_true(seen[3] < 4 * (float)p->w->size + 0.5F);
            drop(p->w, p->rank, &held[i]);
        }
        fake_ready_free(ready);
    }
    return NULL;
}

static void with_threads_and_late_inputs_every_tensor_ends(void **state)
{
    (void)state;
    for (int ability = 0; ability < N_ABILITIES; ability++) {
        struct fleet w;
        struct pilot pilots[MAX_RANKS];
        pthread_t threads[MAX_RANKS];
        const struct fake_options fake = {.seed = (uint64_t)ability, .max_delay = 3};
        open_fleet(&w, 3, (enum ability)ability, fake, THREADS);
        for (int rank = 0; rank < w.size; rank++) {
            pilots[rank] = (struct pilot){.w = &w, .rank = rank};
            assert_int_equal(pthread_create(&threads[rank], NULL, fly, &pilots[rank]), 0);
        }
        for (int rank = 0; rank < w.size; rank++)
            pthread_join(threads[rank], NULL);
        close_fleet(&w);
    }
}

/* --- Ranks that differ ------------------------------------------------------------------------ */

#define ON_HOST 2 /* of four tensors: in the same plan, and never in the same fused operation */

static void submit_four(struct fleet *w, int rank, struct held (*held)[MAX_RANKS])
{
    static const float values[MAX_COUNT] = {1, 2, 3, 4, 5, 6};
    static const char *const names[] = {"a", "b", "on the host", "c"};

    for (int i = 0; i < 4; i++) {
        struct hvd_submission s = {.request = request(HVD_ALLREDUCE, names[i], 3 + i)};
        if (i != ON_HOST) {
            held[i][rank] = submit(w, rank, &s, values);
            continue;
        }
        s.request.device = HVD_CPU;
        held[i][rank].output = hvd_calloc(MAX_COUNT, sizeof(float));
        s.input = values;
        s.output = held[i][rank].output;
        assert_int_equal(hvd_engine_submit(w->engines[rank], &s, &held[i][rank].handle, NULL),
                         HVD_OK);
    }
}

/* n: the ranks that have given values. */
static void check_four(struct fleet *w, int rank, struct held (*held)[MAX_RANKS], int n)
{
    for (int i = 0; i < 4; i++) {
        struct held *h = &held[i][rank];
        float seen[3];
        assert_int_equal(wait_for(w, rank, h->handle, NULL, NULL), HVD_OK);
        if (i == ON_HOST) {
            memcpy(seen, h->output, sizeof(seen));
            hvd_free(h->output);
        } else {
            fake_get(w->devices[rank], seen, h->output, sizeof(seen));
            drop(w, rank, h);
        }
        assert_true(seen[2] > 3 * (float)n - 0.5F && seen[2] < 3 * (float)n + 0.5F);
    }
}

static void a_rank_that_has_joined_gives_zeros_with_and_without_a_device(void **state)
{
    const struct hvd_submission join = {.request = {.op = HVD_JOIN,
                                                    .reduce = HVD_SUM,
                                                    .prescale = 1,
                                                    .postscale = 1,
                                                    .name = hvd_strview_of("join")}};
    (void)state;
    for (unsigned k = 0; k < 2 * N_ABILITIES * 5; k++) {
        struct fleet w;
        struct held held[4][MAX_RANKS] = {0};
        const struct fake_options fake = {.seed = k, .max_delay = 2};
        const enum ability ability = (enum ability)(k / 2 % N_ABILITIES);
        const int joined = sized(ability, 3) - 1;
        int64_t handle = 0;
        open_fleet(&w, 3, ability, fake, k % 2 ? -1 : joined);
        assert_int_equal(hvd_engine_submit(w.engines[joined], &join, &handle, NULL), HVD_OK);
        for (int rank = 0; rank < joined; rank++)
            submit_four(&w, rank, held);
        assert_true(settle(&w, held, 4));
        for (int rank = 0; rank < joined; rank++)
            check_four(&w, rank, held, joined);
        close_fleet(&w);
    }
}

static void host_on_one_rank_and_device_on_another_is_a_mismatch(void **state)
{
    const float values[4] = {0};
    float here[4] = {0};
    struct fleet w;
    struct held held[1][MAX_RANKS] = {0};
    struct hvd_err err = {0};
    struct hvd_submission s = {.request = request(HVD_ALLREDUCE, "t", 4)};

    (void)state;
    open_fleet(&w, 2, STAGED, (struct fake_options){.seed = 1}, -1);
    held[0][0] = submit(&w, 0, &s, values);
    s.request.device = HVD_CPU;
    s.input = here;
    s.output = here;
    assert_int_equal(hvd_engine_submit(w.engines[1], &s, &held[0][1].handle, NULL), HVD_OK);
    assert_true(settle(&w, held, 1));
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(wait_for(&w, rank, held[0][rank].handle, NULL, &err), HVD_ERR_MISMATCH);
    assert_non_null(strstr(err.msg, "CPU/GPU device selection"));
    drop(&w, 0, &held[0][0]);
    close_fleet(&w);
}

static void a_rank_without_a_device_refuses_its_tensors(void **state)
{
    struct fleet w;
    struct hvd_err err = {0};
    int64_t handle = 0;
    const struct hvd_submission s = {.request = request(HVD_ALLREDUCE, "t", 4)};

    (void)state;
    open_fleet(&w, 1, STAGED, (struct fake_options){.seed = 1}, 0);
    assert_int_equal(hvd_engine_submit(w.engines[0], &s, &handle, &err), HVD_ERR_INVALID);
    assert_non_null(strstr(err.msg, "this rank has none"));
    close_fleet(&w);
}

/* --- Errors ----------------------------------------------------------------------------------- */

/* Ends a tensor of a rank, well or with a reason that names the device. Whether it failed. */
static bool end_with_reason(struct fleet *w, int rank, struct held *held)
{
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};
    const hvd_status_t st = wait_for(w, rank, held->handle, &outcome, &err);
    /* A peer may see that the collective is given up before it is told why. */
    const bool is_named =
        strstr(err.msg, "fake 0") || (rank != 0 && strstr(err.msg, "another rank gave up"));

    if (st != HVD_OK && (st != HVD_ERR_SHUTDOWN || !is_named))
        fail_msg("the reason on rank %d is: %s", rank, err.msg);
    hvd_output_destroy(outcome.output);
    drop(w, rank, held);
    return st != HVD_OK;
}

/* Every tensor of every rank ends; nothing stays. Whether something failed. */
static bool run_with_errors(int size, enum ability ability, struct fake_options fake)
{
    static struct held held[N_TENSORS][MAX_RANKS];
    struct fleet w;
    bool has_failed = false;

    open_fleet(&w, size, ability, fake, -1);
    run_all(&w, held);
    assert_true(settle(&w, held, N_TENSORS));
    for (int i = 0; i < N_TENSORS * w.size; i++)
        if (held[i / w.size][i % w.size].handle != 0 &&
            end_with_reason(&w, i % w.size, &held[i / w.size][i % w.size]))
            has_failed = true;
    close_fleet(&w);
    return has_failed;
}

static void a_launch_that_fails_ends_the_job_with_its_reason(void **state)
{
    (void)state;
    for (int ability = 0; ability < N_ABILITIES; ability++) {
        int n = 1;
        while (run_with_errors(
            3, (enum ability)ability,
            (struct fake_options){.seed = (uint64_t)n, .max_delay = 3, .fail_launch = n}))
            n++;
        assert_true(n > 5);
    }
}

static void memory_that_runs_out_ends_the_job_with_its_reason(void **state)
{
    (void)state;
    for (int ability = 0; ability < N_ABILITIES; ability++) {
        int n = 1;
        while (run_with_errors(
            2, (enum ability)ability,
            (struct fake_options){.seed = (uint64_t)n, .max_delay = 3, .fail_alloc = n}))
            n++;
        assert_true(n > 2);
    }
}

static void an_event_that_fails_ends_the_job_with_its_reason(void **state)
{
    (void)state;
    for (int ability = 0; ability < N_ABILITIES; ability++) {
        int n = 1;
        while (n < 40 && run_with_errors(3, (enum ability)ability,
                                         (struct fake_options){
                                             .seed = (uint64_t)n, .max_delay = 3, .fail_event = n}))
            n++;
        assert_true(n > 5);
    }
}

static void an_input_that_fails_ends_the_job_with_its_reason(void **state)
{
    const float values[4] = {0};
    struct fleet w;
    struct held held[1][MAX_RANKS] = {0};
    struct hvd_err err = {0};
    struct hvd_device_event *ready = fake_ready_create();

    (void)state;
    open_fleet(&w, 2, STAGED, (struct fake_options){.seed = 1}, -1);
    for (int rank = 0; rank < w.size; rank++) {
        const struct hvd_submission s = {.request = request(HVD_ALLREDUCE, "bad", 4),
                                         .ready = rank == 1 ? ready : NULL};
        held[0][rank] = submit(&w, rank, &s, values);
    }
    assert_int_equal(hvd_engine_poll(w.engines[1], held[0][1].handle), 0);
    fake_ready_fire(ready, true);
    assert_true(settle(&w, held, 1));
    assert_int_equal(hvd_engine_wait(w.engines[0], held[0][0].handle, NULL, &err),
                     HVD_ERR_SHUTDOWN);
    assert_non_null(strstr(err.msg, "Rank 1"));
    assert_non_null(strstr(err.msg, "tensor bad: fake 0"));
    for (int rank = 0; rank < w.size; rank++)
        drop(&w, rank, &held[0][rank]);
    close_fleet(&w);
    fake_ready_free(ready);
}

/* --- Memory ----------------------------------------------------------------------------------- */

static void a_loop_takes_no_memory_of_its_own(void **state)
{
    static struct held held[2][MAX_RANKS];
    const float values[4] = {1, 2, 3, 4};

    (void)state;
    for (int ability = 0; ability < N_ABILITIES; ability++) {
        struct fleet w;
        long before = 0;
        open_fleet(&w, 2, (enum ability)ability, (struct fake_options){.seed = 3, .max_delay = 2},
                   -1);
        for (int round = 0; round < 12; round++) {
            for (int rank = 0; rank < w.size; rank++) {
                const struct hvd_submission a = {.request = request(HVD_ALLREDUCE, "a", 4)};
                const struct hvd_submission b = {.request = request(HVD_ALLREDUCE, "b", 4)};
                held[0][rank] = submit(&w, rank, &a, values);
                held[1][rank] = submit(&w, rank, &b, values);
            }
            assert_true(settle(&w, held, 2));
            for (int i = 0; i < 2; i++)
                for (int rank = 0; rank < w.size; rank++) {
                    assert_int_equal(wait_for(&w, rank, held[i][rank].handle, NULL, NULL), HVD_OK);
                    drop(&w, rank, &held[i][rank]);
                }
            if (round == 8)
                before = hvd_mem_live();
        }
        assert_int_equal(hvd_mem_live(), before);
        close_fleet(&w);
    }
}

static void a_larger_fused_op_takes_one_larger_block(void **state)
{
    enum { LARGE = 40000 };
    static float values[LARGE];
    struct fleet w;

    (void)state;
    values[LARGE - 1] = 5;
    int n_sizes = 0;
    open_fleet(&w, 2, STAGED, (struct fake_options){.seed = 3, .max_delay = 2}, -1);
    for (int64_t count = 10000; count <= LARGE; count *= 2) {
        struct held held[1][MAX_RANKS] = {0};
        for (int rank = 0; rank < 2; rank++) {
            struct hvd_device_port *d = w.devices[rank];
            struct hvd_submission s = {.request = request(HVD_ALLREDUCE, "t", count)};
            held[0][rank].input = fake_put(d, values, sizeof(values));
            held[0][rank].output = fake_put(d, values, sizeof(values));
            s.input = held[0][rank].input;
            s.output = held[0][rank].output;
            assert_int_equal(hvd_engine_submit(w.engines[rank], &s, &held[0][rank].handle, NULL),
                             HVD_OK);
        }
        assert_true(settle(&w, held, 1));
        for (int rank = 0; rank < 2; rank++) {
            float last = 0;
            assert_int_equal(wait_for(&w, rank, held[0][rank].handle, NULL, NULL), HVD_OK);
            fake_get(w.devices[rank], &last, held[0][rank].output + count - 1, sizeof(last));
            assert_true(last > (count == LARGE ? 9.5F : -0.5F));
            drop(&w, rank, &held[0][rank]);
        }
        assert_true(fake_host_blocks(w.devices[0]) <= ++n_sizes);
    }
    shut_down_all(&w);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(fake_host_blocks(w.devices[rank]), 0); /* the program may go on */
        hvd_engine_destroy(w.engines[rank]);
    }
    close_devices(&w);
}

static void an_output_outlives_its_engine(void **state)
{
    const float values[2] = {3, 4};
    float seen[4];
    struct fleet w;
    struct held held[1][MAX_RANKS] = {0};
    struct hvd_outcome outcome[2] = {0};

    (void)state;
    open_fleet(&w, 2, STAGED, (struct fake_options){.seed = 2, .max_delay = 2}, -1);
    for (int rank = 0; rank < 2; rank++) {
        const struct hvd_submission s = {.request = request(HVD_ALLGATHER, "g", 2)};
        held[0][rank] = submit(&w, rank, &s, values);
    }
    assert_true(settle(&w, held, 1));
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(wait_for(&w, rank, held[0][rank].handle, &outcome[rank], NULL), HVD_OK);
        drop(&w, rank, &held[0][rank]);
    }
    close_engines(&w);
    for (int rank = 0; rank < 2; rank++) {
        fake_get(w.devices[rank], seen, outcome[rank].output->data, sizeof(seen));
        assert_memory_equal(seen, ((const float[]){3, 4, 3, 4}), sizeof(seen));
        hvd_output_destroy(outcome[rank].output);
    }
    close_devices(&w);
}

/* --- The same memory in several tensors ------------------------------------------------------- */

static int64_t submit_at(struct fleet *w, int rank, struct hvd_submission *s, float *at)
{
    int64_t handle = 0;

    s->input = at;
    s->output = hvd_op_keeps_shape(s->request.op) ? at : NULL;
    assert_int_equal(hvd_engine_submit(w->engines[rank], s, &handle, NULL), HVD_OK);
    return handle;
}

/* All of `n` elements, into a buffer of the host. */
static void all_are(struct fleet *w, int rank, const float *at, int64_t n, float wanted)
{
    float got[MAX_COUNT * MAX_RANKS];

    fake_get(w->devices[rank], got, at, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != wanted)
            fail_msg("rank %d of %d has %g and not %g", rank, w->size, (double)got[i],
                     (double)wanted);
}

/* Sums in place, each with its own factor: they are not fused. */
static void sum_twice(struct fleet *w)
{
    struct held held[2][MAX_RANKS];
    float *at[MAX_RANKS];
    const int size = w->size;
    const float first = (float)(size * (size + 1)) / 2;

    for (int rank = 0; rank < size; rank++) {
        const float mine = (float)(rank + 1);
        at[rank] = fake_put(w->devices[rank], &mine, sizeof(mine));
        for (int i = 0; i < 2; i++) {
            struct hvd_submission s = {.request = request(HVD_ALLREDUCE, i ? "b" : "a", 1)};
            s.request.prescale = i + 1;
            held[i][rank].handle = submit_at(w, rank, &s, at[rank]);
        }
    }
    assert_true(settle(w, held, 2));
    for (int rank = 0; rank < size; rank++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(wait_for(w, rank, held[i][rank].handle, NULL, NULL), HVD_OK);
        all_are(w, rank, at[rank], 1, 2 * (float)size * first);
        w->devices[rank]->ops->free(w->devices[rank], at[rank], NULL);
    }
}

/* An alltoall and an allgather read what sums write: each what the one in front has left. */
enum { SPLIT_FIRST, SUM_FIRST, GATHER, SUM_LAST, N_MIXED };

static void submit_mixed(struct fleet *w, int rank, float *at, struct held (*held)[MAX_RANKS])
{
    static const enum hvd_op ops[] = {HVD_ALLTOALL, HVD_ALLREDUCE, HVD_ALLGATHER, HVD_ALLREDUCE};
    static const char *const names[] = {"split", "sum", "gather", "last"};
    int64_t splits[MAX_RANKS];

    for (int i = 0; i < w->size; i++)
        splits[i] = 2;
    for (int i = 0; i < N_MIXED; i++) {
        struct hvd_submission s = {.request = request(ops[i], names[i], 2 * (int64_t)w->size)};
        s.splits = ops[i] == HVD_ALLTOALL ? splits : NULL;
        s.request.prescale = i == SUM_LAST ? 2 : 1;
        held[i][rank].handle = submit_at(w, rank, &s, at);
    }
}

static void read_and_write(struct fleet *w)
{
    struct held held[N_MIXED][MAX_RANKS];
    float *at[MAX_RANKS];
    const int size = w->size;
    const float sum = (float)(size * (size + 1)) / 2;

    for (int rank = 0; rank < size; rank++) {
        float mine[2 * MAX_RANKS];
        for (int i = 0; i < 2 * size; i++)
            mine[i] = (float)(rank + 1);
        at[rank] = fake_put(w->devices[rank], mine, 2 * (size_t)size * sizeof(float));
        submit_mixed(w, rank, at[rank], held);
    }
    assert_true(settle(w, held, N_MIXED));
    for (int rank = 0; rank < size; rank++) {
        struct hvd_outcome outcomes[N_MIXED] = {0};
        for (int i = 0; i < N_MIXED; i++)
            assert_int_equal(wait_for(w, rank, held[i][rank].handle, &outcomes[i], NULL), HVD_OK);
        const float *sent = outcomes[SPLIT_FIRST].output->data;
        for (int from = 0; from < size; from++)
            all_are(w, rank, sent + (ptrdiff_t)2 * from, 2, (float)(from + 1));
        all_are(w, rank, outcomes[GATHER].output->data, 2 * (int64_t)size * size, sum);
        all_are(w, rank, at[rank], 2 * (int64_t)size, 2 * (float)size * sum);
        hvd_output_destroy(outcomes[SPLIT_FIRST].output);
        hvd_output_destroy(outcomes[GATHER].output);
        w->devices[rank]->ops->free(w->devices[rank], at[rank], NULL);
    }
}

static void flights_with_the_same_memory_of_the_device_move_one_after_the_other(void **state)
{
    (void)state;
    for (unsigned k = 0; k < N_SIZES * N_ABILITIES * 8; k++) {
        const struct fake_options fake = {.seed = k, .max_delay = k % 4 * 2};
        struct fleet w;
        open_fleet(&w, sizes[k % N_SIZES], (enum ability)(k / N_SIZES % N_ABILITIES), fake, -1);
        for (int turn = 0; turn < 3; turn++) { /* by name, then by a bit */
            sum_twice(&w);
            read_and_write(&w);
        }
        close_fleet(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_what_it_is_on_the_host),
        cmocka_unit_test(collectives_of_the_device_are_used_when_every_rank_has_them),
        cmocka_unit_test(a_late_input_delays_the_device_and_no_agreement),
        cmocka_unit_test(a_job_may_end_before_the_device_has_done_its_work),
        cmocka_unit_test(with_threads_and_late_inputs_every_tensor_ends),
        cmocka_unit_test(a_rank_that_has_joined_gives_zeros_with_and_without_a_device),
        cmocka_unit_test(host_on_one_rank_and_device_on_another_is_a_mismatch),
        cmocka_unit_test(a_rank_without_a_device_refuses_its_tensors),
        cmocka_unit_test(a_launch_that_fails_ends_the_job_with_its_reason),
        cmocka_unit_test(memory_that_runs_out_ends_the_job_with_its_reason),
        cmocka_unit_test(an_event_that_fails_ends_the_job_with_its_reason),
        cmocka_unit_test(an_input_that_fails_ends_the_job_with_its_reason),
        cmocka_unit_test(a_loop_takes_no_memory_of_its_own),
        cmocka_unit_test(a_larger_fused_op_takes_one_larger_block),
        cmocka_unit_test(an_output_outlives_its_engine),
        cmocka_unit_test(flights_with_the_same_memory_of_the_device_move_one_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
