#include "tests/unit/support.h"

#include "worker/engine/state/state.h"

#define N 40

static void a_handle_finds_its_entry_until_it_is_removed(void **state)
{
    struct hvd_handles h = {.n_records = 0};
    static struct hvd_entry entries[N];

    (void)state;
    for (int i = 0; i < N; i++)
        assert_int_equal(hvd_handles_add(&h, &entries[i]), HVD_OK);
    for (int i = 0; i < N; i++)
        assert_ptr_equal(hvd_handles_find(&h, entries[i].handle), &entries[i]);
    const int64_t old = entries[7].handle;
    hvd_handles_remove(&h, &entries[7]);
    assert_null(hvd_handles_find(&h, old));
    assert_int_equal(hvd_handles_add(&h, &entries[7]), HVD_OK);
    assert_int_not_equal(entries[7].handle, old);
    assert_null(hvd_handles_find(&h, old));
    hvd_handles_fini(&h);
}

static void numbers_that_are_no_handles_find_nothing(void **state)
{
    static const int64_t wrong[] = {
        0, -1, 1, 17, INT64_MAX, INT64_MIN, (int64_t)1 << 32, 0x7ffffff1, UINT32_MAX};
    struct hvd_handles h = {.n_records = 0};
    static struct hvd_entry entry;

    (void)state;
    assert_null(hvd_handles_find(&h, 1));
    assert_int_equal(hvd_handles_add(&h, &entry), HVD_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_null(hvd_handles_find(&h, wrong[i]));
    hvd_handles_remove(&h, &entry);
    hvd_handles_fini(&h);
}

static void a_wait_is_ended_once(void **state)
{
    struct hvd_handles h = {.n_records = 0};
    static struct hvd_entry entry;
    struct hvd_cache_slot record = {.slot_entry = NULL};
    bool is_transient = false;

    (void)state;
    assert_int_equal(hvd_handles_add(&h, &entry), HVD_OK);
    const int64_t first = entry.handle;
    entry.end = HVD_ENTRY_SIMPLE;
    assert_false(hvd_handles_end_simply(&h, first)); /* transient: it goes to the pool, under mu */
    assert_true(hvd_handles_end(&entry, first, &is_transient));
    assert_true(is_transient);
    assert_false(hvd_handles_end(&entry, first, &is_transient));
    hvd_handles_remove(&h, &entry);

    assert_int_equal(hvd_handles_add(&h, &entry), HVD_OK);
    hvd_entry_settle(&entry, &record);
    const int64_t second = entry.handle;
    assert_false(hvd_handles_end_simply(&h, second)); /* pending */
    entry.end = HVD_ENTRY_ENDED;
    assert_false(hvd_handles_end_simply(&h, second));
    entry.end = HVD_ENTRY_SIMPLE;
    assert_false(hvd_handles_end_simply(&h, first));
    assert_true(hvd_handles_end_simply(&h, second));
    assert_false(hvd_handles_end_simply(&h, second));
    assert_null(hvd_handles_find(&h, second));

    hvd_handles_renew(&entry);
    assert_int_not_equal(entry.handle, second);
    assert_ptr_equal(hvd_handles_find(&h, entry.handle), &entry);
    assert_false(hvd_handles_end_simply(&h, entry.handle));
    entry.end = HVD_ENTRY_SIMPLE;
    assert_false(hvd_handles_end_simply(&h, second));
    assert_true(hvd_handles_end(&entry, entry.handle, &is_transient));
    assert_false(is_transient);
    hvd_handles_remove(&h, &entry);
    hvd_handles_fini(&h);
}

static void growing_may_fail(void **state)
{
    static struct hvd_entry entries[N];

    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_handles h = {.n_records = 0};
        hvd_status_t st = HVD_OK;
        int n = 0;
        while (n < N && (st = hvd_handles_add(&h, &entries[n])) == HVD_OK)
            n++;
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        for (int i = 0; i < n; i++)
            assert_ptr_equal(hvd_handles_find(&h, entries[i].handle), &entries[i]);
        hvd_handles_fini(&h);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_finds_its_entry_until_it_is_removed),
        cmocka_unit_test(numbers_that_are_no_handles_find_nothing),
        cmocka_unit_test(a_wait_is_ended_once),
        cmocka_unit_test(growing_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
