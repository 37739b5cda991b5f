/* What the events about a Job that is gone tell of its end. */
#include "tests/unit/support.h"

#include <stdio.h>

#include "base/mem.h"
#include "operator/core/obstacles/trace.h"

#define CREATED 1767225600 /* 2026-01-01T00:00:00Z */
#define EVENT(reason, by, at)                                                                      \
    "{\"reason\":\"" reason "\",\"message\":\"the words\",\"source\":{\"component\":\"" by         \
    "\"},\"lastTimestamp\":\"2026-01-01T" at "Z\"}"

static void only_what_the_job_controller_wrote_in_time_counts(void **state)
{
    static const struct hvd_trace_bounds bounds = {.made_s = CREATED, .ended_s = CREATED + 59};
    static const struct {
        const char *items;
        enum hvd_failure_type type;
        const char *text;
    } cases[] = {
        {"", HVD_FAILURE_NO_TRACE, ""},
        {EVENT("SuccessfulCreate", "job-controller", "00:02:00"), HVD_FAILURE_BEGUN, ""},
        {EVENT("SuccessfulCreate", "job-controller", "00:00:59"), HVD_FAILURE_NO_TRACE, ""},
        {EVENT("SuccessfulCreate", "me", "00:02:00"), HVD_FAILURE_NO_TRACE, ""},
        {EVENT("SuccessfulCreate", "job-controller",
               "00:01:30") "," EVENT("Completed", "job-controller", "00:02:00"),
         HVD_FAILURE_SUCCEEDED, ""},
        {EVENT("BackoffLimitExceeded", "job-controller",
               "00:01:30") "," EVENT("SuccessfulCreate", "job-controller", "00:01:10"),
         HVD_FAILURE_FAILED, "the words"},
        {EVENT("Completed", "job-controller", "00:02:00"), HVD_FAILURE_SUCCEEDED, ""},
        {EVENT("Completed", "job-controller", "00:01:00"), HVD_FAILURE_SUCCEEDED, ""},
        {EVENT("Completed", "job-controller", "00:00:59"), HVD_FAILURE_NO_TRACE, ""},
        /* of an earlier HorovodJob of that name, and of somebody else */
        {"{\"reason\":\"Completed\",\"reportingComponent\":\"job-controller\",\"eventTime\":"
         "\"2025-12-31T23:59:59.000000Z\"}",
         HVD_FAILURE_NO_TRACE, ""},
        {EVENT("Completed", "kubectl", "00:02:00"), HVD_FAILURE_NO_TRACE, ""},
        {EVENT("BackoffLimitExceeded", "job-controller", "00:01:00"), HVD_FAILURE_FAILED,
         "the words"},
        {EVENT("DeadlineExceeded", "job-controller", "00:02:00"), HVD_FAILURE_FAILED, "the words"},
        /* of an earlier attempt */
        {EVENT("BackoffLimitExceeded", "job-controller", "00:00:59"), HVD_FAILURE_NO_TRACE, ""},
        {EVENT("BackoffLimitExceeded", "job-controller",
               "00:01:30") "," EVENT("Completed", "job-controller", "00:02:00"),
         HVD_FAILURE_SUCCEEDED, ""},
        {"7,{\"reason\":7},null", HVD_FAILURE_NO_TRACE, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024], out[HVD_TRACE_SIZE];
        cJSON *events;

        (void)snprintf(text, sizeof(text), "{\"items\":[%s]}", cases[i].items);
        events = cJSON_Parse(text);
        assert_non_null(events);
        assert_int_equal(hvd_trace_find(events, &bounds, out), cases[i].type);
        assert_string_equal(out, cases[i].text);
        cJSON_Delete(events);
    }
}

/* Then no clock has to tell, and no other Job counts, however late it ended. */
static void a_job_that_the_status_has_noted_is_known_by_its_uid(void **state)
{
    static const char *const uids[] = {"m1", "m2", ""};
    const struct hvd_trace_bounds bounds = {
        .master_uid = "m1", .made_s = INT64_MAX, .ended_s = INT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(uids) / sizeof(uids[0]); i++) {
        char text[512], out[HVD_TRACE_SIZE];
        cJSON *events;

        (void)snprintf(text, sizeof(text),
                       "{\"items\":[{\"reason\":\"Completed\",\"involvedObject\":{\"uid\":\"%s\"},"
                       "\"source\":{\"component\":\"job-controller\"}}]}",
                       uids[i]);
        events = cJSON_Parse(text);
        assert_int_equal(hvd_trace_find(events, &bounds, out),
                         i == 0 ? HVD_FAILURE_SUCCEEDED : HVD_FAILURE_NO_TRACE);
        cJSON_Delete(events);
    }
}

/* The bounds travel as the body of the action. */
static void bounds_are_read_as_they_were_written(void **state)
{
    static const char *const no_bounds[] = {NULL,  "",    "{}",    "1",      "1 ",
                                            "1 x", "1 2", "1 2 u", "x 2 u v"};
    const struct hvd_trace_bounds bounds = {
        .job_uid = "u1", .master_uid = "m 1", .made_s = 17, .ended_s = -1};
    struct hvd_trace_bounds read;
    char *body = hvd_trace_encode(&bounds);

    (void)state;
    hvd_trace_decode(body, &read);
    assert_string_equal(read.job_uid, "u1");
    assert_string_equal(read.master_uid, "m 1");
    assert_int_equal(read.made_s, 17);
    assert_int_equal(read.ended_s, -1);
    hvd_free(body);
    for (size_t i = 0; i < sizeof(no_bounds) / sizeof(no_bounds[0]); i++) {
        hvd_trace_decode(no_bounds[i], &read);
        assert_string_equal(read.job_uid, "");
        assert_string_equal(read.master_uid, "");
        assert_true(read.made_s == INT64_MAX && read.ended_s == INT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_the_job_controller_wrote_in_time_counts),
        cmocka_unit_test(a_job_that_the_status_has_noted_is_known_by_its_uid),
        cmocka_unit_test(bounds_are_read_as_they_were_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
