#include "tests/unit/support.h"

#include "operator/kube/backoff.h"

static const struct hvd_backoff backoff = {.first_ms = 100, .max_ms = 1500};

static void waits_double_up_to_the_maximum(void **state)
{
    static const int64_t expected[] = {100, 200, 400, 800, 1500, 1500};

    (void)state;
    for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(hvd_backoff_ms(&backoff, i + 1, 0), expected[i]);
    assert_int_equal(hvd_backoff_ms(&backoff, 1000000, 0), 1500);
}

static void jitter_takes_at_most_half(void **state)
{
    (void)state;
    assert_int_equal(hvd_backoff_ms(&backoff, 2, UINT32_MAX), 100);
    for (uint32_t i = 0; i < 1000; i++) {
        int64_t wait_ms = hvd_backoff_ms(&backoff, 3, i * 4294967u);
        assert_in_range(wait_ms, 200, 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_double_up_to_the_maximum),
        cmocka_unit_test(jitter_takes_at_most_half),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
