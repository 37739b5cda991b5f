#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/kube/codec.h"

#define OBJECT "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}"

static void events_are_decoded_by_type(void **state)
{
    static const struct {
        const char *line;
        hvd_watch_event_type_t type;
    } rows[] = {
        {"{\"type\":\"ADDED\",\"object\":" OBJECT "}", HVD_WATCH_PUT},
        {"{\"type\":\"MODIFIED\",\"object\":" OBJECT "}", HVD_WATCH_PUT},
        {"{\"type\":\"DELETED\",\"object\":" OBJECT "}", HVD_WATCH_REMOVE},
        {"{\"type\":\"BOOKMARK\",\"object\":" OBJECT "}", HVD_WATCH_BOOKMARK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_watch_event event;

        assert_int_equal(hvd_kube_codec_watch(hvd_strview_of(rows[i].line), &event, NULL), HVD_OK);
        assert_int_equal(event.type, rows[i].type);
        assert_string_equal(event.resource_version, "7");
        hvd_json_drop(event.doc);
    }
}

static void errors_in_the_stream_tell_what_to_do(void **state)
{
    static const struct {
        const char *line;
        hvd_status_t expected;
    } rows[] = {
        {"{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"too old\"}}", HVD_ERR_GONE},
        {"{\"type\":\"ERROR\",\"object\":{\"code\":500}}", HVD_ERR_UNAVAILABLE},
        {"{\"type\":\"ERROR\"}", HVD_ERR_UNAVAILABLE},
        {"{\"type\":\"OTHER\",\"object\":" OBJECT "}", HVD_ERR_INVALID},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}", HVD_ERR_INVALID},
        {"{\"type\":\"ADDED\"}", HVD_ERR_INVALID},
        {"{\"type\":3,\"object\":[]}", HVD_ERR_INVALID},
        {"[]", HVD_ERR_INVALID},
        {"{\"type\":\"ADDED\",", HVD_ERR_INVALID},
        {"\x01\x02", HVD_ERR_INVALID},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hvd_watch_event event = {.resource_version = "untouched"};
        struct hvd_err err = {0};

        assert_int_equal(hvd_kube_codec_watch(hvd_strview_of(rows[i].line), &event, &err),
                         rows[i].expected);
        assert_string_equal(event.resource_version, "untouched");
        assert_true(err.msg[0] != '\0');
    }
}

static void lists_have_items_a_version_and_perhaps_more_pages(void **state)
{
    cJSON *doc = cJSON_Parse("{\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"tok\"},"
                             "\"items\":[]}");
    cJSON *last = cJSON_Parse("{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":null}");
    struct hvd_list_page page;

    (void)state;
    assert_int_equal(hvd_kube_codec_list(doc, &page, NULL), HVD_OK);
    assert_string_equal(page.resource_version, "9");
    assert_string_equal(page.continue_token, "tok");
    assert_int_equal(hvd_kube_codec_list(last, &page, NULL), HVD_OK);
    assert_string_equal(page.continue_token, "");
    cJSON_Delete(doc);
    cJSON_Delete(last);
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "7",
                                      "{\"metadata\":{\"resourceVersion\":9}}",
                                      "{\"metadata\":{\"resourceVersion\":\"9\"}}",
                                      "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":{}}"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cJSON *doc = cJSON_Parse(bad[i]);
        struct hvd_list_page page = {.continue_token = "untouched"};

        assert_int_equal(hvd_kube_codec_list(doc, &page, NULL), HVD_ERR_INVALID);
        assert_string_equal(page.continue_token, "untouched");
        cJSON_Delete(doc);
    }
    assert_int_equal(hvd_kube_codec_list(NULL, &(struct hvd_list_page){0}, NULL), HVD_ERR_INVALID);
}

struct lines {
    char text[512];
    size_t n;
};

static hvd_status_t take_line(void *ctx, struct hvd_strview copy, bool is_item)
{
    struct lines *lines = ctx;
    size_t len = strlen(lines->text);

    assert_false(is_item);
    lines->n++;
    (void)snprintf(lines->text + len, sizeof(lines->text) - len, "%.*s|", (int)copy.len, copy.data);
    return HVD_OK;
}

