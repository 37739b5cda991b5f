#include "tests/unit/support.h"

#include <stdio.h>
#include <string.h>

#include "worker/launch/core/report.h"

#define NONCE "0123456789abcdef"

static const struct hvd_report killed = {
    .rank = 1, .host = "digits-worker-1", .signal = 9, .is_oom = true, .limit_bytes = 67108864};
static const struct hvd_report stopped = {
    .rank = 0, .host = "h", .signal = 15, .was_stopped = true, .limit_bytes = INT64_MAX};

/* The stream after the text, fed piece by piece; *pass holds what went through. */
static struct hvd_report_stream feed(const char *text, size_t piece, struct hvd_buf *pass)
{
    struct hvd_report_stream stream;

    hvd_report_stream_init(&stream, NONCE);
    hvd_buf_init(pass, 100000);
    for (size_t at = 0; at < strlen(text); at += piece) {
        size_t len = strlen(text) - at < piece ? strlen(text) - at : piece;

        assert_int_equal(hvd_report_stream_feed(
                             &stream, (struct hvd_strview){.data = text + at, .len = len}, pass),
                         HVD_OK);
    }
    assert_int_equal(hvd_report_stream_finish(&stream, pass), HVD_OK);
    return stream;
}

static void a_report_is_taken_out_of_the_text_around_it(void **state)
{
    char report[HVD_REPORT_MAX];
    char text[2 * HVD_REPORT_MAX];

    (void)state;
    assert_int_equal(hvd_report_format(&killed, NONCE, report, sizeof(report)), HVD_OK);
    (void)snprintf(text, sizeof(text), "before %safter\n", report);
    for (size_t piece = 1; piece < 200; piece++) {
        struct hvd_buf pass;
        struct hvd_report_stream stream = feed(text, piece, &pass);
        const struct hvd_report *failure = hvd_report_stream_failure(&stream);

        assert_string_equal(pass.data, "before after\n");
        assert_non_null(failure);
        assert_int_equal(failure->rank, 1);
        assert_int_equal(failure->signal, 9);
        assert_true(failure->is_oom);
        assert_int_equal(failure->limit_bytes, 67108864);
        assert_string_equal(failure->host, "digits-worker-1");
        assert_int_equal(hvd_report_exit_code(failure), 137);
        hvd_buf_fini(&pass);
    }
}

static void text_that_only_resembles_a_report_passes_unchanged(void **state)
{
    static const char *const texts[] = {
        "\036\n",
        "\036horovod-rank other rank=1 host=h exit=1 signal=0 stopped=0 oom=0 limit=1\036\n",
        "\036horovod-rank " NONCE " rank=x host=h exit=1 signal=0 stopped=0 oom=0 limit=1\036\n",
        "\036horovod-rank " NONCE " rank=1 host=h exit=256 signal=0 stopped=0 oom=0 limit=1\036\n",
        "\036horovod-rank " NONCE " rank=1 host=h exit=1\036\n",
        "\036horovod-rank " NONCE " rank=1 host=h exit=1 signal=0 stopped=0 oom=0 limit=1",
        "a\036b\036c\n\036\036\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hvd_buf pass;
        struct hvd_report_stream stream = feed(texts[i], 7, &pass);

        assert_string_equal(pass.data, texts[i]);
        assert_null(hvd_report_stream_failure(&stream));
        hvd_buf_fini(&pass);
    }
}

static void a_mark_and_much_text_behind_it_passes(void **state)
{
    char text[3 * HVD_REPORT_MAX];
    struct hvd_buf pass;

    (void)state;
    memset(text, 'x', sizeof(text));
    text[0] = '\036';
    text[sizeof(text) - 1] = '\0';
    (void)feed(text, 100, &pass);
    assert_string_equal(pass.data, text);
    hvd_buf_fini(&pass);
}

static void ranks_that_were_stopped_are_not_the_cause(void **state)
{
    char first[HVD_REPORT_MAX];
    char second[HVD_REPORT_MAX];
    char text[2 * HVD_REPORT_MAX];
    struct hvd_buf pass;
    struct hvd_report_stream stream;

    (void)state;
    assert_int_equal(hvd_report_format(&stopped, NONCE, first, sizeof(first)), HVD_OK);
    assert_int_equal(hvd_report_format(&killed, NONCE, second, sizeof(second)), HVD_OK);
    (void)snprintf(text, sizeof(text), "%s%s", first, second);
    stream = feed(text, 50, &pass);
    assert_int_equal(hvd_report_stream_failure(&stream)->rank, 1);
    hvd_buf_fini(&pass);
    stream = feed(first, 50, &pass);
    assert_false(stream.has_cause);
    assert_int_equal(hvd_report_stream_failure(&stream)->rank, 0);
    hvd_buf_fini(&pass);
}

