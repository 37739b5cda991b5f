#include <stdio.h>

#include "tests/unit/support.h"

#include "operator/app/permits.h"

#define N 400
#define BAD "tenant-a"
#define GOOD "tenant-b"

struct bench {
    struct hvd_permits permits;
    struct hvd_permit jobs[N];
    int64_t now_ms;
};

static int set_up(void **state)
{
    static struct bench bench;

    bench = (struct bench){.now_ms = 1000000};
    *state = &bench;
    return 0;
}

static bool may_begin(struct bench *b, const struct hvd_permit *job, const char *ns)
{
    (void)hvd_permits_step(&b->permits, b->now_ms);
    return hvd_permits_quick(&b->permits) < HVD_PERMITS_QUICK &&
           hvd_permits_allows(&b->permits, job, ns);
}

static bool begin(struct bench *b, struct hvd_permit *job, const char *ns)
{
    if (!may_begin(b, job, ns))
        return false;
    hvd_permits_begin(&b->permits, job, ns, b->now_ms);
    return true;
}

/* Begins the plans of as many of these jobs as may, until none may any more: none of them ends. */
static size_t begin_slow(struct bench *b, struct hvd_permit *jobs, size_t n, const char *ns)
{
    size_t n_begun = 0;

    for (int second = 0; second < 60; second++) {
        while (n_begun < n && begin(b, &jobs[n_begun], ns))
            n_begun++;
        b->now_ms += 1000;
    }
    return n_begun;
}

static void a_quick_plan_gives_its_place_back(void **state)
{
    struct bench *b = *state;

    for (int i = 0; i < 1000; i++) {
        assert_true(begin(b, &b->jobs[i % N], GOOD));
        b->now_ms += HVD_PERMITS_SLOW_MS - 1;
        hvd_permits_end(&b->permits, &b->jobs[i % N], b->now_ms);
        assert_int_equal(hvd_permits_active(&b->permits), 0);
    }
}

static void so_many_quick_plans_are_under_way_at_once(void **state)
{
    struct bench *b = *state;

    for (int i = 0; i < HVD_PERMITS_QUICK; i++)
        assert_true(begin(b, &b->jobs[i], GOOD));
    assert_false(begin(b, &b->jobs[HVD_PERMITS_QUICK], GOOD));
    assert_int_equal(hvd_permits_step(&b->permits, b->now_ms), b->now_ms + HVD_PERMITS_SLOW_MS);
    hvd_permits_end(&b->permits, &b->jobs[5], b->now_ms);
    assert_true(begin(b, &b->jobs[HVD_PERMITS_QUICK], GOOD));
}

static void slow_plans_of_one_namespace_leave_room_for_the_others(void **state)
{
    struct bench *b = *state;
    size_t n_slow = begin_slow(b, b->jobs, N / 2, BAD);

    assert_in_range(n_slow, HVD_PERMITS_QUICK, 2 * HVD_PERMITS_QUICK);
    assert_int_equal(hvd_permits_quick(&b->permits), 0);
    for (size_t i = N / 2; i < N / 2 + HVD_PERMITS_QUICK; i++)
        assert_true(begin(b, &b->jobs[i], GOOD));
}

static void a_sound_job_passes_beside_the_slow_ones_of_its_namespace(void **state)
{
    struct bench *b = *state;
    struct hvd_permit *sound = &b->jobs[N - 1];

    assert_true(begin(b, sound, BAD));
    hvd_permits_end(&b->permits, sound, b->now_ms);
    (void)begin_slow(b, b->jobs, N / 2, BAD);
    assert_false(may_begin(b, &b->jobs[N - 2], BAD));
    assert_true(begin(b, sound, BAD));
}

static void jobs_that_were_slow_wait_before_new_ones_do(void **state)
{
    struct bench *b = *state;
    size_t n = begin_slow(b, b->jobs, N / 2, BAD);
    struct hvd_permit *fresh = &b->jobs[N - 1];
    struct hvd_permit *slow = &b->jobs[0];

    for (; !may_begin(b, fresh, BAD); n--) {
        hvd_permits_end(&b->permits, &b->jobs[n - 1], b->now_ms);
        assert_false(may_begin(b, &b->jobs[n - 1], BAD));
    }
    for (; n > 1 && !may_begin(b, &b->jobs[n], BAD); n--)
        hvd_permits_end(&b->permits, &b->jobs[n - 1], b->now_ms);
    assert_true(n > 1);
    hvd_permits_end(&b->permits, slow, b->now_ms);
    assert_true(begin(b, slow, BAD));
    b->now_ms += 10;
    hvd_permits_end(&b->permits, slow, b->now_ms);
    assert_true(begin(b, slow, BAD));
}

static void the_sum_of_slow_plans_is_bounded_and_no_namespace_is_shut_out(void **state)
{
    struct bench *b = *state;
    char ns[16];
    size_t n = 0;

    for (unsigned i = 0; i < 8; i++) {
        (void)snprintf(ns, sizeof(ns), "slow-%u", i);
        n += begin_slow(b, &b->jobs[n], HVD_PERMITS_QUICK, ns);
    }
    assert_in_range(n, 64, 256);
    assert_true(begin(b, &b->jobs[N - 1], GOOD));
}

#define TEST(f) cmocka_unit_test_setup(f, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_quick_plan_gives_its_place_back),
        TEST(so_many_quick_plans_are_under_way_at_once),
        TEST(slow_plans_of_one_namespace_leave_room_for_the_others),
        TEST(a_sound_job_passes_beside_the_slow_ones_of_its_namespace),
        TEST(jobs_that_were_slow_wait_before_new_ones_do),
        TEST(the_sum_of_slow_plans_is_bounded_and_no_namespace_is_shut_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
