/*
 * Encoding and decoding of the control messages drawn in message.h. Pure: bytes in, structs out.
 * The encoder writes whole items or nothing; the decoder borrows from the message and treats every
 * length in it as hostile.
 */
#include "worker/core/message.h"

#include <string.h>

#define HEADER_LEN 8
#define COUNT_AT 4
#define VERSION 1

static hvd_status_t put_uint(struct hvd_buf *buf, uint64_t value, size_t n_bytes)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    return hvd_buf_add(buf, bytes, n_bytes);
}

static uint64_t load_uint(const char *p, size_t n_bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n_bytes; i++)
        value |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return value;
}

static hvd_status_t put_text(struct hvd_buf *buf, struct hvd_strview text)
{
    hvd_status_t st = put_uint(buf, text.len, 2);

    return st == HVD_OK ? hvd_buf_add(buf, text.data, text.len) : st;
}

/* Counts the item written since `start`, or takes it back when writing it failed. */
static hvd_status_t end_item(struct hvd_buf *buf, size_t start, hvd_status_t st)
{
    if (st != HVD_OK) {
        buf->len = start;
        return st;
    }
    uint64_t count = load_uint(buf->data + COUNT_AT, 4) + 1;
    for (size_t i = 0; i < 4; i++)
        buf->data[COUNT_AT + i] = (char)(unsigned char)(count >> (8 * i));
    return HVD_OK;
}

hvd_status_t hvd_message_begin(struct hvd_buf *buf, enum hvd_message_type type)
{
    const char header[HEADER_LEN] = {'h', 'v', VERSION, (char)type};

    return hvd_buf_add(buf, header, sizeof(header));
}

hvd_status_t hvd_message_add_request(struct hvd_buf *buf, const struct hvd_request *req)
{
    const size_t start = buf->len;
    const unsigned char head[4] = {(unsigned char)req->op, (unsigned char)req->dtype,
                                   (unsigned char)req->reduce, (unsigned char)req->ndim};
    hvd_status_t st = hvd_buf_add(buf, head, sizeof(head));

    if (st == HVD_OK)
        st = put_uint(buf, (uint32_t)req->root, 4);
    if (st == HVD_OK)
        st = put_text(buf, req->name);
    for (int i = 0; st == HVD_OK && i < req->ndim; i++)
        st = put_uint(buf, (uint64_t)req->shape[i], 8);
    return end_item(buf, start, st);
}

static struct hvd_strview cut_text(const char *text)
{
    return (struct hvd_strview){.data = text, .len = strnlen(text, HVD_TEXT_MAX)};
}

hvd_status_t hvd_message_add_leave(struct hvd_buf *buf, bool failed, const char *text)
{
    const size_t start = buf->len;
    hvd_status_t st = put_uint(buf, failed, 1);

    if (st == HVD_OK)
        st = put_text(buf, cut_text(text));
    return end_item(buf, start, st);
}

hvd_status_t hvd_message_add_step(struct hvd_buf *buf, int kind, struct hvd_strview name,
                                  const int64_t *rows, uint32_t n_rows, const char *text)
{
    const size_t start = buf->len;
    hvd_status_t st = put_uint(buf, (uint64_t)kind, 1);

    if (st == HVD_OK)
        st = put_text(buf, name);
    if (st == HVD_OK)
        st = put_uint(buf, n_rows, 4);
    for (uint32_t i = 0; st == HVD_OK && i < n_rows; i++)
        st = put_uint(buf, (uint64_t)rows[i], 8);
    if (st == HVD_OK)
        st = put_text(buf, cut_text(text));
    return end_item(buf, start, st);
}

hvd_status_t hvd_reader_init(struct hvd_reader *r, const void *data, size_t len,
                             struct hvd_err *err)
{
    const char *p = data;

    if (len < HEADER_LEN || p[0] != 'h' || p[1] != 'v')
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%zu bytes that are not a message of ours", len);
    if (p[2] != VERSION)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "a message of version %d, this library speaks %d: use the same library on "
                        "every host",
                        p[2], VERSION);
    if (p[3] < HVD_MESSAGE_REQUESTS || p[3] > HVD_MESSAGE_PLAN)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a message of unknown type %d", p[3]);
    *r = (struct hvd_reader){.type = (enum hvd_message_type)p[3],
                             .left = (uint32_t)load_uint(p + COUNT_AT, 4),
                             ._rest = {.data = p + HEADER_LEN, .len = len - HEADER_LEN}};
    if (r->left == 0 && r->_rest.len > 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a message with bytes behind its end");
    return HVD_OK;
}

/* The next n bytes; NULL when there are not as many. */
static const char *take(struct hvd_reader *r, size_t n)
{
    const char *p = r->_rest.data;

    if (n > r->_rest.len)
        return NULL;
    r->_rest.data += n;
    r->_rest.len -= n;
    return p;
}

