/*
 * Writes the log of the runtime to standard error, one write per line, so that the lines of several
 * threads and ranks do not mix. Any thread.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/api/api_internal.h"

#define LINE_MAX_BYTES 4096

/* Writes the line without its first pair, the time. */
static void write_timeless(void *ctx, const struct hvd_log_record *record)
{
    char text[LINE_MAX_BYTES];
    size_t len = hvd_log_encode(record, 0, text, sizeof(text));
    const char *rest = memchr(text, ' ', len);

    (void)ctx;
    if (!rest)
        return;
    ssize_t written = write(STDERR_FILENO, rest + 1, (size_t)(text + len - rest) - 1);
    (void)written; /* nowhere left to report to */
}

struct hvd_log hvd_api_log(enum hvd_log_level level, bool hides_time)
{
    return (struct hvd_log){.level = level, .sink = hides_time ? write_timeless : hvd_log_stderr};
}
