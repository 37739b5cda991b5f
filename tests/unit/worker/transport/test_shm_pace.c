#include "tests/unit/support.h"

#include "worker/transport/shm_pace.h"

#define SETTLING 20 /* chunks until both ways were tried */
#define PERIOD 1020 /* and until they are tried again */

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
    run(&pace, near, SETTLING, &now_ns);
    assert_true(pace.is_settled);
    assert_int_equal(run(&pace, near, 900, &now_ns), 0);
    pace = (struct hvd_shm_pace){0};
    run(&pace, far, SETTLING, &now_ns);
    assert_int_equal(run(&pace, far, 900, &now_ns), 900);
}

static void processors_that_moved_are_noticed(void **state)
{
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
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
    const int n_wrong = run(&pace, (struct processors){8000, 12000}, 10 * PERIOD, &now_ns);
    assert_true(n_wrong > 0 && n_wrong <= PERIOD * 10 / 50);
}

static void one_slow_chunk_decides_nothing(void **state)
{
    const struct processors near = {8000, 12000};
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
    for (int i = 0; i < SETTLING; i++) {
        now_ns += i == 5 ? 50000000 : 0; /* the rank was not running */
        run(&pace, near, 1, &now_ns);
    }
    assert_true(pace.is_settled);
    assert_false(pace.is_past);
}

static void time_between_collectives_does_not_count(void **state)
{
    struct hvd_shm_pace pace = {0};
    int64_t now_ns = 1;

    (void)state;
    for (int i = 0; i < SETTLING; i++) {
        run(&pace, (struct processors){20000, 9000}, 1, &now_ns);
        if (i % 4 == 3) {
            hvd_shm_pace_pause(&pace);
            now_ns += 5;
        }
    }
    assert_true(pace.is_past);
    assert_int_equal(pace.best_ns[0], 20000);
    assert_int_equal(pace.best_ns[1], 9000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_taken),
        cmocka_unit_test(processors_that_moved_are_noticed),
        cmocka_unit_test(trying_costs_few_chunks),
        cmocka_unit_test(one_slow_chunk_decides_nothing),
        cmocka_unit_test(time_between_collectives_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
