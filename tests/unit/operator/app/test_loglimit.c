#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "operator/app/loglimit.h"

static int64_t now_ms;

static int64_t read_clock(void)
{
    return now_ms;
}

struct heard {
    unsigned n;
    char suppressed[16]; /* of the last line */
};

static void hear(void *ctx, const struct hvd_log_record *record)
{
    struct heard *heard = ctx;

    heard->n++;
    heard->suppressed[0] = '\0';
    for (size_t i = 0; i < record->n_fields; i++)
        if (strcmp(record->fields[i].key, "suppressed") == 0)
            (void)snprintf(heard->suppressed, sizeof(heard->suppressed), "%s",
                           record->fields[i].value);
}

static void say(struct hvd_loglimit *limit, enum hvd_log_level level, const char *job,
                const char *error)
{
    HVD_LOG_KV(&limit->log, level, "operator", "it failed", {"job", job}, {"error", error});
}

static void the_same_about_the_same_passes_five_times_a_minute_and_is_counted(void **state)
{
    static struct hvd_loglimit limit;
    struct heard heard = {0};
    const struct hvd_log inner = {HVD_LOG_DEBUG, hear, &heard};
    char error[16];

    (void)state;
    now_ms = 0;
    hvd_loglimit_init(&limit, &inner, read_clock);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(error, sizeof(error), "%d", i); /* texts of errors do not make it another */
        say(&limit, HVD_LOG_WARN, "a", error);
    }
    assert_int_equal(heard.n, 5);
    assert_int_equal(limit.n_suppressed, 95);
    now_ms = HVD_LOGLIMIT_WINDOW_MS;
    say(&limit, HVD_LOG_WARN, "a", "x");
    assert_int_equal(heard.n, 6);
    assert_string_equal(heard.suppressed, "95");
    say(&limit, HVD_LOG_WARN, "a", "x");
    assert_string_equal(heard.suppressed, "");
}

static void another_object_level_or_message_is_another_line(void **state)
{
    static struct hvd_loglimit limit;
    struct heard heard = {0};
    const struct hvd_log inner = {HVD_LOG_DEBUG, hear, &heard};

    (void)state;
    now_ms = 0;
    hvd_loglimit_init(&limit, &inner, read_clock);
    for (int i = 0; i < 5; i++)
        say(&limit, HVD_LOG_WARN, "a", "x");
    say(&limit, HVD_LOG_WARN, "b", "x");
    say(&limit, HVD_LOG_ERROR, "a", "x");
    HVD_LOG_KV(&limit.log, HVD_LOG_WARN, "operator", "something else", {"job", "a"});
    assert_int_equal(heard.n, 8);
    assert_int_equal(limit.n_suppressed, 0);
}

static void the_first_line_about_an_object_is_never_lost(void **state)
{
    static struct hvd_loglimit limit;
    struct heard heard = {0};
    const struct hvd_log inner = {HVD_LOG_DEBUG, hear, &heard};
    char job[16];

    (void)state;
    now_ms = 0;
    hvd_loglimit_init(&limit, &inner, read_clock);
    for (int i = 0; i < 10 * HVD_LOGLIMIT_BUCKETS; i++) {
        (void)snprintf(job, sizeof(job), "j%d", i);
        say(&limit, HVD_LOG_INFO, job, NULL);
    }
    assert_int_equal(heard.n, 10 * HVD_LOGLIMIT_BUCKETS);
}

static void debug_lines_all_pass_and_levels_below_do_not(void **state)
{
    static struct hvd_loglimit limit;
    struct heard heard = {0};
    struct hvd_log inner = {HVD_LOG_DEBUG, hear, &heard};

    (void)state;
    now_ms = 0;
    hvd_loglimit_init(&limit, &inner, read_clock);
    for (int i = 0; i < 20; i++)
        say(&limit, HVD_LOG_DEBUG, "a", NULL);
    assert_int_equal(heard.n, 20);
    inner.level = HVD_LOG_WARN;
    hvd_loglimit_init(&limit, &inner, read_clock);
    say(&limit, HVD_LOG_INFO, "a", NULL);
    assert_int_equal(heard.n, 20);
    hvd_loglimit_init(&limit, NULL, read_clock);
    say(&limit, HVD_LOG_ERROR, "a", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_about_the_same_passes_five_times_a_minute_and_is_counted),
        cmocka_unit_test(another_object_level_or_message_is_another_line),
        cmocka_unit_test(the_first_line_about_an_object_is_never_lost),
        cmocka_unit_test(debug_lines_all_pass_and_levels_below_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
