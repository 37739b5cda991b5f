#include "tests/unit/support.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/slab.h"

enum { MANY = 500, LARGE = 5000 };

static size_t size_of(int i)
{
    return (size_t)(i * 37 % 1100);
}

static void blocks_do_not_overlap_and_leave_nothing_behind(void **state)
{
    static unsigned char *blocks[MANY];
    struct hvd_slab slab = {0};

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = round; i < MANY; i += round + 1) {
            blocks[i] = hvd_slab_take(&slab, size_of(i));
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % sizeof(void *), 0);
            memset(blocks[i], i % 256, size_of(i));
        }
        for (int i = round; i < MANY; i += round + 1)
            for (size_t k = 0; k < size_of(i); k++)
                assert_int_equal(blocks[i][k], i % 256);
        for (int i = round; i < MANY; i += round + 1)
            hvd_slab_give(&slab, blocks[i], size_of(i));
        assert_int_equal(hvd_mem_live(), 0);
    }
}

static void a_page_is_filled_before_the_next(void **state)
{
    struct hvd_slab slab = {0};
    const size_t n = hvd_page_size() / 128 - 1;
    void *blocks[64] = {NULL};

    (void)state;
    assert_true(n < 64);
    for (size_t i = 0; i < n; i++)
        blocks[i] = hvd_slab_take(&slab, 128);
    assert_int_equal(hvd_mem_live(), 1);
    hvd_slab_give(&slab, blocks[3], 128);
    blocks[3] = hvd_slab_take(&slab, 120);
    assert_int_equal(hvd_mem_live(), 1);
    for (size_t i = 0; i < n; i++)
        hvd_slab_give(&slab, blocks[i], 128);
    assert_int_equal(hvd_mem_live(), 0);
}

static void pages_that_came_together_go_one_by_one_and_the_unused_with_the_last(void **state)
{
    struct hvd_slab slab = {0};
    void *blocks[6];

    (void)state;
    hvd_mem_pages_at_once(4);
    for (int i = 0; i < 6; i++) { /* three to a page */
        blocks[i] = hvd_slab_take(&slab, 1024);
        assert_non_null(blocks[i]);
        memset(blocks[i], i, 1024);
    }
    assert_int_equal(hvd_mem_live(), 4);
    for (int i = 5; i > 2; i--)
        hvd_slab_give(&slab, blocks[i], 1024);
    assert_int_equal(hvd_mem_live(), 3);
    blocks[5] = hvd_slab_take(&slab, 512);
    assert_int_equal(hvd_mem_live(), 3);
    hvd_slab_give(&slab, blocks[5], 512);
    for (int i = 0; i < 3; i++)
        hvd_slab_give(&slab, blocks[i], 1024);
    assert_int_equal(hvd_mem_live(), 0);
    hvd_mem_pages_at_once(1);
}

static void a_large_block_and_none_are_legal(void **state)
{
    struct hvd_slab slab = {0};
    void *block = hvd_slab_take(&slab, LARGE);

    (void)state;
    assert_non_null(block);
    memset(block, 1, LARGE);
    assert_false(hvd_slab_is_misplaced(&slab, block, LARGE));
    hvd_slab_give(&slab, block, LARGE);
    hvd_slab_give(&slab, NULL, 16);
    hvd_slab_give(&slab, NULL, 0);
}

/* Moves the blocks that are misplaced. */
static void tidy(struct hvd_slab *slab, void **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *moved;

        if (!blocks[i] || !hvd_slab_is_misplaced(slab, blocks[i], 256))
            continue;
        moved = hvd_slab_take(slab, 256);
        assert_non_null(moved);
        memcpy(moved, blocks[i], 256);
        hvd_slab_give(slab, blocks[i], 256);
        blocks[i] = moved;
    }
}

static void blocks_that_move_to_fuller_pages_empty_the_others(void **state)
{
    static void *blocks[MANY];
    struct hvd_slab slab = {0};
    const size_t in_page = (hvd_page_size() - 1) / 256;
    size_t n_left = 0;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        blocks[i] = hvd_slab_take(&slab, 256);
        memset(blocks[i], i % 256, 256);
    }
    for (int i = 0; i < MANY; i++) {
        if (i % 7 < 2) {
            n_left++;
            continue;
        }
        hvd_slab_give(&slab, blocks[i], 256);
        blocks[i] = NULL;
    }
    assert_true((size_t)hvd_mem_live() > 2 * (n_left / in_page + 1));
    tidy(&slab, blocks, MANY);
    assert_int_equal(hvd_mem_live(), (n_left + in_page - 1) / in_page);
    for (int i = 0; i < MANY; i++) {
        assert_true(!blocks[i] || *(unsigned char *)blocks[i] == i % 256);
        assert_true(!blocks[i] || !hvd_slab_is_misplaced(&slab, blocks[i], 256));
    }
    for (int i = 0; i < MANY; i++)
        hvd_slab_give(&slab, blocks[i], 256);
    assert_int_equal(hvd_mem_live(), 0);
}

static void without_memory_there_is_no_block(void **state)
{
    struct hvd_slab slab = {0};

    (void)state;
    hvd_mem_fail_nth(1);
    assert_null(hvd_slab_take(&slab, 64));
    hvd_mem_fail_nth(1);
    assert_null(hvd_slab_take(&slab, LARGE));
    hvd_mem_fail_nth(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_do_not_overlap_and_leave_nothing_behind),
        cmocka_unit_test(a_page_is_filled_before_the_next),
        cmocka_unit_test(pages_that_came_together_go_one_by_one_and_the_unused_with_the_last),
        cmocka_unit_test(a_large_block_and_none_are_legal),
        cmocka_unit_test(blocks_that_move_to_fuller_pages_empty_the_others),
        cmocka_unit_test(without_memory_there_is_no_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
