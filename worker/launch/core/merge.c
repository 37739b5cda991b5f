/*
 * Merges two streams into one order, line by line. At most one of them, the owner, has an
 * unfinished line at the end of the text; bytes of the other are held until that line ends. They
 * are older than the owner's bytes after that end, so they come first.
 *
 * Each look adds a bounded step to the waiting time. So a reader that pauses, or a launcher that
 * was stopped, does not cut a line whose end is already in the pipe. Pure.
 */
#include "worker/launch/core/merge.h"

#include <string.h>

void hvd_merge_init(struct hvd_merge *merge, size_t max)
{
    *merge = (struct hvd_merge){0};
    hvd_buf_init(&merge->text, max);
    hvd_buf_init(&merge->_held, max);
}

void hvd_merge_fini(struct hvd_merge *merge)
{
    hvd_buf_fini(&merge->text);
    hvd_buf_fini(&merge->_held);
}

/* Appends to the text. The stream then owns the last line. */
static hvd_status_t append(struct hvd_merge *merge, enum hvd_stream stream, struct hvd_strview data)
{
    if (data.len == 0)
        return HVD_OK;
    merge->_is_open = data.data[data.len - 1] != '\n';
    merge->_owner = stream;
    return hvd_buf_add(&merge->text, data.data, data.len);
}

static enum hvd_stream other(enum hvd_stream stream)
{
    return stream == HVD_STREAM_OUT ? HVD_STREAM_ERR : HVD_STREAM_OUT;
}

/* Appends the first held bytes. The rest waits anew, for another line. */
static hvd_status_t append_held(struct hvd_merge *merge, size_t len)
{
    const hvd_status_t st = append(merge, other(merge->_owner),
                                   (struct hvd_strview){.data = merge->_held.data, .len = len});

    hvd_buf_consume(&merge->_held, len);
    merge->_waited_ms = 0;
    return st;
}

/* The number of bytes up to the end of the first line, or of the last one; all bytes where no line
 * ends. */
static size_t up_to_end(struct hvd_strview data, bool is_last)
{
    const char *end = NULL;

    if (data.len > 0)
        end = is_last ? memrchr(data.data, '\n', data.len) : memchr(data.data, '\n', data.len);
    return end ? (size_t)(end - data.data) + 1 : data.len;
}

/* Takes bytes of the line's owner while the other stream waits. */
static hvd_status_t end_line(struct hvd_merge *merge, struct hvd_strview data)
{
    const enum hvd_stream owner = merge->_owner;
    const size_t n = up_to_end(data, false);
    hvd_status_t st = append(merge, owner, (struct hvd_strview){.data = data.data, .len = n});

    data.data += n;
    data.len -= n;
    if (!merge->_is_open && st == HVD_OK) {
        const struct hvd_strview held = {.data = merge->_held.data, .len = merge->_held.len};
        const size_t lines = up_to_end(held, true);

        /* A held line without its end must not begin before the owner's bytes that are here. */
        if (data.len == 0 || held.data[lines - 1] == '\n')
            st = append_held(merge, data.len == 0 ? held.len : lines);
        if (st == HVD_OK)
            st = append(merge, owner, data);
        if (st == HVD_OK && !merge->_is_open && merge->_held.len > 0)
            st = append_held(merge, merge->_held.len);
    }
    return st;
}

hvd_status_t hvd_merge_add(struct hvd_merge *merge, enum hvd_stream stream, struct hvd_strview data,
                           int64_t now_ms)
{
    if (data.len == 0)
        return HVD_OK;
    if (merge->_held.len == 0) {
        merge->_looked_ms = now_ms;
        merge->_waited_ms = 0;
    }
    if (merge->_is_open && merge->_owner != stream)
        return hvd_buf_add(&merge->_held, data.data, data.len);
    if (merge->_held.len > 0)
        return end_line(merge, data);
    return append(merge, stream, data);
}

size_t hvd_merge_len(const struct hvd_merge *merge)
{
    return merge->text.len + merge->_held.len;
}

bool hvd_merge_is_holding(const struct hvd_merge *merge)
{
    return merge->_held.len > 0;
}

hvd_status_t hvd_merge_release(struct hvd_merge *merge)
{
    return merge->_held.len > 0 ? append_held(merge, merge->_held.len) : HVD_OK;
}

hvd_status_t hvd_merge_tick(struct hvd_merge *merge, int64_t now_ms, enum hvd_merge_look look,
                            int64_t poll_timeout_ms)
{
    int64_t passed_ms = now_ms - merge->_looked_ms;

    if (merge->_held.len == 0)
        return HVD_OK;
    if (look == HVD_MERGE_BUSY && passed_ms > HVD_MERGE_LOOK_MS)
        passed_ms = HVD_MERGE_LOOK_MS;
    merge->_looked_ms = now_ms;
    merge->_waited_ms += look == HVD_MERGE_AWAY ? 0 : passed_ms;
    return merge->_waited_ms < poll_timeout_ms ? HVD_OK : hvd_merge_release(merge);
}

hvd_status_t hvd_merge_say(struct hvd_merge *merge, struct hvd_strview line)
{
    hvd_status_t st = hvd_merge_release(merge);

    if (st == HVD_OK && merge->_is_open)
        st = append(merge, merge->_owner, hvd_strview_of("\n"));
    return st == HVD_OK ? append(merge, HVD_STREAM_ERR, line) : st;
}

bool hvd_merge_is_in_line(const struct hvd_merge *merge)
{
    return merge->_is_open;
}
