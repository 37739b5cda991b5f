/*
 * A report as one line. The wrapper around a rank writes it, and the launcher removes it from the
 * output that passes:
 *
 *     \036 horovod-rank NONCE rank=1 host=h exit=1 signal=0 stopped=0 oom=0 limit=67108864 words=3
 *     phase=4 notice=0 follows=0 waited=0 warning=60000 shutdown=0 raised=0 aborted=0 \037
 *     the line that names the cause \037 its last lines, \037 between them \036 \n
 */
#include "worker/launch/core/report_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARK '\036'
#define BREAK '\037'
#define FIELDS 16

hvd_status_t hvd_report_format(const struct hvd_report *report, const char *nonce, char *out,
                               size_t size)
{
    int head =
        snprintf(out, size,
                 "\036horovod-rank %s rank=%" PRId64
                 " host=%s exit=%d signal=%d stopped=%d oom=%d limit=%" PRId64
                 " words=%d phase=%d notice=%d follows=%" PRId64 " waited=%" PRId64
                 " warning=%" PRId64 " shutdown=%" PRId64 " raised=%d aborted=%d",
                 nonce, report->rank, report->host, report->exit_code, report->signal,
                 report->was_stopped, report->is_oom, report->limit_bytes, report->words,
                 report->phase, report->notice, report->follows, report->waited_ms,
                 report->warning_ms, report->shutdown_ms, report->has_raised, report->has_aborted);
    int rest;

    if (head <= 0 || (size_t)head >= size)
        return HVD_ERR_TOO_LARGE;
    rest =
        snprintf(out + head, size - (size_t)head, "\037%s\037%s\036\n", report->line, report->log);
    if (rest <= 0 || (size_t)rest >= size - (size_t)head)
        return HVD_ERR_TOO_LARGE;
    for (char *c = out + head; c[2] != '\0'; c++)
        if (*c == '\n' || *c == MARK)
            *c = BREAK;
    return HVD_OK;
}

/* The number after "key=" in a word; false when the word has another key or no such number. */
static bool read_field(struct hvd_strview word, const char *key, int64_t max, int64_t *out)
{
    const int64_t range[2] = {0, max};
    struct hvd_strview name = hvd_strview_cut(&word, '=');

    return word.data && hvd_strview_equal(name, key) &&
           hvd_str_parse_int64(word, range, out, NULL) == HVD_OK;
}

bool hvd_report_parse(struct hvd_strview text, const char *nonce, struct hvd_report *out)
{
    static const struct {
        const char *key;
        int64_t max;
    } fields[FIELDS] = {{"rank", INT32_MAX},
                        {NULL, 0},
                        {"exit", 255},
                        {"signal", 127},
                        {"stopped", 1},
                        {"oom", 1},
                        {"limit", INT64_MAX},
                        {"words", HVD_WORDS_STDERR},
                        {"phase", HVD_RANK_ENDED},
                        {"notice", HVD_NOTICE_GOES_ON},
                        {"follows", INT32_MAX},
                        {"waited", INT64_MAX},
                        {"warning", INT64_MAX},
                        {"shutdown", INT64_MAX},
                        {"raised", 1},
                        {"aborted", 1}};
    int64_t value[FIELDS] = {0};
    struct hvd_strview host = {0};
    struct hvd_strview words = text;

    text = hvd_strview_cut(&words, BREAK);
    if (!hvd_strview_equal(hvd_strview_cut(&text, ' '), "horovod-rank") || !text.data ||
        !hvd_strview_equal(hvd_strview_cut(&text, ' '), nonce))
        return false;
    for (size_t i = 0; i < FIELDS; i++) {
        struct hvd_strview word = text.data ? hvd_strview_cut(&text, ' ') : text;

        if (!word.data)
            return false;
        if (!fields[i].key) {
            host = word;
            if (!hvd_strview_equal(hvd_strview_cut(&host, '='), "host") || !host.data)
                return false;
        } else if (!read_field(word, fields[i].key, fields[i].max, &value[i])) {
            return false;
        }
    }
    *out = (struct hvd_report){.rank = value[0],
                               .exit_code = (int)value[2],
                               .signal = (int)value[3],
                               .was_stopped = value[4] != 0,
                               .is_oom = value[5] != 0,
                               .limit_bytes = value[6],
                               .words = (enum hvd_report_words)value[7],
                               .phase = (enum hvd_rank_phase)value[8],
                               .notice = (enum hvd_report_notice)value[9],
                               .follows = value[10],
                               .waited_ms = value[11],
                               .warning_ms = value[12],
                               .shutdown_ms = value[13],
                               .has_raised = value[14] != 0,
                               .has_aborted = value[15] != 0};
    hvd_report_set_text(out->host, sizeof(out->host), host);
    if (words.data)
        hvd_report_set_text(out->line, sizeof(out->line), hvd_strview_cut(&words, BREAK));
    hvd_report_set_text(out->log, sizeof(out->log), words);
    for (char *c = strchr(out->log, BREAK); c; c = strchr(c, BREAK))
        *c = '\n';
    return true;
}
