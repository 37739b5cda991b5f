/*
 * Finds out which rank failed. The wrapper around each rank writes one line to its standard error,
 * and mpirun carries it here among everything else. The stream takes it out again (report_line.c).
 *
 * A wrapper that was killed writes no line. Then the stream uses mpirun's own messages, and the
 * rank's lines among the output that passed.
 */
#include "worker/launch/core/report.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cause.h"
#include "base/mem.h"
#include "worker/launch/core/exit_codes.h"
#include "worker/launch/core/missing.h"
#include "worker/launch/core/report_words.h"

#define MARK '\036'
#define WAITS_LONG_MS 10000 /* longer than the way through horovod_init takes */
/* Exit codes of mpirun that a rank may have caused. 1 may be mpirun's own, and those below 256 are
 * its own errors. A low code may also be the signal that has killed its ssh. */
#define RANK_CODE_MIN 2
#define SIGNAL_CODE_MIN 129
#define RANK_CODE_MAX 192
#define CUT_OFF_CODE 14 /* MPI_ERR_UNKNOWN: of a rank whose connection broke, in Open MPI 5 */

void hvd_report_stream_init(struct hvd_report_stream *stream, const char *nonce,
                            const struct hvd_hosts *hosts)
{
    (void)memset(stream, 0, sizeof(*stream));
    stream->hosts = hosts;
    (void)snprintf(stream->nonce, sizeof(stream->nonce), "%s", nonce);
    if (hosts && hosts->n > 0)
        stream->reported = hvd_calloc(hosts->n, sizeof(*stream->reported));
    if (hosts && hosts->n > 0)
        stream->missing = hvd_missing_create(hosts);
}

void hvd_report_stream_set_mpirun(struct hvd_report_stream *stream, int64_t pid)
{
    stream->_banners.mpirun = pid;
}

void hvd_report_stream_fini(struct hvd_report_stream *stream)
{
    hvd_missing_destroy(stream->missing);
    hvd_free(stream->reported);
    stream->missing = NULL;
    stream->reported = NULL;
}

/* The rank whose failure made this rank fail, by its library or its message; -1: unknown. */
static int64_t blamed_by(const struct hvd_report *report)
{
    return report->follows > 0 ? report->follows - 1
                               : hvd_report_named_by(hvd_strview_of(report->line));
}

/* Whether the first failure blames the other rank. */
static bool is_blamed(const struct hvd_report_stream *stream, const struct hvd_report *other)
{
    const struct hvd_report *cause = &stream->cause;

    return stream->has_cause && cause->rank != other->rank && blamed_by(cause) == other->rank;
}

/* Replaces the cause by the blamed rank, which was stopped while its own exception ended it. Keeps
 * the exit code of the rank that ended first. */
static void blame_stopped(struct hvd_report_stream *stream)
{
    int code = hvd_report_exit_code(&stream->cause);

    stream->cause = stream->excepted;
    stream->cause.exit_code = code;
    stream->cause.signal = 0;
}

/* The index of the host that runs a rank, and the host's first rank; false when there is none. */
static bool find_host(const struct hvd_hosts *hosts, int64_t rank, size_t *index, int64_t *first)
{
    *first = 0;
    for (*index = 0; hosts && *index < hosts->n; (*index)++) {
        if (rank < *first + hosts->items[*index].slots)
            return true;
        *first += hosts->items[*index].slots;
    }
    return false;
}

/* Notes that a rank of the host has reported its end. */
static void hear(struct hvd_report_stream *stream, int64_t rank)
{
    size_t index;
    int64_t first;

    if (stream->reported && find_host(stream->hosts, rank, &index, &first))
        stream->reported[index] = true;
}

/* Drops the lines about the loss of others. A rank that left while others waited may log their end;
 * all other lines are its own. */
static void drop_log_of_loss(struct hvd_report *report)
{
    struct hvd_strview rest = hvd_strview_of(report->log);
    struct hvd_tail own = {0};

    if (!hvd_cause_is_log_of_loss(hvd_strview_of(report->line)))
        return;
    while (rest.data) {
        struct hvd_strview line = hvd_strview_cut(&rest, '\n');

        if (line.len == 0 || hvd_cause_is_log_of_loss(line))
            continue;
        hvd_tail_add(&own, line);
        hvd_tail_add(&own, hvd_strview_of("\n"));
    }
    (void)hvd_report_take_lines(report, &own);
}

/* Notes the rank that left while others waited for it, from the message of the first failure. */
static void note_left(struct hvd_report_stream *stream)
{
    const struct hvd_report *seen = &stream->cause;
    struct hvd_strview host, tensor;

    if (!hvd_cause_left(hvd_strview_of(seen->line), &host, &tensor))
        return;
    stream->left = (struct hvd_report){.kind = HVD_REPORT_LEFT_RANK,
                                       .rank = hvd_cause_blamed(hvd_strview_of(seen->line)),
                                       .exit_code = hvd_report_exit_code(seen),
                                       .limit_bytes = INT64_MAX};
    hvd_report_set_text(stream->left.host, sizeof(stream->left.host), host);
    hvd_report_set_text(stream->left.line, sizeof(stream->left.line), tensor);
    (void)memcpy(stream->left.log, seen->log, sizeof(stream->left.log));
    stream->has_left = stream->left.rank != seen->rank;
}

