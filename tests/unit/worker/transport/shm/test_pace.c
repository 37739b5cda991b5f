#include "tests/unit/support.h"

#include "worker/transport/shm/pace.h"

#define SETTLING 44 /* samples until both ways were tried, the first time */
#define PERIOD 1024 /* and until they are tried again */
#define CHUNK 65536

/* Two processors: how long a chunk takes through the caches and past them. */
struct processors {
    int64_t through_ns;
    int64_t past_ns;
};

static const struct processors near = {8000, 12000};
static const struct processors far = {20000, 9000};

/* Lets chunks of a key go; how many of them went past the caches. */
static int run(struct hvd_shm_pace *pace, struct processors p, uint64_t key, int n)
{
    int n_past = 0;

    for (int i = 0; i < n; i++) {
        const int64_t spent_ns = pace->is_past ? p.past_ns : p.through_ns;
        n_past += pace->is_past;
        hvd_shm_pace_sample(pace, key, CHUNK, hvd_shm_pace_asks(pace) ? spent_ns : 0);
    }
    return n_past;
}

static void the_faster_way_is_taken(void **state)
{
    struct hvd_shm_pace pace = {0};

    (void)state;
    run(&pace, near, 1, SETTLING);
    assert_true(pace.is_settled);
    assert_int_equal(run(&pace, near, 1, 900), 0);
    pace = (struct hvd_shm_pace){0};
    run(&pace, far, 1, SETTLING);
    assert_true(pace.is_settled);
    assert_int_equal(run(&pace, far, 1, 900), 900);
}

static void processors_that_moved_are_noticed(void **state)
{
    struct hvd_shm_pace pace = {0};

    (void)state;
    run(&pace, near, 1, 100);
    assert_false(pace.is_past);
    run(&pace, far, 1, PERIOD);
    assert_true(pace.is_settled && pace.is_past);
    run(&pace, near, 1, PERIOD);
    assert_true(pace.is_settled && !pace.is_past);
}

static void trying_costs_few_chunks(void **state)
{
    struct hvd_shm_pace pace = {0};

    (void)state;
    const int n_wrong = run(&pace, near, 1, 10 * PERIOD);
    assert_true(n_wrong > 0 && n_wrong <= PERIOD * 10 * 2 / 100);
}

static void the_first_chunks_do_not_count(void **state)
{
    struct hvd_shm_pace pace = {0};

    (void)state;
    run(&pace, (struct processors){90000, 90000}, 1, 20);
    run(&pace, near, 1, SETTLING - 20);
    assert_true(pace.is_settled && !pace.is_past);
    assert_true(pace.best[0] < pace.best[1]);
}

static void a_little_faster_is_not_worth_it(void **state)
{
    struct hvd_shm_pace pace = {0};

    (void)state;
    run(&pace, (struct processors){10000, 9000}, 1, SETTLING);
    assert_true(pace.is_settled && !pace.is_past);
}

static void one_slow_chunk_decides_nothing(void **state)
{
    struct hvd_shm_pace pace = {0};

    (void)state;
    run(&pace, near, 1, 25);
    run(&pace, (struct processors){50000000, 0}, 1, 1); /* the rank was not running */
    run(&pace, near, 1, SETTLING - 26);
    assert_true(pace.is_settled && !pace.is_past);
}

static void only_what_is_alike_is_compared(void **state)
{
    const struct processors easy = {100, 100};
    struct hvd_shm_pace pace = {0};

    (void)state;
    for (int i = 0; i < SETTLING; i++) {
        run(&pace, far, 1, 1);
        run(&pace, easy, 2, pace.is_past ? 0 : 3);
    }
    assert_true(pace.is_settled && pace.is_past);
}

static void a_trial_of_what_does_not_come_again_is_given_up(void **state)
{
    struct hvd_shm_pace pace = {0};

    (void)state;
    run(&pace, far, 1, 25);
    run(&pace, far, 2, PERIOD);
    assert_true(pace.is_settled && pace.is_past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_taken),
        cmocka_unit_test(processors_that_moved_are_noticed),
        cmocka_unit_test(trying_costs_few_chunks),
        cmocka_unit_test(the_first_chunks_do_not_count),
        cmocka_unit_test(a_little_faster_is_not_worth_it),
        cmocka_unit_test(one_slow_chunk_decides_nothing),
        cmocka_unit_test(only_what_is_alike_is_compared),
        cmocka_unit_test(a_trial_of_what_does_not_come_again_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
