#include "tests/unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/worker/engine/world.h"

#define N 100
#define N_THREADS 3
#define STEPS 30

/* Tensors of a rank, submitted in an order of its own. */
struct tensors {
    char names[N][16];
    int order[N];
    int64_t input[N];
    int64_t output[N];
    int64_t handles[N];
};

static void fill(struct tensors *t, unsigned seed)
{
    for (int i = 0; i < N; i++) {
        snprintf(t->names[i], sizeof(t->names[i]), "tensor.%d", i);
        t->order[i] = i;
    }
    for (int i = N - 1; i > 0; i--) {
        const int j = rand_r(&seed) % (i + 1);
        const int moved = t->order[i];
        t->order[i] = t->order[j];
        t->order[j] = moved;
    }
}

static const int64_t one = 1;

static struct hvd_described describe(const char *name, const void *input, void *output)
{
    return (struct hvd_described){.op = HVD_ALLREDUCE,
                                  .dtype = HVD_INT64,
                                  .reduce = HVD_SUM,
                                  .device = HVD_CPU,
                                  .ndim = 1,
                                  .prescale = 1,
                                  .postscale = 1,
                                  .shape = &one,
                                  .name = name,
                                  .input = input,
                                  .output = output};
}

/* Submits the way the API does; whether it was expected. */
static bool submit(struct hvd_engine *e, const char *name, const int64_t *input, int64_t *output,
                   int64_t *handle)
{
    const struct hvd_described d = describe(name, input, output);
    const struct hvd_submission s = {
        .request = world_request(HVD_ALLREDUCE, name, 1), .input = input, .output = output};

    if (hvd_engine_submit_expected(e, &d, handle))
        return true;
    return hvd_engine_submit(e, &s, handle, NULL) != HVD_OK; /* a failure shows as well */
}

/* All tensors of all ranks; how many were expected. */
static int step(struct world *w, struct tensors *tensors)
{
    int n_expected = 0;

    for (int rank = 0; rank < w->size; rank++) {
        struct tensors *t = &tensors[rank];
        for (int k = 0; k < N; k++) {
            const int i = t->order[k];
            t->input[i] = rank * N + i;
            n_expected +=
                submit(w->engines[rank], t->names[i], &t->input[i], &t->output[i], &t->handles[i]);
        }
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++) {
        struct tensors *t = &tensors[rank];
        for (int i = 0; i < N; i++) {
            assert_int_equal(hvd_engine_wait(w->engines[rank], t->handles[i], NULL, NULL), HVD_OK);
            assert_int_equal(t->output[i], w->size * (w->size - 1) / 2 * N + w->size * i);
        }
    }
    return n_expected;
}

#define N_GROUP 5

/* Submits a group of all ranks the way the API does, and waits; on how many it was expected. */
static int group_step(struct world *w, const char *base, uint32_t n, int64_t *data)
{
    static int64_t handles[MAX_RANKS][N_GROUP];
    struct hvd_described d[N_GROUP];
    struct hvd_submission s[N_GROUP];
    char names[N_GROUP][64];
    int n_expected = 0;

    for (int rank = 0; rank < w->size; rank++) {
        for (uint32_t i = 0; i < n; i++) {
            int64_t *at = &data[(uint32_t)rank * N_GROUP + i];
            snprintf(names[i], sizeof(names[i]), "%s_%uof%u", base, i + 1, n);
            *at = rank + 1;
            d[i] = describe(names[i], at, at);
            d[i].group_size = n;
            s[i] = (struct hvd_submission){
                .request = world_request(HVD_ALLREDUCE, names[i], 1), .input = at, .output = at};
        }
        if (hvd_engine_submit_expected_group(w->engines[rank], d, n, handles[rank]))
            n_expected++;
        else
            assert_int_equal(hvd_engine_submit_group(w->engines[rank], s, n, handles[rank], NULL),
                             HVD_OK);
    }
    world_settle(w);
    for (int rank = 0; rank < w->size; rank++) {
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(hvd_engine_wait(w->engines[rank], handles[rank][i], NULL, NULL),
                             HVD_OK);
            assert_int_equal(data[(uint32_t)rank * N_GROUP + i], w->size * (w->size + 1) / 2);
        }
    }
    return n_expected;
}