/* Keeps a rank apart that Open MPI 5 may have ended because another one is gone. mpirun's own
 * message, which may come later, confirms that. */
static bool keep_cut_off(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    if (report->was_stopped || report->signal != 0 || report->exit_code != CUT_OFF_CODE)
        return false;
    if (!stream->has_cut_off) {
        stream->cut_off = *report;
        stream->is_cut_off_first = !stream->has_cause;
        stream->has_cut_off = true;
    }
    return true;
}

/* Whether the signal concerns this rank alone. SIGPIPE, SIGHUP and SIGTERM may also come from a
 * peer that is gone, or from the end of the job. */
static bool has_own_signal(const struct hvd_report *report)
{
    static const int others[] = {0, SIGABRT, SIGPIPE, SIGHUP, SIGTERM};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (report->signal == others[i])
            return false;
    return true;
}

/* Forgets the failure of a rank that fell silent but still runs: all that it reports after the loss
 * is a consequence. A signal of its own may still be the cause. */
static void forget_silenced(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    const int64_t rank = hvd_report_silenced(hvd_strview_of(report->line));

    if (rank < 0 || rank == report->rank)
        return;
    if (stream->has_cause && stream->cause.rank == rank && !has_own_signal(&stream->cause))
        stream->has_cause = stream->has_left = false;
    stream->has_excepted = stream->has_excepted && stream->excepted.rank != rank;
    stream->has_cut_off = stream->has_cut_off && stream->cut_off.rank != rank;
}

/* Whether the rank was ended by the loss of a peer or of mpirun, or by the end of the job. */
static bool has_others_signal(const struct hvd_report *report)
{
    return report->signal != 0 && report->signal != SIGABRT && !has_own_signal(report);
}

/* Whether others have left the aborted job, and this rank's end is a consequence. Either it had
 * fallen silent and was woken, or such a signal has ended it. */
static bool is_woken(const struct hvd_report_stream *stream, const struct hvd_report *report)
{
    const struct hvd_report *left = &stream->abandoned;

    if (!stream->has_abandoned || left->follows == 0 || has_own_signal(report))
        return false;
    return has_others_signal(report) ||
           hvd_report_silenced(hvd_strview_of(left->line)) == report->rank;
}

static void keep(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    forget_silenced(stream, report);
    if ((stream->has_cause &&
         hvd_report_silenced(hvd_strview_of(stream->cause.line)) == report->rank) ||
        is_woken(stream, report) || keep_cut_off(stream, report))
        return;
    if (!report->was_stopped && !stream->has_cause) {
        stream->cause = *report;
        stream->has_cause = true;
        note_left(stream);
    } else if (!report->was_stopped && is_blamed(stream, report)) {
        stream->cause = *report;
        drop_log_of_loss(&stream->cause);
    }
    if (hvd_report_has_exception(report) && (!stream->has_excepted || is_blamed(stream, report))) {
        stream->excepted = *report;
        stream->has_excepted = true;
    }
    if (stream->has_excepted && is_blamed(stream, &stream->excepted))
        blame_stopped(stream);
}

/* Reads the number after the words, if the line contains them; moves *at past it. */
static bool scan_number(const char **at, const char *words, int *out)
{
    const int64_t range[2] = {0, INT32_MAX};
    const char *found = strstr(*at, words);
    struct hvd_strview digits;
    int64_t value = 0;

    if (!found)
        return false;
    digits.data = found + strlen(words);
    digits.data += strspn(digits.data, " ");
    digits.len = strspn(digits.data, "0123456789");
    if (hvd_str_parse_int64(digits, range, &value, NULL) < 0)
        return false;
    *at = digits.data + digits.len;
    *out = (int)value;
    return true;
}

/* "Process name: [[29462,1],3]" or "[prterun-h-1@1,3]": the rank is the last number. */
static bool scan_process_name(const char *line, int *rank)
{
    const char *name = strstr(line, "Process name:");
    const char *comma = name ? strrchr(name, ',') : NULL;

    return comma && scan_number(&comma, ",", rank);
}

/* Notes a lost host. */
static void lose_host(struct hvd_report_stream *stream, struct hvd_strview name)
{
    stream->lost =
        (struct hvd_report){.kind = HVD_REPORT_LOST_HOST, .rank = -1, .limit_bytes = INT64_MAX};
    hvd_report_set_text(stream->lost.host, sizeof(stream->lost.host), name);
    stream->has_lost = stream->lost.host[0] != '\0';
}

