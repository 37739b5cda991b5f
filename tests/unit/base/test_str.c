#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static void cut_walks_through_all_items(void **state)
{
    struct hvd_strview rest = hvd_strview_of("a,,b");

    (void)state;
    assert_true(hvd_strview_equal(hvd_strview_cut(&rest, ','), "a"));
    assert_true(hvd_strview_equal(hvd_strview_cut(&rest, ','), ""));
    assert_non_null(rest.data);
    assert_true(hvd_strview_equal(hvd_strview_cut(&rest, ','), "b"));
    assert_null(rest.data);
}

static void views_are_the_same_when_their_texts_are(void **state)
{
    (void)state;
    assert_true(hvd_strview_same(hvd_strview_of("ab"), (struct hvd_strview){"abc", 2}));
    assert_false(hvd_strview_same(hvd_strview_of("ab"), hvd_strview_of("abc")));
    assert_false(hvd_strview_same(hvd_strview_of("ab"), hvd_strview_of("ac")));
    assert_true(hvd_strview_same((struct hvd_strview){0}, hvd_strview_of("")));
}

static void trim_takes_white_space_from_both_ends(void **state)
{
    (void)state;
    assert_true(hvd_strview_equal(hvd_strview_trim(hvd_strview_of(" \ta b\n")), "a b"));
    assert_true(hvd_strview_equal(hvd_strview_trim(hvd_strview_of("  ")), ""));
}

static void integers_are_decimal_whole_and_in_range(void **state)
{
    static const char *const bad[] = {
        "", "-", "+", "1x", " 1", "0x10", "101", "-6", "99999999999999999999", "1.0"};
    const int64_t range[2] = {-5, 100};
    int64_t value = 42;
    struct hvd_err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(hvd_str_parse_int64(hvd_strview_of(bad[i]), range, &value, NULL),
                         HVD_ERR_INVALID);
        assert_int_equal(value, 42);
    }
    assert_int_equal(hvd_str_parse_int64(hvd_strview_of("101"), range, &value, &err),
                     HVD_ERR_INVALID);
    assert_string_equal(err.msg, "\"101\" is not an integer from -5 to 100");
    assert_int_equal(hvd_str_parse_int64(hvd_strview_of("-5"), range, &value, NULL), HVD_OK);
    assert_int_equal(value, -5);
    assert_int_equal(hvd_str_parse_int64(hvd_strview_of("+100"), range, &value, NULL), HVD_OK);
    assert_int_equal(value, 100);
}

static void the_extremes_of_64_bits_are_read(void **state)
{
    const int64_t range[2] = {INT64_MIN, INT64_MAX};
    int64_t value = 0;

    (void)state;
    assert_int_equal(
        hvd_str_parse_int64(hvd_strview_of("-9223372036854775808"), range, &value, NULL), HVD_OK);
    assert_true(value == INT64_MIN);
    assert_int_equal(
        hvd_str_parse_int64(hvd_strview_of("9223372036854775807"), range, &value, NULL), HVD_OK);
    assert_true(value == INT64_MAX);
    assert_int_equal(
        hvd_str_parse_int64(hvd_strview_of("9223372036854775808"), range, &value, NULL),
        HVD_ERR_INVALID);
}

static void prefixes_suffixes_and_equality_take_null(void **state)
{
    (void)state;
    assert_true(hvd_str_has_prefix("worker-0", "worker-"));
    assert_false(hvd_str_has_prefix("work", "worker-"));
    assert_false(hvd_str_has_prefix(NULL, ""));
    assert_true(hvd_str_has_suffix("a.tar", ".tar"));
    assert_false(hvd_str_has_suffix("r", ".tar"));
    assert_true(hvd_str_equal(NULL, NULL));
    assert_false(hvd_str_equal(NULL, ""));
    assert_true(hvd_str_equal("a", "a"));
}

/* Escapes of terminals and turns of the direction of writing; all other text is as it was. */
static void texts_of_others_are_made_harmless(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } texts[] = {
        {"a\tb\nc \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "a\tb\nc \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\x1b[31mred\x7f\r", "?[31mred??"},
        {"\xc2\x9b"
         "31m",
         "??31m"},
        {"a\xe2\x80\xaa\xe2\x80\xae"
         "b\xe2\x81\xa6\xe2\x81\xa9",
         "a??????b??????"},
        {"\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
         "\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"},
        {"\xe2\x80", "\xe2\x80"},
        {"\xe2", "\xe2"},
        {"\xc2", "\xc2"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s", texts[i].text);
        hvd_str_disarm(text);
        assert_string_equal(text, texts[i].expected);
    }
}

static void a_harmful_byte_is_found_wherever_it_stands(void **state)
{
    char text[32];

    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        const bool is_harmful = (byte < 0x20 && byte != '\t' && byte != '\n') || byte == 0x7f;

        for (size_t len = 1; len < 20; len++) {
            for (size_t at = 0; at < len; at++) {
                memset(text, 'a' + (int)at, sizeof(text));
                text[at] = (char)byte;
                text[len] = '\0';
                hvd_str_disarm(text);
                assert_int_equal((unsigned char)text[at], is_harmful ? '?' : byte);
                assert_int_equal(strlen(text), len);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_walks_through_all_items),
        cmocka_unit_test(views_are_the_same_when_their_texts_are),
        cmocka_unit_test(trim_takes_white_space_from_both_ends),
        cmocka_unit_test(integers_are_decimal_whole_and_in_range),
        cmocka_unit_test(the_extremes_of_64_bits_are_read),
        cmocka_unit_test(texts_of_others_are_made_harmless),
        cmocka_unit_test(a_harmful_byte_is_found_wherever_it_stands),
        cmocka_unit_test(prefixes_suffixes_and_equality_take_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
