#ifndef HVD_WORKER_LAUNCH_CORE_BANNER_H
#define HVD_WORKER_LAUNCH_CORE_BANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

#define HVD_BANNER_MAX ((size_t)16 << 10)

/*
 * The banners of mpirun within its output: paragraphs between two rulers of dashes that begin with
 * one of its sentences about a process that ended, and lines of Open MPI 5 about a connection that
 * broke and about errors of its own, and the stack of mpirun itself, which may crash when stopped.
 * The launcher names the cause in one line of its own, so they are held back, and shown only where
 * it cannot. What mpirun says of the launcher's own signals is left out. A zeroed struct is a
 * filter that holds nothing.
 */
struct hvd_banner_filter {
    int64_t mpirun;             /* its process, whose own stack is held back, too; 0: not known */
    char _held[HVD_BANNER_MAX]; /* what may be a banner, or is one */
    size_t _n_held;
    size_t _line;  /* in _held: where the current line begins */
    size_t _n_was; /* of _held, that are whole banners */
    int _state;
};

/* Takes a byte; appends to pass what is known to be no banner. Fails as hvd_buf_add. */
hvd_status_t hvd_banner_feed(struct hvd_banner_filter *filter, char c, struct hvd_buf *pass);

/* Whether bytes are held back that may turn out to be no banner. */
bool hvd_banner_is_holding(const struct hvd_banner_filter *filter);

/* Nothing has come for a while: appends such bytes to pass. Fails as hvd_buf_add. */
hvd_status_t hvd_banner_idle(struct hvd_banner_filter *filter, struct hvd_buf *pass);

/* Whether banners are held back, and nothing behind them. */
bool hvd_banner_has_whole(const struct hvd_banner_filter *filter);

/* The banners that were held back, and forgets them: the caller's to show. */
hvd_status_t hvd_banner_take(struct hvd_banner_filter *filter, struct hvd_buf *pass);

#endif
