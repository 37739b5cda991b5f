#include "tests/unit/support.h"

#include "operator/api/json.h"
#include "operator/api/object.h"

/* To the eye that skips all labels one object; to the one that looks into them one, with a tail. */
#define TWO_ENDS "{\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":1\"}}}\"}}}"

static hvd_status_t read_pod(const char *text)
{
    cJSON *doc = NULL;
    const hvd_status_t st = hvd_object_read(HVD_KIND_POD, hvd_strview_of(text), &doc);

    assert_int_equal(doc != NULL, st == HVD_OK);
    hvd_json_drop(doc);
    return st;
}

static void what_something_follows_is_refused_and_leaves_nothing_behind(void **state)
{
    static const char *const texts[] = {
        "{\"metadata\":{\"name\":\"n\"}}{\"metadata\":{\"name\":\"m\"}}",
        "{\"metadata\":{\"name\":\"n\"}} x",
        "{\"metadata\":{\"name\":\"n\"}},",
        "{\"metadata\":{\"name\":\"n\"}}}",
        "{} {}",
        "[] []",
        "1 1",
        "\"a\" \"a\"",
        TWO_ENDS,
    };
    const long live = hvd_mem_live();

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(read_pod(texts[i]), HVD_ERR_INVALID);
        assert_int_equal(hvd_mem_live(), live);
    }
    assert_int_equal(read_pod("{\"metadata\":{\"name\":\"n\"}} \n"), HVD_OK);
}

static void a_copy_that_ends_twice_is_refused_and_leaves_nothing_behind(void **state)
{
    const long live = hvd_mem_live();
    cJSON *doc = NULL;

    (void)state;
    assert_int_equal(hvd_object_parse(hvd_strview_of(TWO_ENDS), false, &doc), HVD_ERR_INVALID);
    assert_int_equal(
        hvd_object_parse(hvd_strview_of("{\"type\":\"ADDED\",\"object\":" TWO_ENDS "}"), true,
                         &doc),
        HVD_ERR_INVALID);
    assert_null(doc);
    assert_int_equal(hvd_mem_live(), live);
}

static void an_object_that_cannot_be_parsed_keeps_its_name(void **state)
{
    static const char text[] = "{\"metadata\":{\"name\":\"n\"},\"spec\":{\"nodeName\":01x}}";
    cJSON *doc = NULL;

    (void)state;
    assert_int_equal(hvd_object_read(HVD_KIND_POD, hvd_strview_of(text), &doc), HVD_OK);
    assert_string_equal(cJSON_GetStringValue(hvd_json_at(doc, "metadata.name")), "n");
    assert_string_equal(hvd_object_trouble(doc), "it holds a value that is no JSON");
    hvd_json_drop(doc);
}

static void fail_each_allocation(const char *text)
{
    const hvd_status_t whole = read_pod(text);

    HVD_MEM_TORTURE({
        const hvd_status_t st = read_pod(text);

        assert_true(st == whole || (hvd_mem_fired() && st == HVD_ERR_NOMEM));
    });
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation("{\"metadata\":{\"name\":\"n\"},\"status\":{\"phase\":\"Running\"}}");
    fail_each_allocation("{\"metadata\":{\"name\":\"n\"},\"spec\":{\"nodeName\":01x}}");
    fail_each_allocation("{\"metadata\":{\"name\":\"n\"}} x");
    fail_each_allocation(TWO_ENDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_something_follows_is_refused_and_leaves_nothing_behind),
        cmocka_unit_test(a_copy_that_ends_twice_is_refused_and_leaves_nothing_behind),
        cmocka_unit_test(an_object_that_cannot_be_parsed_keeps_its_name),
        cmocka_unit_test(every_allocation_may_fail),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
