#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/core/table.h"

static void a_name_is_pending_once_and_free_again_afterwards(void **state)
{
    struct hvd_table *t = NULL;
    struct hvd_err err = {0};
    int a = 0;
    int b = 0;

    (void)state;
    assert_int_equal(hvd_table_create(&t, NULL), HVD_OK);
    assert_int_equal(hvd_table_add(t, hvd_strview_of("x"), &a, NULL), HVD_OK);
    assert_int_equal(hvd_table_add(t, hvd_strview_of("x"), &b, &err), HVD_ERR_EXISTS);
    assert_non_null(strstr(err.msg, "same name as another tensor"));
    assert_ptr_equal(hvd_table_find(t, hvd_strview_of("x")), &a);
    assert_null(hvd_table_find(t, hvd_strview_of("xy")));
    assert_ptr_equal(hvd_table_take(t, hvd_strview_of("x")), &a);
    assert_null(hvd_table_take(t, hvd_strview_of("x")));
    assert_int_equal(hvd_table_add(t, hvd_strview_of("x"), &b, NULL), HVD_OK);
    hvd_table_destroy(t);
}

static void owners_are_taken_in_the_order_they_came(void **state)
{
    struct hvd_table *t = NULL;
    int owners[100];
    char name[16];

    (void)state;
    assert_int_equal(hvd_table_create(&t, NULL), HVD_OK);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        assert_int_equal(hvd_table_add(t, hvd_strview_of(name), &owners[i], NULL), HVD_OK);
    }
    assert_int_equal(hvd_table_count(t), 100);
    for (int i = 0; i < 100; i++)
        assert_ptr_equal(hvd_table_take_first(t), &owners[i]);
    assert_null(hvd_table_take_first(t));
    hvd_table_destroy(t);
    hvd_table_destroy(NULL);
}

static void fill_as_far_as_possible(void)
{
    char name[16];
    struct hvd_table *t = NULL;
    hvd_status_t st = hvd_table_create(&t, NULL);

    for (int i = 0; st == HVD_OK && i < 40; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        st = hvd_table_add(t, hvd_strview_of(name), &name, NULL);
        assert_int_equal(hvd_table_count(t), st == HVD_OK ? i + 1 : i);
    }
    /* Growing its buckets is a luxury of the map: failing that is no failure. */
    assert_true(st == HVD_OK || (st == HVD_ERR_NOMEM && hvd_mem_fired()));
    hvd_table_destroy(t);
}

static void running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(fill_as_far_as_possible());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_pending_once_and_free_again_afterwards),
        cmocka_unit_test(owners_are_taken_in_the_order_they_came),
        cmocka_unit_test(running_out_of_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
