#ifndef HVD_WORKER_TELEMETRY_TRACEFILE_H
#define HVD_WORKER_TELEMETRY_TRACEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

/*
 * A file that holds a JSON array, and that programs can read at any time, also after the process
 * was killed:
 *
 *     [ {record} , {record} , {record}         spaces up to a reserve        ]
 *
 * New records overwrite spaces. Every page of a write begins with a whole record, so a write that a
 * kill cuts short (at a page) leaves whole records. Two one-byte writes move the bracket ahead by a
 * reserve. That microsecond per mebibyte is the only time at which the file is not one array. On a
 * nearly full disk the reserve shrinks to the bytes needed.
 * One thread at a time.
 */
struct hvd_tracefile {
    int fd;          /* -1: closed */
    int64_t at;      /* offset of the next record */
    int64_t bracket; /* offset of the closing bracket */
    int64_t most;    /* the reserve ends at this size of the file; 0: no limit */
    bool is_plain; /* no regular file but a device or a pipe: written as a stream, without a reserve
                    */
    int64_t n_records;
    struct hvd_buf _out; /* bytes to be written at `at` */
    int64_t _n_staged;   /* records in it */
};

/* Creates or empties the file. Its reserve ends at `most` bytes (0: no limit). HVD_ERR_SYSTEM names
 * the path; HVD_ERR_NOMEM. */
hvd_status_t hvd_tracefile_open(struct hvd_tracefile *file, const char *path, int64_t most,
                                struct hvd_err *err);

/* Adds records, one per line, each ended by a newline. On HVD_ERR_SYSTEM (a full disk) and
 * HVD_ERR_NOMEM the records already written stay readable. */
hvd_status_t hvd_tracefile_add(struct hvd_tracefile *file, const char *lines, size_t len,
                               struct hvd_err *err);

/* Cuts the reserve off and closes the file. Closes it on HVD_ERR_SYSTEM, too. */
hvd_status_t hvd_tracefile_close(struct hvd_tracefile *file, struct hvd_err *err);

#endif
