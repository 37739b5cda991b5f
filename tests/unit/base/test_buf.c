#include "tests/unit/support.h"

#include <string.h>

#include "base/buf.h"

static void content_is_terminated_and_grows(void **state)
{
    struct hvd_buf buf;

    (void)state;
    hvd_buf_init(&buf, 1000);
    for (int i = 0; i < 100; i++)
        assert_int_equal(hvd_buf_printf(&buf, "%03d,", i), HVD_OK);
    assert_int_equal(buf.len, 400);
    assert_int_equal(strlen(buf.data), 400);
    assert_memory_equal(buf.data + 396, "099,", 4);
    hvd_buf_fini(&buf);
    assert_int_equal(hvd_mem_live(), 0);
}

static void the_maximum_holds_and_a_refused_append_changes_nothing(void **state)
{
    struct hvd_buf buf;

    (void)state;
    hvd_buf_init(&buf, 5);
    assert_int_equal(hvd_buf_puts(&buf, "1234"), HVD_OK);
    assert_int_equal(hvd_buf_add(&buf, "56", 2), HVD_ERR_TOO_LARGE);
    assert_int_equal(hvd_buf_printf(&buf, "%s", "56"), HVD_ERR_TOO_LARGE);
    assert_string_equal(buf.data, "1234");
    assert_int_equal(hvd_buf_puts(&buf, "5"), HVD_OK);
    assert_string_equal(buf.data, "12345");
    hvd_buf_fini(&buf);
}

static void consume_drops_from_the_front(void **state)
{
    struct hvd_buf buf;

    (void)state;
    hvd_buf_init(&buf, 100);
    hvd_buf_consume(&buf, 0);
    assert_int_equal(hvd_buf_puts(&buf, "line\nrest"), HVD_OK);
    hvd_buf_consume(&buf, 5);
    assert_string_equal(buf.data, "rest");
    hvd_buf_consume(&buf, 4);
    assert_int_equal(buf.len, 0);
    hvd_buf_fini(&buf);
}

static void take_transfers_the_content(void **state)
{
    struct hvd_buf buf;

    (void)state;
    hvd_buf_init(&buf, 100);
    assert_null(hvd_buf_take(&buf));
    assert_int_equal(hvd_buf_puts(&buf, "mine"), HVD_OK);
    char *text = hvd_buf_take(&buf);
    assert_string_equal(text, "mine");
    assert_int_equal(buf.len, 0);
    assert_null(buf.data);
    hvd_free(text);
    hvd_buf_fini(&buf);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_buf buf;
        hvd_buf_init(&buf, 1000);
        hvd_status_t st = hvd_buf_puts(&buf, "short");
        if (st == HVD_OK)
            st = hvd_buf_printf(&buf, "%0500d", 1);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&buf);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_is_terminated_and_grows),
        cmocka_unit_test(the_maximum_holds_and_a_refused_append_changes_nothing),
        cmocka_unit_test(consume_drops_from_the_front),
        cmocka_unit_test(take_transfers_the_content),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
