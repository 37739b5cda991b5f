/*
 * Which line of a program's last words names the cause of its end. A failed rank leaves a Python
 * traceback, a message of its own, or a crash handler's stack; the other ranks leave libhorovod's
 * message about it; mpirun adds a banner. Pure, and nothing is copied.
 */
#include "base/cause.h"

#include <ctype.h>
#include <string.h>

#define RULER_MIN 20 /* so many dashes are a ruler */
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

/* Lines around a stack, of Open MPI's handlers and of other runtimes. */
static bool is_stack(struct hvd_strview line)
{
    static const char *const handler[] = {
        "] *** Process received signal ***",
        "] *** End of error message ***",
        "] Signal: ",
        "] Signal code: ",
        "] Failing at address: ",
        "] *** reported by process ",
        "] *** on communicator ",
        "] *** on a NULL communicator",
        "] *** MPI_ERRORS_ARE_FATAL",
        "] ***    and MPI will try to terminate",
        "] ***    and potentially your ",
        "] ***    and potentially your job",
        "note: run with `RUST_BACKTRACE",
    };
    const char *frame = line.len && line.data[0] == '[' ? find(line, "] [") : NULL;

    if (frame && frame + 3 < line.data + line.len &&
        (frame[3] == ' ' || isdigit((unsigned char)frame[3])))
        return true;
    return has_any(line, handler, COUNT(handler));
}

/* Where a search through the lines stands. */
struct search {
    struct hvd_strview exception; /* behind the last traceback */
    struct hvd_strview last;      /* the last line that may be a cause */
    struct hvd_strview any;       /* the last line that holds a word */
    size_t prefix;                /* bytes before each line of the traceback ("[rank1]: ") */
    bool is_in_traceback;
};

static void take_line(struct search *s, struct hvd_strview whole)
{
    const char *traceback = find(whole, "Traceback (most recent call last):");
    struct hvd_strview line = hvd_strview_trim(whole);

    if (traceback) {
        s->prefix = (size_t)(traceback - whole.data);
        s->is_in_traceback = true;
        return;
    }
    if (line.len == 0 || is_ruler(line))
        return;
    s->any = line;
    if (starts_with(line, "Fatal Python error: "))
        s->exception = line;
    if (s->is_in_traceback && whole.len > s->prefix) {
        const char *behind = whole.data + s->prefix;

        if (*behind == ' ' || *behind == '\t' || *behind == '\r')
            return;
        line.len = (size_t)(line.data + line.len - behind);
        line.data = behind;
        s->exception = line;
        s->is_in_traceback = false;
    }
    if (!hvd_cause_is_banner(line) && !is_stack(line))
        s->last = line;
}

struct hvd_strview hvd_cause_line(struct hvd_strview text)
{
    struct search s = {.any = {"", 0}};

    while (text.data)
        take_line(&s, hvd_strview_cut(&text, '\n'));
    if (s.exception.len > 0)
        return s.exception;
    return s.last.len > 0 ? s.last : s.any;
}

int64_t hvd_cause_blamed(struct hvd_strview line)
{
    static const char *const ends[] = {" is lost: ", " called horovod_shutdown", " failed: "};
    static const char rank_word[] = "Rank ";
    const int64_t range[2] = {0, INT32_MAX};
    const char *at = find(line, "Horovod has been shut down. ");
    struct hvd_strview rest, digits;
    int64_t rank = -1;

    if (!at)
        return -1;
    at += strlen("Horovod has been shut down. ");
    rest = (struct hvd_strview){at, (size_t)(line.data + line.len - at)};
    if (!starts_with(rest, rank_word) || !has_any(rest, ends, COUNT(ends)))
        return -1;
    rest.data += strlen(rank_word);
    rest.len -= strlen(rank_word);
    digits = hvd_strview_cut(&rest, ' ');
    return hvd_str_parse_int64(digits, range, &rank, NULL) == HVD_OK ? rank : -1;
}

/* How many bytes at the beginning are among those, or not. */
static size_t span_of(struct hvd_strview text, const char *bytes, bool are_in)
{
    size_t n = 0;

    while (n < text.len && text.data[n] != '\0' && (strchr(bytes, text.data[n]) != NULL) == are_in)
        n++;
    return n;
}

/* What stands between the word, if it is before the end, and the end; else empty. */
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
    return (struct hvd_strview){at, (size_t)(line.data + line.len - at)};
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
