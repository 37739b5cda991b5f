#ifndef HVD_WORKER_LAUNCH_OUTPUT_H
#define HVD_WORKER_LAUNCH_OUTPUT_H

#include <stdbool.h>

#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/prefix.h"

/* The file of a rank's output on one stream. {.fd = -1} is none. */
struct hvd_output {
    int fd;
    bool has_stamp; /* lines carry the time */
    struct hvd_prefix lines;
};

/* The name of the file: DIR/rank.N/stdout, N with as many digits as the largest rank has.
 * Borrowed. */
struct hvd_output_name {
    const char *dir;
    const char *rank;
    const char *size;   /* the number of ranks, as text; NULL: unknown */
    const char *stream; /* "stdout" */
};

/* Makes the folders and the file, and empties it. HVD_ERR_SYSTEM names what cannot be made. */
hvd_status_t hvd_output_open(struct hvd_output *output, const struct hvd_output_name *name,
                             struct hvd_err *err);

/* Appends data; does nothing without a file. Bytes that cannot be written are lost, and one line on
 * stderr reports that. */
void hvd_output_write(struct hvd_output *output, const char *stamp, struct hvd_strview data);

/* Writes the held bytes and closes the file. */
void hvd_output_close(struct hvd_output *output, const char *stamp);

#endif
