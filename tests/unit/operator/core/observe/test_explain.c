#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/json.h"
#include "operator/core/observe/explain.h"

/* What events answer, and how often they are listed. */

#define EVENT(uid, reason, time, message)                                                          \
    "{\"involvedObject\":{\"uid\":\"" uid "\"},\"reason\":\"" reason "\"," time                    \
    ",\"message\":\"" message "\"}"
#define LAST(text) "\"lastTimestamp\":\"2024-01-01T00:" text "Z\""
#define OF_SET(pod, text)                                                                          \
    "create Pod " pod " in StatefulSet w failed error: pods \\\"" pod "\\\" is " text

static void is_found(const char *events, const char *expected)
{
    const struct hvd_explain_what what = {HVD_ASK_CREATION, "u", 1704067200};
    struct hvd_event_index index = {0};
    char text[HVD_EXPLAIN_SIZE];
    char list[2048];
    cJSON *parsed;

    (void)snprintf(list, sizeof(list), "{\"items\":[%s]}", events);
    parsed = cJSON_Parse(list);
    assert_non_null(parsed);
    assert_int_equal(hvd_explain_index_init(parsed, &index), HVD_OK);
    assert_int_equal(hvd_explain_find(&index, &what, text), expected[0] != '\0');
    hvd_explain_index_fini(&index);
    assert_string_equal(text, expected);
    cJSON_Delete(parsed);
}

static void the_latest_event_about_the_object_says_why_without_the_name_of_a_pod(void **state)
{
    (void)state;
    is_found("", "");
    is_found(EVENT("u", "FailedCreate", LAST("01:00"), OF_SET("w-0", "forbidden: one")) "," EVENT(
                 "u", "FailedCreate", LAST("03:00"),
                 OF_SET("w-1", "forbidden: two")) "," EVENT("u", "FailedCreate", LAST("02:00"),
                                                            OF_SET("w-0", "forbidden: three")),
             "forbidden: two");
    is_found(EVENT("u", "FailedCreate", LAST("01:00"),
                   "Error creating: pods \\\"m-x2x4v\\\" is forbidden: violates PodSecurity"),
             "forbidden: violates PodSecurity");
    is_found(EVENT("u", "FailedCreate", LAST("01:00"),
                   "Error creating: admission webhook \\\"a\\\" denied the request: no"),
             "admission webhook \"a\" denied the request: no");
    is_found(EVENT("u", "FailedCreate", "\"eventTime\":\"2024-01-01T00:01:00.123456Z\"", "text"),
             "text");
    is_found(EVENT("other", "FailedCreate", LAST("01:00"), "text"), "");
    is_found(EVENT("u", "SuccessfulCreate", LAST("01:00"), "text"), "");
    is_found("{\"involvedObject\":{\"uid\":\"u\"},\"reason\":\"FailedCreate\"," LAST("01:00") "}",
             "");
    /* Of an earlier start of the job, and perhaps over; clocks may differ a little. */
    is_found(EVENT("u", "FailedCreate", "\"lastTimestamp\":\"2023-12-31T23:58:00Z\"", "text"), "");
    is_found(EVENT("u", "FailedCreate", "\"lastTimestamp\":\"2023-12-31T23:59:30Z\"", "text"),
             "text");
}

static const char pod_events[] = "{\"items\":["
#define OF(uid, reason, minute, message)                                                           \
    "{\"involvedObject\":{\"uid\":\"" uid "\"},\"reason\":\"" reason                               \
    "\",\"lastTimestamp\":\"2024-01-01T00:" minute ":00Z\",\"message\":\"" message "\"}"
    OF("p", "BackOff", "09", "Back-off restarting failed container") "," OF(
        "mount", "FailedMount",
        "01", "MountVolume.SetUp failed for volume v : secret s not found") "," OF("mount",
                                                                                   "FailedMount",
                                                                                   "05",
                                                                                   "Unable to "
                                                                                   "attach or "
                                                                                   "mount volumes: "
                                                                                   "unmounted "
                                                                                   "volumes=[v]") "," OF("vague", "FailedMount", "05", "Unable to attach or mount volumes: unmounted volumes=[v]") "," OF("attach", "FailedAttachVolume", "02", "Multi-Attach error for volume v") "," OF("cni",
                                                                                                                                                                                                                                                                                          "FailedCreatePodSandBox", "02", "Failed to create pod sandbox: cni: no address") "," OF("cni", "Unhealthy", "03", "Readiness probe failed: connection refused") "," OF("net",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                 "NetworkNotReady",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                 "02", "network is not ready: cni plugin not initialized") "," OF("p",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  "Scheduled",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  "02",
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  "Successfully assigned") "," OF("probe", "Unhealthy", "02", "Readiness probe failed: 500") "]}";

