#include "tests/unit/support.h"

#include <stdio.h>

#include "operator/app/index.h"

enum { MANY = 300 };

struct holder {
    struct hvd_index_node node;
    unsigned kind;
    char name[16];
};

static struct hvd_index_key key_of(const struct hvd_index_node *node)
{
    const struct holder *holder = (const struct holder *)node;

    return (struct hvd_index_key){holder->kind, "ns", holder->name};
}

static struct holder *find(const struct hvd_index *index, unsigned kind, const char *space,
                           int name)
{
    struct hvd_index_key key = {kind, space, NULL};
    char text[16];

    (void)snprintf(text, sizeof(text), "%d", name);
    key.name = text;
    return (struct holder *)hvd_index_find(index, &key);
}

static struct holder *hold(struct holder *holder, unsigned kind, int name)
{
    holder->kind = kind;
    (void)snprintf(holder->name, sizeof(holder->name), "%d", name);
    return holder;
}

static void nodes_are_found_by_their_key_until_removed(void **state)
{
    static struct holder holders[MANY];
    struct hvd_index index = {.key_of = key_of};

    (void)state;
    assert_null(find(&index, 0, "ns", 0));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(hvd_index_add(&index, &hold(&holders[i], (unsigned)i % 3, i)->node),
                         HVD_OK);
    assert_int_equal(hvd_index_count(&index), MANY);
    for (int i = 0; i < MANY; i += 2)
        hvd_index_remove(&index, &holders[i].node);
    for (int i = 0; i < MANY; i++) {
        assert_ptr_equal(find(&index, (unsigned)i % 3, "ns", i), i % 2 ? &holders[i] : NULL);
        assert_null(find(&index, (unsigned)(i + 1) % 3, "ns", i));
        assert_null(find(&index, (unsigned)i % 3, "other", i));
    }
    for (int i = 1; i < MANY; i += 2)
        hvd_index_remove(&index, &holders[i].node);
    assert_null(hvd_index_first(&index));
    assert_int_equal(hvd_mem_live(), 0);
}

static void a_walk_meets_every_node_once_though_each_is_removed_on_the_way(void **state)
{
    static struct holder holders[MANY];
    struct hvd_index index = {.key_of = key_of};
    struct hvd_index_node *node;
    int n = 0;

    (void)state;
    assert_null(hvd_index_first(&index));
    for (int i = 0; i < MANY; i++)
        assert_int_equal(hvd_index_add(&index, &hold(&holders[i], 0, i)->node), HVD_OK);
    for (node = hvd_index_first(&index); node; node = hvd_index_next(&index, node))
        n++;
    assert_int_equal(n, MANY);
    node = hvd_index_first(&index);
    while (node) {
        struct hvd_index_node *next = hvd_index_next(&index, node);

        hvd_index_remove(&index, node);
        node = next;
        n--;
    }
    assert_int_equal(n, 0);
    assert_int_equal(hvd_index_count(&index), 0);
    assert_int_equal(hvd_mem_live(), 0);
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct holder a = {0};
        struct hvd_index index = {.key_of = key_of};
        hvd_status_t st = hvd_index_add(&index, &hold(&a, 1, 7)->node);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        assert_ptr_equal(find(&index, 1, "ns", 7), st == HVD_OK ? &a : NULL);
        if (st == HVD_OK)
            hvd_index_remove(&index, &a.node);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_found_by_their_key_until_removed),
        cmocka_unit_test(a_walk_meets_every_node_once_though_each_is_removed_on_the_way),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
