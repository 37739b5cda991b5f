#include "tests/unit/support.h"

#include <stdio.h>

#include "base/mem.h"
#include "operator/core/writes/denial.h"

/* The waits of writes that are denied. */

#define START_MS 1700000000000
#define MINUTE_MS 60000

static struct hvd_attempted_write of_pod(int number, int64_t generation)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "j-worker-%d", number);
    return hvd_denials_write(HVD_KIND_POD, name, HVD_REPAIR_LABELS, (uint64_t)number, generation);
}

static struct hvd_attempted_write of_list(uint64_t value, int64_t generation)
{
    return hvd_denials_write(HVD_KIND_CONFIGMAP, "j-hosts", HVD_REPAIR_HOSTS, value, generation);
}

/* Tries the write as soon as it may be, until that time, and counts. */
static int try_until(struct hvd_denials **denials, const struct hvd_attempted_write *write,
                     int64_t *now_ms, int64_t end_ms)
{
    int n = 0;

    while (*now_ms < end_ms) {
        int64_t due_ms = hvd_denials_due_ms(*denials, write, *now_ms);

        if (due_ms > *now_ms) {
            *now_ms = due_ms;
            continue;
        }
        assert_int_equal(hvd_denials_note(denials, write, *now_ms, 0), HVD_OK);
        n++;
    }
    return n;
}

static void a_write_that_is_denied_waits_ever_longer_up_to_30_seconds(void **state)
{
    const struct hvd_attempted_write write = of_list(1, 1);
    struct hvd_denials *denials = NULL;
    int64_t now_ms = START_MS;

    (void)state;
    assert_int_equal(hvd_denials_due_ms(NULL, &write, now_ms), 0);
    assert_in_range(try_until(&denials, &write, &now_ms, START_MS + 10 * MINUTE_MS), 20, 50);
    assert_in_range(try_until(&denials, &write, &now_ms, START_MS + 20 * MINUTE_MS), 20, 41);
    assert_int_equal(hvd_denials_note(&denials, &write, now_ms, 0), HVD_OK);
    assert_in_range(hvd_denials_due_ms(denials, &write, now_ms) - now_ms, 15000, 30000);
    /* One is no other's wait. */
    assert_int_equal(hvd_denials_due_ms(denials, &(struct hvd_attempted_write){.key = 7}, now_ms),
                     0);
    hvd_denials_drop(&denials, &write);
    assert_null(denials);
}

static void a_write_that_has_changed_is_tried_once_a_second(void **state)
{
    struct hvd_attempted_write write = of_list(1, 1);
    struct hvd_denials *denials = NULL;
    int64_t now_ms = START_MS;
    int n = 0;

    (void)state;
    (void)try_until(&denials, &write, &now_ms, START_MS + 5 * MINUTE_MS);
    assert_int_equal(hvd_denials_note(&denials, &write, now_ms, 0), HVD_OK);
    write = of_list(1, 2);
    assert_int_equal(hvd_denials_due_ms(denials, &write, now_ms + 1), now_ms + 1000);
    assert_int_equal(hvd_denials_due_ms(denials, &write, now_ms + 1000), 0);
    write = of_list(2, 1);
    assert_int_equal(hvd_denials_due_ms(denials, &write, now_ms + 1), now_ms + 1000);
    /* Somebody changes the spec a hundred times a second. */
    for (int64_t t = now_ms; t < now_ms + MINUTE_MS; t += 10) {
        write = of_list(1, t);
        if (hvd_denials_due_ms(denials, &write, t) > t)
            continue;
        assert_int_equal(hvd_denials_note(&denials, &write, t, 0), HVD_OK);
        n++;
    }
    assert_in_range(n, 50, 60);
    hvd_denials_destroy(denials);
}

