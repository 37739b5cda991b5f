#ifndef HVD_WORKER_TELEMETRY_TRACEFILE_H
#define HVD_WORKER_TELEMETRY_TRACEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

/*
 * A file that holds a JSON array and can be read at any time, also after the process was killed:
 *
 *     [ {record} , {record} , {record}         spaces up to a reserve        ]
 *
 * New records overwrite spaces, in writes whose every page begins with a whole record, so a write
 * that a kill cuts short (at a page) leaves whole records. The bracket moves ahead a reserve at a
 * time, by two one-byte writes: that microsecond per mebibyte is the only time it is not one array.
 * On a disk that is nearly full the reserve shrinks to what is needed.
 * One thread at a time.
 */
struct hvd_tracefile {
    int fd;          /* -1: closed */
    int64_t at;      /* where the next record goes */
    int64_t bracket; /* where the closing bracket is */
    int64_t most;    /* no more is reserved than fits into a file of that size; 0: no limit */
    bool is_plain;   /* no regular file: a device, a pipe. Written as it comes, without a reserve */
    int64_t n_records;
    struct hvd_buf _out; /* what is to be written at `at` */
    int64_t _n_staged;   /* records in it */
};

/* Creates or empties the file, which is to hold no more than `most` bytes (0: no limit), as far as
 * its reserve is concerned. HVD_ERR_SYSTEM names the path; HVD_ERR_NOMEM. */
hvd_status_t hvd_tracefile_open(struct hvd_tracefile *file, const char *path, int64_t most,
                                struct hvd_err *err);

/* Adds records, one a line, each ended by a newline. HVD_ERR_SYSTEM (a full disk), HVD_ERR_NOMEM:
 * what was written stays readable. */
hvd_status_t hvd_tracefile_add(struct hvd_tracefile *file, const char *lines, size_t len,
                               struct hvd_err *err);

/* Cuts the reserve off and closes the file. HVD_ERR_SYSTEM: it is closed all the same. */
hvd_status_t hvd_tracefile_close(struct hvd_tracefile *file, struct hvd_err *err);

#endif
