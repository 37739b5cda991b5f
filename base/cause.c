/*
 * Finds the line that names the cause in the last output of a program. A failed rank leaves a
 * Python traceback, a message of its own, or a crash handler's stack. Libraries add notices. The
 * other ranks leave libhorovod's message about it, and mpirun adds a banner. Pure; copies nothing.
 */
#include "base/cause.h"

#include <ctype.h>
#include <string.h>

#define RULER_MIN 20 /* a line of this many dashes is a ruler */
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char *find(struct hvd_strview text, const char *word)
{
    return text.len ? memmem(text.data, text.len, word, strlen(word)) : NULL;
}

static bool has_any(struct hvd_strview line, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (find(line, words[i]))
            return true;
    return false;
}

static bool starts_with(struct hvd_strview text, const char *prefix)
{
    return text.len >= strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

static bool is_ruler(struct hvd_strview line)
{
    line = hvd_strview_trim(line);
    for (size_t i = 0; i < line.len; i++)
        if (!strchr("-=*_#", line.data[i]) || line.data[i] == '\0')
            return false;
    return line.len >= RULER_MIN;
}

/* A part of each line in the banners of Open MPI 4 and 5. */
static const char *const banner[] = {
    "Primary job  terminated normally, but ",
    "a non-zero exit code. Per user-direction, the job has been aborted",
    "mpirun detected that one or more processes exited",
    "prterun detected that one or more processes exited",
    "thus causing the job to be terminated. The first process to do so was",
    "the job to be terminated. The first process to do so was",
    "mpirun noticed that process rank ",
    "prterun noticed that process rank ",
    "Process name: [",
    "MPI_ABORT was invoked on rank ",
    "NOTE: invoking MPI_ABORT causes ",
    "You may or may not see output from other processes",
    "exactly when Open MPI kills them",
    "more processes have sent help message",
    "orte_base_help_aggregate",
    "Per user-direction, the job has been aborted",
};

bool hvd_cause_is_banner(struct hvd_strview line)
{
    line = hvd_strview_trim(line);
    return is_ruler(line) || starts_with(line, "Exit code: ") ||
           starts_with(line, "with errorcode ") || has_any(line, banner, COUNT(banner));
}

/* Returns the line without the "[rank1]: " that PyTorch may put before it. */
static struct hvd_strview without_rank(struct hvd_strview line)
{
    const char *end = starts_with(line, "[rank") ? find(line, "]: ") : NULL;

    if (!end)
        return line;
    end += strlen("]: ");
    return (struct hvd_strview){end, (size_t)(line.data + line.len - end)};
}

static bool has_digit_at(struct hvd_strview line, size_t i)
{
    return i < line.len && isdigit((unsigned char)line.data[i]);
}

bool hvd_cause_is_frame(struct hvd_strview line)
{
    static const char torch[] = "frame #";

    line = without_rank(line);
    if (starts_with(line, torch))
        return has_digit_at(line, strlen(torch));
    if (line.len == 0)
        return false;
    if (line.data[0] == '#')
        return has_digit_at(line, 1) && (find(line, " from ") || find(line, " in "));
    const char *frame = line.data[0] == '[' ? find(line, "] [") : NULL;
    const size_t at = frame ? (size_t)(frame - line.data) + 3 : 0;
    return frame && at < line.len && (line.data[at] == ' ' || has_digit_at(line, at));
}

/* Returns whether a record of abseil or glog begins the line, of level information or warning:
 * "I0000 00:00:1795740094.648929    5470 port.cc:153] ...", with the month and day, or with zeros.
 */
static bool is_glog(struct hvd_strview line)
{
    size_t n = 1;

    if (line.len == 0 || (line.data[0] != 'I' && line.data[0] != 'W'))
        return false;
    while (has_digit_at(line, n))
        n++;
    return n > 4 && n + 3 < line.len && line.data[n] == ' ' && has_digit_at(line, n + 1) &&
           has_digit_at(line, n + 2) && line.data[n + 3] == ':' && find(line, "] ");
}

/* Returns whether the line begins as "2026-11-26 12:00:00.000000: I tensorflow/...". */
static bool is_of_tensorflow(struct hvd_strview line)
{
    static const char form[] = "0000-00-00 00:00:00.000000: ";
    const size_t len = sizeof(form) - 1;

    if (line.len < len + 2 || line.data[len + 1] != ' ')
        return false;
    for (size_t i = 0; i < len; i++)
        if (form[i] == '0' ? !has_digit_at(line, i) : line.data[i] != form[i])
            return false;
    return line.data[len] == 'I' || line.data[len] == 'W';
}

/* Returns whether the line is a warning of Python: "train.py:74: UserWarning: ...". */
static bool is_python_warning(struct hvd_strview line)
{
    const char *word = find(line, "Warning: ");
    size_t at = word ? (size_t)(word - line.data) : 0;
    size_t digits;

    while (at > 0 && (isalpha((unsigned char)line.data[at - 1]) || line.data[at - 1] == '.'))
        at--;
    if (at < 4 || line.data[at - 1] != ' ' || line.data[at - 2] != ':')
        return false;
    at = digits = at - 2;
    while (at > 0 && has_digit_at(line, at - 1))
        at--;
    return at < digits && at > 0 && line.data[at - 1] == ':';
}

bool hvd_cause_is_notice(struct hvd_strview line)
{
    static const char *const heads[] = {
        "WARNING:", "INFO:", "DEBUG:", "To enable the following instructions: "};
    static const char *const levels[] = {" level=trace ", " level=debug ", " level=info ",
                                         " level=warn "};

    line = hvd_strview_trim(line);
    for (size_t i = 0; i < COUNT(heads); i++)
        if (starts_with(line, heads[i]))
            return true;
    return is_glog(line) || is_of_tensorflow(line) || is_python_warning(line) ||
           (starts_with(line, "time=") && has_any(line, levels, COUNT(levels)));
}

/* Open MPI prints these lines behind "*** An error occurred in MPI_Init_thread". They lack the name
 * of a process, because it has none yet. */
static bool is_of_early_abort(struct hvd_strview line)
{
    return starts_with(line, "*** on a NULL communicator") ||
           starts_with(line, "*** MPI_ERRORS_ARE_FATAL") ||
           starts_with(line, "***    and MPI will try to terminate") ||
           starts_with(line, "***    and potentially your ");
}

/* Returns whether the line names a place in a graph of TensorFlow: "[[{{node x}}]] [Op:f]". */
static bool is_node(struct hvd_strview line)
{
    return starts_with(hvd_strview_trim(line), "[[");
}

/* Returns whether a crash handler of Open MPI or of another runtime printed the line with a stack.
 */
static bool is_stack(struct hvd_strview line)
{
    static const char *const handler[] = {
        "] *** Process received signal ***",
        "] *** End of error message ***",
        "] Signal: ",
        "] Signal code: ",
        "] Failing at address: ",
        "] Associated errno: ",
        "] Sending PID: ",
        "] Band event: ",
        "] *** reported by process ",
        "] *** on communicator ",
        "] *** on a NULL communicator",
        "] *** MPI_ERRORS_ARE_FATAL",
        "] ***    and MPI will try to terminate",
        "] ***    and potentially your ",
        "] ***    and potentially your job",
        "] Local abort before MPI_INIT completed ", /* "... completed successfully, but ..." */
        "note: run with `RUST_BACKTRACE",
    };
    static const char *const heads[] = {"(most recent call first):", "C++ CapturedTraceback:"};

    if (hvd_cause_is_frame(line) || is_node(line) || is_of_early_abort(line) ||
        has_any(line, handler, COUNT(handler)) || has_any(line, heads, COUNT(heads)))
        return true;
    return starts_with(line, "Extension modules: ") || /* faulthandler */
           (starts_with(line, "File \"") && find(line, ", line "));
}

/* The state of a parser that finds Python tracebacks. */
struct trace {
    enum {
        OUTSIDE,
        OPEN,     /* the exception follows */
        OF_GROUP, /* the same, of an exception group */
        IN_GROUP, /* the group's own exception was read; those in the group follow */
    } state;
    size_t column;   /* of the first character of its lines */
    bool is_ignored; /* Python ignored the exception of the next traceback */
};

static bool ends_with(struct hvd_strview text, const char *suffix)
{
    const size_t len = strlen(suffix);

    return text.len >= len && memcmp(text.data + text.len - len, suffix, len) == 0;
}

/* Finds the column where the lines of a traceback begin. It is behind "[rank1]: ", but before the
 * "Original " of a traceback from another process. For a group, whose head is "  + Exception Group
 * ", it is two columns before the bar. */
static void begin_traceback(struct trace *t, struct hvd_strview line, const char *word)
{
    static const char original[] = "Original ";
    static const char of_group[] = "  + Exception Group ";
    const struct hvd_strview before = {line.data, (size_t)(word - line.data)};

    t->column = before.len;
    if (ends_with(before, of_group)) {
        t->column -= strlen(of_group);
        t->state = t->is_ignored ? OUTSIDE : OF_GROUP;
        return;
    }
    if (ends_with(before, original))
        t->column -= strlen(original);
    t->state = t->is_ignored ? OUTSIDE : OPEN;
}

/* Returns whether the line belongs to the group: lines of a group are indented by two columns at
 * least, and those of nested groups by more. */
static bool is_of_group(const struct trace *t, struct hvd_strview line)
{
    return line.len > t->column + 2 && line.data[t->column] == ' ' &&
           line.data[t->column + 1] == ' ';
}

/* Resets the column if a frame begins at the start of its line. Then other output, such as a
 * progress bar without a newline, stood before the head of the traceback alone. */
static void drop_prefix(struct trace *t, struct hvd_strview line)
{
    if ((t->state == OPEN && starts_with(line, "  File \"")) ||
        (t->state == OF_GROUP && starts_with(line, "  |   File \"")))
        t->column = 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads the next line. Returns true if it names the exception of a traceback, and stores a view of
 * it. */
static bool trace_line(struct trace *t, struct hvd_strview line, struct hvd_strview *exception)
{
    const bool is_in_group = t->state == OF_GROUP || t->state == IN_GROUP;
    size_t at;

    drop_prefix(t, line);
    at = t->column;
    if (is_in_group && !is_of_group(t, line) && hvd_strview_trim(line).len > 0)
        t->state = OUTSIDE;
    if (t->state == IN_GROUP)
        return false;
    const char *word =
        t->state == OF_GROUP ? NULL : find(line, "Traceback (most recent call last):");
    if (word) {
        begin_traceback(t, line, word);
        t->is_ignored = false;
        return false;
    }
    if (find(line, "Exception ignored ")) /* Python prints these at its end, after the cause */
        t->is_ignored = true;
    if (t->state == OF_GROUP)
        at += strlen("  | ");
    if (t->state == OUTSIDE || line.len <= at || is_blank(line.data[at]) ||
        hvd_strview_trim(line).len == 0)
        return false;
    *exception = hvd_strview_trim((struct hvd_strview){line.data + at, line.len - at});
    t->state = t->state == OF_GROUP ? IN_GROUP : OUTSIDE;
    return true;
}

/* The state of a parser that reads the message of an exception, whose first line is a heading. */
struct message {
    bool is_open;
    struct hvd_strview prefix; /* of each of its lines */
    size_t source;             /* indentation of source lines: more than that of their frame; 0:
                                  no frame was read */
};

/* Returns whether the line announces the lines behind it. */
static bool is_heading(struct hvd_strview line)
{
    return ends_with(line, ":") ||
           (find(line, "Exception encountered when calling ") && ends_with(line, ")."));
}

static void begin_message(struct message *m, struct hvd_strview whole, struct hvd_strview heading)
{
    m->is_open = is_heading(heading);
    m->prefix = (struct hvd_strview){whole.data, (size_t)(heading.data - whole.data)};
    m->source = 0;
}

/* Returns the text behind the "(0) INVALID_ARGUMENT:  " of one of several errors. Of an error that
 * follows from another one returns {.len = 0}. */
static struct hvd_strview behind_code(struct hvd_strview line)
{
    const char *code = line.data[0] == '(' && has_digit_at(line, 1) ? find(line, ") ") : NULL;
    const char *end = code ? find(line, ": ") : NULL;

    if (!end || end < code)
        return line;
    for (const char *c = code + 2; c < end; c++)
        if (!isupper((unsigned char)*c) && *c != '_')
            return line;
    line = (struct hvd_strview){code + 2, (size_t)(line.data + line.len - code - 2)};
    if (starts_with(line, "CANCELLED: "))
        return (struct hvd_strview){"", 0};
    end += 2;
    return hvd_strview_trim((struct hvd_strview){end, (size_t)(line.data + line.len - end)});
}

/* Returns whether the line only says where in a program or a graph an error occurred. */
static bool is_place(struct hvd_strview line)
{
    return ends_with(line, "(most recent call last):") ||
           ends_with(line, " root error(s) found.") ||
           starts_with(line, "<stack traces unavailable>") ||
           starts_with(line, "Detected at node ") || starts_with(line, "Node: '");
}

/* Reads a line behind the heading of a message, and stores the message's first informative line in
 * *reason. If that is a heading in turn, a later line replaces it. */
static void message_line(struct message *m, struct hvd_strview line, struct hvd_strview *reason)
{
    static const char *const ends[] = {
        "Traceback (most recent call last):", "rguments received by ", " above exception "};
    size_t indent;

    if (line.len < m->prefix.len || memcmp(line.data, m->prefix.data, m->prefix.len) != 0)
        return;
    line = (struct hvd_strview){line.data + m->prefix.len, line.len - m->prefix.len};
    const char *start = line.data;
    line = hvd_strview_trim(line);
    if (line.len == 0)
        return;
    indent = (size_t)(line.data - start);
    if (is_node(line) || hvd_cause_is_banner(line) || has_any(line, ends, COUNT(ends))) {
        m->is_open = false;
        return;
    }
    if (starts_with(line, "File \"")) {
        m->source = indent + 1;
        return;
    }
    if ((m->source > 0 && indent >= m->source) || is_place(line) || hvd_cause_is_notice(line))
        return;
    line = behind_code(line);
    if (line.len == 0)
        return;
    *reason = line;
    m->is_open = is_heading(line);
}

/* The candidates that a search has found so far. */
struct search {
    struct trace trace;
    struct message message;
    struct hvd_strview exception; /* behind the last traceback */
    struct hvd_strview reason;    /* the first informative line of its message */
    struct hvd_strview last;      /* the last line that may be a cause */
    struct hvd_strview notice;    /* the last notice */
    struct hvd_strview any;       /* the last line that holds a word */
    bool is_behind_warning;       /* the next line may be the source line of Python's warning */
};

/* Takes the line of an exception. */
static void take_exception(struct search *s, struct hvd_strview whole, struct hvd_strview line)
{
    s->exception = line;
    s->reason = (struct hvd_strview){"", 0};
    begin_message(&s->message, whole, line);
}

/* Takes a line that is not blank, and no part of a traceback. */
static void take_word(struct search *s, struct hvd_strview line, bool is_indented)
{
    const bool is_source = s->is_behind_warning && is_indented;

    s->is_behind_warning = is_python_warning(line);
    s->any = line;
    if (hvd_cause_is_notice(line))
        s->notice = line;
    else if (!is_source && hvd_cause_is_own(line))
        s->last = line;
}

static bool is_open(const struct trace *t)
{
    return t->state != OUTSIDE;
}

static void take_line(struct search *s, struct hvd_strview whole)
{
    const bool was_open = is_open(&s->trace);
    struct hvd_strview line = hvd_strview_trim(whole);
    struct hvd_strview exception;

    if (s->message.is_open)
        message_line(&s->message, whole, &s->reason);
    if (trace_line(&s->trace, whole, &exception)) {
        line = exception;
        take_exception(s, whole, line);
    } else if ((was_open && is_open(&s->trace)) ||
               find(whole, "Traceback (most recent call last):")) {
        if (line.len > 0 && was_open && !is_ruler(line))
            s->any = line;
        return;
    }
    if (line.len == 0 || is_ruler(line))
        return;
    if (starts_with(line, "Fatal Python error: "))
        take_exception(s, whole, line);
    take_word(s, line, is_blank(whole.data[0]));
}

static struct search search_lines(struct hvd_strview text)
{
    struct search s = {.any = {"", 0}, .reason = {"", 0}};

    while (text.data)
        take_line(&s, hvd_strview_cut(&text, '\n'));
    return s;
}

bool hvd_cause_is_own(struct hvd_strview line)
{
    line = hvd_strview_trim(line);
    return line.len > 0 && !hvd_cause_is_banner(line) && !is_stack(line) &&
           !hvd_cause_is_notice(line);
}

bool hvd_cause_is_told(struct hvd_strview text)
{
    const struct search s = search_lines(text);

    return s.exception.len > 0 || s.last.len > 0;
}

struct hvd_strview hvd_cause_line(struct hvd_strview text)
{
    const struct search s = search_lines(text);

    if (s.exception.len > 0)
        return s.exception;
    if (s.last.len > 0)
        return s.last;
    return s.notice.len > 0 ? s.notice : s.any;
}

struct hvd_strview hvd_cause_reason(struct hvd_strview text)
{
    return search_lines(text).reason;
}

/* Returns the text behind the word, or {NULL, 0} if the line does not contain it. */
static struct hvd_strview behind(struct hvd_strview line, const char *word)
{
    const char *at = find(line, word);

    if (!at)
        return (struct hvd_strview){NULL, 0};
    at += strlen(word);
    return (struct hvd_strview){at, (size_t)(line.data + line.len - at)};
}

int64_t hvd_cause_blamed(struct hvd_strview line)
{
    static const char *const ends[] = {" is lost: ", " called horovod_shutdown", " failed: "};
    static const char rank_word[] = "Rank ";
    const int64_t range[2] = {0, INT32_MAX};
    struct hvd_strview rest = behind(line, "Horovod has been shut down. ");
    struct hvd_strview digits;
    size_t n_ends = COUNT(ends);
    int64_t rank = -1;

    if (!rest.data) { /* other failures of horovod_init are the same on every rank and blame none */
        rest = behind(line, "horovod_init failed: ");
        n_ends = 1;
    }
    if (!starts_with(rest, rank_word) || !has_any(rest, ends, n_ends))
        return -1;
    rest.data += strlen(rank_word);
    rest.len -= strlen(rank_word);
    digits = hvd_strview_cut(&rest, ' ');
    return hvd_str_parse_int64(digits, range, &rank, NULL) == HVD_OK ? rank : -1;
}

/* Counts the leading bytes that are (or are not) among the given ones. */
static size_t span_of(struct hvd_strview text, const char *bytes, bool are_in)
{
    size_t n = 0;

    while (n < text.len && text.data[n] != '\0' && (strchr(bytes, text.data[n]) != NULL) == are_in)
        n++;
    return n;
}

/* Returns the text between the word and `end`; empty if the word is not before `end`. */
static struct hvd_strview between(struct hvd_strview line, const char *word, const char *end)
{
    const char *at = find(line, word);

    if (!at || at + strlen(word) > end)
        return (struct hvd_strview){"", 0};
    at += strlen(word);
    return (struct hvd_strview){at, (size_t)(end - at)};
}

struct hvd_strview hvd_cause_lost(struct hvd_strview line, struct hvd_strview *host)
{
    static const char lost[] = " is lost: ";
    const char *at = hvd_cause_blamed(line) >= 0 ? find(line, lost) : NULL;

    *host = (struct hvd_strview){"", 0};
    if (!at)
        return *host;
    *host = between(line, " on host ", at);
    at += strlen(lost);
    struct hvd_strview why = {at, (size_t)(line.data + line.len - at)};
    if (why.len > 0 && why.data[why.len - 1] == '"' && find(line, " msg=\"")) /* of a log line */
        why.len--;
    return why;
}

struct hvd_strview hvd_cause_awaited(struct hvd_strview line, int64_t *rank,
                                     struct hvd_strview *host)
{
    static const char stalled[] = "Horovod has been shut down. Tensor ";
    static const char waits[] = ": it waits for rank ";
    static const char on_host[] = "on host ";
    const int64_t range[2] = {0, INT32_MAX};
    const char *at = find(line, stalled);
    const char *end = at && find(line, " is stalled for longer than ") ? find(line, waits) : NULL;
    struct hvd_strview rest;

    *host = (struct hvd_strview){"", 0};
    if (!end || end < at)
        return *host;
    at += strlen(stalled) - strlen("Tensor ");
    rest.data = end + strlen(waits);
    rest.len = (size_t)(line.data + line.len - rest.data);
    const struct hvd_strview digits = {rest.data, span_of(rest, "0123456789", true)};
    if (hvd_str_parse_int64(digits, range, rank, NULL) != HVD_OK)
        return *host;
    rest.data += digits.len;
    rest.len -= digits.len;
    rest = hvd_strview_trim(rest);
    if (starts_with(rest, on_host)) {
        host->data = rest.data + strlen(on_host);
        host->len =
            span_of((struct hvd_strview){host->data, rest.len - strlen(on_host)}, " ,", false);
        rest.len -= (size_t)(host->data + host->len - rest.data);
        rest.data = host->data + host->len;
    }
    rest = hvd_strview_trim(rest);
    if (starts_with(rest, ", ") || starts_with(rest, "and ")) { /* more ranks */
        const char *name = find(rest, " (tensor ");
        end = name ? name : rest.data + rest.len;
    }
    return (struct hvd_strview){at, (size_t)(end - at)};
}

bool hvd_cause_left(struct hvd_strview line, struct hvd_strview *host, struct hvd_strview *tensor)
{
    const char *at = hvd_cause_blamed(line) >= 0 ? find(line, " called horovod_shutdown.") : NULL;

    *host = *tensor = (struct hvd_strview){"", 0};
    if (!at)
        return false;
    *host = between(line, " on host ", at);
    if (line.data[line.len - 1] == ')')
        *tensor = between(line, "(tensor ", line.data + line.len - 1);
    return true;
}

bool hvd_cause_is_log_of_loss(struct hvd_strview line)
{
    return find(line, " subsystem=engine msg=\"Rank ") && find(line, " is lost: ");
}
