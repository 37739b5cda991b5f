/*
 * Allreduces in three steps, over the torus and over the memory of the hosts: the pure part, and
 * hosts with several ranks each on the adapter and the doubles.
 */
#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/worker/device/cuda/ranks.h"
#include "worker/core/local_ranks.h"
#include "worker/device/cuda/nccl_api.h"
#include "worker/device/cuda/torus.h"

/* --- Places and shares ------------------------------------------------------------------------ */

#define NONE                                                                                       \
    (struct hvd_torus)                                                                             \
    {                                                                                              \
        0                                                                                          \
    }

static void expect_place(const int *hosts, int size, int rank, struct hvd_torus wanted)
{
    int *local_ranks = NULL;

    if (hosts)
        assert_int_equal(hvd_local_ranks_of(hosts, size, &local_ranks), HVD_OK);
    const struct hvd_torus seen = hvd_torus_of(hosts, local_ranks, size, rank);
    hvd_free(local_ranks);
    assert_int_equal(seen.local_size, wanted.local_size);
    assert_int_equal(seen.local_rank, wanted.local_rank);
    assert_int_equal(seen.host, wanted.host);
}

static void a_torus_needs_several_equal_hosts(void **state)
{
    const int pairs[] = {7, 7, 3, 3, 5, 5};
    const int mixed[] = {0, 1, 0, 1};
    const int uneven[] = {0, 0, 0, 1, 1};
    const int alone[] = {0, 1, 2};
    const int same[] = {4, 4};

    (void)state;
    for (int i = 0; i < 6; i++)
        expect_place(pairs, 6, i,
                     (struct hvd_torus){.host = i / 2 * 2, .local_rank = i % 2, .local_size = 2});
    for (int i = 0; i < 4; i++)
        expect_place(mixed, 4, i,
                     (struct hvd_torus){.host = i % 2, .local_rank = i / 2, .local_size = 2});
    for (int i = 0; i < 5; i++)
        expect_place(uneven, 5, i, NONE);
    for (int i = 0; i < 3; i++)
        expect_place(alone, 3, i, NONE);
    expect_place(same, 2, 1, NONE);
    expect_place(NULL, 4, 3, NONE);
}

static void shares_are_aligned_and_cover_the_message(void **state)
{
    (void)state;
    for (size_t width = 1; width <= 8; width *= 2) {
        for (int local = 2; local <= 8; local++) {
            for (size_t count = 0; count < 5000; count += 1 + count / 3) {
                const struct hvd_torus_share s = hvd_torus_share_of(count, width, local);
                assert_int_equal(s.chunk * (size_t)local + s.rest, count);
                assert_int_equal(s.chunk * width % 256, 0);
                assert_true(s.rest * width < 256 * (size_t)local);
            }
        }
    }
}

static void short_messages_and_averages_of_integers_stay_flat(void **state)
{
    (void)state;
    assert_false(hvd_torus_moves(1000, HVD_FLOAT32, false));
    assert_true(hvd_torus_moves(1 << 20, HVD_FLOAT32, true));
    assert_true(hvd_torus_moves(1 << 20, HVD_INT32, false));
    assert_false(hvd_torus_moves(1 << 20, HVD_INT32, true));
}

static void the_factor_of_an_average_is_rounded_once(void **state)
{
    double wide = 0;
    float narrow = 0;
    uint16_t half = 0;

    (void)state;
    hvd_torus_factor(HVD_FLOAT64, 12, &wide);
    assert_true(wide > 1 / 12.0 - 1e-17 && wide < 1 / 12.0 + 1e-17);
    hvd_torus_factor(HVD_FLOAT32, 12, &narrow);
    assert_memory_equal(&narrow, &(const float){1 / 12.0F}, sizeof(narrow));
    hvd_torus_factor(HVD_FLOAT16, 4, &half);
    assert_int_equal(half, 0x3400);
    hvd_torus_factor(HVD_BFLOAT16, 12, &half);
    assert_int_equal(half, 0x3dab);
}

/* --- On the adapter --------------------------------------------------------------------------- */

/* Three steps, with NCCL alone or with the second one in host memory. */
static const struct ranks_machine two_by_two[] = {
    {.size = 4, .ranks_per_host = 2, .options = {.has_torus = true}},
    {.size = 4, .ranks_per_host = 2, .options = {.has_hierarchy = true}}};
#define N_WAYS 2

