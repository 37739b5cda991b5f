#include "tests/unit/support.h"

#include <stdio.h>

#include "worker/core/cache.h"

static hvd_status_t put(struct hvd_cache *c, const char *name, uint32_t slot)
{
    const struct hvd_request req = {
        .op = HVD_ALLREDUCE, .ndim = 1, .shape = {slot}, .name = hvd_strview_of(name)};
    const struct hvd_step step = {.kind = HVD_ALLREDUCE, .slot = slot};

    return hvd_cache_put(c, &req, &step, NULL);
}

static void a_tensor_is_found_by_name_and_by_slot_until_it_is_removed(void **state)
{
    struct hvd_cache *c = NULL;

    (void)state;
    assert_int_equal(hvd_cache_create(&c, NULL), HVD_OK);
    assert_null(hvd_cache_find(c, hvd_strview_of("a")));
    assert_null(hvd_cache_at(c, 0));
    assert_int_equal(put(c, "a", 0), HVD_OK);
    assert_int_equal(put(c, "b", 100), HVD_OK);
    assert_int_equal(hvd_cache_end(c), 101);
    assert_ptr_equal(hvd_cache_find(c, hvd_strview_of("b")), hvd_cache_at(c, 100));
    assert_int_equal(hvd_cache_at(c, 100)->request.shape[0], 100);
    assert_null(hvd_cache_at(c, 99));
    hvd_cache_remove(c, 100);
    hvd_cache_remove(c, 100);
    assert_null(hvd_cache_find(c, hvd_strview_of("b")));
    assert_int_equal(put(c, "c", 100), HVD_OK);
    assert_non_null(hvd_cache_find(c, hvd_strview_of("c")));
    hvd_cache_destroy(c);
    hvd_cache_destroy(NULL);
}

static void fill(void)
{
    char name[16];
    struct hvd_cache *c = NULL;
    hvd_status_t st = hvd_cache_create(&c, NULL);

    for (uint32_t i = 0; i < 20 && st == HVD_OK; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        st = put(c, name, i);
        assert_true((st == HVD_OK) == (hvd_cache_at(c, i) != NULL));
    }
    assert_true(st == HVD_OK || (st == HVD_ERR_NOMEM && hvd_mem_fired()));
    hvd_cache_destroy(c);
}

static void running_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(fill());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_found_by_name_and_by_slot_until_it_is_removed),
        cmocka_unit_test(running_out_of_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
