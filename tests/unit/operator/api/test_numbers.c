#include "tests/unit/support.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/api/numbers.h"

/* What is printed of the document, read in the way of cJSON's blocks and in the usual one, and of a
 * copy of it. */
static void assert_kept(const char *text)
{
    cJSON *docs[4] = {NULL};

    assert_int_equal(hvd_json_read(hvd_strview_of(text), &docs[0]), HVD_OK);
    assert_int_equal(hvd_json_read(hvd_strview_of(text), &docs[1]), HVD_OK);
    assert_int_equal(hvd_json_parse(text, &docs[2]), HVD_OK);
    docs[3] = cJSON_Duplicate(docs[0], true);
    for (size_t i = 0; i < 4; i++) {
        char *printed = hvd_print_json(docs[i]);

        assert_string_equal(printed, text);
        hvd_free(printed);
    }
    for (size_t i = 4; i > 0; i--)
        hvd_json_drop(docs[i - 1]);
}

static void numbers_and_texts_are_printed_as_they_came(void **state)
{
    static const char *const table[] = {
        "0",
        "-1",
        "999999999999999",
        "1000000000000000",
        "-1000000000000000",
        "9007199254740991",
        "9007199254740993",
        "-9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
        "-0",
        "1.0",
        "0.10",
        "1.5",
        "1e3",
        "1E+3",
        "1e-7",
        "1e400",
        "-1e400",
        "5e-324",
        "1e-999",
        "0e0",
        "[1e15,\"1e15\",1000000000000000,{\"1e15\":1e15,\"\":-0.0,\"a\":{}},[]]",
        "{\"a\":1,\"a\":1.0,\"a\":9007199254740993}",
        "{\"a\":\"\\\"9007199254740993\",\"b\":\"\\\\\",\"c\":9007199254740993}",
        "{\"a\":\"\\\\\\\"1.0\",\"b\":[true,false,null,\"\",\"\\b\\f\\n\\r\\t\\u0001\\u001f/\"]}",
        "{\"a\":\"\xc3\xa4\xe2\x80\xa8\xf0\x9f\x98\x80\x7f\",\"b\":1.00}",
    };

    (void)state;
    hvd_json_use_base_memory();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_kept(table[i]);
    assert_int_equal(hvd_mem_live(), 0);
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static size_t add_digits(uint64_t *state, char *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (char)('0' + (char)(draw(state) % 10));
    return n;
}

/* Any number that JSON can write. */
static void random_number(uint64_t *state, char *out)
{
    char *at = out;

    if (draw(state) % 3 == 0)
        *at++ = '-';
    if (draw(state) % 6 == 0) {
        *at++ = '0';
    } else {
        *at++ = (char)('1' + (char)(draw(state) % 9));
        at += add_digits(state, at, draw(state) % 25);
    }
    if (draw(state) % 4 == 0) {
        *at++ = '.';
        at += add_digits(state, at, 1 + draw(state) % 10);
    }
    if (draw(state) % 4 == 0) {
        *at++ = draw(state) % 2 ? 'e' : 'E';
        if (draw(state) % 2)
            *at++ = draw(state) % 2 ? '+' : '-';
        at += add_digits(state, at, 1 + draw(state) % 3);
    }
    *at = '\0';
}

static void ten_thousand_random_numbers_are_printed_as_they_came(void **state)
{
    uint64_t random = 7;

    (void)state;
    hvd_json_use_base_memory();
    for (size_t i = 0; i < 10000; i++) {
        char number[64], text[300];

        random_number(&random, number);
        assert_true(hvd_numbers_is_number(hvd_strview_of(number)));
        (void)snprintf(text, sizeof(text), "{\"n\":%s,\"%s\":\"%s\",\"l\":[%s,\"x\\\\\",%s]}",
                       number, number, number, number, number);
        assert_kept(text);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

static void what_is_no_number_stays_no_json(void **state)
{
    static const char *const table[] = {
        "{1.5:2}",
        "{\"a\":1.}",
        "[007]",
        "[-01.5]",
        "[\"a\",1.,\"b\"]",
        "{\"a\":.5}",
        "{\"a\":1.0e}",
        "{\"a\":--1}",
        "[1.0 1.0]",
        "[1.0\"x\"]",
        "[-]",
        "[1e+]",
        "[1.5.5]",
        "[1e5e5]",
        "{\"a\":+1.5}",
        "[\"1.5]",
        "[1.5",
        "{\"a\" 1.5}",
        "[1.5,\"\xE0\x80\x81\x31\"]",
    };

    (void)state;
    hvd_json_use_base_memory();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        cJSON *doc = NULL, *first = NULL;

        assert_int_equal(hvd_json_read(hvd_strview_of(table[i]), &doc), HVD_ERR_INVALID);
        assert_int_equal(hvd_json_read(hvd_strview_of("[]"), &first), HVD_OK);
        assert_int_equal(hvd_json_read(hvd_strview_of(table[i]), &doc), HVD_ERR_INVALID);
        assert_int_equal(hvd_json_parse(table[i], &doc), HVD_ERR_INVALID);
        hvd_json_drop(first);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

static void a_number_is_read_by_its_value(void **state)
{
    static const struct {
        const char *text;
        int64_t value; /* -7: it is not whole */
    } table[] = {
        {"7", 7},
        {"7.0", 7},
        {"7e0", 7},
        {"-0", 0},
        {"7.5", -7},
        {"1e300", -7},
        {"1e400", -7},
        {"9007199254740991", INT64_C(9007199254740991)},
        {"-9007199254740991", INT64_C(-9007199254740991)},
        {"9007199254740993", INT64_C(9007199254740992)},
        {"9223372036854775807", INT64_C(9007199254740992)},
        {"-99999999999999999999999", INT64_C(-9007199254740992)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char text[64];
        cJSON *doc = NULL;

        (void)snprintf(text, sizeof(text), "{\"n\":%s}", table[i].text);
        assert_int_equal(hvd_json_read(hvd_strview_of(text), &doc), HVD_OK);
        assert_int_equal(hvd_json_int(doc, "n", -7), table[i].value);
        assert_true(cJSON_IsNumber(hvd_json_get(doc, "n")));
        assert_null(hvd_json_str(doc, "n"));
        hvd_json_drop(doc);
    }
}

static void what_the_operator_counts_is_printed_without_an_exponent(void **state)
{
    static const int64_t table[] = {0,
                                    -1,
                                    INT64_C(1000000000000000),
                                    INT64_C(9007199254740992),
                                    INT64_C(9007199254740993),
                                    INT64_MAX,
                                    INT64_MIN};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct hvd_jb jb = {0};
        cJSON *root = hvd_jb_root(&jb);
        char expected[64], *text;

        hvd_jb_int(&jb, root, "n", table[i]);
        text = hvd_jb_print(&jb, root);
        (void)snprintf(expected, sizeof(expected), "{\"n\":%" PRId64 "}", table[i]);
        assert_string_equal(text, expected);
        hvd_free(text);
        cJSON_Delete(root);
    }
}

static void keep(void)
{
    static const char text[] = "{\"a\":[1.0,\"\\u0000\",9007199254740993]}";
    cJSON *doc = NULL;
    hvd_status_t st = hvd_json_parse(text, &doc);
    char *printed = NULL;

    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    if (st == HVD_OK)
        printed = hvd_print_json(doc);
    assert_true(printed || hvd_mem_fired());
    hvd_free(printed);
    cJSON_Delete(doc);
}

static void without_memory_no_number_is_lost(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(keep());
    assert_null(hvd_print_json(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_texts_are_printed_as_they_came),
        cmocka_unit_test(ten_thousand_random_numbers_are_printed_as_they_came),
        cmocka_unit_test(what_is_no_number_stays_no_json),
        cmocka_unit_test(a_number_is_read_by_its_value),
        cmocka_unit_test(what_the_operator_counts_is_printed_without_an_exponent),
        cmocka_unit_test(without_memory_no_number_is_lost),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