static void reduce_every_type(const struct rank *r, void *shared)
{
    static const enum hvd_reduce reductions[] = {HVD_SUM, HVD_AVERAGE, HVD_PRODUCT};

    (void)shared;
    for (int dtype = 0; dtype < HVD_DTYPES; dtype += DTYPE_STEP)
        for (size_t i = 0; i < sizeof(reductions) / sizeof(*reductions); i++)
            ranks_reduce(r, (enum hvd_dtype)dtype, reductions[i]);
}

static void reduce_one_type(const struct rank *r, void *shared)
{
    ranks_reduce(r, *(const enum hvd_dtype *)shared, HVD_SUM);
}

static void three_steps_reduce_every_type(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++) {
        const long before = fake_gpu_calls("ncclReduceScatter");
        const long splits = fake_gpu_calls("ncclCommSplit");
        ranks_run_on(&two_by_two[way], reduce_every_type, NULL);
        assert_true(fake_gpu_calls("ncclReduceScatter") > before);
        assert_int_equal(fake_gpu_calls("ncclCommSplit") - splits, way == 0 ? 8 : 4);
    }
}

/* Without the option, on one host, and with a rank too many, all is flat. */
static void other_jobs_stay_flat(void **state)
{
    static const struct ranks_machine machines[] = {
        {.size = 4, .ranks_per_host = 2},
        {.size = 2, .options = {.has_torus = true}},
        {.size = 2, .options = {.has_hierarchy = true}},
        {.size = 3, .ranks_per_host = 2, .options = {.has_hierarchy = true}},
        {.size = 3, .ranks_per_host = 2, .options = {.has_torus = true}}};
    const long splits = fake_gpu_calls("ncclCommSplit");

    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
        const enum hvd_dtype dtype = HVD_FLOAT32;
        ranks_run_on(&machines[i], reduce_one_type, (void *)&dtype);
    }
    assert_int_equal(fake_gpu_calls("ncclCommSplit"), splits);
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* ten times as slow */
#define LONG 140003
#define CASE_STEP 3
#else
#define LONG 300007
#define CASE_STEP 1
#endif
#define N_BITS 3

/* Results of all ranks: a long tensor by itself, and a long and a short one that are fused. */
struct bits {
    enum hvd_reduce reduce;
    double prescale;
    float result[RANKS_MAX][N_BITS][LONG];
};

static const int64_t bit_counts[N_BITS] = {LONG, LONG / 2, 5};

static float odd_input(int rank, int64_t i)
{
    return 1.0F / (float)(rank + i % 1000 + 1);
}

static void reduce_odd_values(const struct rank *r, void *shared)
{
    struct bits *b = shared;
    struct tensor tensors[N_BITS];

    for (int k = 0; k < N_BITS; k++) {
        struct hvd_submission s = {
            .request = tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, b->reduce, bit_counts[k])};
        s.request.prescale = b->prescale;
        tensors[k] = tensor_create(r, (size_t)bit_counts[k] * sizeof(float));
        snprintf(tensors[k].name, sizeof(tensors[k].name), "bits.%d", k);
        for (int64_t i = 0; i < bit_counts[k]; i++)
            ((float *)tensors[k].host)[i] = odd_input(r->rank, i);
        GOOD(r,
             cuMemcpyHtoDAsync_v2(tensors[k].memory, tensors[k].host, tensors[k].bytes, r->stream));
        s.output = fake_pointer(tensors[k].memory);
        tensor_submit(r, &tensors[k], &s);
    }
    for (int k = 0; k < N_BITS; k++) {
        (void)tensor_wait(r, &tensors[k]);
        memcpy(b->result[r->rank][k],
               tensor_fetch(r, &tensors[k], fake_pointer(tensors[k].memory), tensors[k].bytes),
               tensors[k].bytes);
        tensor_destroy(r, &tensors[k]);
    }
}

static void check_bits(const struct bits *b, int size)
{
    for (int k = 0; k < N_BITS; k++) {
        for (int rank = 1; rank < size; rank++)
            assert_memory_equal(b->result[0][k], b->result[rank][k],
                                (size_t)bit_counts[k] * sizeof(float));
        for (int64_t i = 0; i < bit_counts[k]; i++) {
            float wanted = 0;
            for (int rank = 0; rank < size; rank++)
                wanted += odd_input(rank, i);
            wanted *= (float)b->prescale / (b->reduce == HVD_AVERAGE ? (float)size : 1);
            assert_float_equal(b->result[0][k][i], wanted, wanted * 1e-6F);
        }
    }
}

