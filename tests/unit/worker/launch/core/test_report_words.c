#include "tests/unit/support.h"
#include "tests/unit/worker/launch/core/reports.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "worker/launch/core/describe.h"
#include "worker/launch/core/report.h"

static void what_the_library_told_a_rank_goes_before_what_that_one_wrote(void **state)
{
#define SHUT "Horovod has been shut down. "
    static const char mine[] = "saving emergency checkpoint";
    static const struct {
        const char *heard;
        const char *line;
    } cases[] = {
        {SHUT "Rank 1 on host w is lost: it has ended (tensor t)",
         "rank 1 on host w is lost: it has ended (tensor t)"},
        {SHUT "Rank 1 on host w called horovod_shutdown. (tensor t)",
         "rank 1 on host w called horovod_shutdown while other ranks waited for tensor t"},
        {SHUT "Tensor t is stalled for longer than 4 seconds (X): it waits for rank 1 on host w "
              "(tensor t)",
         "rank 1 on host w kept other ranks waiting: Tensor t is stalled for longer than 4 seconds "
         "(X): it waits for rank 1 on host w"},
        {SHUT "Rank 0 on host h called horovod_shutdown. (tensor t)",
         "rank 0 on host h exited with code 1: saving emergency checkpoint"},
        {SHUT "(tensor t)", "rank 0 on host h exited with code 1: saving emergency checkpoint"},
        {"", "rank 0 on host h exited with code 1: saving emergency checkpoint"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hvd_report report = wrote(0, "", mine);
        char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

        hvd_report_take_heard(&report, cases[i].heard);
        conclude(&report, 1, line, log);
        assert_string_equal(line, cases[i].line);
        assert_non_null(strstr(log, mine));
    }
}

static void a_rank_that_failed_by_itself_goes_before_what_others_were_told(void **state)
{
    struct hvd_report reports[2] = {wrote(0, "", "saving"), wrote(1, "", "no data")};
    char line[HVD_REPORT_MAX], log[HVD_REPORT_LOG_MAX + 1];

    (void)state;
    hvd_report_take_heard(&reports[0], SHUT "Tensor t is stalled for longer than 4 seconds (X): it "
                                            "waits for rank 1 on host w (tensor t)");
    conclude(reports, 2, line, log);
    assert_string_equal(line, "rank 1 on host h exited with code 1: no data");
    reports[1].signal = SIGSEGV; /* an end of its own */
    hvd_report_take_heard(&reports[1], SHUT "Rank 2 on host w is lost: it has ended (tensor t)");
    assert_string_equal(reports[1].line, "no data");
    reports[1].signal = SIGABRT;
    reports[1].was_stopped = true;
    hvd_report_take_heard(&reports[1], SHUT "Rank 2 on host w is lost: it has ended (tensor t)");
    assert_string_equal(reports[1].line, "no data");
    reports[1].was_stopped = false;
    hvd_report_take_heard(&reports[1], SHUT "Rank 2 on host w is lost: it has ended (tensor t)");
    assert_int_equal(reports[1].follows, 3);
#undef SHUT
}

static void a_traceback_of_a_rank_that_succeeded_is_not_why_others_failed(void **state)
{
    static const char handled[] = "[1]<stderr>:Traceback (most recent call last):\n"
                                  "[1]<stderr>:  File \"x.py\", line 1\n"
                                  "[1]<stderr>:ValueError: handled\n";
    struct hvd_report other = wrote(0, "", "saving");
    struct hvd_report left = {
        .rank = 1, .host = "w", .limit_bytes = INT64_MAX, .phase = HVD_RANK_ENDED};

    (void)state;
    hvd_report_take_heard(&other, "Horovod has been shut down. Rank 1 on host w called "
                                  "horovod_shutdown. (tensor t)");
    for (size_t i = 0; i < 2; i++) {
        struct hvd_hosts hosts = {0};
        struct hvd_report_stream stream;
        struct hvd_buf pass;
        char line[HVD_REPORT_MAX];

        assert_int_equal(hvd_hosts_parse_list("h:1,w:1", &hosts, NULL), HVD_OK);
        hvd_report_stream_init(&stream, NONCE, &hosts);
        hvd_buf_init(&pass, 1000);
        assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(handled), &pass), HVD_OK);
        feed_report(&stream, &other);
        if (i == 0) /* else nothing is heard of it */
            feed_report(&stream, &left);
        assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
        hvd_describe_report(hvd_report_stream_failure(&stream), &hosts, line, sizeof(line));
        assert_string_equal(line, i == 0 ? "rank 1 on host w called horovod_shutdown while other "
                                           "ranks waited for tensor t"
                                         : "rank 1 on host w failed: ValueError: handled");
        hvd_buf_fini(&pass);
        hvd_report_stream_fini(&stream);
        hvd_hosts_fini(&hosts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_library_told_a_rank_goes_before_what_that_one_wrote),
        cmocka_unit_test(a_rank_that_failed_by_itself_goes_before_what_others_were_told),
        cmocka_unit_test(a_traceback_of_a_rank_that_succeeded_is_not_why_others_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
