#include "tests/unit/support.h"

#include <stdio.h>

#include "operator/app/doubts.h"

static void a_doubt_that_the_watch_does_not_settle_is_due_after_ten_seconds(void **state)
{
    struct hvd_doubts doubts = {0};

    (void)state;
    assert_true(hvd_doubts_due_ms(&doubts) == INT64_MAX);
    hvd_doubts_add(&doubts, "u1", 1000);
    hvd_doubts_add(&doubts, "u2", 9000);
    assert_int_equal(hvd_doubts_due_ms(&doubts), 11000);
    hvd_doubts_settle(&doubts, "u3");
    hvd_doubts_settle(&doubts, "u1");
    assert_int_equal(hvd_doubts_due_ms(&doubts), 11000);
    hvd_doubts_settle(&doubts, "u2");
    assert_true(hvd_doubts_due_ms(&doubts) == INT64_MAX);
    hvd_doubts_add(&doubts, "u4", 20000);
    assert_int_equal(hvd_doubts_due_ms(&doubts), 30000);
    hvd_doubts_clear(&doubts);
    assert_true(hvd_doubts_due_ms(&doubts) == INT64_MAX);
}

static void more_doubts_than_there_is_room_for_end_with_a_list(void **state)
{
    struct hvd_doubts doubts = {0};
    char uid[16];

    (void)state;
    for (int i = 0; i <= HVD_DOUBTS_MAX; i++) {
        (void)snprintf(uid, sizeof(uid), "u%d", i);
        hvd_doubts_add(&doubts, uid, 1000);
    }
    for (int i = 0; i < HVD_DOUBTS_MAX; i++) {
        (void)snprintf(uid, sizeof(uid), "u%d", i);
        hvd_doubts_settle(&doubts, uid);
    }
    assert_int_equal(hvd_doubts_due_ms(&doubts), 11000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_doubt_that_the_watch_does_not_settle_is_due_after_ten_seconds),
        cmocka_unit_test(more_doubts_than_there_is_room_for_end_with_a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
