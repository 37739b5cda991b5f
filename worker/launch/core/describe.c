/*
 * Writes the last line of horovodrun about a failure. It names the rank and its host, the way in
 * which it ended, and its last words about that.
 */
#include "worker/launch/core/describe.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "worker/launch/core/cgroup.h"
#include "worker/launch/core/report_words.h"

#define RANK_WORD "ank " /* of "Rank 2" and "rank 2" */
#define HOST_WORD " on host "

/* A rank with its host in a text: "rank 2 on host w". */
struct mention {
    int64_t rank;
    struct hvd_strview host;
};

/* Finds the next mention in a text and moves *at past it; false when there is none. */
static bool find_mention(const char **at, struct mention *mention)
{
    const int64_t range[2] = {0, INT32_MAX};
    const char *word;

    while ((word = strstr(*at, RANK_WORD)) != NULL) {
        const char *digits = word + strlen(RANK_WORD);
        const size_t n = strspn(digits, "0123456789");

        *at = digits + n;
        if (strncmp(*at, HOST_WORD, strlen(HOST_WORD)) != 0 ||
            hvd_str_parse_int64((struct hvd_strview){digits, n}, range, &mention->rank, NULL) !=
                HVD_OK)
            continue;
        *at += strlen(HOST_WORD);
        mention->host = (struct hvd_strview){*at, strcspn(*at, " ,:;()\"\n")};
        while (mention->host.len > 0 && mention->host.data[mention->host.len - 1] == '.')
            mention->host.len--; /* end of a sentence */
        *at += mention->host.len;
        return true;
    }
    return false;
}

/* Translates a host name that a rank uses to that of the list. An equal name stays. The entry of
 * that rank replaces a name with the same first label. Any other name stays. */
static struct hvd_strview name_mention(const struct mention *mention, const struct hvd_hosts *hosts)
{
    const char *listed = hvd_hosts_of_rank(hosts, mention->rank);
    const struct hvd_strview own = mention->host;
    size_t label = 0;

    for (size_t i = 0; i < hosts->n; i++)
        if (hvd_strview_equal(own, hosts->items[i].name))
            return own;
    while (label < own.len && own.data[label] != '.')
        label++;
    if (listed && label > 0 && strncmp(listed, own.data, label) == 0 &&
        (listed[label] == '.' || listed[label] == '\0'))
        return hvd_strview_of(listed);
    return own;
}

/* The host of the report's rank. Where only the list names it, takes the name that the text gives
 * to the same host: there "localhost" has its real name. */
static struct hvd_strview name_host(const struct hvd_report *report, const struct hvd_hosts *hosts)
{
    const char *listed = hvd_hosts_of_rank(hosts, report->rank);
    struct mention mention = {.rank = report->rank, .host = hvd_strview_of(report->host)};
    const char *at = report->line;

    if (mention.host.len > 0)
        return name_mention(&mention, hosts);
    while (listed && find_mention(&at, &mention))
        if (mention.host.len > 0 && hvd_hosts_of_rank(hosts, mention.rank) == listed)
            return name_mention(&mention, hosts);
    return hvd_strview_of(listed ? listed : "unknown");
}

/* Replaces the host names in the line, so that each host has one name in it. */
static void unify_hosts(const struct hvd_hosts *hosts, char *out, size_t size)
{
    char text[HVD_REPORT_MAX];
    const char *done = text;
    const char *at = text;
    struct mention mention;
    size_t len = 0;

    (void)snprintf(text, sizeof(text), "%s", out);
    out[0] = '\0';
    while (len < size && find_mention(&at, &mention)) {
        const struct hvd_strview name = name_mention(&mention, hosts);

        len += (size_t)snprintf(out + len, size - len, "%.*s%.*s", (int)(mention.host.data - done),
                                done, (int)name.len, name.data);
        done = at;
    }
    if (len < size)
        (void)snprintf(out + len, size - len, "%s", done);
}

/* Adds the rank's last words to the way it ended. After a signal from outside they need not be the
 * cause. */
