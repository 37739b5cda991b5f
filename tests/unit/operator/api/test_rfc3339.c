#include "tests/unit/support.h"

#include <string.h>

#include "operator/api/rfc3339.h"

static void times_are_read_and_written(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } table[] = {
        {"0001-01-01T00:00:00Z", -62135596800}, /* the zero time of Go */
        {"1970-01-01T00:00:01Z", 1},
        {"2000-02-29T12:34:56Z", 951827696},
        {"2023-11-14T22:13:20Z", 1700000000},
        {"2100-03-01T00:00:00Z", 4107542400},
        {"9999-12-31T23:59:59Z", 253402300799},
    };
    char out[HVD_RFC3339_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_int_equal(hvd_rfc3339_parse(table[i].text), table[i].seconds);
        hvd_rfc3339_format(table[i].seconds, out);
        assert_string_equal(out, table[i].text);
    }
    hvd_rfc3339_format(table[5].seconds + 1, out);
    assert_string_equal(out, "10000-01-01T00:00:00Z");
}

static void every_day_of_400_years_survives_the_round_trip(void **state)
{
    char out[HVD_RFC3339_SIZE];

    (void)state;
    for (int64_t day = 0; day < 146097; day++) {
        hvd_rfc3339_format(day * 86400 + 86399, out);
        assert_int_equal(hvd_rfc3339_parse(out), day * 86400 + 86399);
    }
}

static void fractions_and_offsets_are_understood(void **state)
{
    (void)state;
    assert_int_equal(hvd_rfc3339_parse("2023-11-14T22:13:20.123456Z"), 1700000000);
    assert_int_equal(hvd_rfc3339_parse("2023-11-15T00:13:20+02:00"), 1700000000);
    assert_int_equal(hvd_rfc3339_parse("2023-11-14T20:43:20-01:30"), 1700000000);
}

static void what_is_no_time_is_zero(void **state)
{
    static const char *const bad[] = {"",
                                      "now",
                                      "2023-11-14",
                                      "2023-11-14T22:13:20",
                                      "2023-13-14T22:13:20Z",
                                      "2023-00-14T22:13:20Z",
                                      "2023-11-32T22:13:20Z",
                                      "2023-11-14T22:13:20Zx",
                                      "2023-11-14T22:13:20+2:00",
                                      "2023/11/14T22:13:20Z"};

    (void)state;
    assert_int_equal(hvd_rfc3339_parse(NULL), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(hvd_rfc3339_parse(bad[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read_and_written),
        cmocka_unit_test(every_day_of_400_years_survives_the_round_trip),
        cmocka_unit_test(fractions_and_offsets_are_understood),
        cmocka_unit_test(what_is_no_time_is_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