static bool take_uint(struct hvd_reader *r, size_t n_bytes, uint64_t *value)
{
    const char *p = take(r, n_bytes);

    if (p)
        *value = load_uint(p, n_bytes);
    return p != NULL;
}

static bool take_text(struct hvd_reader *r, size_t max, struct hvd_strview *text)
{
    uint64_t len;

    if (!take_uint(r, 2, &len) || len > max)
        return false;
    text->data = take(r, len);
    text->len = len;
    return text->data && !memchr(text->data, '\0', len);
}

/* What every item starts and ends with: one is left, and the last one ends the message. */
static hvd_status_t begin_item(struct hvd_reader *r, enum hvd_message_type type,
                               struct hvd_err *err)
{
    if (r->type != type || r->left == 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "no such item in a message of type %d",
                        (int)r->type);
    r->left--;
    return HVD_OK;
}

static hvd_status_t finish_item(const struct hvd_reader *r, bool good, struct hvd_err *err)
{
    if (!good || (r->left == 0 && r->_rest.len > 0))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a malformed message of type %d", (int)r->type);
    return HVD_OK;
}

static bool take_shape(struct hvd_reader *r, struct hvd_request *req)
{
    uint64_t value;

    if (req->ndim > HVD_NDIM_MAX)
        return false;
    for (int i = 0; i < req->ndim; i++) {
        if (!take_uint(r, 8, &value) || value > INT64_MAX)
            return false;
        req->shape[i] = (int64_t)value;
    }
    return true;
}

hvd_status_t hvd_reader_request(struct hvd_reader *r, struct hvd_request *req, struct hvd_err *err)
{
    struct hvd_request got = {0};
    uint64_t root = 0;
    hvd_status_t st = begin_item(r, HVD_MESSAGE_REQUESTS, err);

    if (st != HVD_OK)
        return st;
    const char *head = take(r, 4);
    if (head) {
        /* Values that do not exist must not become an enum: they are refused right here. */
        if (strcmp(hvd_op_name(head[0]), "UNKNOWN") == 0 || hvd_dtype_size(head[1]) == 0 ||
            strcmp(hvd_reduce_name(head[2]), "UNKNOWN") == 0 || head[3] < 0)
            return finish_item(r, false, err);
        got.op = (enum hvd_op)head[0];
        got.dtype = (enum hvd_dtype)head[1];
        got.reduce = (enum hvd_reduce)head[2];
        got.ndim = (unsigned char)head[3];
    }
    bool good = head && take_uint(r, 4, &root) && root <= INT32_MAX &&
                take_text(r, HVD_NAME_MAX, &got.name) && take_shape(r, &got);
    got.root = (int)root;
    st = finish_item(r, good, err);
    if (st == HVD_OK)
        *req = got;
    return st;
}

hvd_status_t hvd_reader_leave(struct hvd_reader *r, bool *failed, struct hvd_strview *text,
                              struct hvd_err *err)
{
    uint64_t flag = 0;
    struct hvd_strview got = {0};
    hvd_status_t st = begin_item(r, HVD_MESSAGE_LEAVE, err);

    if (st != HVD_OK)
        return st;
    bool good = take_uint(r, 1, &flag) && flag <= 1 && take_text(r, HVD_TEXT_MAX, &got);
    st = finish_item(r, good, err);
    if (st == HVD_OK) {
        *failed = flag != 0;
        *text = got;
    }
    return st;
}

static bool take_rows(struct hvd_reader *r, struct hvd_step *step)
{
    uint64_t n;

    if (!take_uint(r, 4, &n) || n > r->_rest.len / 8)
        return false;
    step->n_rows = (uint32_t)n;
    step->_rows = take(r, n * 8);
    for (uint32_t i = 0; i < step->n_rows; i++)
        if (hvd_step_row(step, i) < 0)
            return false;
    return true;
}

hvd_status_t hvd_reader_step(struct hvd_reader *r, struct hvd_step *step, struct hvd_err *err)
{
    struct hvd_step got = {0};
    uint64_t kind = 0;
    hvd_status_t st = begin_item(r, HVD_MESSAGE_PLAN, err);

    if (st != HVD_OK)
        return st;
    bool good = take_uint(r, 1, &kind) && take_text(r, HVD_NAME_MAX, &got.name) &&
                take_rows(r, &got) && take_text(r, HVD_TEXT_MAX, &got.text);
    got.kind = (int)kind;
    bool known = (got.kind >= HVD_STEP_ERROR && got.kind <= HVD_STEP_DOWN) ||
                 strcmp(hvd_op_name(got.kind), "UNKNOWN") != 0;
    st = finish_item(r, good && known, err);
    if (st == HVD_OK)
        *step = got;
    return st;
}

int64_t hvd_step_row(const struct hvd_step *step, uint32_t rank)
{
    return (int64_t)load_uint(step->_rows + (size_t)rank * 8, 8);
}
