/* Finalizers as one text. */
#include "tests/unit/support.h"

#include <string.h>

#include "base/mem.h"
#include "operator/api/finalizers.h"
#include "operator/api/json.h"

static char *text_of(const char *meta)
{
    cJSON *parsed = cJSON_Parse(meta);
    char *text = NULL;

    assert_non_null(parsed);
    assert_int_equal(hvd_finalizers_text(parsed, &text), HVD_OK);
    cJSON_Delete(parsed);
    return text;
}

static void names_are_joined_and_found_as_a_whole(void **state)
{
    char *text =
        text_of("{\"finalizers\":[\"example.com/orphan\",\"\",null,\"foregroundDeletion\"]}");

    (void)state;
    assert_string_equal(text, "example.com/orphan, foregroundDeletion");
    assert_true(hvd_finalizers_has(text, HVD_FINALIZER_FOREGROUND));
    assert_true(hvd_finalizers_has(text, "example.com/orphan"));
    assert_false(hvd_finalizers_has(text, HVD_FINALIZER_ORPHAN));
    assert_false(hvd_finalizers_has(text, "example.com"));
    assert_false(hvd_finalizers_has(NULL, HVD_FINALIZER_ORPHAN));
    hvd_free(text);
}

static void without_names_there_is_no_text(void **state)
{
    static const char *const metas[] = {"{}", "{\"finalizers\":[]}", "{\"finalizers\":7}",
                                        "{\"finalizers\":[{},[],true,\"\"]}"};

    (void)state;
    for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++)
        assert_null(text_of(metas[i]));
}

static void many_names_and_long_ones_are_left_out_as_a_whole(void **state)
{
    cJSON *meta = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(meta, "finalizers");
    char *text = NULL;

    (void)state;
    for (int i = 0; i < 100; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString("example.com/finalizer"));
    assert_int_equal(hvd_finalizers_text(meta, &text), HVD_OK);
    assert_true(strlen(text) <= 256);
    assert_string_equal(text + strlen(text) - 11, "alizer, ...");
    hvd_free(text);
    cJSON_Delete(meta);
    meta = cJSON_CreateObject();
    list = cJSON_AddArrayToObject(meta, "finalizers");
    for (size_t n = 250; n < 260; n++) {
        char name[300] = "";

        memset(name, 'f', n);
        cJSON_AddItemToArray(list, cJSON_CreateString(name));
        text = NULL;
        assert_int_equal(hvd_finalizers_text(meta, &text), HVD_OK);
        assert_true(strlen(text) <= 256);
        hvd_free(text);
        cJSON_DeleteItemFromArray(list, 0);
    }
    cJSON_Delete(meta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_joined_and_found_as_a_whole),
        cmocka_unit_test(without_names_there_is_no_text),
        cmocka_unit_test(many_names_and_long_ones_are_left_out_as_a_whole),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