static void mpiruns_own_words_are_read_when_no_wrapper_reported(void **state)
{
    static const struct {
        const char *text;
        int64_t rank;
        int code;
    } cases[] = {
        {"mpirun noticed that process rank 3 with PID 0 on node w-1 exited on signal 9 (Killed).\n",
         3, 137},
        {"  Process name: [[14440,1],12]\n  Exit code:    3\n", 12, 3},
        {"prterun noticed that process rank 2 with PID 77 on node w-1 exited on signal 11 (Seg"
         "mentation fault).\n",
         2, 139},
        {"prterun noticed that process rank 1 with PID 5316 on node w-1 exited on\nsignal 9 "
         "(Killed).\n",
         1, 137},
        {"prterun noticed that process rank 1 with PID 5316 on\nnode w-1 exited on signal\n9 "
         "(Killed).\n-----\n",
         1, 137},
        {"   Process name: [prterun-w-1@1,5]\n   Exit code:    7\n", 5, 7},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_buf pass;
        struct hvd_report_stream stream = feed(cases[i].text, 11, &pass);
        const struct hvd_report *failure = hvd_report_stream_failure(&stream);

        assert_non_null(failure);
        assert_int_equal(failure->rank, cases[i].rank);
        assert_int_equal(hvd_report_exit_code(failure), cases[i].code);
        assert_string_equal(pass.data, cases[i].text);
        hvd_buf_fini(&pass);
    }
}

static void the_last_line_names_rank_host_and_reason(void **state)
{
    struct hvd_report exited = {.rank = 2, .host = "x", .exit_code = 3, .limit_bytes = INT64_MAX};
    struct hvd_report segfault = {
        .rank = 0, .host = "digits-worker-0", .signal = 11, .limit_bytes = INT64_MAX};
    struct hvd_report unlimited = {
        .rank = 2, .host = "", .signal = 9, .is_oom = true, .limit_bytes = INT64_MAX};
    struct hvd_hosts hosts = {0};
    char line[HVD_REPORT_MAX];

    (void)state;
    assert_int_equal(
        hvd_hosts_parse_list("digits-worker-0.digits,digits-worker-1.digits", &hosts, NULL),
        HVD_OK);
    hvd_report_describe(&killed, &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 1 on host digits-worker-1.digits was killed by signal 9 "
                              "(Killed): out of memory (limit 64Mi)");
    hvd_report_describe(&segfault, &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 0 on host digits-worker-0.digits was killed by signal 11 "
                              "(Segmentation fault)");
    hvd_report_describe(&exited, &hosts, line, sizeof(line));
    assert_string_equal(line, "rank 2 on host x exited with code 3");
    hvd_report_describe(&unlimited, &hosts, line, sizeof(line));
    assert_string_equal(line,
                        "rank 2 on host unknown was killed by signal 9 (Killed): out of memory");
    hvd_hosts_fini(&hosts);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    HVD_MEM_TORTURE({
        struct hvd_report_stream stream;
        struct hvd_buf pass;
        hvd_status_t st;

        hvd_report_stream_init(&stream, NONCE);
        hvd_buf_init(&pass, 1000);
        st = hvd_report_stream_feed(&stream, hvd_strview_of("text\036text\n"), &pass);
        assert_int_equal(st, hvd_mem_fired() ? HVD_ERR_NOMEM : HVD_OK);
        hvd_buf_fini(&pass);
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_taken_out_of_the_text_around_it),
        cmocka_unit_test(text_that_only_resembles_a_report_passes_unchanged),
        cmocka_unit_test(a_mark_and_much_text_behind_it_passes),
        cmocka_unit_test(ranks_that_were_stopped_are_not_the_cause),
        cmocka_unit_test(mpiruns_own_words_are_read_when_no_wrapper_reported),
        cmocka_unit_test(the_last_line_names_rank_host_and_reason),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
