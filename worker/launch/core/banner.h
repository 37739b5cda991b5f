#ifndef HVD_WORKER_LAUNCH_CORE_BANNER_H
#define HVD_WORKER_LAUNCH_CORE_BANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

#define HVD_BANNER_MAX ((size_t)16 << 10)

/*
 * Filters the banners of mpirun from its output:
 *
 * - paragraphs between two rulers of dashes that begin with a known sentence about the end of a
 *   process;
 * - lines of Open MPI 5 about a connection that broke, and about errors of its own;
 * - the stack of mpirun itself, which may crash when stopped.
 *
 * The launcher names the cause in one line of its own. So the filter holds banners back, and the
 * launcher shows them only where it finds no cause. Lines about the launcher's own signals are
 * dropped. A zeroed struct is an empty filter.
 */
struct hvd_banner_filter {
    int64_t mpirun;             /* its process id, whose stack is held back, too; 0: unknown */
    char _held[HVD_BANNER_MAX]; /* a banner, or bytes that may become one */
    size_t _n_held;
    size_t _line;  /* the beginning of the current line in _held */
    size_t _n_was; /* bytes of whole banners in _held */
    int _state;
};

/* Takes a byte, and appends to pass all bytes that cannot belong to a banner. Fails as
 * hvd_buf_add. */
hvd_status_t hvd_banner_feed(struct hvd_banner_filter *filter, char c, struct hvd_buf *pass);

/* Whether it holds bytes back that may turn out to be no banner. */
bool hvd_banner_is_holding(const struct hvd_banner_filter *filter);

/* Called after a silence: appends such bytes to pass. Fails as hvd_buf_add. */
hvd_status_t hvd_banner_idle(struct hvd_banner_filter *filter, struct hvd_buf *pass);

/* Whether it holds whole banners back, and nothing after them. */
bool hvd_banner_has_whole(const struct hvd_banner_filter *filter);

/* Moves the banners to pass, for the caller to show, and empties the filter. Fails as
 * hvd_buf_add. */
hvd_status_t hvd_banner_take(struct hvd_banner_filter *filter, struct hvd_buf *pass);

#endif
