#include "tests/unit/support.h"

#include <string.h>

#include "worker/telemetry/core/json.h"

static void expect(const struct hvd_json *json, const char *text)
{
    char found[HVD_JSON_LINE_MAX + 1];

    memcpy(found, json->text, json->len);
    found[json->len] = '\0';
    assert_string_equal(found, text);
}

static void strings_are_escaped_and_stay_what_they_are(void **state)
{
    static const char *const cases[][2] = {
        {"", "\"\""},
        {"allreduce.weight", "\"allreduce.weight\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"tab\tline\nbell\x07 del\x7f", "\"tab\\u0009line\\u000abell\\u0007 del\\u007f\""},
        {"gradi\xc3\xa9nt \xe2\x82\xac \xf0\x9f\x90\x8e",
         "\"gradi\xc3\xa9nt \xe2\x82\xac \xf0\x9f\x90\x8e\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_json json = {0};
        hvd_json_string(&json, hvd_strview_of(cases[i][0]));
        expect(&json, cases[i][1]);
    }
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    /* A lone continuation, a cut sequence, an overlong form, a surrogate, one above U+10FFFF. */
    static const char *const cases[][2] = {
        {"\x80", "\"\\ufffd\""},
        {"a\xc3", "\"a\\ufffd\""},
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
        {"\xe0\x80\x80z", "\"\\ufffd\\ufffd\\ufffdz\""},
        {"\xff", "\"\\ufffd\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_json json = {0};
        hvd_json_string(&json, hvd_strview_of(cases[i][0]));
        expect(&json, cases[i][1]);
    }
}

static void numbers_are_written_with_all_their_digits(void **state)
{
    struct hvd_json json = {0};

    (void)state;
    hvd_json_int(&json, 0);
    hvd_json_raw(&json, " ");
    hvd_json_int(&json, INT64_MIN);
    hvd_json_raw(&json, " ");
    hvd_json_int(&json, INT64_MAX);
    hvd_json_raw(&json, " ");
    hvd_json_micros(&json, 0);
    hvd_json_raw(&json, " ");
    hvd_json_micros(&json, 1234567);
    hvd_json_raw(&json, " ");
    hvd_json_micros(&json, -5);
    expect(&json, "0 -9223372036854775808 9223372036854775807 0.000 1234.567 -0.005");
}

static void a_line_that_is_too_long_is_cut_and_nothing_is_overwritten(void **state)
{
    struct hvd_json json = {0};

    (void)state;
    for (int i = 0; i < 3000; i++)
        hvd_json_raw(&json, "12345");
    assert_int_equal(json.len, HVD_JSON_LINE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped_and_stay_what_they_are),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
        cmocka_unit_test(numbers_are_written_with_all_their_digits),
        cmocka_unit_test(a_line_that_is_too_long_is_cut_and_nothing_is_overwritten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
