#ifndef HVD_WORKER_LAUNCH_CORE_PREFIX_H
#define HVD_WORKER_LAUNCH_CORE_PREFIX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/* Puts "[3]<stdout>:" before each line of one stream. A zeroed struct is legal for fini. */
struct hvd_prefix {
    char text[64];        /* the text before a line */
    struct hvd_buf _line; /* a line that is not complete yet */
    bool _is_within_line; /* the beginning of the line has already passed */
};

/* Prepares the prefix of a rank's stream ("stdout" or "stderr"). Allocates nothing. */
void hvd_prefix_init(struct hvd_prefix *prefix, const char *rank, const char *stream);

/* Frees the held bytes. */
void hvd_prefix_fini(struct hvd_prefix *prefix);

/*
 * Appends to out the lines that data completes, each after stamp (may be "") and the prefix. Holds
 * an incomplete line back up to 4 KiB. Fails as hvd_buf_add does; then the rest is lost.
 */
hvd_status_t hvd_prefix_feed(struct hvd_prefix *prefix, const char *stamp, struct hvd_strview data,
                             struct hvd_buf *out);

/* Whether it holds an incomplete line back. */
bool hvd_prefix_is_holding(const struct hvd_prefix *prefix);

/* Appends the held bytes; the rest of their line then follows without a prefix. Fails as feed. */
hvd_status_t hvd_prefix_flush(struct hvd_prefix *prefix, const char *stamp, struct hvd_buf *out);

#endif