/* A group with a head (core/group_name.h), which is asked for last, and one without. */
static void a_group_that_comes_again_is_expected(void **state)
{
    static const char *const bases[] = {"grouped_g", "group"};
    static int64_t data[MAX_RANKS * N_GROUP];
    struct world w;

    (void)state;
    for (int k = 0; k < 6; k++) {
        const char *base = bases[k % 2];
        world_open(&w, k / 2 + 1, (uint64_t)k + 1, &world_manual);
        assert_int_equal(group_step(&w, base, N_GROUP, data), 0);
        for (int i = 0; i < 2; i++) /* the order is learned */
            group_step(&w, base, N_GROUP, data);
        const unsigned long before = hvd_mem_allocations();
        assert_int_equal(group_step(&w, base, N_GROUP, data), w.size);
        assert_int_equal(hvd_mem_allocations(), before);
        assert_int_equal(group_step(&w, base, N_GROUP - 1, data), 0); /* another group */
        group_step(&w, base, N_GROUP, data);
        world_close(&w);
        assert_int_equal(hvd_mem_live(), 0);
    }
}

static void tensors_in_the_order_of_the_last_step_are_expected(void **state)
{
    static const int sizes[] = {1, 2, 3, 8};
    static struct tensors tensors[MAX_RANKS];
    struct world w;

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        world_open(&w, sizes[s], 7, &world_manual);
        for (int rank = 0; rank < w.size; rank++)
            fill(&tensors[rank], (unsigned)rank + 1);
        assert_int_equal(step(&w, tensors), 0);
        step(&w, tensors); /* the order is learned */
        step(&w, tensors); /* and what begins the next step */
        assert_int_equal(step(&w, tensors), N * w.size);
        const unsigned long before = hvd_mem_allocations();
        assert_int_equal(step(&w, tensors), N * w.size);
        assert_int_equal(hvd_mem_allocations(), before);
        fill(&tensors[0], 99); /* another order is learned again, and the results are right */
        assert_true(step(&w, tensors) < N * w.size);
        step(&w, tensors);
        step(&w, tensors);
        assert_int_equal(step(&w, tensors), N * w.size);
        world_close(&w);
    }
}

static void only_the_very_tensor_is_expected(void **state)
{
    static const int64_t two = 2;
    struct world w;
    int64_t data[4] = {0};
    int64_t handle = 0;
    struct hvd_described d = describe("a", data, data);

    (void)state;
    world_open(&w, 1, 3, &world_manual);
    struct hvd_engine *e = w.engines[0];
    for (int i = 0; i < 3; i++) {
        submit(e, "a", data, data, &handle);
        assert_int_equal(hvd_engine_wait(e, handle, NULL, NULL), HVD_OK);
    }
    struct hvd_described wrong[12];
    for (size_t i = 0; i < 12; i++)
        wrong[i] = d;
    wrong[0].name = "b";
    wrong[1].name = "";
    wrong[2].dtype = HVD_FLOAT64;
    wrong[3].reduce = HVD_AVERAGE;
    wrong[4].prescale = 0.5;
    wrong[5].postscale = 2;
    wrong[6].shape = &two;
    wrong[7].ndim = 0;
    wrong[8].set = 1;
    wrong[9].input = NULL;
    wrong[10].output = NULL;
    wrong[11].output = (char *)data + 4; /* overlaps in part */
    for (size_t i = 0; i < 12; i++)
        assert_false(hvd_engine_submit_expected(e, &wrong[i], &handle));
    assert_true(hvd_engine_submit_expected(e, &d, &handle));
    int64_t other = 0;
    assert_false(hvd_engine_submit_expected(e, &d, &other)); /* it is pending */
    assert_int_equal(hvd_engine_poll(e, handle), 1);
    assert_false(hvd_engine_submit_expected(e, &d, &other)); /* nobody has waited for it yet */
    submit(e, "a", data, data, &other);
    assert_int_not_equal(other, handle);
    assert_int_equal(hvd_engine_wait(e, handle, NULL, NULL), HVD_OK);
    assert_int_equal(hvd_engine_wait(e, handle, NULL, NULL), HVD_ERR_NOT_FOUND);
    assert_int_equal(hvd_engine_poll(e, handle), -1);
    assert_int_equal(hvd_engine_wait(e, other, NULL, NULL), HVD_OK);
    assert_true(hvd_engine_submit_expected(e, &d, &handle));
    assert_int_equal(hvd_engine_wait(e, handle, NULL, NULL), HVD_OK);
    world_close(&w);
}

