#ifndef HVD_WORKER_LAUNCH_CORE_ENVIRONMENT_H
#define HVD_WORKER_LAUNCH_CORE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"
#include "worker/launch/core/args.h"

/* The variables that carry the encoded environment: this name, then the name with _1, _2, ...
 * appended. */
#define HVD_LAUNCH_ENV "HOROVOD_LAUNCH_ENV"
/* The maximum size of one such variable. The kernel accepts at most 128 KiB for a string. */
#define HVD_LAUNCH_ENV_CHUNK ((size_t)100000)
/* The maximum size of an encoded environment. */
#define HVD_LAUNCH_ENV_MAX ((size_t)1 << 20)

/*
 * Whether a variable of the user's environment goes to the ranks. Those of this shell (PWD, SHLVL,
 * exported functions), this host (HOSTNAME, visible devices), this ssh session and Open MPI do not,
 * nor does the launcher's secret.
 */
bool hvd_environment_is_passed(const char *entry);

/*
 * Fills *out with the NAME=VALUE entries for the ranks: those of environ (NULL-terminated) that are
 * passed, then the exports. An export NAME takes its value from environ. HVD_ERR_INVALID when such
 * a NAME is not set there. *out must be empty, and is empty on failure.
 */
hvd_status_t hvd_environment_collect(char *const *environ_, const char *const *exports,
                                     size_t n_exports, struct hvd_args *out, struct hvd_err *err);

/* Appends the entries to out, encoded in harmless characters only. Fails as hvd_buf_add does. */
hvd_status_t hvd_environment_encode(const struct hvd_args *entries, struct hvd_buf *out);

/*
 * Decodes the text of hvd_environment_encode into *out, which must be empty. HVD_ERR_INVALID on a
 * text that it never writes; on failure *out is empty.
 */
hvd_status_t hvd_environment_decode(const char *text, struct hvd_args *out, struct hvd_err *err);

#endif
