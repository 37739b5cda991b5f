#include "tests/unit/support.h"

#include "worker/engine/engine_internal.h"

#define N 40

static void make_entries(struct hvd_entry *entries[N])
{
    for (int i = 0; i < N; i++)
        entries[i] = hvd_calloc(1, sizeof(*entries[i]));
}

static void free_entries(struct hvd_entry *entries[N])
{
    for (int i = 0; i < N; i++)
        hvd_free(entries[i]);
}

static void a_handle_finds_its_entry_until_it_is_removed(void **state)
{
    struct hvd_handles h = {0};
    struct hvd_entry *entries[N];

    (void)state;
    make_entries(entries);
    for (int i = 0; i < N; i++)
        assert_int_equal(hvd_handles_add(&h, entries[i]), HVD_OK);
    for (int i = 0; i < N; i++)
        assert_ptr_equal(hvd_handles_find(&h, entries[i]->handle), entries[i]);
    const int64_t old = entries[7]->handle;
    hvd_handles_remove(&h, entries[7]);
    assert_null(hvd_handles_find(&h, old));
    assert_int_equal(hvd_handles_add(&h, entries[7]), HVD_OK);
    assert_int_not_equal(entries[7]->handle, old);
    assert_null(hvd_handles_find(&h, old));
    hvd_handles_fini(&h);
    free_entries(entries);
}

static void numbers_that_are_no_handles_find_nothing(void **state)
{
    static const int64_t wrong[] = {0, -1, 1, 17, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    struct hvd_handles h = {0};
    struct hvd_entry *entry = hvd_calloc(1, sizeof(*entry));

    (void)state;
    assert_null(hvd_handles_find(&h, 1));
    assert_int_equal(hvd_handles_add(&h, entry), HVD_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_null(hvd_handles_find(&h, wrong[i]));
    assert_ptr_equal(hvd_handles_any(&h), entry);
    hvd_handles_remove(&h, entry);
    assert_null(hvd_handles_any(&h));
    hvd_handles_fini(&h);
    hvd_free(entry);
}

static void growing_may_fail(void **state)
{
    struct hvd_entry *entries[N];

    (void)state;
    make_entries(entries);
    HVD_MEM_TORTURE({
        struct hvd_handles h = {0};
        hvd_status_t st = HVD_OK;
        int n = 0;
        while (n < N && (st = hvd_handles_add(&h, entries[n])) == HVD_OK)
            n++;
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        for (int i = 0; i < n; i++)
            assert_ptr_equal(hvd_handles_find(&h, entries[i]->handle), entries[i]);
        hvd_handles_fini(&h);
    });
    free_entries(entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_finds_its_entry_until_it_is_removed),
        cmocka_unit_test(numbers_that_are_no_handles_find_nothing),
        cmocka_unit_test(growing_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
