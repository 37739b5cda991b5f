#include "tests/unit/support.h"

#include <stdio.h>

#include "operator/app/index.h"

enum { MANY = 300 };

static void nodes_are_found_by_their_key_until_removed(void **state)
{
    static struct hvd_index_node nodes[MANY];
    struct hvd_index index = {0};
    char key[16];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "ns/%d", i);
        assert_int_equal(hvd_index_add(&index, &nodes[i], key), HVD_OK);
    }
    assert_int_equal(hvd_index_count(&index), MANY);
    for (int i = 0; i < MANY; i += 2)
        hvd_index_remove(&index, &nodes[i]);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, sizeof(key), "ns/%d", i);
        assert_ptr_equal(hvd_index_find(&index, key), i % 2 ? &nodes[i] : NULL);
    }
    for (int i = 1; i < MANY; i += 2)
        hvd_index_remove(&index, &nodes[i]);
    assert_null(hvd_index_first(&index));
    assert_int_equal(hvd_mem_live(), 0);
}

static void nodes_come_in_the_order_of_insertion(void **state)
{
    struct hvd_index_node a = {0}, b = {0};
    struct hvd_index index = {0};

    (void)state;
    assert_null(hvd_index_first(&index));
    assert_int_equal(hvd_index_add(&index, &b, "b"), HVD_OK);
    assert_int_equal(hvd_index_add(&index, &a, "a"), HVD_OK);
    assert_ptr_equal(hvd_index_first(&index), &b);
    assert_ptr_equal(hvd_index_next(&b), &a);
    assert_null(hvd_index_next(&a));
    assert_string_equal(a.key, "a");
    hvd_index_remove(&index, &a);
    hvd_index_remove(&index, &b);
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_index_node a = {0};
        struct hvd_index index = {0};
        hvd_status_t st = hvd_index_add(&index, &a, "a");
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        assert_ptr_equal(hvd_index_find(&index, "a"), st == HVD_OK ? &a : NULL);
        if (st == HVD_OK)
            hvd_index_remove(&index, &a);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_found_by_their_key_until_removed),
        cmocka_unit_test(nodes_come_in_the_order_of_insertion),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
