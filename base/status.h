#ifndef HVD_BASE_STATUS_H
#define HVD_BASE_STATUS_H

#include <stddef.h>

/*
 * 0 = done; > 0 = not done yet, not an error; < 0 = failed. One row per code: the enum, the names
 * and the texts come from this table. A code stands for what the caller can do, not for what
 * failed.
 */
#define HVD_STATUS_MAP(X)                                                                          \
    X(HVD_OK, 0, "ok")                                                                             \
    X(HVD_INPROGRESS, 1, "in progress")                                                            \
    X(HVD_ERR_INVALID, -1, "invalid argument or input")                                            \
    X(HVD_ERR_NOMEM, -2, "out of memory")                                                          \
    X(HVD_ERR_TIMEOUT, -3, "timed out")                                                            \
    X(HVD_ERR_CANCELED, -4, "canceled")                                                            \
    X(HVD_ERR_CONFLICT, -5, "conflict: re-read and retry")                                         \
    X(HVD_ERR_GONE, -6, "gone: list again")                                                        \
    X(HVD_ERR_UNAVAILABLE, -7, "unavailable: retry with backoff")                                  \
    X(HVD_ERR_NOT_FOUND, -8, "not found")                                                          \
    X(HVD_ERR_EXISTS, -9, "exists already")                                                        \
    X(HVD_ERR_DENIED, -10, "not permitted")                                                        \
    X(HVD_ERR_STATE, -11, "not possible in this state")                                            \
    X(HVD_ERR_MISMATCH, -12, "ranks disagree about the operation")                                 \
    X(HVD_ERR_SHUTDOWN, -13, "shut down")                                                          \
    X(HVD_ERR_TOO_LARGE, -14, "larger than the limit")                                             \
    X(HVD_ERR_SYSTEM, -15, "system error")

/* Clang honours this on a type: every ignored status warns. cppcheck cannot parse it there. */
#if defined(__clang__) && !defined(__cppcheck__)
#define HVD_NODISCARD_TYPE __attribute__((warn_unused_result))
#else
#define HVD_NODISCARD_TYPE
#endif

typedef enum HVD_NODISCARD_TYPE hvd_status {
#define X(name, value, text) name = (value),
    HVD_STATUS_MAP(X)
#undef X
} hvd_status_t;

#define HVD_ERR_MSG_MAX 1024

/* Caller-owned, usually on the stack; no allocation, so reporting cannot fail. Start from {0}. */
struct hvd_err {
    hvd_status_t status;
    int sys;                   /* errno, HTTP status or MPI error class; 0 if none */
    char msg[HVD_ERR_MSG_MAX]; /* outermost context first: "job ns/a: create pod: HTTP 409" */
};

/* The fixed text of a code, e.g. "timed out". Never NULL; "unknown status" for foreign values. */
const char *hvd_status_str(hvd_status_t st);

/* The name of a code, e.g. "HVD_ERR_TIMEOUT". Never NULL. */
const char *hvd_status_name(hvd_status_t st);

/*
 * return HVD_FAIL(err, HVD_ERR_INVALID, 0, "empty name");
 * Fills err (may be NULL; the first error wins) and evaluates to st. A macro, so that the returned
 * value stays a visible constant for the compiler and the static analysers.
 */
#define HVD_FAIL(err, st, sys, ...) (hvd_err_set((err), (st), (sys), __VA_ARGS__), (st))

/* Prepends "context: " to err->msg (err may be NULL) and evaluates to st. */
#define HVD_WRAP(err, st, ...) (hvd_err_wrap((err), __VA_ARGS__), (st))

/* The function behind HVD_FAIL. Does nothing when err is NULL or holds a failure already. Replaces
 * control characters in the message. */
void hvd_err_set(struct hvd_err *err, hvd_status_t st, int sys, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The function behind HVD_WRAP. Cuts a long message at its innermost end, never the context. */
void hvd_err_wrap(struct hvd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Clears err, so that it can be used again. err may be NULL. */
void hvd_err_clear(struct hvd_err *err);

#endif