static void add_words(const struct hvd_report *report, char *out, size_t size)
{
    bool is_own_end = report->signal == 0 || report->signal == SIGABRT;
    size_t len = strlen(out);

    if (report->words == HVD_WORDS_STDERR && report->line[0] != '\0' && is_own_end)
        (void)snprintf(out + len, size - len, ": %s", report->line);
    else if (report->words >= HVD_WORDS_STDOUT && report->line[0] != '\0')
        (void)snprintf(out + len, size - len, ", last output: %s", report->line);
    else if (report->words == HVD_WORDS_NONE && report->signal == 0 && report->exit_code != 0)
        (void)snprintf(out + len, size - len, ", without output");
}

/* "host w unreachable: mpirun has lost its daemon there, and with it ranks 2 to 3". */
static void describe_lost_host(const struct hvd_report *report, const struct hvd_hosts *hosts,
                               char *out, size_t size)
{
    size_t label = strcspn(report->host, ".");
    int64_t first = 0;

    (void)snprintf(out, size, "host %s unreachable: mpirun has lost its daemon there",
                   report->host);
    for (size_t i = 0; i < hosts->n; i++) {
        const struct hvd_host *host = &hosts->items[i];
        const int64_t last = first + host->slots - 1;

        if (strncmp(host->name, report->host, label) == 0 &&
            (host->name[label] == '.' || host->name[label] == '\0')) {
            (void)snprintf(out, size,
                           "host %s unreachable: mpirun has lost its daemon there, and "
                           "with it rank%s %" PRId64,
                           host->name, last > first ? "s" : "", first);
            if (last > first)
                (void)snprintf(out + strlen(out), size - strlen(out), " to %" PRId64, last);
            return;
        }
        first += host->slots;
    }
}

/* A rank that joins no further job while other ranks wait for it. */
static void describe_absent(const struct hvd_report *report, const char *host, char *out,
                            size_t size)
{
    static const char waits[] = "and other ranks wait for it in horovod_init";

    if (hvd_report_has_exception(report))
        (void)snprintf(out, size, "rank %" PRId64 " on host %s failed: %s, %s", report->rank, host,
                       report->line, waits);
    else if (report->notice == HVD_NOTICE_FINAL)
        (void)snprintf(out, size, "rank %" PRId64 " on host %s is in MPI_Finalize%s%s, %s",
                       report->rank, host, report->line[0] ? ", last output: " : "", report->line,
                       waits);
    else if (report->phase == HVD_RANK_OUTSIDE)
        (void)snprintf(out, size,
                       "rank %" PRId64 " on host %s exited with code 0 and without horovod_init, "
                       "in which other ranks wait for it",
                       report->rank, host);
    else
        (void)snprintf(out, size, "rank %" PRId64 " on host %s exited with code 0, %s",
                       report->rank, host, waits);
}

/* Whether an exception ended the rank, and its text is known. */
static bool has_raised(const struct hvd_report *report)
{
    return report->has_raised && !report->was_stopped && report->signal == 0 &&
           report->exit_code == 1 && report->words == HVD_WORDS_STDERR && report->line[0] != '\0';
}

/* Appends how a process ended: by its exit code, or by a signal. */
static void add_end(const struct hvd_report *report, char *out, size_t size)
{
    const char *name = sigdescr_np(report->signal);
    const size_t len = strlen(out);

    if (report->signal == 0)
        (void)snprintf(out + len, size - len, "exited with code %d", report->exit_code);
    else
        (void)snprintf(out + len, size - len, "was killed by signal %d (%s)", report->signal,
                       name ? name : "unknown");
}

