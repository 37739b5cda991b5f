#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operator/api/json.h"

static const char sample[] = "{\"a\":{\"b\":\"text\",\"n\":7,\"f\":1.5,\"big\":1e300,\"t\":true,"
                             "\"x.y\":\"dots\"},\"l\":[1]}";

static void paths_reach_members_and_miss_quietly(void **state)
{
    cJSON *root = cJSON_Parse(sample);

    (void)state;
    assert_string_equal(hvd_json_str(root, "a.b"), "text");
    assert_null(hvd_json_str(root, "a.n"));
    assert_null(hvd_json_str(root, "a.b.c"));
    assert_null(hvd_json_str(root, "l.0"));
    assert_null(hvd_json_str(NULL, "a"));
    assert_non_null(hvd_json_get(hvd_json_at(root, "a"), "x.y"));
    assert_true(hvd_json_true(root, "a.t"));
    assert_false(hvd_json_true(root, "a.n"));
    cJSON_Delete(root);
}

static void only_whole_numbers_are_integers(void **state)
{
    cJSON *root = cJSON_Parse(sample);

    (void)state;
    assert_int_equal(hvd_json_int(root, "a.n", -1), 7);
    assert_int_equal(hvd_json_int(root, "a.f", -1), -1);
    assert_int_equal(hvd_json_int(root, "a.big", -1), -1);
    assert_int_equal(hvd_json_int(root, "a.b", -1), -1);
    assert_int_equal(hvd_json_int(root, "a.none", -1), -1);
    cJSON_Delete(root);
}

static void build(void)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *list = hvd_jb_ensure_array(&jb, root, "list");
    char *text;

    hvd_jb_str(&jb, list, NULL, "one");
    hvd_jb_fmt(&jb, list, NULL, "%s-%d", "two", 2);
    hvd_jb_int(&jb, root, "n", 1);
    hvd_jb_int(&jb, root, "n", 2);
    hvd_jb_str(&jb, root, "none", NULL);
    hvd_jb_bool(&jb, hvd_jb_ensure_object(&jb, root, "o"), "b", true);
    hvd_jb_copy(&jb, root, "copy", list);
    hvd_jb_copy(&jb, root, "nothing", NULL);
    text = hvd_jb_print(&jb, root);
    if (!hvd_mem_fired())
        assert_string_equal(text, "{\"list\":[\"one\",\"two-2\"],\"n\":2,\"none\":null,"
                                  "\"o\":{\"b\":true},\"copy\":[\"one\",\"two-2\"]}");
    assert_true((text == NULL) == jb.failed);
    hvd_free(text);
    cJSON_Delete(root);
}

static void building_remembers_a_failed_allocation(void **state)
{
    (void)state;
    HVD_MEM_TORTURE(build());
}

static void what_has_another_type_is_left_alone(void **state)
{
    cJSON *root = cJSON_Parse("{\"a\":\"text\"}");
    struct hvd_jb jb = {0};

    (void)state;
    assert_null(hvd_jb_ensure_object(&jb, root, "a"));
    assert_null(hvd_jb_ensure_array(&jb, root, "a"));
    assert_null(hvd_jb_object(&jb, hvd_jb_ensure_object(&jb, root, "a"), "b"));
    assert_false(jb.failed);
    cJSON_Delete(root);
}

static const char document[] = "{\"a\":[1,{\"b\":\"text with \\u00e4\"},null],\"c\":{\"d\":true}}";

static void a_document_that_is_read_takes_no_block_while_it_is_small(void **state)
{
    unsigned long before;
    cJSON *first, *second;
    char *text;

    (void)state;
    hvd_json_use_base_memory();
    before = hvd_mem_allocations();
    assert_int_equal(hvd_json_read(hvd_strview_of(document), &first), HVD_OK);
    assert_int_equal(hvd_mem_allocations(), before);
    assert_string_equal(hvd_json_str(cJSON_GetArrayItem(hvd_json_get(first, "a"), 1), "b"),
                        "text with \xc3\xa4");
    assert_int_equal(hvd_json_read(hvd_strview_of(document), &second), HVD_OK);
    assert_true(cJSON_Compare(first, second, true));
    hvd_json_drop(first);
    text = cJSON_PrintUnformatted(second);
    assert_non_null(strstr(text, "\"d\":true"));
    cJSON_free(text);
    hvd_json_drop(second);
    hvd_json_drop(NULL);
    assert_int_equal(hvd_json_read(hvd_strview_of("{\"a\":[1,"), &first), HVD_ERR_INVALID);
    assert_int_equal(hvd_mem_live(), 0);
}

static void a_document_larger_than_a_block_is_read(void **state)
{
    const size_t n = 200000;
    char *text = malloc(n * 4 + 600000);
    size_t len = 0;
    cJSON *doc;

    (void)state;
    hvd_json_use_base_memory();
    text[len++] = '[';
    for (size_t i = 0; i < n; i++)
        len += (size_t)sprintf(text + len, "%d,", (int)(i % 10));
    text[len++] = '"';
    memset(text + len, 'x', 500000);
    len += 500000;
    len += (size_t)sprintf(text + len, "\"]");
    assert_int_equal(hvd_json_read((struct hvd_strview){text, len}, &doc), HVD_OK);
    assert_int_equal(cJSON_GetArraySize(doc), n + 1);
    assert_int_equal(strlen(cJSON_GetStringValue(cJSON_GetArrayItem(doc, (int)n))), 500000);
    hvd_json_drop(doc);
    free(text);
    assert_int_equal(hvd_mem_live(), 0);
}