/* Whether the line is a ruler of mpirun's banners. */
static bool is_ruler(const char *line)
{
    return strncmp(line, "--------------------", 20) == 0 && line[strspn(line, "-")] == '\0';
}

/* Reads "Remote daemon: [[876,0],1] on node west" in the message about a lost daemon, or "Remote
 * host: west" in the message about one that has ended. */
static void read_lost_daemon(struct hvd_report_stream *stream, const char *line)
{
    static const char ended[] = "A daemon failed to report back after being spawned.";
    const char *name = strstr(line, "Remote daemon:");
    const char *host = name ? strstr(name, " on node ") : NULL;

    if (is_ruler(line) || strncmp(line, ended, sizeof(ended) - 1) == 0)
        stream->_is_of_daemon = line[0] == 'A';
    if (host)
        host += strlen(" on node ");
    else if (stream->_is_of_daemon && (host = strstr(line, "Remote host:")) != NULL)
        host += strlen("Remote host:");
    if (!host || stream->has_lost)
        return;
    host += strspn(host, " ");
    lose_host(stream, (struct hvd_strview){host, strcspn(host, " \n")});
}

/* Reads "mpirun has exited due to process rank 0 with PID 0 on node h exiting improperly", in one
 * line or two. Such a rank did not call MPI_Finalize, which libhorovod skips after an aborted
 * job. */
static void read_exited(struct hvd_report_stream *stream, const char *line)
{
    const char *at = line;
    int rank = 0;

    if (stream->_exited_rank == 0 && scan_number(&at, " has exited due to process rank ", &rank))
        stream->_exited_rank = (int64_t)rank + 1;
    if (stream->_exited_rank == 0 || stream->has_aborted || !strstr(line, "improperly."))
        return;
    stream->aborted = (struct hvd_report){
        .kind = HVD_REPORT_ABORTED, .rank = stream->_exited_rank - 1, .limit_bytes = INT64_MAX};
    const char *node = strstr(line, "node ");

    if (node)
        hvd_report_set_text(stream->aborted.host, sizeof(stream->aborted.host),
                            (struct hvd_strview){node + 5, strcspn(node + 5, " \n")});
    stream->has_aborted = true;
}

/* Reads ssh's "Connection to west closed by remote host." mpirun ends because of that, and the
 * daemon there may have stopped its ranks in order before. */
static void read_hung_up(struct hvd_report_stream *stream, const char *line)
{
    static const char before[] = "Connection to ";
    static const char behind[] = " closed by remote host.";

    if (stream->_hung_up > 0 || !hvd_str_has_prefix(line, before) || !strstr(line, behind))
        return;
    line += sizeof(before) - 1;
    for (size_t i = 0; stream->hosts && i < stream->hosts->n; i++) {
        const char *name = stream->hosts->items[i].name;

        if (hvd_str_has_prefix(line, name) && hvd_str_has_prefix(line + strlen(name), behind))
            stream->_hung_up = i + 1;
    }
}

/* Reads a line of mpirun's own messages about a rank that failed. */
static void read_mpirun_line(struct hvd_report_stream *stream, const char *line)
{
    const char *at = line;
    const char *host;
    struct hvd_report *text = &stream->text;
    int rank = 0;

    read_lost_daemon(stream, line);
    read_exited(stream, line);
    read_hung_up(stream, line);
    if (strstr(line, "] *** An error occurred in Socket closed"))
        stream->has_broken = true;
    if (stream->has_text)
        return;
    if (scan_number(&at, "noticed that process rank ", &rank)) {
        *text = (struct hvd_report){.rank = rank, .limit_bytes = INT64_MAX};
        host = strstr(at, " on node ");
        if (host)
            (void)snprintf(text->host, sizeof(text->host), "%.*s", (int)strcspn(host + 9, " \n"),
                           host + 9);
        stream->has_text = scan_number(&at, "exited on signal ", &text->signal);
    } else if (scan_process_name(line, &rank)) {
        *text = (struct hvd_report){.rank = rank, .limit_bytes = INT64_MAX};
    } else if (scan_number(&at, "Exit code: ", &text->exit_code)) {
        stream->has_text = true;
    }
}

/* Whether the line continues: Open MPI 5 breaks its sentence about a killed rank where a line is
 * full. */
static bool goes_on(const char *line)
{
    const char *at = line;
    int number = 0;

    return scan_number(&at, "noticed that process rank ", &number) &&
           !scan_number(&at, "exited on signal ", &number);
}

/* Whether the line ends one of mpirun's own texts. Open MPI 5 also writes the zero byte that ends
 * the text in memory: at once, or after lines of others. */
static bool ends_own(const char *line)
{
    return is_ruler(line) || strstr(line, "MPI will try to terminate your MPI job as well)");
}

