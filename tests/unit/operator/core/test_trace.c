/* What the events about a Job that is gone tell of its end. */
#include "tests/unit/support.h"

#include <stdio.h>

#include "operator/core/trace.h"

#define CREATED 1767225600 /* 2026-01-01T00:00:00Z */
#define EVENT(reason, by, at)                                                                      \
    "{\"reason\":\"" reason "\",\"message\":\"the words\",\"source\":{\"component\":\"" by         \
    "\"},\"lastTimestamp\":\"2026-01-01T" at "Z\"}"

static void only_what_the_job_controller_wrote_in_time_counts(void **state)
{
    static const struct hvd_trace_bounds bounds = {.created_s = CREATED, .attempt_s = CREATED + 60};
    static const struct {
        const char *items;
        enum hvd_failure_type type;
        const char *text;
    } cases[] = {
        {"", HVD_FAILURE_NO_TRACE, ""},
        {EVENT("SuccessfulCreate", "job-controller", "00:02:00"), HVD_FAILURE_NO_TRACE, ""},
        {EVENT("Completed", "job-controller", "00:02:00"), HVD_FAILURE_SUCCEEDED, ""},
        {EVENT("Completed", "job-controller", "00:00:00"), HVD_FAILURE_SUCCEEDED, ""},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_the_job_controller_wrote_in_time_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
