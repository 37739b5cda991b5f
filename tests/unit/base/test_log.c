#include "tests/unit/support.h"

#include <string.h>

#include "base/log.h"

static void a_record_is_one_line_of_pairs(void **state)
{
    char line[256];
    const struct hvd_log_field fields[] = {{"job", "default/a"}, {"none", NULL}};
    const struct hvd_log_record record = {.level = HVD_LOG_INFO,
                                          .subsystem = "kube",
                                          .msg = "watch started",
                                          .fields = fields,
                                          .n_fields = 2};

    (void)state;
    size_t len = hvd_log_encode(&record, 1700000000123456789, line, sizeof(line));
    assert_string_equal(line, "time=2023-11-14T22:13:20.123Z level=info subsystem=kube "
                              "msg=\"watch started\" job=default/a\n");
    assert_int_equal(len, strlen(line));
}

static void outside_bytes_cannot_break_a_line(void **state)
{
    char line[256];
    const struct hvd_log_field fields[] = {{"text", "a\n\"b\"\x1b[31m\\"}};
    const struct hvd_log_record record = {
        .level = HVD_LOG_ERROR, .subsystem = "x", .msg = "m", .fields = fields, .n_fields = 1};

    (void)state;
    hvd_log_encode(&record, 0, line, sizeof(line));
    assert_non_null(strstr(line, "text=\"a\\n\\\"b\\\"\\x1b[31m\\\\\"\n"));
}

static void a_long_record_is_cut_and_still_ends_in_a_newline(void **state)
{
    char line[40];
    const struct hvd_log_record record = {
        .level = HVD_LOG_WARN, .subsystem = "x", .msg = "mmmmmmmmmmmmmmmm"};

    (void)state;
    size_t len = hvd_log_encode(&record, 0, line, sizeof(line));
    assert_int_equal(len, sizeof(line) - 1);
    assert_int_equal(line[len - 1], '\n');
    assert_int_equal(line[len], '\0');
}

static void count_sink(void *ctx, const struct hvd_log_record *record)
{
    (void)record;
    ++*(int *)ctx;
}

static void records_below_the_level_are_dropped(void **state)
{
    int n = 0;
    const struct hvd_log log = {.level = HVD_LOG_WARN, .sink = count_sink, .ctx = &n};

    (void)state;
    hvd_log(&log, HVD_LOG_INFO, "x", "%d", 1);
    assert_int_equal(n, 0);
    hvd_log(&log, HVD_LOG_WARN, "x", "%d", 1);
    HVD_LOG_KV(&log, HVD_LOG_ERROR, "x", "text", {"a", "b"});
    assert_int_equal(n, 2);
    hvd_log(NULL, HVD_LOG_ERROR, "x", "silence");
}

static void level_names_are_parsed(void **state)
{
    (void)state;
    assert_int_equal(hvd_log_level_parse("debug"), HVD_LOG_DEBUG);
    assert_int_equal(hvd_log_level_parse("WARNING"), HVD_LOG_WARN);
    assert_int_equal(hvd_log_level_parse("loud"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_one_line_of_pairs),
        cmocka_unit_test(outside_bytes_cannot_break_a_line),
        cmocka_unit_test(a_long_record_is_cut_and_still_ends_in_a_newline),
        cmocka_unit_test(records_below_the_level_are_dropped),
        cmocka_unit_test(level_names_are_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