static hvd_status_t feed(const char *text, size_t cut, struct lines *lines)
{
    static const struct hvd_shape shape[] = {{"type", NULL}, {"object", NULL}, {NULL, NULL}};
    const struct hvd_pick_options options = {
        .shape = shape, .max_bytes = 1024, .take = take_line, .ctx = lines};
    struct hvd_picker picker;
    hvd_status_t st;

    *lines = (struct lines){.n = 0};
    hvd_picker_init(&picker, &options);
    st = hvd_kube_codec_feed(&picker, (struct hvd_strview){text, cut});
    if (st == HVD_OK)
        st = hvd_kube_codec_feed(&picker, hvd_strview_of(text + cut));
    hvd_picker_fini(&picker);
    return st;
}

static void a_stream_is_cut_into_lines_wherever_the_network_cut_it(void **state)
{
    static const char text[] = "{\"type\":\"A\",\"x\":[1]}\r\n\n \n{ \"object\":{\"a\":\"\\\"}\"}}"
                               "\n{\"type\":\"unfin";
    struct lines lines;

    (void)state;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        assert_int_equal(feed(text, cut, &lines), HVD_OK);
        assert_string_equal(lines.text, "{\"type\":\"A\"}|{\"object\":{\"a\":\"\\\"}\"}}|");
    }
}

static void garbage_ends_a_stream_wherever_it_stands(void **state)
{
    static const char *const bad[] = {"<html>\n",
                                      "{\"type\":\n\"A\"}\n",
                                      "{\"type\":\"A\n\"}\n",
                                      "{}{}\n",
                                      "{} x\n",
                                      "\x01\n",
                                      "{\"a\":[1\n",
                                      "{]\n",
                                      "{\"type\":\"A\",\n"};
    struct lines lines;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        for (size_t cut = 0; cut <= strlen(bad[i]); cut++)
            assert_int_equal(feed(bad[i], cut, &lines), HVD_ERR_INVALID);
}

static void an_event_that_is_no_json_names_its_object(void **state)
{
    static const char *const lines[] = {
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"},"
        "\"spec\":{\"x\":nonsense},\"status\":{\"state\":\"Failed\"}}}",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"},"
        "\"status\":{\"state\":\"\\ud800\"}}}"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct hvd_watch_event event;

        assert_int_equal(hvd_kube_codec_watch(hvd_strview_of(lines[i]), &event, NULL), HVD_OK);
        assert_string_equal(event.resource_version, "7");
        assert_string_equal(hvd_json_str(event.object, "metadata.name"), "a");
        assert_string_equal(hvd_object_trouble(event.object), "it holds a value that is no JSON");
        assert_int_equal(hvd_json_str(event.object, "status.state") != NULL, i == 0);
        hvd_json_drop(event.doc);
    }
}

static void a_failed_allocation_is_no_event_and_leaks_nothing(void **state)
{
    static const char event_text[] = "{\"type\":\"ADDED\",\"object\":" OBJECT "}";
    static char line[100000]; /* more than is read without a block of memory */

    (void)state;
    (void)snprintf(line, sizeof(line), "%.*s,\"more\":\"%090000d\"}", (int)sizeof(event_text) - 2,
                   event_text, 0);
    hvd_json_use_base_memory();
    HVD_MEM_TORTURE({
        struct hvd_watch_event event;
        hvd_status_t st = hvd_kube_codec_watch(hvd_strview_of(line), &event, NULL);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        if (st == HVD_OK)
            hvd_json_drop(event.doc);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_decoded_by_type),
        cmocka_unit_test(errors_in_the_stream_tell_what_to_do),
        cmocka_unit_test(lists_have_items_a_version_and_perhaps_more_pages),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(a_stream_is_cut_into_lines_wherever_the_network_cut_it),
        cmocka_unit_test(garbage_ends_a_stream_wherever_it_stands),
        cmocka_unit_test(an_event_that_is_no_json_names_its_object),
        cmocka_unit_test(a_failed_allocation_is_no_event_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
