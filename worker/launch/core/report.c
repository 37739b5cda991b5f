/*
 * How the launcher learns which rank failed. The wrapper around each rank writes one line to its
 * standard error; mpirun carries it here among everything else; the stream takes it out again:
 *
 *     \036 horovod-rank NONCE rank=1 host=h exit=0 signal=9 stopped=0 oom=1 limit=67108864 \036 \n
 *
 * When the wrapper itself was killed there is none: then mpirun's own words are read.
 */
#include "worker/launch/core/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/launch/core/cgroup.h"

#define MARK '\036'
#define FIELDS 7

hvd_status_t hvd_report_format(const struct hvd_report *report, const char *nonce, char *out,
                               size_t size)
{
    int len = snprintf(out, size,
                       "\036horovod-rank %s rank=%" PRId64
                       " host=%s exit=%d signal=%d stopped=%d oom=%d limit=%" PRId64 "\036\n",
                       nonce, report->rank, report->host, report->exit_code, report->signal,
                       report->was_stopped, report->is_oom, report->limit_bytes);

    return len > 0 && (size_t)len < size ? HVD_OK : HVD_ERR_TOO_LARGE;
}

void hvd_report_stream_init(struct hvd_report_stream *stream, const char *nonce)
{
    *stream = (struct hvd_report_stream){0};
    (void)snprintf(stream->nonce, sizeof(stream->nonce), "%s", nonce);
}

/* The number behind "key=" in a word; false when the word is another one or no such number. */
static bool read_field(struct hvd_strview word, const char *key, int64_t max, int64_t *out)
{
    const int64_t range[2] = {0, max};
    struct hvd_strview name = hvd_strview_cut(&word, '=');

    return word.data && hvd_strview_equal(name, key) &&
           hvd_str_parse_int64(word, range, out, NULL) == HVD_OK;
}

/* Reads what stands between the two marks; false when it is no report of this run. */
static bool parse_report(struct hvd_strview text, const char *nonce, struct hvd_report *out)
{
    static const struct {
        const char *key;
        int64_t max;
    } fields[FIELDS] = {{"rank", INT32_MAX}, {NULL, 0},  {"exit", 255},       {"signal", 127},
                        {"stopped", 1},      {"oom", 1}, {"limit", INT64_MAX}};
    int64_t value[FIELDS] = {0};
    struct hvd_strview host = {0};

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
                               .limit_bytes = value[6]};
    (void)snprintf(out->host, sizeof(out->host), "%.*s", (int)host.len, host.data);
    return true;
}

static void keep(struct hvd_report_stream *stream, const struct hvd_report *report)
{
    if (!stream->has_any) {
        stream->any = *report;
        stream->has_any = true;
    }
    if (!stream->has_cause && !report->was_stopped) {
        stream->cause = *report;
        stream->has_cause = true;
    }
}

/* The number behind the words, if the line holds them; moves *at behind it. */
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

/* What mpirun's own words on a line say about a rank that failed. */
static void read_mpirun_line(struct hvd_report_stream *stream, const char *line)
{
    const char *at = line;
    const char *host;
    struct hvd_report *text = &stream->text;
    int rank = 0;

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

/* Open MPI 5 breaks its sentence about a killed rank wherever a line is full. */
static bool goes_on(const char *line)
{
    const char *at = line;
    int number = 0;

    return scan_number(&at, "noticed that process rank ", &number) &&
           !scan_number(&at, "exited on signal ", &number);
}

/* A byte that belongs to no report: passed on, and collected into mpirun's line. */
static hvd_status_t pass_byte(struct hvd_report_stream *stream, char c, struct hvd_buf *pass)
{
    if (c == '\n') {
        stream->_line[stream->_n_line] = '\0';
        if (goes_on(stream->_line) && stream->_n_line + 1 < sizeof(stream->_line)) {
            stream->_line[stream->_n_line++] = ' ';
        } else {
            read_mpirun_line(stream, stream->_line);
            stream->_n_line = 0;
        }
    } else if (stream->_n_line + 1 < sizeof(stream->_line)) {
        stream->_line[stream->_n_line++] = c;
    }
    return hvd_buf_add(pass, &c, 1);
}

hvd_status_t hvd_report_stream_finish(struct hvd_report_stream *stream, struct hvd_buf *pass)
{
    hvd_status_t st = HVD_OK;
    size_t n = stream->_n_held;

    stream->_n_held = 0;
    for (size_t i = 0; i < n && st == HVD_OK; i++)
        st = pass_byte(stream, stream->_held[i], pass);
    return st;
}

/* The held bytes are "\036...\036\n": a report, or text like any other. */
static hvd_status_t end_held(struct hvd_report_stream *stream, struct hvd_buf *pass)
{
    struct hvd_report report;
    struct hvd_strview text = {.data = stream->_held + 1, .len = stream->_n_held - 3};

    if (stream->_n_held < 3 || stream->_held[stream->_n_held - 2] != MARK ||
        !parse_report(text, stream->nonce, &report))
        return hvd_report_stream_finish(stream, pass);
    keep(stream, &report);
    stream->_n_held = 0;
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
            st = hvd_report_stream_finish(stream, pass);
    }
    return st;
}

const struct hvd_report *hvd_report_stream_failure(const struct hvd_report_stream *stream)
{
    if (stream->has_cause)
        return &stream->cause;
    if (stream->has_text)
        return &stream->text;
    return stream->has_any ? &stream->any : NULL;
}

int hvd_report_exit_code(const struct hvd_report *report)
{
    return report->signal ? 128 + report->signal : report->exit_code;
}

/* The host as the list names it: the same name, or the entry of that rank when it starts so. */
static const char *name_host(const struct hvd_report *report, const struct hvd_hosts *hosts)
{
    const char *listed = hvd_hosts_of_rank(hosts, report->rank);
    size_t label = strcspn(report->host, ".");

    if (report->host[0] == '\0')
        return listed ? listed : "unknown";
    for (size_t i = 0; i < hosts->n; i++)
        if (hvd_str_equal(hosts->items[i].name, report->host))
            return hosts->items[i].name;
    if (listed && strncmp(listed, report->host, label) == 0 &&
        (listed[label] == '.' || listed[label] == '\0'))
        return listed;
    return report->host;
}

void hvd_report_describe(const struct hvd_report *report, const struct hvd_hosts *hosts, char *out,
                         size_t size)
{
    const char *host = name_host(report, hosts);
    const char *name = sigdescr_np(report->signal);
    char limit[32] = "";
    char memory[64] = "";

    if (report->signal == 0) {
        (void)snprintf(out, size, "rank %" PRId64 " on host %s exited with code %d", report->rank,
                       host, report->exit_code);
        return;
    }
    hvd_cgroup_format_size(report->limit_bytes, limit, sizeof(limit));
    if (report->is_oom && report->limit_bytes != INT64_MAX)
        (void)snprintf(memory, sizeof(memory), ": out of memory (limit %s)", limit);
    else if (report->is_oom)
        (void)snprintf(memory, sizeof(memory), ": out of memory");
    (void)snprintf(out, size, "rank %" PRId64 " on host %s was killed by signal %d (%s)%s",
                   report->rank, host, report->signal, name ? name : "unknown", memory);
}
