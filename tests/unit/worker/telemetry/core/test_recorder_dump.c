#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/telemetry/core/recorder_dump.h"

static void expect(const struct hvd_event *event, const char *name, const char *words)
{
    struct hvd_note note = {.event = *event};
    struct hvd_buf text;

    snprintf(note.name, sizeof(note.name), "%s", name);
    note.event.name_len = (uint16_t)strlen(note.name);
    hvd_buf_init(&text, 4096);
    assert_int_equal(hvd_recorder_dump_add(&note, 1500000, &text), HVD_OK);
    assert_non_null(strstr(text.data, "1.500000 ms"));
    assert_non_null(strstr(text.data, words));
    assert_ptr_equal(strchr(text.data, '\n'), text.data + text.len - 1);
    hvd_buf_fini(&text);
}

static void every_event_is_one_line_that_says_what_happened(void **state)
{
    (void)state;
    expect(
        &(struct hvd_event){.kind = HVD_EVENT_SUBMITTED, .op = HVD_BROADCAST, .dtype = HVD_INT32},
        "g", "SUBMITTED BROADCAST int32 g");
    expect(&(struct hvd_event){.kind = HVD_EVENT_READY, .detail = 4}, "g",
           "READY     rank 4 asks for ALLREDUCE g");
    expect(&(struct hvd_event){.kind = HVD_EVENT_DONE, .detail = HVD_ERR_SHUTDOWN}, "g",
           "DONE      ALLREDUCE (shut down) g");
    expect(&(struct hvd_event){.kind = HVD_EVENT_LOST, .detail = 2}, "is gone", "rank 2: is gone");
    expect(&(struct hvd_event){.kind = HVD_EVENT_STALLED, .detail = 2}, "a\nb", "2 tensors: a?b");
    expect(&(struct hvd_event){.kind = HVD_EVENT_FAILED}, "no memory", "FAILED     no memory");
    expect(&(struct hvd_event){.kind = 99}, "", "UNKNOWN");
}

static void the_head_names_the_rank_and_the_reason(void **state)
{
    const struct hvd_recorder_dump_head head = {.rank = 1,
                                                .size = 4,
                                                .why = "rank 2 is lost",
                                                .when = "2026-01-01T00:00:00Z",
                                                .n_events = 3,
                                                .n_recorded = 9};
    struct hvd_buf text;

    (void)state;
    hvd_buf_init(&text, 4096);
    assert_int_equal(hvd_recorder_dump_add_head(&head, &text), HVD_OK);
    assert_non_null(strstr(text.data, "rank 1 of 4 at 2026-01-01T00:00:00Z: rank 2 is lost\n"));
    assert_non_null(strstr(text.data, "the last 3 of 9 events"));
    hvd_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_is_one_line_that_says_what_happened),
        cmocka_unit_test(the_head_names_the_rank_and_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
