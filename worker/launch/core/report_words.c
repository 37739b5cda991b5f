/*
 * Chooses the last words of a report: from the rank's output, from Python's message about its
 * exception, or from the library's message to the program.
 */
#include "worker/launch/core/report_words.h"

#include <signal.h>
#include <string.h>

#include "base/cause.h"

int64_t hvd_report_named_by(struct hvd_strview line)
{
    const int64_t blamed = hvd_cause_blamed(line);
    struct hvd_strview host;
    int64_t awaited = -1;

    return blamed < 0 && hvd_cause_awaited(line, &awaited, &host).len > 0 ? awaited : blamed;
}

int64_t hvd_report_silenced(struct hvd_strview line)
{
    static const char *const silences[] = {"it has not answered for ", "it has not come to "};
    struct hvd_strview host;
    const struct hvd_strview why = hvd_cause_lost(line, &host);

    for (size_t i = 0; i < sizeof(silences) / sizeof(silences[0]); i++)
        if (why.len >= strlen(silences[i]) &&
            memcmp(why.data, silences[i], strlen(silences[i])) == 0)
            return hvd_cause_blamed(line);
    return -1;
}

void hvd_report_set_text(char *out, size_t size, struct hvd_strview text)
{
    size_t len = text.len < size ? text.len : size - 1;

    while (len < text.len && len > 0 && ((unsigned char)text.data[len] & 0xC0) == 0x80)
        len--;
    if (len > 0)
        memcpy(out, text.data, len);
    out[len] = '\0';
}

bool hvd_report_take_lines(struct hvd_report *report, const struct hvd_tail *tail)
{
    char text[HVD_TAIL_MAX + 1];
    struct hvd_strview reason;
    size_t len;

    (void)hvd_tail_clean(tail, text, sizeof(text));
    hvd_report_set_text(report->line, sizeof(report->line), hvd_cause_line(hvd_strview_of(text)));
    reason = hvd_cause_reason(hvd_strview_of(text));
    len = strlen(report->line);
    if (reason.len > 0 && len + 1 < sizeof(report->line)) {
        report->line[len++] = ' ';
        hvd_report_set_text(report->line + len, sizeof(report->line) - len, reason);
    }
    (void)hvd_tail_clean(tail, report->log, sizeof(report->log));
    return text[0] != '\0';
}

static bool has_traceback(const struct hvd_tail *tail)
{
    char text[HVD_TAIL_MAX + 1];

    (void)hvd_tail_clean(tail, text, sizeof(text));
    return strstr(text, "Traceback (most recent call last):") != NULL;
}

/* Whether any of it is the program's own, not a notice, the stack of a crash handler, or a banner.
 */
static bool is_told(const struct hvd_tail *tail)
{
    char text[HVD_TAIL_MAX + 1];

    (void)hvd_tail_clean(tail, text, sizeof(text));
    return hvd_cause_is_told(hvd_strview_of(text));
}

/* Whether standard output shows better than standard error how far the program was when a signal
 * from outside ended it. Python writes its standard output after it has reported a SIGINT. */
static bool is_output_newer(const struct hvd_report *report, const struct hvd_tail *out,
                            const struct hvd_tail *err)
{
    return report->signal != 0 && report->signal != SIGABRT && report->signal != SIGINT &&
           !report->was_stopped && out->newest > err->newest;
}

void hvd_report_replace_words(struct hvd_report *report, const struct hvd_tail *out,
                              const struct hvd_tail *err)
{
    struct hvd_report words = {0};

    if (report->words != HVD_WORDS_STDERR || (is_told(err) && !is_output_newer(report, out, err)))
        return;
    if (hvd_report_take_lines(&words, out) && is_told(out)) {
        hvd_report_set_text(report->line, sizeof(report->line), hvd_strview_of(words.line));
        report->words = HVD_WORDS_STDOUT;
    } else if (hvd_cause_is_notice(hvd_strview_of(report->line))) {
        report->words = HVD_WORDS_STDOUT;
    } else if (report->signal != 0 && !is_told(err)) {
        report->line[0] = '\0';
        report->words = HVD_WORDS_NONE;
    }
}

void hvd_report_take_words(struct hvd_report *report, const struct hvd_tail *out,
                           const struct hvd_tail *err)
{
    report->words = HVD_WORDS_UNKNOWN;
    if (report->was_stopped && !has_traceback(err))
        return;
    if (hvd_report_take_lines(report, err))
        report->words = HVD_WORDS_STDERR;
    else
        report->words = hvd_report_take_lines(report, out) ? HVD_WORDS_STDOUT : HVD_WORDS_NONE;
    hvd_report_replace_words(report, out, err);
}

void hvd_report_take_exception(struct hvd_report *report, const char *words)
{
    struct hvd_tail tail = {0};
    char text[HVD_TAIL_MAX + 1];

    hvd_tail_add(&tail, hvd_strview_of(words));
    if (hvd_tail_clean(&tail, text, sizeof(text)) == 0)
        return;
    hvd_report_set_text(report->line, sizeof(report->line), hvd_strview_of(text));
    report->words = HVD_WORDS_STDERR;
}

void hvd_report_take_cause(struct hvd_report *report, const char *words)
{
    const struct hvd_strview line = hvd_strview_of(words);
    const int64_t rank = hvd_report_named_by(line);

    if (rank < 0 || hvd_cause_blamed(line) == report->rank)
        return;
    if (report->was_stopped) { /* what it raised before it was stopped is a consequence */
        report->words = HVD_WORDS_UNKNOWN;
        return;
    }
    if (report->signal != 0 && report->signal != SIGABRT)
        return;
    hvd_report_take_exception(report, words);
    report->has_raised = false;
    if (report->follows == 0 && rank != report->rank)
        report->follows = rank + 1;
}