static void a_status_is_the_same_write_until_there_is_news_in_it(void **state)
{
    const struct hvd_attempted_write one =
        hvd_denials_write(HVD_KIND_HOROVODJOB, "j", HVD_REPAIR_STATUS, 1, 1);
    const struct hvd_attempted_write two =
        hvd_denials_write(HVD_KIND_HOROVODJOB, "j", HVD_REPAIR_STATUS, 2, 1);
    const struct hvd_attempted_write news = hvd_denials_write(
        HVD_KIND_HOROVODJOB, "j", HVD_REPAIR_STATUS, (uint64_t)1 << HVD_DENIALS_NEWS_SHIFT, 1);
    struct hvd_denials *denials = NULL;
    int64_t now_ms = START_MS, due_ms;

    (void)state;
    (void)try_until(&denials, &one, &now_ms, START_MS + MINUTE_MS);
    now_ms = START_MS + MINUTE_MS;
    due_ms = hvd_denials_due_ms(denials, &one, now_ms);
    assert_true(due_ms == 0 || due_ms > now_ms);
    assert_int_equal(hvd_denials_due_ms(denials, &two, now_ms), due_ms);
    assert_int_equal(hvd_denials_note(&denials, &two, now_ms, 0), HVD_OK);
    assert_int_equal(hvd_denials_due_ms(denials, &news, now_ms), now_ms + 1000);
    assert_int_equal(hvd_denials_due_ms(denials, &news, now_ms + 1000), 0);
    assert_true(hvd_denials_due_ms(denials, &one, now_ms + 1000) > now_ms + 1000);
    hvd_denials_destroy(denials);
}

static void a_server_that_names_a_wait_gets_it(void **state)
{
    const struct hvd_attempted_write write = of_list(1, 1);
    struct hvd_denials *denials = NULL;

    (void)state;
    assert_int_equal(hvd_denials_note(&denials, &write, START_MS, 45000), HVD_OK);
    assert_int_equal(hvd_denials_due_ms(denials, &write, START_MS), START_MS + 45000);
    hvd_denials_destroy(denials);
}

static void a_clock_that_is_set_back_makes_no_wait_longer(void **state)
{
    const struct hvd_attempted_write write = of_list(1, 1);
    struct hvd_denials *denials = NULL;

    (void)state;
    assert_int_equal(hvd_denials_note(&denials, &write, START_MS, 0), HVD_OK);
    assert_true(hvd_denials_due_ms(denials, &write, START_MS - 100) > 0);
    assert_int_equal(hvd_denials_due_ms(denials, &write, START_MS - 10 * MINUTE_MS), 0);
    hvd_denials_prune(&denials, START_MS + 11 * MINUTE_MS);
    assert_null(denials);
}

/* A policy denies the labels of all pods of a job, however many it has. */
static void many_pods_share_a_wait_and_hold_no_other_object_up(void **state)
{
    struct hvd_attempted_write write = of_list(1, 1);
    struct hvd_denials *denials = NULL;
    int64_t now_ms = START_MS;
    int n = 0;

    (void)state;
    for (int round = 0; round < 200; round++, now_ms += 100) {
        for (int i = 0; i < 1000; i++) {
            const struct hvd_attempted_write pod = of_pod(i, 1);

            if (hvd_denials_due_ms(denials, &pod, now_ms) > now_ms)
                continue;
            assert_int_equal(hvd_denials_note(&denials, &pod, now_ms, 0), HVD_OK);
            n++;
        }
        /* Before all of them are tried, the first ones share no wait. */
        assert_true(n <= 1000 * (round + 1));
    }
    assert_in_range(n, 500, 12000); /* 20 s: some ten tries of each at most */
    assert_int_equal(hvd_denials_due_ms(denials, &write, now_ms), 0);
    assert_int_equal(hvd_denials_note(&denials, &write, now_ms, 0), HVD_OK);
    assert_true(hvd_denials_due_ms(denials, &write, now_ms) > now_ms);
    hvd_denials_destroy(denials);
    assert_int_equal(hvd_mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_that_is_denied_waits_ever_longer_up_to_30_seconds),
        cmocka_unit_test(a_write_that_has_changed_is_tried_once_a_second),
        cmocka_unit_test(a_status_is_the_same_write_until_there_is_news_in_it),
        cmocka_unit_test(a_server_that_names_a_wait_gets_it),
        cmocka_unit_test(a_clock_that_is_set_back_makes_no_wait_longer),
        cmocka_unit_test(many_pods_share_a_wait_and_hold_no_other_object_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
