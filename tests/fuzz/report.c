/*
 * mpirun's output with the reports of ranks in it: what passes and who is blamed does not depend on
 * how the bytes are cut into reads.
 */
#include "worker/launch/core/report.h"
#include "tests/fuzz/fuzz.h"
#include "worker/launch/core/describe.h"

static void feed(struct hvd_report_stream *stream, const char *text, size_t size, size_t piece,
                 struct hvd_buf *pass)
{
    hvd_report_stream_init(stream, "nonce", NULL);
    hvd_buf_init(pass, (size_t)64 << 20);
    for (size_t at = 0; at < size; at += piece) {
        const size_t len = size - at < piece ? size - at : piece;
        MUST(hvd_report_stream_feed(stream, (struct hvd_strview){text + at, len}, pass) == HVD_OK);
    }
    MUST(hvd_report_stream_finish(stream, pass) == HVD_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_report_stream whole, cut;
    struct hvd_buf whole_pass, cut_pass;
    const struct hvd_hosts none = {0};
    char line[512];

    if (size < 2)
        return 0;
    const size_t piece = data[0] % 40 + 1;
    char *text = fuzz_text(data + 1, size - 1);
    feed(&whole, text, size - 1, size, &whole_pass);
    feed(&cut, text, size - 1, piece, &cut_pass);
    MUST(whole_pass.len == cut_pass.len);
    MUST(whole_pass.len == 0 || memcmp(whole_pass.data, cut_pass.data, cut_pass.len) == 0);
    const struct hvd_report *a = hvd_report_stream_failure(&whole);
    const struct hvd_report *b = hvd_report_stream_failure(&cut);
    MUST(!a == !b);
    hvd_report_stream_refusal(&whole, line, sizeof(line));
    MUST(!strchr(line, '\n'));
    if (a) {
        MUST(strcmp(a->line, b->line) == 0 && strcmp(a->log, b->log) == 0);
        MUST(hvd_report_exit_code(a) == hvd_report_exit_code(b));
        hvd_describe_report(a, &none, line, sizeof(line));
        MUST(line[0] && !strchr(line, '\n'));
    }
    hvd_buf_fini(&whole_pass);
    hvd_buf_fini(&cut_pass);
    free(text);
    return 0;
}
