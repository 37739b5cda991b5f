/*
 * Recognises mpirun's banners byte by byte. The held bytes are always a beginning of a known text,
 * so a program's own rulers pass unchanged. Pure.
 */
#include "worker/launch/core/banner.h"

#include <stdlib.h>
#include <string.h>

#define RULER_MIN 20

enum state {
    AT_LINE,   /* the line may still become a ruler, or a text of mpirun without rulers */
    IN_LINE,   /* it is neither: bytes pass up to its end */
    AFTER_ONE, /* after a ruler: the line may still begin a banner */
    IN_BANNER, /* up to the next ruler */
    IN_ABORT,  /* within the lines about a connection that broke */
    IN_CRASH,  /* within the stack of mpirun itself */
};

/* The beginnings of Open MPI 4's and 5's banners about the end of processes. */
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

/* Texts that mpirun writes without rulers. The first follow "[HOST:PID] ", the last are caused by
 * the launcher's own actions. */
static const char *const lines[] = {
    "*** An error occurred in Socket closed\n", /* several lines, with which Open MPI 5 ends a rank
                                                 */
    "PMIX ERROR: ",
    "*** Process received signal ***\n",     /* of mpirun's process: it crashes when stopped */
    "mpirun: Forwarding signal 14 to job\n", /* HVD_RANK_STOP_SIGNAL */
    "mpirun: abort is already in progress...hit ctrl-c again to forcibly terminate\n\n",
    "prterun: abort is already in progress...hit ctrl-c again to forcibly terminate\n\n",
    "Abort is in progress...hit ctrl-c again to forcibly terminate\n\n",
};
enum { ABORTED, FAILED, CRASHED, OWN_DOING, N_LINES = OWN_DOING + 4 };

#define CRASH_END "*** End of error message ***\n"
#define ABORT_END "MPI will try to terminate your MPI job as well)\n"
#define NAME_MAX_LEN 280 /* of HOST:PID */

/* Passes the held bytes after the whole banners. The state becomes the rest of the line, or the
 * next line. */
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

/* Whether the line is a beginning of an intro, or begins with a whole one (*whole). */
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

/* Whether the text is a beginning of the words, or begins with all of them (*whole). */
static bool may_be(const char *text, size_t len, const char *words, bool *whole)
{
    const size_t n = strlen(words);

    *whole = len >= n && memcmp(text, words, n) == 0;
    return *whole || (len < n && memcmp(text, words, len) == 0);
}

/* Whether "[HOST:PID] ", which ends before `end`, is the process of mpirun. */
static bool is_mpirun(const struct hvd_banner_filter *filter, const char *line, const char *end)
{
    const char *colon = memrchr(line, ':', (size_t)(end - line));

    return colon && filter->mpirun > 0 && strtol(colon + 1, NULL, 10) == filter->mpirun;
}

/* The index of the text without rulers that the line may become, or is (*whole); N_LINES: none. */
static int may_be_line(const struct hvd_banner_filter *filter, size_t len, bool *whole)
{
    const char *line = filter->_held + filter->_line;
    const char *end = line[0] == '[' ? memchr(line, ' ', len) : NULL;
    const int first = line[0] == '[' ? 0 : OWN_DOING;
    const char *text = end ? end + 1 : line;

    *whole = false;
    if (line[0] == '[' && !end)
        return len < NAME_MAX_LEN && !memchr(line, '<', len) ? ABORTED : N_LINES;
    if (end && end[-1] != ']')
        return N_LINES;
    for (int i = first; i < (first ? N_LINES : OWN_DOING); i++)
        if (may_be(text, len - (size_t)(text - line), lines[i], whole) &&
            (i != CRASHED || is_mpirun(filter, line, end)))
            return i;
    *whole = false;
    return N_LINES;
}

/* Whether the line may become an error of PMIx, which may occur within any other text of mpirun.
 * Once the line has ended: whether it is one. */