/* --- Threads ---------------------------------------------------------------------------------- */

static atomic_int n_expected;

/* A thread of a rank, with tensors of its own. */
struct worker {
    struct world *world;
    int rank;
    int number;
};

static void *work(void *arg)
{
    const struct worker *me = arg;
    struct hvd_engine *e = me->world->engines[me->rank];
    const int size = me->world->size;
    struct tensors *t = calloc(1, sizeof(*t));

    fill(t, (unsigned)(me->rank + 7 * me->number));
    for (int i = 0; i < N; i++)
        snprintf(t->names[i], sizeof(t->names[i]), "%d.%d", me->number, i);
    for (int s = 0; s < STEPS; s++) {
        for (int k = 0; k < N; k++) {
            const int i = t->order[k];
            t->input[i] = me->rank + i + s;
            atomic_fetch_add(&n_expected,
                             submit(e, t->names[i], &t->input[i], &t->output[i], &t->handles[i]));
        }
        for (int i = 0; i < N; i++) {
            const bool is_done = i % 3 || hvd_engine_poll(e, t->handles[i]) >= 0;
            const hvd_status_t st = hvd_engine_wait(e, t->handles[i], NULL, NULL);
            world_expect(is_done && st == HVD_OK &&
                             t->output[i] == size * (size - 1) / 2 + size * (i + s),
                         t->names[i], me->rank);
        }
    }
    free(t);
    return NULL;
}

static void run_workers(struct world *w, int rank)
{
    pthread_t threads[N_THREADS];
    struct worker workers[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.world = w, .rank = rank, .number = i};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            abort();
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void threads_submit_and_wait_at_the_same_time(void **state)
{
    struct world w;

    (void)state;
    world_open(&w, 2, 11, &world_threaded);
    world_run(&w, run_workers);
    assert_int_equal(world_problems(), 0);
    assert_true(n_expected > 0);
    world_close(&w);
}

/* Two threads wait for the same handles: each is one's. */
struct rivals {
    struct hvd_engine *engine;
    int64_t *handles;
    atomic_int n_ended;
};

static void *wait_for_all(void *arg)
{
    struct rivals *r = arg;

    for (int i = 0; i < N; i++)
        if (hvd_engine_wait(r->engine, r->handles[i], NULL, NULL) == HVD_OK)
            atomic_fetch_add(&r->n_ended, 1);
    return NULL;
}

static void of_two_threads_that_wait_for_a_tensor_one_does(void **state)
{
    static struct tensors t;
    struct world w;
    pthread_t threads[2];

    (void)state;
    fill(&t, 1);
    world_open(&w, 1, 5, &world_threaded);
    for (int s = 0; s < STEPS; s++) {
        struct rivals rivals = {.engine = w.engines[0], .handles = t.handles};
        for (int k = 0; k < N; k++)
            submit(w.engines[0], t.names[k], &t.input[k], &t.output[k], &t.handles[k]);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_all, &rivals), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(rivals.n_ended, N);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_in_the_order_of_the_last_step_are_expected),
        cmocka_unit_test(a_group_that_comes_again_is_expected),
        cmocka_unit_test(only_the_very_tensor_is_expected),
        cmocka_unit_test(threads_submit_and_wait_at_the_same_time),
        cmocka_unit_test(of_two_threads_that_wait_for_a_tensor_one_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