/* Passes a byte that belongs to no report, and collects mpirun's current line. */
static hvd_status_t pass_byte(struct hvd_report_stream *stream, char c, struct hvd_buf *pass)
{
    if (c == '\0' && stream->_n_line == 0 && stream->_n_own > 0) {
        stream->_n_own--;
        return HVD_OK;
    }
    if (c == '\n') {
        stream->_line[stream->_n_line] = '\0';
        stream->_n_own += ends_own(stream->_line) ? 1 : 0;
        if (goes_on(stream->_line) && stream->_n_line + 1 < sizeof(stream->_line)) {
            stream->_line[stream->_n_line++] = ' ';
        } else {
            read_mpirun_line(stream, stream->_line);
            stream->_n_line = 0;
        }
    } else if (stream->_n_line + 1 < sizeof(stream->_line)) {
        stream->_line[stream->_n_line++] = c;
    }
    if (stream->_n_recent == sizeof(stream->_recent)) {
        stream->_n_recent = HVD_REPORT_RECENT;
        memmove(stream->_recent, stream->_recent + HVD_REPORT_RECENT, HVD_REPORT_RECENT);
    }
    stream->_recent[stream->_n_recent++] = c;
    return hvd_banner_feed(&stream->_banners, c, pass);
}

/* Passes the held bytes, which are no report. */
static hvd_status_t pass_held(struct hvd_report_stream *stream, struct hvd_buf *pass)
{
    hvd_status_t st = HVD_OK;
    size_t n = stream->_n_held;

    stream->_n_held = 0;
    for (size_t i = 0; i < n && st == HVD_OK; i++)
        st = pass_byte(stream, stream->_held[i], pass);
    return st;
}

/* Collects the lines of a rank from the recent output, without their prefix. */
static void find_lines(const struct hvd_report_stream *stream, int64_t rank, struct hvd_tail *out)
{
    struct hvd_strview rest = {stream->_recent, stream->_n_recent};
    char prefix[64];

    (void)snprintf(prefix, sizeof(prefix), "[%" PRId64 "]<stderr>:", rank);
    while (rest.data) {
        struct hvd_strview line = hvd_strview_cut(&rest, '\n');
        const char *at = line.len ? memmem(line.data, line.len, prefix, strlen(prefix)) : NULL;

        if (!at)
            continue;
        at += strlen(prefix);
        hvd_tail_add(out, (struct hvd_strview){at, (size_t)(line.data + line.len - at)});
        hvd_tail_add(out, hvd_strview_of("\n"));
    }
}

/* Searches the recent output for an exception of the blamed rank. Open MPI 5 carries nothing from a
 * rank that it stops, not even its report. */
static void find_exception(struct hvd_report_stream *stream)
{
    struct hvd_report found = {.was_stopped = true, .limit_bytes = INT64_MAX};
    static const struct hvd_tail none;
    struct hvd_tail lines = {0};

    found.rank = blamed_by(&stream->cause);
    if (found.rank < 0 || found.rank == stream->cause.rank ||
        hvd_missing_has_succeeded(stream->missing, found.rank)) /* the program handled it */
        return;
    find_lines(stream, found.rank, &lines);
    hvd_report_take_words(&found, &none, &lines);
    keep(stream, &found);
}

/* Finds the rank that others report as lost, and whose process has reported nothing. */
static void find_lost_rank(struct hvd_report_stream *stream)
{
    const struct hvd_report *seen = &stream->cause;
    struct hvd_strview host;
    const struct hvd_strview why = hvd_cause_lost(hvd_strview_of(seen->line), &host);

    if (why.len == 0 || hvd_cause_blamed(hvd_strview_of(seen->line)) == seen->rank)
        return;
    stream->lost = *seen;
    stream->lost.kind = HVD_REPORT_LOST_RANK;
    stream->lost.rank = hvd_cause_blamed(hvd_strview_of(seen->line));
    hvd_report_set_text(stream->lost.host, sizeof(stream->lost.host), host);
    hvd_report_set_text(stream->lost.line, sizeof(stream->lost.line), why);
    stream->has_lost = true;
    stream->cause = stream->lost;
}

/* Finds the rank that a stalled tensor waited for, if it did not fail by itself. It is lost if no
 * rank of its host has reported. */
static void find_awaited_rank(struct hvd_report_stream *stream)
{
    const struct hvd_report seen = stream->cause;
    struct hvd_strview host;
    int64_t rank = -1;
    int64_t first;
    size_t index;
    struct hvd_strview why = hvd_cause_awaited(hvd_strview_of(seen.line), &rank, &host);
    const bool is_lost = stream->reported && find_host(stream->hosts, rank, &index, &first) &&
                         !stream->reported[index];

    if (why.len == 0)
        return;
    if (!is_lost) /* the library's text, without the tensor, which is named already */
        why.len = strcspn(why.data, "\n");
    const char *again = is_lost ? NULL : strstr(why.data, " (tensor ");
    if (again)
        why.len = (size_t)(again - why.data);
    stream->cause.kind = is_lost ? HVD_REPORT_LOST_RANK : HVD_REPORT_AWAITED;
    stream->cause.rank = rank;
    hvd_report_set_text(stream->cause.host, sizeof(stream->cause.host), host);
    hvd_report_set_text(stream->cause.line, sizeof(stream->cause.line), why);
}

