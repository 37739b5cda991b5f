#include "tests/unit/support.h"

#include <stdio.h>

#include "worker/core/ready.h"

static const int sizes[] = {1, 2, 3, 5, 8};

static uint32_t assign(struct hvd_ready *r, const char *name, uint32_t group, uint32_t group_size)
{
    const struct hvd_ready_tensor tensor = {
        .name = hvd_strview_of(name), .group = group, .group_size = group_size, .may_join = true};
    uint32_t slot = HVD_CACHE_NO_SLOT;

    assert_int_equal(hvd_ready_assign(r, &tensor, 1, &slot), HVD_OK);
    return slot;
}

static hvd_status_t ask(struct hvd_ready *r, int rank, uint64_t epoch, uint64_t word)
{
    struct hvd_reader reader;
    struct hvd_buf buf;

    hvd_buf_init(&buf, HVD_MESSAGE_MAX);
    assert_int_equal(hvd_message_bits(&buf, 0, epoch, &word, 1), HVD_OK);
    assert_int_equal(hvd_message_open(&reader, buf.data, buf.len, NULL), HVD_OK);
    hvd_status_t st = hvd_ready_bits(r, rank, &reader, 70, NULL);
    hvd_buf_fini(&buf);
    return st;
}

/* The ready slots, which start again. */
static uint64_t take(struct hvd_ready *r)
{
    uint32_t n_words = 0;
    const uint64_t *words = hvd_ready_words(r, &n_words);
    const uint64_t word = words ? words[0] : 0;

    hvd_ready_take(r, 2);
    return word;
}

static void a_slot_is_ready_when_every_rank_has_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct hvd_ready *r = NULL;
        assert_int_equal(hvd_ready_create(sizes[i], 10, &r, NULL), HVD_OK);
        assign(r, "a", 0, 0);
        assign(r, "b", 0, 0);
        for (int round = 0; round < 3; round++) { /* a bit that is not cleared would show */
            for (int rank = 0; rank < sizes[i]; rank++) {
                assert_int_equal(take(r), 0);
                assert_int_equal(ask(r, rank, 1, rank == 0 ? 3 : 2), HVD_OK);
            }
            assert_int_equal(take(r), sizes[i] == 1 ? 3 : 2);
            for (int rank = 1; rank < sizes[i]; rank++)
                assert_int_equal(ask(r, rank, 1, 1), HVD_OK);
            assert_int_equal(take(r), sizes[i] == 1 ? 0 : 1);
        }
        hvd_ready_destroy(r);
    }
}

static void a_rank_that_asks_twice_or_for_nothing_is_at_fault(void **state)
{
    struct hvd_ready *r = NULL;

    (void)state;
    assert_int_equal(hvd_ready_create(2, 10, &r, NULL), HVD_OK);
    assign(r, "a", 0, 0);
    assert_int_equal(ask(r, 1, 1, 1), HVD_OK);
    assert_int_equal(ask(r, 1, 1, 1), HVD_ERR_INVALID);
    assert_int_equal(ask(r, 0, 1, 2), HVD_ERR_INVALID);
    struct hvd_ready_stall stall = {0};
    assert_int_equal(hvd_ready_waiting(r), 1);
    assert_true(hvd_ready_next_stall(r, 0, &stall));
    assert_string_equal(stall.name, "a");
    assert_int_equal(stall.since_ns, 70);
    assert_true(hvd_ready_is_missing(r, stall.slot, 0));
    assert_false(hvd_ready_is_missing(r, stall.slot, 1));
    hvd_ready_destroy(r);
}

static void a_group_is_ready_as_a_whole(void **state)
{
    struct hvd_ready *r = NULL;

    (void)state;
    assert_int_equal(hvd_ready_create(2, 10, &r, NULL), HVD_OK);
    const uint32_t first = assign(r, "a", HVD_CACHE_NO_SLOT, 3);
    assign(r, "b", first + 1, 3);
    assign(r, "c", first + 1, 3);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ask(r, 0, 1, 7), HVD_OK);
        assert_int_equal(ask(r, 1, 1, 5), HVD_OK);
        assert_int_equal(take(r), 0);
        assert_int_equal(ask(r, 1, 1, 2), HVD_OK);
        assert_int_equal(take(r), 7);
    }
    assert_int_equal(hvd_ready_group_first(r, 2), 0);
    assert_int_equal(hvd_ready_group_next(r, 0), 1);
    assert_int_equal(hvd_ready_group_next(r, 2), HVD_CACHE_NO_SLOT);
    hvd_ready_destroy(r);
}

