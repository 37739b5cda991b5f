#include "tests/unit/support.h"

#include "operator/app/queue.h"

#define N 5

struct bench {
    struct hvd_queue queue;
    struct hvd_queue_item items[N];
};

static int set_up(void **state)
{
    static struct bench bench;

    bench = (struct bench){0};
    for (size_t i = 0; i < N; i++)
        if (hvd_queue_reserve(&bench.queue) != HVD_OK)
            return -1;
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    hvd_queue_fini(&b->queue);
    return hvd_mem_live() == 0 ? 0 : -1;
}

static void items_come_out_in_the_order_of_their_time(void **state)
{
    struct bench *b = *state;
    static const int64_t due[N] = {50, 10, 40, 20, 30};
    static const size_t order[N] = {1, 3, 4, 2, 0};

    assert_true(hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER) == INT64_MAX);
    for (size_t i = 0; i < N; i++)
        hvd_queue_add(&b->queue, &b->items[i], HVD_QUEUE_SOON, due[i]);
    assert_int_equal(hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER), 10);
    assert_int_equal(hvd_queue_depth(&b->queue, 30), 3);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 9));
    for (size_t i = 0; i < N; i++)
        assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 100), &b->items[order[i]]);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 100));
}

static void an_item_added_twice_comes_once_at_the_earlier_time(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 50);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 20);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 70);
    assert_int_equal(hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER), 20);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 20), &b->items[0]);
    hvd_queue_done(&b->queue, &b->items[0]);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 1000));
}

static void an_active_item_is_not_handed_out_again_until_it_is_done(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 1);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 1), &b->items[0]);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 9);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 5);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 1000));
    hvd_queue_done(&b->queue, &b->items[0]);
    assert_int_equal(hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER), 5);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 5), &b->items[0]);
}

static void failures_wait_longer_each_time_and_success_forgets_them(void **state)
{
    static const int64_t waits[] = {100, 200, 400, 800};
    struct bench *b = *state;
    int64_t now_ms = 0;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, now_ms), &b->items[0]);
        hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, now_ms);
        assert_int_equal(hvd_queue_fail(&b->queue, &b->items[0], now_ms, 0, 0), waits[i]);
        assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, now_ms + waits[i] - 1));
        now_ms += waits[i];
    }
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, now_ms), &b->items[0]);
    hvd_queue_done(&b->queue, &b->items[0]);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, now_ms);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, now_ms), &b->items[0]);
    assert_int_equal(hvd_queue_fail(&b->queue, &b->items[0], now_ms, 0, 0), 100);
}

static void the_wait_that_a_server_asks_for_is_kept(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 0);
    assert_non_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 0));
    assert_int_equal(hvd_queue_fail(&b->queue, &b->items[0], 0, 0, 7000), 7000);
    assert_int_equal(hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER), 7000);
}

static void an_event_ends_the_wait_after_a_failure(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 0);
    assert_non_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 0));
    assert_int_equal(hvd_queue_fail(&b->queue, &b->items[0], 0, 0, 7000), 7000);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 3);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 3), &b->items[0]);
}

static void a_forgotten_item_is_never_handed_out(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < N; i++)
        hvd_queue_add(&b->queue, &b->items[i], HVD_QUEUE_SOON, (int64_t)i);
    hvd_queue_forget(&b->queue, &b->items[2]);
    hvd_queue_forget(&b->queue, &b->items[0]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 100), &b->items[1]);
    hvd_queue_forget(&b->queue, &b->items[1]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 100), &b->items[3]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 100), &b->items[4]);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 100));
}

static void an_earlier_rank_goes_first_among_those_that_are_due(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_LATER, 10);
    hvd_queue_add(&b->queue, &b->items[1], HVD_QUEUE_NEXT, 20);
    hvd_queue_add(&b->queue, &b->items[2], HVD_QUEUE_SOON, 30);
    hvd_queue_add(&b->queue, &b->items[3], HVD_QUEUE_NEXT, 15);
    hvd_queue_add(&b->queue, &b->items[4], HVD_QUEUE_SOON, 41);
    assert_int_equal(hvd_queue_next_ms(&b->queue, HVD_QUEUE_LATER), 10);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 40), &b->items[2]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 40), &b->items[3]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 40), &b->items[1]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 40), &b->items[0]);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 40));
}

static void a_later_rank_waits_no_longer_than_its_patience(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_NEXT, 10);
    hvd_queue_add(&b->queue, &b->items[1], HVD_QUEUE_LATER, 11);
    hvd_queue_add(&b->queue, &b->items[2], HVD_QUEUE_SOON, 10 + HVD_QUEUE_DELAY_MS - 1);
    hvd_queue_add(&b->queue, &b->items[3], HVD_QUEUE_SOON, 10 + HVD_QUEUE_DELAY_MS + 1);
    hvd_queue_add(&b->queue, &b->items[4], HVD_QUEUE_SOON, 12 + 2 * HVD_QUEUE_DELAY_MS);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 9000), &b->items[2]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 9000), &b->items[0]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 9000), &b->items[3]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 9000), &b->items[1]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_LATER, 9000), &b->items[4]);
}

