/*
 * Puts the rank before each line that it writes. It passes whole lines, so that the lines of
 * different ranks stay apart; the caller flushes an incomplete line after a while. (mpirun could
 * add prefixes too, but Open MPI 4's --tag-output loses text when lines are short.)
 */
#include "worker/launch/core/prefix.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES ((size_t)4096)

void hvd_prefix_init(struct hvd_prefix *prefix, const char *rank, const char *stream)
{
    *prefix = (struct hvd_prefix){0};
    (void)snprintf(prefix->text, sizeof(prefix->text), "[%s]<%s>:", rank, stream);
    hvd_buf_init(&prefix->_line, LINE_MAX_BYTES);
}

void hvd_prefix_fini(struct hvd_prefix *prefix)
{
    hvd_buf_fini(&prefix->_line);
}

bool hvd_prefix_is_holding(const struct hvd_prefix *prefix)
{
    return prefix->_line.len > 0;
}

hvd_status_t hvd_prefix_flush(struct hvd_prefix *prefix, const char *stamp, struct hvd_buf *out)
{
    hvd_status_t st = HVD_OK;

    if (prefix->_line.len == 0)
        return HVD_OK;
    if (!prefix->_is_within_line)
        st = hvd_buf_printf(out, "%s%s", stamp, prefix->text);
    if (st == HVD_OK)
        st = hvd_buf_add(out, prefix->_line.data, prefix->_line.len);
    prefix->_is_within_line = prefix->_line.data[prefix->_line.len - 1] != '\n';
    hvd_buf_reset(&prefix->_line);
    return st;
}

hvd_status_t hvd_prefix_feed(struct hvd_prefix *prefix, const char *stamp, struct hvd_strview data,
                             struct hvd_buf *out)
{
    hvd_status_t st = HVD_OK;

    while (data.len > 0 && st == HVD_OK) {
        const char *newline = memchr(data.data, '\n', data.len);
        size_t room = LINE_MAX_BYTES - prefix->_line.len;
        size_t len = newline ? (size_t)(newline - data.data) + 1 : data.len;
        bool is_complete = newline && len <= room;

        if (len > room)
            len = room;
        st = hvd_buf_add(&prefix->_line, data.data, len);
        data.data += len;
        data.len -= len;
        if (st == HVD_OK && (is_complete || prefix->_line.len == LINE_MAX_BYTES))
            st = hvd_prefix_flush(prefix, stamp, out);
    }
    return st;
}