static void bits_for_what_a_slot_was_before_are_ignored(void **state)
{
    struct hvd_ready *r = NULL;

    (void)state;
    assert_int_equal(hvd_ready_create(2, 10, &r, NULL), HVD_OK);
    assign(r, "a", 0, 0);
    assert_int_equal(ask(r, 0, 1, 1), HVD_OK);
    hvd_ready_evict(r, 0, 5);
    assert_int_equal(hvd_ready_find(r, hvd_strview_of("a")), HVD_CACHE_NO_SLOT);
    assert_int_equal(ask(r, 1, 4, 1), HVD_OK);
    const struct hvd_ready_tensor tensor = {.name = hvd_strview_of("b")};
    uint32_t slot = 99;
    assert_int_equal(hvd_ready_assign(r, &tensor, 6, &slot), HVD_OK);
    assert_int_equal(slot, 0);
    assert_int_equal(ask(r, 0, 5, 1), HVD_OK);
    assert_int_equal(ask(r, 1, 5, 1), HVD_OK);
    assert_int_equal(take(r), 0);
    assert_int_equal(ask(r, 0, 6, 1), HVD_OK);
    assert_int_equal(ask(r, 1, 6, 1), HVD_OK);
    assert_int_equal(take(r), 1);
    hvd_ready_destroy(r);
}

static void a_rank_that_joined_counts_as_having_asked_once(void **state)
{
    struct hvd_ready *r = NULL;

    (void)state;
    assert_int_equal(hvd_ready_create(3, 10, &r, NULL), HVD_OK);
    assign(r, "a", 0, 0);
    assign(r, "b", 0, 0);
    assert_int_equal(ask(r, 2, 1, 1), HVD_OK); /* asked before it joined */
    assert_int_equal(ask(r, 0, 1, 3), HVD_OK);
    assert_int_equal(ask(r, 1, 1, 2), HVD_OK);
    hvd_ready_join(r, 2);
    assert_int_equal(take(r), 2);
    assert_int_equal(ask(r, 1, 1, 1), HVD_OK);
    assert_int_equal(take(r), 1);
    hvd_ready_unjoin(r);
    assert_int_equal(ask(r, 0, 1, 1), HVD_OK);
    assert_int_equal(ask(r, 1, 1, 1), HVD_OK);
    assert_int_equal(take(r), 0);
    hvd_ready_destroy(r);
}

static void a_slot_is_given_again_only_after_a_long_time_without_use(void **state)
{
    struct hvd_ready *r = NULL;

    (void)state;
    assert_int_equal(hvd_ready_create(1, 1, &r, NULL), HVD_OK);
    assign(r, "a", 0, 0);
    assert_int_equal(hvd_ready_room(r), 0);
    assert_int_equal(assign(r, "b", 0, 0), HVD_CACHE_NO_SLOT);
    assert_int_equal(hvd_ready_stale(r, 50, 100), HVD_CACHE_NO_SLOT);
    assert_int_equal(hvd_ready_stale(r, 101, 100), 0);
    hvd_ready_destroy(r);
}

static void fill(void)
{
    char name[16];
    struct hvd_ready *r = NULL;
    hvd_status_t st = hvd_ready_create(2, 1000, &r, NULL);

    for (int i = 0; i < 70 && st == HVD_OK; i++) {
        uint32_t slot = HVD_CACHE_NO_SLOT;
        snprintf(name, sizeof(name), "t%d", i);
        const struct hvd_ready_tensor tensor = {.name = hvd_strview_of(name)};
        st = hvd_ready_assign(r, &tensor, 1, &slot);
    }
    assert_true(st == HVD_OK || (st == HVD_ERR_NOMEM && hvd_mem_fired()));
    hvd_ready_destroy(r);
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(fill());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_ready_when_every_rank_has_asked),
        cmocka_unit_test(a_rank_that_asks_twice_or_for_nothing_is_at_fault),
        cmocka_unit_test(a_group_is_ready_as_a_whole),
        cmocka_unit_test(bits_for_what_a_slot_was_before_are_ignored),
        cmocka_unit_test(a_rank_that_joined_counts_as_having_asked_once),
        cmocka_unit_test(a_slot_is_given_again_only_after_a_long_time_without_use),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
