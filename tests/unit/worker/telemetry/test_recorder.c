#include "tests/unit/support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "worker/telemetry/recorder.h"

#define N_PUTS 50000

static void put(struct hvd_recorder *r, uint64_t id, const char *name)
{
    const struct hvd_event event = {
        .kind = HVD_EVENT_DONE, .id = id, .name_len = (uint16_t)strlen(name)};

    hvd_recorder_put(r, &event, name);
}

static void the_last_events_are_remembered_and_older_ones_gone(void **state)
{
    struct hvd_recorder *r = NULL;
    struct hvd_note note;

    (void)state;
    assert_int_equal(hvd_recorder_create(&r), HVD_OK);
    assert_false(hvd_recorder_get(r, 0, &note));
    for (uint64_t i = 0; i < HVD_RECORDER_EVENTS + 10; i++)
        put(r, i * 3, "tensor");
    assert_int_equal(hvd_recorder_count(r), HVD_RECORDER_EVENTS + 10);
    assert_false(hvd_recorder_get(r, 9, &note));
    for (uint64_t i = 10; i < HVD_RECORDER_EVENTS + 10; i++) {
        assert_true(hvd_recorder_get(r, i, &note));
        assert_int_equal(note.event.id, i * 3);
        assert_string_equal(note.name, "tensor");
    }
    hvd_recorder_destroy(r);
}

static void of_a_long_name_both_ends_are_kept(void **state)
{
    char name[HVD_NAME_MAX + 1];
    struct hvd_recorder *r = NULL;
    struct hvd_note note;

    (void)state;
    memset(name, 'm', sizeof(name) - 1);
    name[0] = '<';
    name[HVD_NAME_MAX - 1] = '>';
    name[HVD_NAME_MAX] = '\0';
    assert_int_equal(hvd_recorder_create(&r), HVD_OK);
    put(r, 1, name);
    assert_true(hvd_recorder_get(r, 0, &note));
    assert_int_equal(note.name[0], '<');
    assert_non_null(strstr(note.name, "m...m"));
    assert_int_equal(note.name[note.event.name_len - 1], '>');
    assert_true(note.event.name_len <= HVD_RECORDER_NAME);
    hvd_recorder_destroy(r);
}

static void *record(void *arg)
{
    char name[32];

    for (uint64_t i = 0; i < N_PUTS; i++) {
        snprintf(name, sizeof(name), "n%d", (int)i);
        put(arg, i, name);
    }
    return NULL;
}

static void a_reader_never_sees_half_an_event(void **state)
{
    struct hvd_recorder *r = NULL;
    pthread_t threads[2];
    char name[32];

    (void)state;
    assert_int_equal(hvd_recorder_create(&r), HVD_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record, r), 0);
    while (hvd_recorder_count(r) < 2 * N_PUTS) {
        const uint64_t n = hvd_recorder_count(r);
        for (uint64_t i = n > 50 ? n - 50 : 0; i < n; i++) {
            struct hvd_note note;
            if (!hvd_recorder_get(r, i, &note))
                continue;
            snprintf(name, sizeof(name), "n%d", (int)note.event.id);
            assert_string_equal(note.name, name);
        }
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    hvd_recorder_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_events_are_remembered_and_older_ones_gone),
        cmocka_unit_test(of_a_long_name_both_ends_are_kept),
        cmocka_unit_test(a_reader_never_sees_half_an_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
