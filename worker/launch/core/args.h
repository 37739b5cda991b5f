#ifndef HVD_WORKER_LAUNCH_CORE_ARGS_H
#define HVD_WORKER_LAUNCH_CORE_ARGS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"

/* A growing argument vector, ready for exec. A zeroed struct is an empty one. One thread. */
struct hvd_args {
    char **items; /* the array and all texts are owned; ends with NULL once it has an entry */
    size_t n;
    size_t _capacity;
};

/* Frees every argument and the vector, which is empty afterwards. */
void hvd_args_fini(struct hvd_args *args);

/* Appends a copy of text. HVD_ERR_NOMEM leaves the vector as it was. */
hvd_status_t hvd_args_add(struct hvd_args *args, const char *text, struct hvd_err *err);

/* Appends formatted text of at most 1 MiB. HVD_ERR_NOMEM, HVD_ERR_TOO_LARGE: nothing appended. */
hvd_status_t hvd_args_addf(struct hvd_args *args, struct hvd_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends copies of all texts up to a NULL. Texts appended before a failure stay. */
hvd_status_t hvd_args_add_all(struct hvd_args *args, const char *const *texts, struct hvd_err *err);

/*
 * Appends the words of text, as a shell would split it at white space: quotes keep words together,
 * a backslash keeps the next character, and nothing is expanded. HVD_ERR_INVALID when a quote is
 * open, HVD_ERR_NOMEM; words appended before a failure stay.
 */
hvd_status_t hvd_args_split(struct hvd_args *args, const char *text, struct hvd_err *err);

/*
 * Appends text to out, quoted so that a POSIX shell reads it back as one word, whatever bytes it
 * holds. Fails as hvd_buf_add does.
 */
hvd_status_t hvd_args_quote(struct hvd_buf *out, const char *text);

/* Appends the whole vector to out, quoted and separated by blanks. Fails as hvd_buf_add does. */
hvd_status_t hvd_args_quote_all(struct hvd_buf *out, const struct hvd_args *args);

#endif
