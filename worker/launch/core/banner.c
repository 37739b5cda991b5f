/*
 * mpirun's banners, byte by byte: what is held back is always a beginning of the same text, so that
 * a program's own rulers pass as they are. Pure.
 */
#include "worker/launch/core/banner.h"

#include <string.h>

#define RULER_MIN 20

enum state {
    AT_LINE,   /* the line may still be a ruler, or one of mpirun's without rulers */
    IN_LINE,   /* it is none: bytes pass up to its end */
    AFTER_ONE, /* behind a ruler: the line may still begin a banner */
    IN_BANNER, /* up to the next ruler */
    IN_ABORT,  /* within the lines about a connection that broke */
};

/* How the banners of Open MPI 4 and 5 about the end of processes begin. */
static const char *const intros[] = {
    "mpirun noticed that process rank ",
    "prterun noticed that process rank ",
    "mpirun detected that one or more processes exited ",
    "prterun detected that one or more processes exited ",
    "mpirun has exited due to process rank ",
    "prterun has exited due to process rank ",
    "Primary job  terminated normally, but ",
    "ORTE has lost communication with a remote daemon",
    "PRTE has lost communication with a remote daemon",
    "ORTE was unable to reliably start one or more daemons",
    "PRTE was unable to reliably start one or more daemons",
    "A daemon failed to report back after being spawned.",
    "An MPI communication peer process has unexpectedly disconnected",
    "MPI_ABORT was invoked on rank ",
    "WARNING: Open MPI failed to TCP connect to a peer MPI process",
};

/* What mpirun writes without rulers, behind "[HOST:PID] " but for the last. */
static const char *const lines[] = {
    "*** An error occurred in Socket closed\n", /* several lines, with which Open MPI 5 ends a rank
                                                 */
    "PMIX ERROR: ",
    "mpirun: Forwarding signal 14 to job\n", /* HVD_RANK_STOP_SIGNAL: the launcher's own doing */
};
enum { ABORTED, FAILED, FORWARDED, N_LINES };

#define ABORT_END "MPI will try to terminate your MPI job as well)\n"
#define NAME_MAX_LEN 280 /* of HOST:PID */

/* Appends what is held behind the whole banners, and goes on within the line or at the next one. */
static hvd_status_t release(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    const char *from = filter->_held + filter->_n_was;
    const size_t n = filter->_n_held - filter->_n_was;

    filter->_state = n > 0 && from[n - 1] != '\n' ? IN_LINE : AT_LINE;
    filter->_n_held = filter->_n_was;
    filter->_line = filter->_n_was;
    return n > 0 ? hvd_buf_add(pass, from, n) : HVD_OK;
}

static bool is_dashes(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != '-')
            return false;
    return true;
}

/* Whether the line is the beginning of an intro, or begins with one (*whole). */
static bool may_be_intro(const char *line, size_t len, bool *whole)
{
    for (size_t i = 0; i < sizeof(intros) / sizeof(intros[0]); i++) {
        const size_t n = strlen(intros[i]);

        *whole = len >= n && memcmp(line, intros[i], n) == 0;
        if (*whole || (len < n && memcmp(line, intros[i], len) == 0))
            return true;
    }
    return false;
}

/* Whether the text is a beginning of the words, or begins with them (*whole). */
static bool may_be(const char *text, size_t len, const char *words, bool *whole)
{
    const size_t n = strlen(words);

    *whole = len >= n && memcmp(text, words, n) == 0;
    return *whole || (len < n && memcmp(text, words, len) == 0);
}

/* Which of the lines without rulers it may be, or is (*whole); N_LINES: none. */
static int may_be_line(const char *line, size_t len, bool *whole)
{
    const char *end = line[0] == '[' ? memchr(line, ' ', len) : NULL;

    *whole = false;
    if (line[0] != '[')
        return may_be(line, len, lines[FORWARDED], whole) ? FORWARDED : N_LINES;
    if (!end)
        return len < NAME_MAX_LEN && !memchr(line, '<', len) ? ABORTED : N_LINES;
    if (end[-1] != ']')
        return N_LINES;
    for (int i = 0; i < FORWARDED; i++)
        if (may_be(end + 1, len - (size_t)(end + 1 - line), lines[i], whole))
            return i;
    return N_LINES;
}

/* Whether the line may be an error of PMIx, which may stand within any other of mpirun's texts; it
 * is one when it ends. */
static bool may_be_failed(const char *line, size_t len)
{
    bool whole = false;
    const int which = may_be_line(line, len, &whole);

    if (line[len - 1] == '\n')
        return which == FAILED && whole;
    return which == FAILED || (which == ABORTED && !whole);
}

