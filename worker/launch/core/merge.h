#ifndef HVD_WORKER_LAUNCH_CORE_MERGE_H
#define HVD_WORKER_LAUNCH_CORE_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/* One of a program's two streams. */
enum hvd_stream { HVD_STREAM_OUT, HVD_STREAM_ERR };

/* The result of reading the streams since the last look at the time. */
enum hvd_merge_look {
    HVD_MERGE_AWAY, /* no read was tried: this time does not count */
    HVD_MERGE_BUSY, /* bytes came: there may be more */
    HVD_MERGE_IDLE, /* a read waited, and no bytes came */
};

/* After bytes were read, a longer time between two looks counts as this: no read was tried
 * meanwhile. */
#define HVD_MERGE_LOOK_MS 50

/*
 * Two streams that go to one file, terminal or pipe. `text` has their bytes in the order in which
 * the caller writes them. While a line of one stream has no end, the other one waits: until the
 * end, or for a limited time, whatever else comes of that line. So a prompt is shown at once, and
 * no line is cut if its end is there to be read. A stream alone never waits.
 */
struct hvd_merge {
    struct hvd_buf text;    /* the caller consumes it */
    struct hvd_buf _held;   /* of the stream that waits */
    bool _is_open;          /* the last line has no end yet */
    enum hvd_stream _owner; /* the owner of the last line */
    int64_t _looked_ms;     /* the last look, or the beginning of the wait */
    int64_t _waited_ms;     /* how long the stream has waited */
};

/* Makes an empty merge that may hold `max` bytes of each stream. Allocates nothing. */
void hvd_merge_init(struct hvd_merge *merge, size_t max);

/* Frees the buffers. Accepts a zeroed struct. */
void hvd_merge_fini(struct hvd_merge *merge);

/* Takes bytes of a stream. Fails as hvd_buf_add, and then loses them. */
hvd_status_t hvd_merge_add(struct hvd_merge *merge, enum hvd_stream stream, struct hvd_strview data,
                           int64_t now_ms);

/* The number of bytes in text and of held ones. */
size_t hvd_merge_len(const struct hvd_merge *merge);

/* Whether a stream waits for the end of the other one's line. */
bool hvd_merge_is_holding(const struct hvd_merge *merge);

/* Ends the wait of a stream that has waited for poll_timeout_ms. Fails as hvd_buf_add, and then
 * loses the held bytes. */
hvd_status_t hvd_merge_tick(struct hvd_merge *merge, int64_t now_ms, enum hvd_merge_look look,
                            int64_t poll_timeout_ms);

/* Appends the held bytes after the unfinished line. Fails as hvd_merge_tick. */
hvd_status_t hvd_merge_release(struct hvd_merge *merge);

/* Takes a line, with its end, and puts it on a line of its own after all that has come. Fails as
 * hvd_buf_add. */
hvd_status_t hvd_merge_say(struct hvd_merge *merge, struct hvd_strview line);

/* Whether the last line of all that went into `text` has no end. */
bool hvd_merge_is_in_line(const struct hvd_merge *merge);

#endif
