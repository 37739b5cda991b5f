/*
 * Structured logging: one line of key=value pairs per record, so that people can read it and
 * programs can parse it. Components never write by themselves: they log to the struct hvd_log they
 * were given. Any thread; a line is written by a single write(2), so lines do not mix.
 */
#include "base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* A bounded writer: keeps room for the newline and the terminator. */
struct line {
    char *out;
    size_t size;
    size_t len;
};

static void put_char(struct line *line, char c)
{
    if (line->len + 2 < line->size)
        line->out[line->len++] = c;
}

static void put_text(struct line *line, const char *s)
{
    while (*s)
        put_char(line, *s++);
}

static bool needs_quotes(const char *s)
{
    if (!*s)
        return true;
    for (; *s; s++)
        if (isspace((unsigned char)*s) || iscntrl((unsigned char)*s) || *s == '"' || *s == '=' ||
            *s == '\\')
            return true;
    return false;
}

static void put_escaped(struct line *line, const char *s)
{
    char hex[8];

    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            put_char(line, '\\');
            put_char(line, (char)c);
        } else if (c == '\n') {
            put_text(line, "\\n");
        } else if (iscntrl(c)) {
            snprintf(hex, sizeof(hex), "\\x%02x", c);
            put_text(line, hex);
        } else {
            put_char(line, (char)c);
        }
    }
}

static void put_pair(struct line *line, const char *key, const char *value)
{
    if (!value)
        return;
    if (line->len > 0)
        put_char(line, ' ');
    put_text(line, key);
    put_char(line, '=');
    if (!needs_quotes(value)) {
        put_text(line, value);
        return;
    }
    put_char(line, '"');
    put_escaped(line, value);
    put_char(line, '"');
}

size_t hvd_log_encode(const struct hvd_log_record *record, int64_t unix_ns, char *out, size_t size)
{
    struct line line = {.out = out, .size = size};
    char stamp[32] = "";
    char millis[8];
    struct tm tm;
    time_t seconds = (time_t)(unix_ns / 1000000000);

    if (size < 2)
        return 0;
    if (gmtime_r(&seconds, &tm))
        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(millis, sizeof(millis), ".%03dZ", (int)(unix_ns / 1000000 % 1000));
    put_text(&line, "time=");
    put_text(&line, stamp);
    put_text(&line, millis);
    put_pair(&line, "level", level_names[record->level]);
    put_pair(&line, "subsystem", record->subsystem);
    put_pair(&line, "msg", record->msg);
    for (size_t i = 0; i < record->n_fields; i++)
        put_pair(&line, record->fields[i].key, record->fields[i].value);
    out[line.len++] = '\n';
    out[line.len] = '\0';
    return line.len;
}

void hvd_log_stderr(void *ctx, const struct hvd_log_record *record)
{
    char text[LINE_MAX_BYTES];
    struct timespec now;

    (void)ctx;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t len =
        hvd_log_encode(record, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, text, sizeof(text));
    ssize_t written = write(STDERR_FILENO, text, len);
    (void)written; /* nowhere left to report to */
}

void hvd_log_fields(const struct hvd_log *log, const struct hvd_log_record *record)
{
    if (log && log->sink && record->level >= log->level)
        log->sink(log->ctx, record);
}

void hvd_log(const struct hvd_log *log, enum hvd_log_level level, const char *subsystem,
             const char *fmt, ...)
{
    char msg[LINE_MAX_BYTES / 2];
    va_list ap;

    if (!log || !log->sink || level < log->level)
        return;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    log->sink(log->ctx,
              &(const struct hvd_log_record){.level = level, .subsystem = subsystem, .msg = msg});
}

int hvd_log_level_parse(const char *name)
{
    for (int i = 0; i < 4; i++)
        if (strcasecmp(name, level_names[i]) == 0)
            return i;
    return strcasecmp(name, "warning") == 0 ? HVD_LOG_WARN : -1;
}
