/*
 * Packets of standard output within standard error. A program's own bytes that look like the
 * beginning of a packet pass unchanged: the program does not know the nonce. Pure.
 */
#include "worker/launch/core/packet.h"

#include <stdio.h>
#include <string.h>

#define MARK '\035'
#define HEAD_FORMAT "\035%.32s:%04zx;"

void hvd_packet_init(struct hvd_packet_reader *reader, const char *nonce)
{
    *reader = (struct hvd_packet_reader){._nonce = nonce};
}

void hvd_packet_head(const char *nonce, size_t len, char *out)
{
    char text[HVD_PACKET_HEAD_LEN + 16];

    (void)snprintf(text, sizeof(text), HEAD_FORMAT, nonce, len & 0xffff);
    memcpy(out, text, HVD_PACKET_HEAD_LEN);
}

/* The value of a digit; 16 for any other character. */
static size_t digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, c) : NULL;

    return found ? (size_t)(found - digits) : 16;
}

/* Whether the held bytes may be the beginning of a head. */
static bool may_be_head(const struct hvd_packet_reader *reader)
{
    char expected[HVD_PACKET_HEAD_LEN];

    hvd_packet_head(reader->_nonce, 0, expected);
    for (size_t i = 0; i < reader->_n_head; i++) {
        const bool is_digit = expected[i] == '0' && i > HVD_PACKET_NONCE_LEN + 1;

        if (is_digit ? digit(reader->_head[i]) > 15 : reader->_head[i] != expected[i])
            return false;
    }
    return true;
}

/* Takes one more byte of a possible head. */
static hvd_status_t grow_head(struct hvd_packet_reader *reader, char c, struct hvd_buf *rest)
{
    reader->_head[reader->_n_head++] = c;
    if (!may_be_head(reader)) {
        hvd_status_t st;

        reader->_n_head--;
        st = hvd_packet_idle(reader, rest);
        if (st == HVD_OK && c == MARK)
            reader->_head[reader->_n_head++] = c;
        else if (st == HVD_OK)
            st = hvd_buf_add(rest, &c, 1);
        return st;
    }
    if (reader->_n_head < HVD_PACKET_HEAD_LEN)
        return HVD_OK;
    reader->_n_left = 0;
    for (size_t i = HVD_PACKET_HEAD_LEN - 5; i < HVD_PACKET_HEAD_LEN - 1; i++)
        reader->_n_left = reader->_n_left * 16 + digit(reader->_head[i]);
    reader->_n_head = 0;
    return HVD_OK;
}

hvd_status_t hvd_packet_step(struct hvd_packet_reader *reader, struct hvd_strview *data,
                             struct hvd_buf *out, struct hvd_buf *rest)
{
    hvd_status_t st;
    size_t n = 1;

    if (reader->_n_left > 0) {
        n = data->len < reader->_n_left ? data->len : reader->_n_left;
        st = hvd_buf_add(out, data->data, n);
        reader->_n_left -= n;
    } else if (reader->_n_head > 0 || data->data[0] == MARK) {
        st = grow_head(reader, data->data[0], rest);
    } else {
        const char *mark = memchr(data->data, MARK, data->len);

        n = mark ? (size_t)(mark - data->data) : data->len;
        st = hvd_buf_add(rest, data->data, n);
    }
    data->data += n;
    data->len -= n;
    return st;
}

hvd_status_t hvd_packet_feed(struct hvd_packet_reader *reader, struct hvd_strview data,
                             struct hvd_buf *out, struct hvd_buf *rest)
{
    hvd_status_t st = HVD_OK;

    while (data.len > 0 && st == HVD_OK)
        st = hvd_packet_step(reader, &data, out, rest);
    return st;
}

bool hvd_packet_is_holding(const struct hvd_packet_reader *reader)
{
    return reader->_n_head > 0;
}

hvd_status_t hvd_packet_idle(struct hvd_packet_reader *reader, struct hvd_buf *rest)
{
    const size_t n = reader->_n_head;

    reader->_n_head = 0;
    return n > 0 ? hvd_buf_add(rest, reader->_head, n) : HVD_OK;
}

size_t hvd_packet_cut(struct hvd_strview data, size_t max)
{
    const char *end = data.len > max ? memrchr(data.data, '\n', max) : NULL;

    if (end)
        return (size_t)(end - data.data) + 1;
    return data.len < max ? data.len : max;
}
