#include "tests/unit/support.h"

#include <stdio.h>

#include "worker/core/tree.h"

#define SIZE_MAX_TESTED 300

/* What a walk over all nodes finds. */
struct found {
    int depth;
    int children_max;
};

/* Checks that parents and children agree and that every position is reached once. */
static struct found check(const struct hvd_tree_options *options)
{
    struct hvd_tree t;
    struct found found = {0};
    int *depth = hvd_calloc((size_t)options->size, sizeof(int));
    int n_reached = 1;

    assert_non_null(depth);
    assert_int_equal(hvd_tree_init(&t, options, NULL), HVD_OK);
    assert_int_equal(t.rank_at[0], 0);
    for (int position = 0; position < options->size; position++) {
        struct hvd_node node;
        assert_int_equal(t.position_of[t.rank_at[position]], position);
        assert_int_equal(hvd_tree_node_init(&node, &t, position, NULL), HVD_OK);
        assert_int_equal(node.range.first, position);
        assert_true(position == 0 ? node.parent == -1 : node.parent < position);
        int next = position + 1;
        for (int i = 0; i < node.n_children; i++) {
            struct hvd_node child;
            assert_int_equal(node.children[i].first, next);
            assert_int_equal(hvd_tree_node_branch(&node, next), i + 1);
            next += node.children[i].n;
            assert_int_equal(hvd_tree_node_branch(&node, next - 1), i + 1);
            assert_int_equal(hvd_tree_node_init(&child, &t, node.children[i].first, NULL), HVD_OK);
            assert_int_equal(child.parent, position);
            assert_int_equal(child.range.n, node.children[i].n);
            assert_int_equal(hvd_tree_node_branch_range(&node, i + 1).n, child.range.n);
            depth[child.range.first] = depth[position] + 1;
            n_reached++;
            hvd_tree_node_fini(&child);
        }
        assert_int_equal(next, position + node.range.n);
        assert_int_equal(hvd_tree_node_branch(&node, position), 0);
        assert_int_equal(hvd_tree_node_branch(&node, next), -1);
        assert_int_equal(hvd_tree_node_branch(&node, position - 1), -1);
        if (depth[position] > found.depth)
            found.depth = depth[position];
        if (node.n_children > found.children_max)
            found.children_max = node.n_children;
        hvd_tree_node_fini(&node);
    }
    assert_int_equal(n_reached, options->size);
    hvd_tree_fini(&t);
    hvd_free(depth);
    return found;
}

static void every_tree_reaches_every_rank_once(void **state)
{
    static const int per_host[] = {0, 1, 3, 6};
    static const int fanouts[] = {0, 1, 2, 3, 16, 1000};
    int hosts[SIZE_MAX_TESTED];

    (void)state;
    for (int size = 1; size < SIZE_MAX_TESTED; size += size < 40 ? 1 : 37)
        for (size_t p = 0; p < 4; p++)
            for (size_t f = 0; f < 6; f++) {
                for (int rank = 0; rank < size && per_host[p]; rank++)
                    hosts[rank] = rank / per_host[p];
                const struct hvd_tree_options options = {
                    .size = size, .hosts = per_host[p] ? hosts : NULL, .fanout = fanouts[f]};
                const struct found found = check(&options);
                if (fanouts[f] > 0)
                    assert_true(found.children_max <= 2 * fanouts[f]);
            }
}

static void ranks_dealt_out_over_hosts_hang_under_the_first_of_theirs(void **state)
{
    static const int hosts[] = {7, 3, 7, 3, 9, 9, 7};
    struct hvd_tree t;
    struct hvd_node node;

    (void)state;
    const struct hvd_tree_options options = {.size = 7, .hosts = hosts, .fanout = 4};
    check(&options);
    assert_int_equal(hvd_tree_init(&t, &options, NULL), HVD_OK);
    static const int expected[] = {0, 2, 6, 1, 3, 4, 5};
    assert_memory_equal(t.rank_at, expected, sizeof(expected));
    assert_int_equal(hvd_tree_node_init(&node, &t, t.position_of[3], NULL), HVD_OK);
    assert_int_equal(t.rank_at[node.parent], 1);
    hvd_tree_node_fini(&node);
    hvd_tree_fini(&t);
}

static void small_sets_are_stars_and_large_ones_are_flat(void **state)
{
    int hosts[4560];

    (void)state;
    for (int i = 0; i < 4560; i++)
        hosts[i] = i;
    for (int size = 1; size <= 16; size++) {
        const struct hvd_tree_options options = {.size = size, .hosts = hosts};
        assert_int_equal(check(&options).depth, size > 1);
    }
    const struct hvd_tree_options options = {.size = 4560, .hosts = hosts};
    const struct found found = check(&options);
    assert_true(found.depth <= 4);
    assert_true(found.children_max < 64);
}

static void build(void)
{
    static const int hosts[] = {0, 0, 1, 1, 2, 2, 3, 3, 4};
    const struct hvd_tree_options options = {.size = 9, .hosts = hosts, .fanout = 2};
    struct hvd_tree t = {0};
    struct hvd_node node = {0};
    hvd_status_t st = hvd_tree_init(&t, &options, NULL);

    if (st == HVD_OK)
        st = hvd_tree_node_init(&node, &t, 0, NULL);
    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    hvd_tree_node_fini(&node);
    hvd_tree_fini(&t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(build());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tree_reaches_every_rank_once),
        cmocka_unit_test(ranks_dealt_out_over_hosts_hang_under_the_first_of_theirs),
        cmocka_unit_test(small_sets_are_stars_and_large_ones_are_flat),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
