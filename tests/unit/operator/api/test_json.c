#include "tests/unit/support.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_reach_members_and_miss_quietly),
        cmocka_unit_test(only_whole_numbers_are_integers),
        cmocka_unit_test(building_remembers_a_failed_allocation),
        cmocka_unit_test(what_has_another_type_is_left_alone),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