/* Finds the rank that had not come. The failed rank had waited for it too long, and its library
 * could not name it. */
static void find_missing_rank(struct hvd_report_stream *stream)
{
    static const char words[] = "horovod_init has waited for ";
    struct hvd_report found = stream->cause;

    if (!strstr(stream->cause.line, words) || !hvd_missing_blame(stream->missing, &found))
        return;
    stream->cause = found;
    stream->cause.kind = HVD_REPORT_MISSING;
}

/* Blames the loss of srun: no rank failed by itself, and mpirun stopped the ranks, as it does when
 * its srun has ended. */
static void find_lost_srun(struct hvd_report_stream *stream)
{
    const struct hvd_hosts *hosts = stream->hosts;
    size_t n_remote = 0;
    size_t remote = 0;

    for (size_t i = 0; hosts && i < hosts->n; i++)
        if (!hosts->items[i].is_local) {
            n_remote++;
            remote = i;
        }
    if (stream->n_stopped == 0 || n_remote == 0)
        return;
    lose_host(stream, hvd_strview_of(hosts->items[remote].name));
    if (n_remote > 1)
        stream->lost.kind = HVD_REPORT_LOST_SRUN;
}

/* Blames the host whose ssh has ended, where no rank failed by itself. */
static bool find_hung_up(struct hvd_report_stream *stream)
{
    if (stream->_hung_up == 0)
        return false;
    lose_host(stream, hvd_strview_of(stream->hosts->items[stream->_hung_up - 1].name));
    return true;
}

/* Forgets the failure of a rank whose host mpirun has lost, if a signal of others ended it: it
 * wrote to its daemon, which was gone. */
static void forget_unreachable(struct hvd_report_stream *stream)
{
    const struct hvd_hosts *hosts = stream->hosts;
    size_t index, len;
    int64_t first;

    if (!stream->has_cause || !has_others_signal(&stream->cause) ||
        !find_host(hosts, stream->cause.rank, &index, &first) ||
        (!stream->has_lost && stream->_hung_up != index + 1))
        return;
    if (!stream->has_lost)
        (void)find_hung_up(stream);
    len = strlen(stream->lost.host);
    if (strncmp(hosts->items[index].name, stream->lost.host, len) == 0 &&
        (hosts->items[index].name[len] == '\0' || hosts->items[index].name[len] == '.'))
        stream->has_cause = stream->has_left = false;
}

/* Blames the only host without a report, where no rank failed by itself and the ranks of all other
 * hosts have reported that they were stopped. */
static bool find_silent_host(struct hvd_report_stream *stream)
{
    const struct hvd_hosts *hosts = stream->hosts;
    size_t n_silent = 0;
    size_t silent = 0;

    for (size_t i = 0; stream->reported && i < hosts->n; i++)
        if (!stream->reported[i]) {
            n_silent++;
            silent = i;
        }
    if (n_silent != 1 || hosts->n < 2)
        return false;
    lose_host(stream, hvd_strview_of(hosts->items[silent].name));
    return true;
}

/* Decides whether a rank with the exit code of a broken connection failed by itself. It did if no
 * connection broke. */
static void judge_cut_off(struct hvd_report_stream *stream)
{
    if (!stream->has_cut_off || stream->has_broken)
        return;
    if (!stream->has_cause || stream->is_cut_off_first)
        stream->cause = stream->cut_off;
    stream->has_cause = true;
}

/* Blames the rank whose connection broke, where no other rank has failed. */
static void blame_cut_off(struct hvd_report_stream *stream)
{
    stream->cause = stream->cut_off;
    stream->cause.kind = HVD_REPORT_CUT_OFF;
    stream->has_cause = true;
}

/* Finds the last words of the rank that mpirun named. */
static void find_words(struct hvd_report_stream *stream)
{
    static const struct hvd_tail none;
    struct hvd_tail lines = {0};

    find_lines(stream, stream->text.rank, &lines);
    if (hvd_report_take_lines(&stream->text, &lines))
        stream->text.words = HVD_WORDS_STDERR;
    hvd_report_replace_words(&stream->text, &none, &lines);
}