static void each_cause_that_holds_a_pod_up_is_found(void **state)
{
    static const struct {
        struct hvd_explain_what what;
        const char *text;
    } rows[] = {
        {{HVD_ASK_START, "mount", 0}, "MountVolume.SetUp failed for volume v : secret s not found"},
        {{HVD_ASK_START, "vague", 0}, "Unable to attach or mount volumes: unmounted volumes=[v]"},
        {{HVD_ASK_START, "attach", 0}, "Multi-Attach error for volume v"},
        {{HVD_ASK_START, "cni", 0}, "Failed to create pod sandbox: cni: no address"},
        {{HVD_ASK_START, "net", 0}, "network is not ready: cni plugin not initialized"},
        {{HVD_ASK_READY, "cni", 0}, "Readiness probe failed: connection refused"},
        {{HVD_ASK_READY, "probe", 0}, "Readiness probe failed: 500"},
        {{HVD_ASK_READY, "mount", 0}, ""},
        {{HVD_ASK_START, "probe", 0}, ""},
        {{HVD_ASK_START, "p", 0}, ""},
        {{HVD_ASK_CREATION, "mount", 0}, ""},
        {{HVD_ASK_START, "none", 0}, ""},
        /* It was mended since. */
        {{HVD_ASK_START, "cni", 1704067200 + 600}, ""},
    };
    cJSON *list = cJSON_Parse(pod_events);
    struct hvd_event_index index = {0};
    char text[HVD_EXPLAIN_SIZE];

    (void)state;
    assert_non_null(list);
    assert_int_equal(hvd_explain_index_init(list, &index), HVD_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(hvd_explain_find(&index, &rows[i].what, text), rows[i].text[0] != '\0');
        assert_string_equal(text, rows[i].text);
    }
    hvd_explain_index_fini(&index);
    cJSON_Delete(list);
}

static void a_list_without_events_answers_nothing(void **state)
{
    static const char *const lists[] = {"{}", "{\"items\":[]}", "{\"items\":[{},{}]}", "[]"};
    const struct hvd_explain_what what = {HVD_ASK_START, "u", 0};
    char text[HVD_EXPLAIN_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        cJSON *list = cJSON_Parse(lists[i]);
        struct hvd_event_index index = {0};

        assert_int_equal(hvd_explain_index_init(list, &index), HVD_OK);
        assert_false(hvd_explain_find(&index, &what, text));
        hvd_explain_index_fini(&index);
        cJSON_Delete(list);
    }
}

static void lists_are_rationed(void **state)
{
    struct hvd_explain_budget budget = {0};
    int n = 0;

    (void)state;
    for (int64_t now_ms = 1000; now_ms < 61000; now_ms += 10) {
        bool is_due = hvd_explain_due_ms(&budget, now_ms) == now_ms;

        assert_int_equal(hvd_explain_take(&budget, now_ms), is_due);
        n += is_due;
    }
    assert_int_equal(n, HVD_EXPLAIN_BURST - 1 + 60000 / HVD_EXPLAIN_PERIOD_MS);
    /* After a pause the bucket is full again, and no fuller. */
    for (n = 0; hvd_explain_take(&budget, 10000000); n++)
        ;
    assert_int_equal(n, HVD_EXPLAIN_BURST);
    assert_int_equal(hvd_explain_due_ms(&budget, 10000000), 10000000 + HVD_EXPLAIN_PERIOD_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_event_about_the_object_says_why_without_the_name_of_a_pod),
        cmocka_unit_test(each_cause_that_holds_a_pod_up_is_found),
        cmocka_unit_test(a_list_without_events_answers_nothing),
        cmocka_unit_test(lists_are_rationed),
    };

    hvd_json_use_base_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