static bool may_be_failed(const struct hvd_banner_filter *filter, size_t len)
{
    bool whole = false;
    const char *line = filter->_held + filter->_line;
    const int which = may_be_line(filter, len, &whole);

    if (line[len - 1] == '\n')
        return which == FAILED && whole;
    return which == FAILED || (which == ABORTED && !whole);
}

/* Takes one more byte of a line that may become a ruler. */
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

/* Takes the last dash as the first of a new ruler: after a rank's ruler, mpirun's may begin. */
static hvd_status_t begin_again(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    hvd_status_t st;

    filter->_n_held--;
    st = release(filter, pass);
    filter->_held[filter->_n_held++] = '-';
    return st;
}

static hvd_status_t grow_intro(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;
    bool whole = false;

    if (line[0] == '-')
        return begin_again(filter, pass);
    if (!may_be_intro(line, len, &whole) && !may_be_failed(filter, len))
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

/* Takes one more byte of a line that may become a text of mpirun without rulers. */
static hvd_status_t grow_line(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    bool whole = false;
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;
    const int which = may_be_line(filter, len, &whole);

    if (which == N_LINES)
        return release(filter, pass);
    if (!whole || (which == FAILED && line[len - 1] != '\n'))
        return HVD_OK;
    if (which >= OWN_DOING)
        filter->_n_held = filter->_line;
    filter->_state = which == ABORTED ? IN_ABORT : which == CRASHED ? IN_CRASH : AT_LINE;
    filter->_n_was = filter->_state == AT_LINE ? filter->_n_held : filter->_n_was;
    filter->_line = filter->_n_held;
    return HVD_OK;
}

/* Takes mpirun's own stack up to its last line. No other process writes in between. */
static void grow_crash(struct hvd_banner_filter *filter)
{
    const size_t n = strlen(CRASH_END);
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;

    if (line[len - 1] != '\n')
        return;
    if (len > n && memcmp(line + len - n, CRASH_END, n) == 0) {
        filter->_state = AT_LINE;
        filter->_n_was = filter->_n_held;
    }
    filter->_line = filter->_n_held;
}

/* Takes the lines about a connection that broke. Each begins with "[HOST:PID] ***"; errors of PMIx
 * may occur between them. */
static hvd_status_t grow_abort(struct hvd_banner_filter *filter, struct hvd_buf *pass)
{
    const size_t n = strlen(ABORT_END);
    const char *line = filter->_held + filter->_line;
    const size_t len = filter->_n_held - filter->_line;

    if (line[len - 1] != '\n')
        return HVD_OK;
    if (!may_be_failed(filter, len) && (line[0] != '[' || !memmem(line, len, "] ***", 5)))
        return release(filter, pass);
    if (len > n && memcmp(line + len - n, ABORT_END, n) == 0) {
        filter->_state = AT_LINE;
        filter->_n_was = filter->_n_held;
    }
    filter->_line = filter->_n_held;
    return HVD_OK;
}

/* Whether a text of mpirun may begin with c after a rank's unfinished line: a ruler, or a line
 * about the launcher's own action. */
static bool may_begin_within(char c)
{
    bool begins = c == '-';

    for (int i = OWN_DOING; i < N_LINES && !begins; i++)
        begins = lines[i][0] == c;
    return begins;
}

hvd_status_t hvd_banner_feed(struct hvd_banner_filter *filter, char c, struct hvd_buf *pass)
{
    hvd_status_t st = HVD_OK;

    if (filter->_state == IN_LINE && !may_begin_within(c)) {
        filter->_state = c == '\n' ? AT_LINE : IN_LINE;
        return hvd_buf_add(pass, &c, 1);
    }
    if (filter->_state == IN_LINE) { /* mpirun writes after a line without end */
        filter->_state = AT_LINE;
        filter->_line = filter->_n_held;
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
    if (filter->_state == IN_CRASH)
        grow_crash(filter);
    else
        grow_banner(filter);
    return HVD_OK;
}

bool hvd_banner_is_holding(const struct hvd_banner_filter *filter)
{
    return filter->_n_held > filter->_n_was && filter->_state != IN_BANNER &&
           filter->_state != IN_ABORT && filter->_state != IN_CRASH;
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