/* Describes how the process of a rank ended. */
static void describe_end(const struct hvd_report *report, const char *host, char *out, size_t size)
{
    if (report->signal == 0 && report->exit_code == 0)
        (void)snprintf(out, size, "rank %" PRId64 " on host %s exited without horovod_shutdown",
                       report->rank, host);
    else if (report->signal == 0 && report->was_stopped && report->words == HVD_WORDS_STDERR)
        (void)snprintf(out, size, "rank %" PRId64 " on host %s failed", report->rank, host);
    else if (has_raised(report))
        (void)snprintf(out, size, "rank %" PRId64 " on host %s raised %s", report->rank, host,
                       report->line);
    else {
        (void)snprintf(out, size, "rank %" PRId64 " on host %s ", report->rank, host);
        add_end(report, out, size);
    }
}

/* "one of 2 ranks whose reports are lost, the first is rank 2 on host w, was killed by signal 9" */
static void describe_unheard(const struct hvd_report *report, const char *host, char *out,
                             size_t size)
{
    (void)snprintf(out, size,
                   "one of %" PRId64 " ranks whose reports are lost, the first is rank %" PRId64
                   " on host %s, ",
                   report->n_ranks, report->rank, host);
    add_end(report, out, size);
}

/* Writes the line. Host names in its words are still those that the rank used. */
static void describe(const struct hvd_report *report, const struct hvd_hosts *hosts,
                     const char *host, char *out, size_t size)
{
    char limit[32] = "";

    if (report->kind == HVD_REPORT_LOST_SRUN) {
        (void)snprintf(out, size, "mpirun has lost srun, and with it its daemons on other hosts");
        return;
    }
    if (report->kind == HVD_REPORT_LOST_HOST) {
        describe_lost_host(report, hosts, out, size);
        return;
    }
    if (report->kind == HVD_REPORT_MISSING) {
        (void)snprintf(out, size, "%s", report->line);
        return;
    }
    if (report->kind == HVD_REPORT_LOST_RANK) {
        (void)snprintf(out, size, "rank %" PRId64 " on host %s is lost: %s", report->rank, host,
                       report->line);
        return;
    }
    if (report->kind == HVD_REPORT_AWAITED) {
        (void)snprintf(out, size, "rank %" PRId64 " on host %s kept other ranks waiting: %s",
                       report->rank, host, report->line);
        return;
    }
    if (report->kind == HVD_REPORT_ABORTED) {
        (void)snprintf(out, size, "rank %" PRId64 " on host %s %s%s", report->rank, host,
                       report->line[0] ? "aborted the job: "
                                       : "exited with code 0 and without MPI_Finalize",
                       report->line);
        return;
    }
    if (report->kind == HVD_REPORT_LEFT_RANK) {
        (void)snprintf(out, size,
                       "rank %" PRId64 " on host %s called horovod_shutdown while other ranks "
                       "waited for %s%s",
                       report->rank, host, report->line[0] ? "tensor " : "it", report->line);
        return;
    }
    if (report->kind == HVD_REPORT_UNHEARD) {
        describe_unheard(report, host, out, size);
        return;
    }
    if (report->kind == HVD_REPORT_CUT_OFF) {
        (void)snprintf(out, size,
                       "rank %" PRId64 " on host %s was ended by Open MPI: its connection to "
                       "another rank broke",
                       report->rank, host);
        return;
    }
    if (report->kind == HVD_REPORT_ABSENT) {
        describe_absent(report, host, out, size);
        return;
    }
    describe_end(report, host, out, size);
    if (!report->is_oom || report->signal == 0) {
        if (!has_raised(report))
            add_words(report, out, size);
        return;
    }
    hvd_cgroup_format_size(report->limit_bytes, limit, sizeof(limit));
    if (report->limit_bytes != INT64_MAX)
        (void)snprintf(out + strlen(out), size - strlen(out), ": out of memory (limit %s)", limit);
    else
        (void)snprintf(out + strlen(out), size - strlen(out), ": out of memory");
}

void hvd_describe_report(const struct hvd_report *report, const struct hvd_hosts *hosts, char *out,
                         size_t size)
{
    const struct hvd_strview name = name_host(report, hosts);
    char host[HVD_HOST_NAME_MAX + 1];

    hvd_report_set_text(host, sizeof(host), name);
    describe(report, hosts, host, out, size);
    unify_hosts(hosts, out, size);
}
