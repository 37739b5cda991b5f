#include "tests/unit/support.h"

#include "operator/kube/httpdate.h"

static int64_t parse(const char *line)
{
    return hvd_httpdate_parse(hvd_strview_of(line));
}

static void the_form_that_servers_send_is_read(void **state)
{
    (void)state;
    assert_int_equal(parse("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), 784111777);
    assert_int_equal(parse("date: Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
    assert_int_equal(parse("DATE:Thu, 29 Feb 2024 23:59:59 GMT \n"), 1709251199);
    assert_int_equal(parse("Date: Wed, 31 Dec 2025 00:00:00 GMT"), 1767139200);
}

static void everything_else_is_no_date(void **state)
{
    static const char *const rows[] = {
        "",
        "Date",
        "Date:",
        "Date: ",
        "Dated: Sun, 06 Nov 1994 08:49:37 GMT",
        "X-Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
        "Date: Sun, 06 Nov 1994 08:49:37 UTC",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT+1",
        "Date: Sunday, 06-Nov-94 08:49:37 GMT",
        "Date: Sun Nov  6 08:49:37 1994",
        "Date: Sun, 06 Nov 1994 08:49:3x GMT",
        "Date: Sun, 06 Now 1994 08:49:37 GMT",
        "Date: Sun, -6 Nov 1994 08:49:37 GMT",
        "Date: 1700000000",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(parse(rows[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_form_that_servers_send_is_read),
        cmocka_unit_test(everything_else_is_no_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
