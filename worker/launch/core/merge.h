#ifndef HVD_WORKER_LAUNCH_CORE_MERGE_H
#define HVD_WORKER_LAUNCH_CORE_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/str.h"

/* Which of a program's two streams. */
enum hvd_stream { HVD_STREAM_OUT, HVD_STREAM_ERR };

/* What there was to read of the streams since the last look at the time. */
enum hvd_merge_look {
    HVD_MERGE_AWAY, /* nothing was read, whatever there was: this time does not count */
    HVD_MERGE_BUSY, /* bytes: there may be more */
    HVD_MERGE_IDLE, /* nothing, and that was waited for */
};

/* With bytes to read, a longer time between two looks counts as this: nobody read meanwhile. */
#define HVD_MERGE_LOOK_MS 50

/*
 * Two streams that go to one file, terminal or pipe. What has come is in `text` in the order in
 * which it is to be written. While a line of one stream has no end yet, the other one waits: until
 * its end, or for a while, whatever comes of that line. So a prompt is shown at once, and no line
 * is cut whose end is there to be read. A stream alone never waits.
 */
struct hvd_merge {
    struct hvd_buf text;    /* the caller's to consume */
    struct hvd_buf _held;   /* of the stream that waits */
    bool _is_open;          /* the last line has no end yet */
    enum hvd_stream _owner; /* whose it is */
    int64_t _looked_ms;     /* when it was looked last, or the wait began */
    int64_t _waited_ms;     /* how long the stream waits */
};

/* An empty one that may hold so many bytes, for each stream. Allocates nothing. */
void hvd_merge_init(struct hvd_merge *merge, size_t max);

/* Frees what is in it. Legal for a zeroed struct. */
void hvd_merge_fini(struct hvd_merge *merge);

/* Takes bytes of a stream. Fails as hvd_buf_add; then they are lost. */
hvd_status_t hvd_merge_add(struct hvd_merge *merge, enum hvd_stream stream, struct hvd_strview data,
                           int64_t now_ms);

/* How many bytes are in it. */
size_t hvd_merge_len(const struct hvd_merge *merge);

/* Whether a stream waits for a line of the other one. */
bool hvd_merge_is_holding(const struct hvd_merge *merge);

/* A stream that has waited for so long waits no longer. Fails as hvd_buf_add; then what waited is
 * lost. */
hvd_status_t hvd_merge_tick(struct hvd_merge *merge, int64_t now_ms, enum hvd_merge_look look,
                            int64_t poll_timeout_ms);

/* What waits is put behind the line that has no end. Fails as hvd_merge_tick. */
hvd_status_t hvd_merge_release(struct hvd_merge *merge);

/* Takes a line, with its end, that stands alone behind all that has come. Fails as hvd_buf_add. */
hvd_status_t hvd_merge_say(struct hvd_merge *merge, struct hvd_strview line);

/* Whether the last line that was put into `text` has no end. */
bool hvd_merge_is_in_line(const struct hvd_merge *merge);

#endif
