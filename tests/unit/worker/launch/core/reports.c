/*
 * What the tests of reports share: see reports.h.
 */
#include "tests/unit/worker/launch/core/reports.h"

#include <stdio.h>

#include "tests/unit/support.h"
#include "worker/launch/core/describe.h"

struct hvd_report wrote(int64_t rank, const char *out, const char *err)
{
    struct hvd_report report = {
        .rank = rank, .host = "h", .exit_code = 1, .limit_bytes = INT64_MAX};
    struct hvd_tail tails[2] = {0};

    hvd_tail_add(&tails[0], hvd_strview_of(out));
    hvd_tail_add(&tails[1], hvd_strview_of(err));
    hvd_report_take_words(&report, &tails[0], &tails[1]);
    return report;
}

void conclude(const struct hvd_report *reports, size_t n, char line[HVD_REPORT_MAX],
              char log[HVD_REPORT_LOG_MAX + 1])
{
    struct hvd_hosts none = {0};
    struct hvd_report_stream stream;
    struct hvd_buf pass;
    char text[HVD_REPORT_MAX];

    hvd_report_stream_init(&stream, NONCE, NULL);
    hvd_buf_init(&pass, 100);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(hvd_report_format(&reports[i], NONCE, text, sizeof(text)), HVD_OK);
        assert_int_equal(hvd_report_stream_feed(&stream, hvd_strview_of(text), &pass), HVD_OK);
    }
    assert_int_equal(hvd_report_stream_finish(&stream, &pass), HVD_OK);
    assert_int_equal(pass.len, 0);
    hvd_describe_report(hvd_report_stream_failure(&stream), &none, line, HVD_REPORT_MAX);
    assert_int_equal(hvd_report_exit_code(hvd_report_stream_failure(&stream)), 1);
    (void)snprintf(log, HVD_REPORT_LOG_MAX + 1, "%s", hvd_report_stream_failure(&stream)->log);
    hvd_buf_fini(&pass);
}

void feed_report(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    char text[HVD_REPORT_MAX];
    struct hvd_buf pass;

    hvd_buf_init(&pass, 100);
    assert_int_equal(hvd_report_format(report, NONCE, text, sizeof(text)), HVD_OK);
    assert_int_equal(hvd_report_stream_feed(stream, hvd_strview_of(text), &pass), HVD_OK);
    assert_int_equal(pass.len, 0);
    hvd_buf_fini(&pass);
}
