#include "tests/unit/support.h"

#include "worker/transport/shm_pace.h"

#define SETTLING 14 /* chunks until both ways were tried */
#define PERIOD 1014 /* and until they are tried again */

/* Two processors: how long a chunk takes through the caches and past them. */
struct processors {
    int64_t through_ns;
    int64_t past_ns;
};

/* Lets chunks go; how many of them went past the caches. */
static int run(struct hvd_shm_pace *pace, struct processors p, int n, int64_t *now_ns)
{
    int n_past = 0;

    for (int i = 0; i < n; i++) {
        *now_ns += pace->is_past ? p.past_ns : p.through_ns;
        n_past += hvd_shm_pace_step(pace, hvd_shm_pace_asks(pace) ? *now_ns : 0);
    }
    return n_past;
}

static void the_faster_way_is_taken(void **state)
{
    const struct processors near = {8000, 12000};
    const struct processors far = {20000, 9000};
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
    hvd_shm_pace_begin(&pace);
    run(&pace, near, SETTLING, &now_ns);
    assert_true(pace.is_settled);
    assert_int_equal(run(&pace, near, 900, &now_ns), 0);
    pace = (struct hvd_shm_pace){0};
    hvd_shm_pace_begin(&pace);
    run(&pace, far, SETTLING, &now_ns);
    assert_int_equal(run(&pace, far, 900, &now_ns), 900);
}

static void processors_that_moved_are_noticed(void **state)
{
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
    hvd_shm_pace_begin(&pace);
    run(&pace, (struct processors){8000, 12000}, 100, &now_ns);
    assert_false(pace.is_past);
    run(&pace, (struct processors){20000, 9000}, PERIOD, &now_ns);
    assert_true(pace.is_settled && pace.is_past);
}

static void trying_costs_few_chunks(void **state)
{
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
    hvd_shm_pace_begin(&pace);
    const int n_wrong = run(&pace, (struct processors){8000, 12000}, 10 * PERIOD, &now_ns);
    assert_true(n_wrong > 0 && n_wrong <= PERIOD * 10 / 100);
}

static void one_slow_chunk_decides_nothing(void **state)
{
    const struct processors near = {8000, 12000};
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
    hvd_shm_pace_begin(&pace);
    for (int i = 0; i < SETTLING; i++) {
        now_ns += i == 5 ? 50000000 : 0; /* the rank was not running */
        run(&pace, near, 1, &now_ns);
    }
    assert_true(pace.is_settled);
    assert_false(pace.is_past);
}

static void both_ways_are_tried_with_one_collective(void **state)
{
    const struct processors far = {20000, 9000};
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
    for (int i = 0; i < 5; i++) { /* too short ones, and cheap */
        hvd_shm_pace_begin(&pace);
        run(&pace, (struct processors){100, 200}, SETTLING / 2 + 2, &now_ns);
        assert_false(pace.is_settled);
    }
    hvd_shm_pace_begin(&pace);
    now_ns += 5;
    run(&pace, far, SETTLING, &now_ns);
    assert_true(pace.is_past && pace.is_settled);
    assert_int_equal(pace.best_ns[0], 20000);
    assert_int_equal(pace.best_ns[1], 9000);
    hvd_shm_pace_begin(&pace);
    assert_true(pace.is_past && pace.is_settled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_taken),
        cmocka_unit_test(processors_that_moved_are_noticed),
        cmocka_unit_test(trying_costs_few_chunks),
        cmocka_unit_test(one_slow_chunk_decides_nothing),
        cmocka_unit_test(both_ways_are_tried_with_one_collective),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