static void results_are_right_and_have_the_same_bits_on_all_ranks(void **state)
{
    static struct bits b;
    static const struct {
        enum hvd_reduce reduce;
        double prescale;
    } cases[] = {{HVD_SUM, 1}, {HVD_AVERAGE, 1}, {HVD_AVERAGE, 0.5}};

    (void)state;
    for (int way = 0; way < N_WAYS; way++)
        for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c += CASE_STEP) {
            b.reduce = cases[c].reduce;
            b.prescale = cases[c].prescale;
            ranks_run_on(&two_by_two[way], reduce_odd_values, &b);
            check_bits(&b, two_by_two[way].size);
        }
}

#define N_SHARED 3

/* Tensors in the same memory: two in a group, and one with another factor that is not fused. */
static void reduce_shared(const struct rank *r, void *shared)
{
    struct tensor t = tensor_create(r, LONG * sizeof(float));
    struct hvd_submission group[N_SHARED];
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};
    int64_t handles[N_SHARED];
    static const char *const names[N_SHARED] = {"a", "b", "c"};

    (void)shared;
    snprintf(t.name, sizeof(t.name), "shared");
    for (int round = 0; round < 3; round++) {
        tensor_fill(r, &t, HVD_FLOAT32, LONG);
        rank_ok(r, r->port->ops->mark(r->port, r->stream, &ready, &err), "mark", &err);
        for (int i = 0; i < N_SHARED; i++) {
            group[i] = (struct hvd_submission){
                .request = tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_SUM, LONG),
                .ready = ready};
            group[i].request.name = hvd_strview_of(names[i]);
            group[i].request.prescale = i == N_SHARED - 1 ? 0.5 : 1;
            group[i].input = group[i].output = fake_pointer(t.memory);
        }
        rank_ok(r, hvd_engine_submit_group(r->engine, group, N_SHARED, handles, &err), "group",
                &err);
        hvd_device_event_release(ready);
        for (int i = 0; i < N_SHARED; i++) {
            t.handle = handles[i];
            (void)tensor_wait(r, &t);
        }
        (void)tensor_fetch(r, &t, fake_pointer(t.memory), t.bytes);
        for (int64_t k = 0; k < LONG; k += 997)
            tensor_check(r, &t, HVD_FLOAT32, k,
                         0.5 * r->size * element_reduced(HVD_FLOAT32, HVD_SUM, r->size, k));
    }
    tensor_destroy(r, &t);
}

static void tensors_in_the_same_memory_are_reduced_one_after_the_other(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++)
        ranks_run_on(&two_by_two[way], reduce_shared, NULL);
}

/* Long and short tensors by turns, which other collectives follow before any has ended. */
static void reduce_and_send(const struct rank *r, void *shared)
{
    enum { N = 8 };
    struct tensor tensors[N];

    (void)shared;
    for (int i = 0; i < N; i++) {
        const int64_t count = i % 2 ? 50 : LONG;
        struct hvd_submission s = {.request =
                                       tensor_request(i % 4 == 3 ? HVD_BROADCAST : HVD_ALLREDUCE,
                                                      HVD_FLOAT32, HVD_SUM, count)};
        tensors[i] = tensor_create(r, (size_t)count * sizeof(float));
        snprintf(tensors[i].name, sizeof(tensors[i].name), "m%d", i);
        tensor_fill(r, &tensors[i], HVD_FLOAT32, count);
        s.request.prescale = i % 4 == 2 ? 2 : 1;
        s.request.root = i % 4 == 3 ? r->size - 1 : 0;
        s.output = fake_pointer(tensors[i].memory);
        tensor_submit(r, &tensors[i], &s);
    }
    for (int i = 0; i < N; i++) {
        const int64_t count = i % 2 ? 50 : LONG;
        (void)tensor_wait(r, &tensors[i]);
        (void)tensor_fetch(r, &tensors[i], fake_pointer(tensors[i].memory), tensors[i].bytes);
        for (int64_t k = 0; k < count; k += 1 + count / 100)
            tensor_check(r, &tensors[i], HVD_FLOAT32, k,
                         i % 4 == 3 ? element_input(HVD_FLOAT32, r->size - 1, k)
                                    : (i % 4 == 2 ? 2 : 1) *
                                          element_reduced(HVD_FLOAT32, HVD_SUM, r->size, k));
        tensor_destroy(r, &tensors[i]);
    }
}

static void other_collectives_follow_those_in_three_steps(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++)
        ranks_run_on(&two_by_two[way], reduce_and_send, NULL);
}

/* --- Failures --------------------------------------------------------------------------------- */

/* How the ranks end when a call of NCCL fails. */
struct torus_fault {
    _Atomic int n_failed;
    char text[RANKS_MAX][HVD_ERR_MSG_MAX];
};