/* Whether the library's error names a rank that did not leave a job which had ended. */
static bool names_who_stayed(struct hvd_strview error)
{
    static const char *const words[] = {" while the job shuts down", " since the job was to end: "};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (error.len > 0 && memmem(error.data, error.len, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Takes the reason of the abort from the message that the library gave to a rank, where the output
 * contains no log of it. */
static void take_told(struct hvd_report_stream *stream)
{
    static const char head[] = "Horovod has been shut down. ";
    const char *line = stream->abandoned.line;

    if (!hvd_str_has_prefix(line, head))
        return;
    hvd_report_set_text(stream->aborted.line, sizeof(stream->aborted.line),
                        hvd_strview_of(line + sizeof(head) - 1));
    stream->aborted.rank = stream->abandoned.rank;
    hvd_report_set_text(stream->aborted.host, sizeof(stream->aborted.host),
                        hvd_strview_of(stream->abandoned.host));
}

/* Finds the reason of the abort, and the rank that found it, in the library's first error of the
 * recent output. A stall has ended the job in order. A later error replaces it if it names a rank
 * that did not leave. */
static void find_abort(struct hvd_report_stream *stream)
{
    static const char error[] = "level=error subsystem=engine msg=\"";
    const int64_t range[2] = {0, INT32_MAX};
    struct hvd_strview rest = {stream->_recent, stream->_n_recent};
    bool has_found = false;
    int64_t found = stream->aborted.rank;

    while (rest.data) {
        struct hvd_strview line = hvd_strview_trim(hvd_strview_cut(&rest, '\n'));
        struct hvd_strview rank = line;
        const char *at = line.len ? memmem(line.data, line.len, error, sizeof(error) - 1) : NULL;

        if (!at || (has_found && !names_who_stayed(line)))
            continue;
        has_found = true;
        at += sizeof(error) - 1;
        hvd_report_set_text(stream->aborted.line, sizeof(stream->aborted.line),
                            (struct hvd_strview){at, (size_t)(line.data + line.len - at)});
        rank = hvd_strview_cut(&rank, ']');
        if (rank.len > 1 && rank.data[0] == '[') {
            rank = (struct hvd_strview){rank.data + 1, rank.len - 1};
            (void)!hvd_str_parse_int64(rank, range, &found, NULL);
        }
    }
    if (found != stream->aborted.rank)
        stream->aborted.host[0] = '\0'; /* it belongs to another rank */
    stream->aborted.rank = found;
    const size_t len = strlen(stream->aborted.line);
    if (len > 0 && stream->aborted.line[len - 1] == '"')
        stream->aborted.line[len - 1] = '\0';
    if (!has_found && stream->has_abandoned)
        take_told(stream);
}

/* Whether a rank has ended without horovod_init. */
static bool is_absent(const struct hvd_report_stream *stream)
{
    return stream->has_absent && stream->absent.notice == HVD_NOTICE_END &&
           stream->absent.phase == HVD_RANK_OUTSIDE;
}

/* Takes a rank's report of the abort where mpirun did not report the missing MPI_Finalize, because
 * it had to be stopped. Where another rank did not come at all, that one is the failure. */
static void take_abandoned(struct hvd_report_stream *stream)
{
    if (stream->has_aborted || !stream->has_abandoned || is_absent(stream))
        return;
    stream->aborted = stream->abandoned;
    stream->aborted.line[0] = '\0';
    stream->has_aborted = true;
}

/* Blames the ranks without a report, one of which failed: mpirun's exit code is that of a rank, and
 * no rank has reported a failure. */
static bool find_unheard_rank(struct hvd_report_stream *stream, int code_min)
{
    const int code = stream->mpirun_code;
    struct hvd_report found = {.limit_bytes = INT64_MAX};
    const int64_t n = hvd_missing_unheard(stream->missing, &found.rank);

    if (code < code_min || code > RANK_CODE_MAX || n == 0)
        return false;
    found.signal =
        code > HVD_EXIT_SIGNAL && sigdescr_np(code - HVD_EXIT_SIGNAL) ? code - HVD_EXIT_SIGNAL : 0;
    found.exit_code = found.signal ? 0 : code;
    if (n > 1) {
        found.kind = HVD_REPORT_UNHEARD;
        found.n_ranks = n;
    }
    stream->text = found;
    stream->has_text = true;
    if (n == 1)
        find_words(stream);
    return true;
}

/* Whether the rank without horovod_init is the failure: if mpirun names it as the one without
 * MPI_Finalize, or if other ranks have come to horovod_init. */
static bool is_absent_to_blame(const struct hvd_report_stream *stream)
{
    if (!is_absent(stream))
        return false;
    return stream->has_aborted
               ? stream->aborted.line[0] == '\0' && stream->absent.rank == stream->aborted.rank
               : stream->has_joined;
}

/* Finds a failure where no rank has reported one and mpirun's messages name none. */
static void find_silent(struct hvd_report_stream *stream)
{
    if (stream->has_srun)
        find_lost_srun(stream);
    else if (!find_unheard_rank(stream, SIGNAL_CODE_MIN) && !stream->blames_absent &&
             !find_hung_up(stream) && !find_silent_host(stream))
        (void)find_unheard_rank(stream, RANK_CODE_MIN);
    if (!hvd_report_stream_failure(stream) && stream->mpirun_code != 0) {
        char why[8];

        hvd_report_stream_refusal(stream, why, sizeof(why));
        stream->blames_absent = is_absent(stream) && why[0] == '\0';
    }
}

hvd_status_t hvd_report_stream_finish(struct hvd_report_stream *stream, struct hvd_buf *pass)
{
    hvd_status_t st = pass_held(stream, pass);

    judge_cut_off(stream);
    forget_unreachable(stream);
    take_abandoned(stream);
    if (stream->has_aborted)
        find_abort(stream);
    stream->blames_absent = is_absent_to_blame(stream);
    if (stream->has_cause) {
        find_exception(stream);
        find_lost_rank(stream);
        find_awaited_rank(stream);
        find_missing_rank(stream);
        if (stream->has_left && stream->cause.rank != stream->left.rank)
            stream->cause = stream->left;
    } else if (stream->has_cut_off && !stream->has_lost) {
        blame_cut_off(stream);
    } else if (stream->has_text) {
        find_words(stream);
    } else if (!stream->has_lost && !stream->has_aborted) {
        find_silent(stream);
    }
    if (st == HVD_OK)
        st = hvd_banner_idle(&stream->_banners, pass);
    if (st == HVD_OK &&
        (stream->shows_banners || (!stream->hides_banners && !hvd_report_stream_failure(stream))))
        st = hvd_banner_take(&stream->_banners, pass);
    return st;
}

/* Notes a rank that ended with 0 after an aborted job, with the message of its library. The first
 * one whose library named another rank has the best message. */
static void note_abandoned(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    forget_silenced(stream, report);
    if (stream->has_cause && has_others_signal(&stream->cause) &&
        blamed_by(report) == stream->cause.rank)
        stream->has_cause = stream->has_left = false;
    if (stream->has_abandoned && (stream->abandoned.follows > 0 || report->follows == 0))
        return;
    stream->abandoned = *report;
    stream->abandoned.kind = HVD_REPORT_ABORTED;
    stream->has_abandoned = true;
}

/* Notes a rank that joins no further job. One with an exception has the best reason. */
static void note_absent(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    if (stream->has_absent &&
        (hvd_report_has_exception(&stream->absent) || !hvd_report_has_exception(report)))
        return;
    stream->absent = *report;
    stream->absent.kind = HVD_REPORT_ABSENT;
    stream->has_absent = true;
}

/* A rank that waits for all waits for ever if one of them does not come any more. One notice may be
 * older than that, so the second one of the same rank counts. */
static void note_waiting(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    const bool is_outside = stream->has_absent && stream->absent.phase == HVD_RANK_OUTSIDE;

    if (!stream->has_absent || stream->has_cause || report->waited_ms < WAITS_LONG_MS ||
        (report->notice == HVD_NOTICE_WAITS_SOME && !is_outside))
        return;
    if (stream->waiting == 0)
        stream->waiting = report->rank + 1;
    else if (stream->waiting == report->rank + 1)
        stream->is_stuck = true;
}

/* Blames the rank that has not come, because the others do not wait any longer. */
static void give_up(struct hvd_report_stream *stream)
{
    stream->absent = (struct hvd_report){.kind = HVD_REPORT_MISSING,
                                         .rank = hvd_missing_rank(stream->missing),
                                         .limit_bytes = INT64_MAX};
    hvd_report_set_text(stream->absent.line, sizeof(stream->absent.line),
                        hvd_strview_of(hvd_missing_text(stream->missing)));
    stream->is_stuck = true;
}

static void take_notice(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    const enum hvd_missing_step step = hvd_missing_notice(stream->missing, report, stream->now_ms);

    if (stream->is_stuck)
        return;
    if (report->notice == HVD_NOTICE_FINAL)
        note_absent(stream, report);
    else if (report->notice == HVD_NOTICE_WAITS || report->notice == HVD_NOTICE_WAITS_SOME)
        note_waiting(stream, report);
    if (stream->has_cause ||
        (stream->has_absent &&
         report->notice != HVD_NOTICE_WAITS_FINAL)) /* about ranks in MPI_Finalize */
        return;
    stream->has_remark = stream->has_remark || step == HVD_MISSING_WARN;
    if (step == HVD_MISSING_END)
        give_up(stream);
}

/* The held bytes are "\036...\036\n": takes a report, or passes other text. */
static hvd_status_t end_held(struct hvd_report_stream *stream, struct hvd_buf *pass)
{
    struct hvd_report report;
    struct hvd_strview text = {.data = stream->_held + 1, .len = stream->_n_held - 3};

    if (stream->_n_held < 3 || stream->_held[stream->_n_held - 2] != MARK ||
        !hvd_report_parse(text, stream->nonce, &report))
        return pass_held(stream, pass);
    stream->_n_held = 0;
    stream->has_joined = stream->has_joined || report.phase != HVD_RANK_OUTSIDE;
    if (report.notice != HVD_NOTICE_END) {
        take_notice(stream, &report);
        return HVD_OK;
    }
    hvd_missing_end(stream->missing, &report);
    stream->n_ended++;
    stream->n_stopped += report.was_stopped ? 1 : 0;
    hear(stream, report.rank);
    if (!hvd_report_is_good(&report)) {
        keep(stream, &report);
    } else if (!report.was_stopped) {
        if (report.has_aborted)
            note_abandoned(stream, &report);
        note_absent(stream, &report);
    }
    return HVD_OK;
}

hvd_status_t hvd_report_stream_feed(struct hvd_report_stream *stream, struct hvd_strview data,
                                    struct hvd_buf *pass)
{
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < data.len && st == HVD_OK; i++) {
        char c = data.data[i];

        if (stream->_n_held == 0 && c != MARK) {
            st = pass_byte(stream, c, pass);
            continue;
        }
        stream->_held[stream->_n_held++] = c;
        if (c == '\n')
            st = end_held(stream, pass);
        else if (stream->_n_held == sizeof(stream->_held))
            st = pass_held(stream, pass);
    }
    return st;
}

const char *hvd_report_stream_remark(struct hvd_report_stream *stream)
{
    if (!stream->has_remark)
        return NULL;
    stream->has_remark = false;
    return hvd_missing_text(stream->missing);
}

bool hvd_report_stream_is_stuck(const struct hvd_report_stream *stream)
{
    return stream->is_stuck;
}

bool hvd_report_stream_is_ending(const struct hvd_report_stream *stream, bool was_asked)
{
    return stream->has_cause || stream->has_cut_off || stream->has_abandoned ||
           (stream->n_stopped > 0 && !was_asked);
}

bool hvd_report_stream_has_failure(const struct hvd_report_stream *stream)
{
    return stream->has_cause || stream->has_cut_off || !stream->has_abandoned;
}

bool hvd_report_stream_is_holding(const struct hvd_report_stream *stream)
{
    return hvd_banner_is_holding(&stream->_banners);
}

hvd_status_t hvd_report_stream_idle(struct hvd_report_stream *stream, struct hvd_buf *pass)
{
    return hvd_banner_idle(&stream->_banners, pass);
}

const struct hvd_report *hvd_report_stream_failure(const struct hvd_report_stream *stream)
{
    if (stream->is_stuck) /* everything after that is a consequence */
        return &stream->absent;
    if (stream->has_cause)
        return &stream->cause;
    if (stream->has_text && !stream->has_lost)
        return &stream->text;
    if (stream->has_lost)
        return &stream->lost;
    if (stream->blames_absent)
        return &stream->absent;
    return stream->has_aborted ? &stream->aborted : NULL;
}

/* The recent output as clean text. */
static size_t clean_recent(const struct hvd_report_stream *stream, char *out, size_t size)
{
    struct hvd_tail passed = {0};

    hvd_tail_add(&passed, (struct hvd_strview){stream->_recent, stream->_n_recent});
    return hvd_tail_clean(&passed, out, size);
}

void hvd_report_stream_refusal(const struct hvd_report_stream *stream, char *out, size_t size)
{
    char text[HVD_TAIL_MAX + 1];
    struct hvd_strview rest = {text, 0};
    size_t n = 0;         /* bytes found, in out */
    bool is_open = false; /* ends with a colon, so the next paragraph belongs to it */

    out[0] = '\0';
    rest.len = clean_recent(stream, text, sizeof(text));
    while (rest.data) {
        struct hvd_strview line = hvd_strview_trim(hvd_strview_cut(&rest, '\n'));
        bool is_rank = line.len > 0 && (memmem(line.data, line.len, "]<stderr>:", 10) != NULL);

        if (line.len == 0 && n > 0 && !is_open)
            break;
        if (line.len == 0 || is_rank || hvd_cause_is_banner(line))
            continue;
        if (n > 0)
            hvd_report_set_text(out + n, size - n, hvd_strview_of(" "));
        n += strlen(out + n);
        hvd_report_set_text(out + n, size - n, line);
        n += strlen(out + n);
        is_open = line.data[line.len - 1] == ':';
    }
}

bool hvd_report_has_exception(const struct hvd_report *report)
{
    const struct hvd_strview line = hvd_strview_of(report->line);

    return report->was_stopped && report->words == HVD_WORDS_STDERR &&
           (hvd_report_named_by(line) < 0 || hvd_cause_blamed(line) == report->rank);
}

bool hvd_report_is_good(const struct hvd_report *report)
{
    const bool has_left = report->phase == HVD_RANK_OUTSIDE || report->phase == HVD_RANK_ENDED;

    return report->signal == 0 && report->exit_code == 0 && (has_left || report->was_stopped);
}

int hvd_report_exit_code(const struct hvd_report *report)
{
    if (report->signal)
        return HVD_EXIT_SIGNAL + report->signal;
    return report->exit_code ? report->exit_code : HVD_EXIT_OTHER;
}