static void ranks_that_are_held_back_come_when_their_patience_is_over(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_LATER, 10);
    hvd_queue_add(&b->queue, &b->items[1], HVD_QUEUE_NEXT, 10);
    assert_int_equal(hvd_queue_next_ms(&b->queue, HVD_QUEUE_SOON), 10 + HVD_QUEUE_DELAY_MS);
    assert_int_equal(hvd_queue_next_ms(&b->queue, HVD_QUEUE_NEXT), 10);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_SOON, 9 + HVD_QUEUE_DELAY_MS));
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_SOON, 10 + HVD_QUEUE_DELAY_MS),
                     &b->items[1]);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_NEXT, 9 + 2 * HVD_QUEUE_DELAY_MS));
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_NEXT, 10 + 2 * HVD_QUEUE_DELAY_MS),
                     &b->items[0]);
}

static void an_item_wanted_twice_has_the_earlier_rank_and_time(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_LATER, 10);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_SOON, 20);
    hvd_queue_add(&b->queue, &b->items[1], HVD_QUEUE_SOON, 15);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_SOON, 20), &b->items[0]);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_LATER, 30);
    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_NEXT, 40);
    hvd_queue_done(&b->queue, &b->items[0]);
    assert_int_equal(hvd_queue_depth(&b->queue, 30), 2);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_NEXT, 30), &b->items[1]);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_NEXT, 30), &b->items[0]);
}

static void a_failure_comes_back_in_the_rank_that_it_had(void **state)
{
    struct bench *b = *state;

    hvd_queue_add(&b->queue, &b->items[0], HVD_QUEUE_NEXT, 0);
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_NEXT, 0), &b->items[0]);
    assert_int_equal(hvd_queue_fail(&b->queue, &b->items[0], 0, 0, 0), 100);
    assert_null(hvd_queue_take(&b->queue, HVD_QUEUE_SOON, 100));
    assert_ptr_equal(hvd_queue_take(&b->queue, HVD_QUEUE_NEXT, 100), &b->items[0]);
}

static void the_heap_keeps_its_order_under_random_use(void **state)
{
    enum { MANY = 200 };
    struct hvd_queue queue = {0};
    static struct hvd_queue_item items[MANY];
    uint32_t x = 1;
    int64_t last = 0;
    size_t n_taken = 0;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        items[i] = (struct hvd_queue_item){0};
        assert_int_equal(hvd_queue_reserve(&queue), HVD_OK);
    }
    for (size_t i = 0; i < 4000; i++) {
        x = x * 1664525u + 1013904223u;
        hvd_queue_add(&queue, &items[x % MANY], (enum hvd_queue_rank)(x / 3 % HVD_N_QUEUE_RANKS),
                      (int64_t)(x >> 8) % 100000);
        if (x % 7 == 0) {
            hvd_queue_forget(&queue, &items[x / 7 % MANY]);
            assert_int_equal(hvd_queue_reserve(&queue), HVD_OK);
        }
    }
    for (;;) {
        const struct hvd_queue_item *item = hvd_queue_take(&queue, HVD_QUEUE_LATER, 100000);
        if (!item)
            break;
        assert_true(item->_due_ms + item->_rank * HVD_QUEUE_DELAY_MS >= last);
        last = item->_due_ms + item->_rank * HVD_QUEUE_DELAY_MS;
        n_taken++;
    }
    assert_int_equal(hvd_queue_next_ms(&queue, HVD_QUEUE_LATER), INT64_MAX);
    assert_in_range(n_taken, MANY / 2, MANY);
    hvd_queue_fini(&queue);
}

static void room_that_cannot_be_had_is_reported(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_queue queue = {0};
        hvd_status_t st = hvd_queue_reserve(&queue);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_queue_fini(&queue);
    });
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(items_come_out_in_the_order_of_their_time),
        TEST(an_item_added_twice_comes_once_at_the_earlier_time),
        TEST(an_active_item_is_not_handed_out_again_until_it_is_done),
        TEST(failures_wait_longer_each_time_and_success_forgets_them),
        TEST(the_wait_that_a_server_asks_for_is_kept),
        TEST(an_event_ends_the_wait_after_a_failure),
        TEST(a_forgotten_item_is_never_handed_out),
        TEST(an_earlier_rank_goes_first_among_those_that_are_due),
        TEST(a_later_rank_waits_no_longer_than_its_patience),
        TEST(ranks_that_are_held_back_come_when_their_patience_is_over),
        TEST(an_item_wanted_twice_has_the_earlier_rank_and_time),
        TEST(a_failure_comes_back_in_the_rank_that_it_had),
        cmocka_unit_test(the_heap_keeps_its_order_under_random_use),
        cmocka_unit_test(room_that_cannot_be_had_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
