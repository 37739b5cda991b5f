#ifndef HVD_WORKER_LAUNCH_OUTPUT_H
#define HVD_WORKER_LAUNCH_OUTPUT_H

#include <stdbool.h>

#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/prefix.h"

/* The file that has what a rank writes to one stream. {.fd = -1} is none. */
struct hvd_output {
    int fd;
    bool has_stamp; /* lines carry the time */
    struct hvd_prefix lines;
};

/* Which file: DIR/rank.N/stdout, N with as many digits as the largest rank has. Borrowed. */
struct hvd_output_name {
    const char *dir;
    const char *rank;
    const char *size;   /* how many ranks there are, as text; NULL: not known */
    const char *stream; /* "stdout" */
};

/* Makes the folders and the file, which is emptied. HVD_ERR_SYSTEM names what cannot be made. */
hvd_status_t hvd_output_open(struct hvd_output *output, const struct hvd_output_name *name,
                             struct hvd_err *err);

/* Writes on; without a file does nothing. What cannot be written is lost, and said once on stderr.
 */
void hvd_output_write(struct hvd_output *output, const char *stamp, struct hvd_strview data);

/* Writes what is held back and closes. */
void hvd_output_close(struct hvd_output *output, const char *stamp);

#endif