static void reduce_until_it_fails(const struct rank *r, void *shared)
{
    struct torus_fault *f = shared;
    struct hvd_submission s = {.request =
                                   tensor_request(HVD_ALLREDUCE, HVD_FLOAT32, HVD_AVERAGE, LONG)};
    struct tensor t = tensor_create(r, LONG * sizeof(float));
    struct hvd_outcome outcome = {0};
    struct hvd_err err = {0};

    snprintf(t.name, sizeof(t.name), "long");
    tensor_fill(r, &t, HVD_FLOAT32, LONG);
    s.output = fake_pointer(t.memory);
    tensor_submit(r, &t, &s);
    hvd_status_t st = hvd_engine_wait(r->engine, t.handle, &outcome, &err);
    if (st == HVD_OK)
        st = hvd_engine_await(r->engine, outcome.event, &err);
    hvd_device_event_release(outcome.event);
    if (st != HVD_OK) {
        snprintf(f->text[r->rank], sizeof(f->text[r->rank]), "%s", err.msg);
        f->n_failed++;
    }
    tensor_destroy(r, &t);
}

/* A split cannot be interrupted, so it fails on all ranks. */
static void a_call_that_fails_ends_the_job(void **state)
{
    static const struct {
        const char *symbol;
        const char *text;
        int n;
        int way; /* 2: both */
    } calls[] = {{"ncclCommSplit", "ncclCommSplit", 4, 2},
                 {"ncclRedOpCreatePreMulSum", "ncclRedOpCreatePreMulSum", 1, 2},
                 {"ncclReduceScatter", "ncclReduceScatter", 1, 2},
                 {"ncclReduce", "ncclReduce", 1, 2},
                 {"ncclAllReduce", "ncclAllReduce", 1, 0},
                 {"ncclAllGather", "ncclAllGather", 1, 2},
                 {"ncclBroadcast", "ncclBroadcast", 1, 2},
                 {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync", 1, 1},
                 {"cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", 1, 1}};

    (void)state;
    for (size_t k = 0; k < N_WAYS * sizeof(calls) / sizeof(*calls); k += CASE_STEP) {
        static struct torus_fault f;
        const size_t i = k / N_WAYS;
        const int way = (int)(k % N_WAYS);
        if (calls[i].way != 2 && calls[i].way != way)
            continue;
        memset(&f, 0, sizeof(f));
        for (int nth = 1; nth <= calls[i].n; nth++)
            fake_gpu_fail(calls[i].symbol, nth, HVD_NCCL_SYSTEM_ERROR);
        ranks_run_on(&two_by_two[way], reduce_until_it_fails, &f);
        fake_gpu_forget();
        /* a rank whose last step was done already has its result */
        assert_true(f.n_failed > 0);
        for (int rank = 0; rank < two_by_two[way].size; rank++)
            if (f.text[rank][0] && !strstr(f.text[rank], calls[i].text))
                fail_msg("%s: rank %d: %s", calls[i].symbol, rank, f.text[rank]);
    }
}

/* The abort is over on the rank whose call is late, when that rank enqueues the copy. */
static void a_copy_that_is_enqueued_after_the_abort_is_waited_for(void **state)
{
    static struct torus_fault f;

    (void)state;
    memset(&f, 0, sizeof(f));
    fake_gpu_delay("cuMemcpyHtoDAsync_v2", 1, 700);
    fake_gpu_fail("cuMemcpyHtoDAsync_v2", 2, HVD_CU_OUT_OF_MEMORY);
    ranks_run_on(&two_by_two[1], reduce_until_it_fails, &f);
    fake_gpu_forget();
    /* the failed rank and its peer on the host: the other host may be done before it hears of it */
    assert_true(f.n_failed >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_torus_needs_several_equal_hosts),
        cmocka_unit_test(shares_are_aligned_and_cover_the_message),
        cmocka_unit_test(short_messages_and_averages_of_integers_stay_flat),
        cmocka_unit_test(the_factor_of_an_average_is_rounded_once),
        cmocka_unit_test(three_steps_reduce_every_type),
        cmocka_unit_test(other_jobs_stay_flat),
        cmocka_unit_test(results_are_right_and_have_the_same_bits_on_all_ranks),
        cmocka_unit_test(tensors_in_the_same_memory_are_reduced_one_after_the_other),
        cmocka_unit_test(other_collectives_follow_those_in_three_steps),
        cmocka_unit_test(a_call_that_fails_ends_the_job),
        cmocka_unit_test(a_copy_that_is_enqueued_after_the_abort_is_waited_for),
    };

    return cmocka_run_group_tests(tests, ranks_begin, NULL);
}
