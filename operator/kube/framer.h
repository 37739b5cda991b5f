#ifndef HVD_OPERATOR_KUBE_FRAMER_H
#define HVD_OPERATOR_KUBE_FRAMER_H

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/* Takes one line, without its line end; the view is valid during the call. Not OK stops feeding. */
typedef hvd_status_t (*hvd_framer_line_fn)(void *ctx, struct hvd_strview line);

/* Cuts a byte stream into lines. Zeroed is legal for fini. */
struct hvd_framer {
    struct hvd_buf _partial; /* the line that has not ended yet */
};

/* Prepares a framer whose lines are at most max_line bytes long. Allocates nothing. */
void hvd_framer_init(struct hvd_framer *framer, size_t max_line);

/* Frees the unfinished line. */
void hvd_framer_fini(struct hvd_framer *framer);

/* Forgets the unfinished line: a new stream begins. */
void hvd_framer_reset(struct hvd_framer *framer);

/*
 * Feeds len bytes; line is called for each line that ends within them, empty lines are skipped.
 * Returns what line returned when it was not OK (the rest of the bytes is dropped),
 * HVD_ERR_TOO_LARGE for a line past the maximum, HVD_ERR_NOMEM. After a failure call reset.
 */
hvd_status_t hvd_framer_feed(struct hvd_framer *framer, struct hvd_strview bytes,
                             hvd_framer_line_fn line, void *ctx);

#endif