/* A line that may be a ruler has got one byte more. */
static hvd_status_t grow_ruler(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;

    if (line[len - 1] == '\n' && len > RULER_MIN && is_dashes(line, len - 1)) {
        filter->_state = AFTER_ONE;
        filter->_line = filter->_n_held;
        return HVD_OK;
    }
    return line[len - 1] == '-' ? HVD_OK : release(filter, pass);
}

static hvd_status_t grow_intro(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;
    bool whole = false;

    if (!may_be_intro(line, len, &whole) && !may_be_failed(line, len))
        return release(filter, pass);
    if (line[len - 1] == '\n')
        filter->_line = filter->_n_held;
    if (whole)
        filter->_state = IN_BANNER;
    return HVD_OK;
}

static void grow_banner(struct hvd_banner_filter *filter)
{
    const size_t len = filter->_n_held - filter->_line;

    if (filter->_held[filter->_n_held - 1] != '\n')
        return;
    if (len > RULER_MIN && is_dashes(filter->_held + filter->_line, len - 1)) {
        filter->_state = AT_LINE;
        filter->_n_was = filter->_n_held;
    }
    filter->_line = filter->_n_held;
}

/* A line that may be one of mpirun's without rulers has got one byte more. */
static hvd_status_t grow_line(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    bool whole = false;
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;
    const int which = may_be_line(line, len, &whole);

    if (which == N_LINES)
        return release(filter, pass);
    if (!whole || (which == FAILED && line[len - 1] != '\n'))
        return HVD_OK;
    if (which == FORWARDED)
        filter->_n_held = filter->_line;
    filter->_state = which == ABORTED ? IN_ABORT : AT_LINE;
    filter->_n_was = which == ABORTED ? filter->_n_was : filter->_n_held;
    filter->_line = filter->_n_held;
    return HVD_OK;
}

/* The lines about a connection that broke begin with "[HOST:PID] ***", each; errors of PMIx may
 * stand between them. */
static hvd_status_t grow_abort(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    const size_t n = strlen(ABORT_END);
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;

    if (line[len - 1] != '\n')
        return HVD_OK;
    if (!may_be_failed(line, len) && (line[0] != '[' || !memmem(line, len, "] ***", 5)))
        return release(filter, pass);
    if (len > n && memcmp(line + len - n, ABORT_END, n) == 0) {
        filter->_state = AT_LINE;
        filter->_n_was = filter->_n_held;
    }
    filter->_line = filter->_n_held;
    return HVD_OK;
}

hvd_status_t hvd_banner_feed(struct hvd_banner_filter *filter, char c, struct hvd_buf *pass)
{
    hvd_status_t st = HVD_OK;

    if (filter->_state == IN_LINE) {
        filter->_state = c == '\n' ? AT_LINE : IN_LINE;
        return hvd_buf_add(pass, &c, 1);
    }
    if (filter->_n_held == sizeof(filter->_held)) { /* more banners than are worth keeping */
        filter->_n_was = 0;
        st = release(filter, pass);
        if (st != HVD_OK)
            return st;
        return hvd_banner_feed(filter, c, pass);
    }
    filter->_held[filter->_n_held++] = c;
    if (filter->_state == AT_LINE && filter->_held[filter->_line] == '-')
        return grow_ruler(filter, pass);
    if (filter->_state == AT_LINE)
        return grow_line(filter, pass);
    if (filter->_state == IN_ABORT)
        return grow_abort(filter, pass);
    if (filter->_state == AFTER_ONE)
        return grow_intro(filter, pass);
    grow_banner(filter);
    return HVD_OK;
}

bool hvd_banner_is_holding(const struct hvd_banner_filter *filter)
{
    return filter->_n_held > filter->_n_was && filter->_state != IN_BANNER &&
           filter->_state != IN_ABORT;
}

bool hvd_banner_has_whole(const struct hvd_banner_filter *filter)
{
    return filter->_n_was > 0 && filter->_n_held == filter->_n_was;
}

hvd_status_t hvd_banner_idle(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    return hvd_banner_is_holding(filter) ? release(filter, pass) : HVD_OK;
}

hvd_status_t hvd_banner_take(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    const size_t n = filter->_n_held;

    filter->_n_held = filter->_n_was = filter->_line = 0;
    filter->_state = AT_LINE;
    return n > 0 ? hvd_buf_add(pass, filter->_held, n) : HVD_OK;
}