/* The character NUL, wherever the API server lets it through. */
static void a_nul_cuts_no_text_and_is_found_by_its_path(void **state)
{
    static const struct {
        const char *text, *path; /* NULL: none */
        const char *at, *value;
    } table[] = {
        {"{\"a\":\"x\\u0000y\"}", "doc.a", "a", "x\xEF\xBF\xBDy"},
        {"{\"a\":\"\\u0000\"}", "doc.a", "a", "\xEF\xBF\xBD"},
        {"{\"a\":\"\\u0000\\u0000z\"}", "doc.a", "a", "\xEF\xBF\xBD\xEF\xBF\xBDz"},
        {"{\"a\":\"\\\\\\u0000z\"}", "doc.a", "a", "\\\xEF\xBF\xBDz"},
        {"{\"a\":\"\\\\u0000z\"}", NULL, "a", "\\u0000z"},
        {"{\"a\":\"\\\\u0000\\u0000\"}", "doc.a", "a", "\\u0000\xEF\xBF\xBD"},
        {"{\"a\":\"\\ufffd\"}", NULL, "a", "\xEF\xBF\xBD"},
        {"{\"a\":\"\\u00001\"}", "doc.a", "a", "\xEF\xBF\xBD\x31"},
        {"{\"a\":{\"b\\u0000\":1,\"b\":\"t\"}}", "doc.a.b\xEF\xBF\xBD", "a.b", "t"},
        {"{\"a\":{\"b\":\"t\",\"l\":[0,{\"m\":[\"\",\"\\u0000\"]}]}}", "doc.a.l[1].m[1]", "a.b",
         "t"},
        {"{\"a\":{\"b\":\"t\",\"x.y/z\":\"\\u0000\"}}", "doc.a[x.y/z]", "a.b", "t"},
        {"{\"a\":\"t\",\"a-key-that-is-too-long-for-it\":{\"b\":\"\\u0000\"}}", "doc", "a", "t"},
    };

    (void)state;
    hvd_json_use_base_memory();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct hvd_strview text = hvd_strview_of(table[i].text);
        cJSON *docs[2];

        for (size_t j = 0; j < 2; j++)
            assert_int_equal(hvd_json_read(text, &docs[j]), HVD_OK);
        for (size_t j = 0; j < 2; j++) { /* in the blocks, and as usual */
            char path[24] = "doc";

            assert_int_equal(hvd_json_find_nul(docs[j], path, sizeof(path)), table[i].path != NULL);
            assert_string_equal(path, table[i].path ? table[i].path : "doc");
            assert_string_equal(hvd_json_str(docs[j], table[i].at), table[i].value);
            assert_true(cJSON_Compare(docs[0], docs[j], true));
        }
        hvd_json_drop(docs[1]);
        hvd_json_drop(docs[0]);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

static void what_is_no_json_is_no_document(void **state)
{
    static const struct hvd_strview table[] = {
        {"", 0},
        {"{\"a\":\"x\0y\"}", 11},
        {"{\"a\":\0 1}", 9},
        {"{\"a\":\"\\ud800\"}", 14},
        {"{\"a\":\"\\udc00\\u0000\"}", 20},
        {"{\"a\":\"\\u000", 11},
        {"{\"a\":\\u0000}", 12},
    };

    (void)state;
    hvd_json_use_base_memory();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        cJSON *doc = NULL, *none = NULL;

        assert_int_equal(hvd_json_read(hvd_strview_of("{}"), &doc), HVD_OK);
        assert_int_equal(hvd_json_read(table[i], &none), HVD_ERR_INVALID);
        hvd_json_drop(doc);
        assert_int_equal(hvd_json_read(table[i], &none), HVD_ERR_INVALID);
        assert_null(none);
    }
    assert_int_equal(hvd_mem_live(), 0);
}

static char large[100000]; /* a document that needs more than the first block */

static void read_and_drop(void)
{
    cJSON *doc = NULL;
    hvd_status_t st = hvd_json_read((struct hvd_strview){large, sizeof(large)}, &doc);

    assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
    hvd_json_drop(doc);
}

static void reading_without_memory_gives_nothing(void **state)
{
    static const char with_nul[] = "{\"a\":{\"b\":\"\\u0000\"}}";

    (void)state;
    memset(large, 'x', sizeof(large));
    large[0] = large[sizeof(large) - 1] = '"';
    hvd_json_use_base_memory();
    HVD_MEM_TORTURE(read_and_drop());
    memset(large, ' ', sizeof(large));
    memcpy(large, with_nul, sizeof(with_nul) - 1);
    HVD_MEM_TORTURE(read_and_drop());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_reach_members_and_miss_quietly),
        cmocka_unit_test(only_whole_numbers_are_integers),
        cmocka_unit_test(building_remembers_a_failed_allocation),
        cmocka_unit_test(what_has_another_type_is_left_alone),
        cmocka_unit_test(a_document_that_is_read_takes_no_block_while_it_is_small),
        cmocka_unit_test(a_document_larger_than_a_block_is_read),
        cmocka_unit_test(a_nul_cuts_no_text_and_is_found_by_its_path),
        cmocka_unit_test(what_is_no_json_is_no_document),
        cmocka_unit_test(reading_without_memory_gives_nothing),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
