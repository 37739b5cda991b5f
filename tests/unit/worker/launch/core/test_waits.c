#include "tests/unit/support.h"

#include "worker/launch/core/waits.h"

#define SECOND 1000
#define NOON (12 * 3600 * SECOND)

/* Looks once a second from `from` on; the notice of the last look, HVD_NOTICE_END: none. */
static enum hvd_report_notice look(struct hvd_waits *waits, const struct hvd_waits_view *view,
                                   int64_t *now_ms, int n)
{
    enum hvd_report_notice notice = HVD_NOTICE_END;

    for (int i = 0; i < n; i++) {
        *now_ms += SECOND;
        notice = HVD_NOTICE_END;
        (void)!hvd_waits_look(waits, view, *now_ms, &notice);
    }
    return notice;
}

static void a_rank_that_waits_is_reported_again_and_again_and_when_it_goes_on(void **state)
{
    struct hvd_waits waits = {0};
    struct hvd_waits_view view = {.phase = HVD_RANK_JOINING, .n_joins = 1, .joins_all = true};
    int64_t now_ms = NOON;

    (void)state;
    assert_int_equal(look(&waits, &view, &now_ms, 2), HVD_NOTICE_END);
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_WAITS);
    assert_int_equal(waits.waited_ms, 2 * SECOND);
    assert_int_equal(look(&waits, &view, &now_ms, 3), HVD_NOTICE_END);
    view.phase = HVD_RANK_MEETING;
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_WAITS);
    assert_int_equal(waits.waited_ms, 6 * SECOND);
    view.joins_all = false;
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_WAITS_SOME);
    view.phase = HVD_RANK_RUNNING;
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_GOES_ON);
    assert_int_equal(look(&waits, &view, &now_ms, 60), HVD_NOTICE_END);
}

static void a_rank_that_comes_again_and_again_waits_for_nobody(void **state)
{
    struct hvd_waits waits = {0};
    struct hvd_waits_view view = {.phase = HVD_RANK_JOINING, .joins_all = true};
    int64_t now_ms = NOON;

    (void)state;
    for (view.n_joins = 1; view.n_joins < 100; view.n_joins++)
        assert_int_equal(look(&waits, &view, &now_ms, 2), HVD_NOTICE_END);
}

static void a_rank_that_is_not_in_horovod_init_waits_for_nobody(void **state)
{
    static const enum hvd_rank_phase phases[] = {HVD_RANK_OUTSIDE, HVD_RANK_RUNNING,
                                                 HVD_RANK_ENDED};
    int64_t now_ms = NOON;

    (void)state;
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        struct hvd_waits waits = {0};
        const struct hvd_waits_view view = {.phase = phases[i], .joins_all = true};

        for (int n = 0; n < 100; n++)
            assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_END);
    }
}

static void a_rank_that_waits_in_mpi_finalize_is_reported_again_and_again(void **state)
{
    struct hvd_waits waits = {0};
    struct hvd_waits_view view = {.phase = HVD_RANK_MEETING, .n_joins = 1, .joins_all = true};
    int64_t now_ms = NOON;

    (void)state;
    (void)look(&waits, &view, &now_ms, 30);
    view.phase = HVD_RANK_ENDED;
    view.is_final = true;
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_GOES_ON); /* no longer there */
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_END);
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_WAITS_FINAL);
    assert_int_equal(waits.waited_ms, 2 * SECOND);
    assert_int_equal(look(&waits, &view, &now_ms, 4), HVD_NOTICE_WAITS_FINAL);
    assert_int_equal(waits.waited_ms, 6 * SECOND);
    view.is_stopped = true;
    assert_int_equal(look(&waits, &view, &now_ms, 2), HVD_NOTICE_STOPPED);
    view.is_stopped = false;
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_WAITS_FINAL);
}

static void a_rank_that_is_stopped_is_reported_wherever_it_is(void **state)
{
    static const enum hvd_rank_phase phases[] = {HVD_RANK_OUTSIDE, HVD_RANK_JOINING,
                                                 HVD_RANK_ENDED};
    int64_t now_ms = NOON;

    (void)state;
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        struct hvd_waits waits = {0};
        struct hvd_waits_view view = {.phase = phases[i], .n_joins = 1, .is_stopped = true};

        assert_int_equal(look(&waits, &view, &now_ms, 3), HVD_NOTICE_STOPPED);
        assert_int_equal(look(&waits, &view, &now_ms, 4), HVD_NOTICE_STOPPED);
        view.is_stopped = false;
        view.phase = HVD_RANK_RUNNING;
        assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_GOES_ON);
    }
}

static void a_wrapper_that_did_not_run_itself_counts_none_of_that_time(void **state)
{
    struct hvd_waits waits = {0};
    const struct hvd_waits_view view = {.phase = HVD_RANK_JOINING, .n_joins = 1};
    int64_t now_ms = NOON;

    (void)state;
    (void)look(&waits, &view, &now_ms, 5);
    now_ms += (int64_t)3600 * SECOND;
    assert_int_equal(look(&waits, &view, &now_ms, 1), HVD_NOTICE_WAITS_SOME);
    assert_int_equal(waits.waited_ms, 4 * SECOND + HVD_WAITS_LOOK_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_waits_is_reported_again_and_again_and_when_it_goes_on),
        cmocka_unit_test(a_rank_that_comes_again_and_again_waits_for_nobody),
        cmocka_unit_test(a_rank_that_is_not_in_horovod_init_waits_for_nobody),
        cmocka_unit_test(a_rank_that_waits_in_mpi_finalize_is_reported_again_and_again),
        cmocka_unit_test(a_rank_that_is_stopped_is_reported_wherever_it_is),
        cmocka_unit_test(a_wrapper_that_did_not_run_itself_counts_none_of_that_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
