#ifndef HVD_BASE_LOG_H
#define HVD_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

/* error = someone must act, warn = degraded, info = state changed, debug = anything else. */
enum hvd_log_level {
    HVD_LOG_DEBUG,
    HVD_LOG_INFO,
    HVD_LOG_WARN,
    HVD_LOG_ERROR,
};

/* One key and its text. Values may hold any bytes: the encoder escapes them. Never put secrets. */
struct hvd_log_field {
    const char *key;
    const char *value; /* NULL is left out */
};

/* The argument of a sink. All pointers are borrowed for the call. */
struct hvd_log_record {
    enum hvd_log_level level;
    const char *subsystem;
    const char *msg;
    const struct hvd_log_field *fields;
    size_t n_fields;
};

/* Writes one record. Any thread may call it. It must not call back into the code that logs. */
typedef void (*hvd_log_sink_fn)(void *ctx, const struct hvd_log_record *record);

/* The destination of log lines. The program gives one to each component; a NULL log or sink drops
 * all records. */
struct hvd_log {
    enum hvd_log_level level; /* records below it are dropped before formatting */
    hvd_log_sink_fn sink;
    void *ctx;
};

/* Logs formatted text. */
void hvd_log(const struct hvd_log *log, enum hvd_log_level level, const char *subsystem,
             const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Logs a fixed message with fields, so that people can search logs by job, namespace, host or rank.
 */
void hvd_log_fields(const struct hvd_log *log, const struct hvd_log_record *record);

/* HVD_LOG_KV(log, HVD_LOG_INFO, "kube", "watch started", {"resource", "jobs"}, {"from", rv}); */
#define HVD_LOG_KV(log, lvl, sub, text, ...)                                                       \
    hvd_log_fields((log), &(const struct hvd_log_record){                                          \
                              .level = (lvl),                                                      \
                              .subsystem = (sub),                                                  \
                              .msg = (text),                                                       \
                              .fields = (const struct hvd_log_field[]){__VA_ARGS__},               \
                              .n_fields = sizeof((const struct hvd_log_field[]){__VA_ARGS__}) /    \
                                          sizeof(struct hvd_log_field)})

/*
 * Encodes the record as one line of key=value pairs with a trailing newline, time in UTC from
 * unix_ns. Writes at most size bytes, terminator included, and returns the length written. Quotes
 * values where needed, and escapes control bytes, quotes and backslashes, so a record stays on one
 * line.
 */
size_t hvd_log_encode(const struct hvd_log_record *record, int64_t unix_ns, char *out, size_t size);

/* A sink that writes such lines to standard error, one write per line. ctx is not used. */
void hvd_log_stderr(void *ctx, const struct hvd_log_record *record);

/* Returns the level of that name ("debug", "info", "warn", "warning", "error"), or -1. */
int hvd_log_level_parse(const char *name);

#endif
