/*
 * Encoding and decoding of the control messages drawn in message.h. Pure: bytes in, structs out.
 * The encoder writes whole items or nothing; the decoder borrows from the message and treats every
 * length in it as hostile.
 */
#include "worker/core/message.h"

#include <endian.h>
#include <limits.h>
#include <string.h>

#define HEADER_LEN 12
#define COUNT_AT 4
#define SET_AT 8
#define PLAN_LEN 24 /* epoch, fusion, cycle, n_words */
#define EPOCH_LEN 8
#define RANGE_LEN 8
#define VERSION 7
#define REFUSED 0x80 /* in the op of a request: a text follows */

static hvd_status_t put_uint(struct hvd_buf *buf, uint64_t value, size_t n_bytes)
{
    const uint64_t bytes = htole64(value);

    return hvd_buf_add(buf, &bytes, n_bytes);
}

static inline uint64_t load_uint(const char *p, size_t n_bytes)
{
    uint64_t bytes = 0;

    memcpy(&bytes, p, n_bytes);
    return le64toh(bytes);
}

static hvd_status_t put_double(struct hvd_buf *buf, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return put_uint(buf, bits, 8);
}

static inline void store_uint(char *p, uint64_t value, size_t n_bytes)
{
    const uint64_t bytes = htole64(value);

    memcpy(p, &bytes, n_bytes);
}

static hvd_status_t put_text(struct hvd_buf *buf, struct hvd_strview text)
{
    hvd_status_t st = put_uint(buf, text.len, 2);

    return st == HVD_OK ? hvd_buf_add(buf, text.data, text.len) : st;
}

/* Counts the item written since `start`, or removes it if writing failed. */
static hvd_status_t end_item(struct hvd_buf *buf, size_t start, hvd_status_t st)
{
    if (st != HVD_OK) {
        buf->len = start;
        return st;
    }
    store_uint(buf->data + COUNT_AT, load_uint(buf->data + COUNT_AT, 4) + 1, 4);
    return HVD_OK;
}

hvd_status_t hvd_message_begin(struct hvd_buf *buf, enum hvd_message_type type, uint32_t set)
{
    char head[HEADER_LEN + PLAN_LEN] = {'h', 'v', VERSION, (char)type};

    store_uint(head + SET_AT, set, 4);
    return hvd_buf_add(buf, head, type == HVD_MESSAGE_PLAN ? sizeof(head) : HEADER_LEN);
}

static hvd_status_t put_words(struct hvd_buf *buf, const uint64_t *words, uint32_t n_words)
{
    hvd_status_t st = HVD_OK;

#if __BYTE_ORDER == __LITTLE_ENDIAN
    st = hvd_buf_add(buf, words, (size_t)n_words * sizeof(*words));
#else
    for (uint32_t i = 0; st == HVD_OK && i < n_words; i++)
        st = put_uint(buf, words[i], 8);
#endif
    return st;
}

hvd_status_t hvd_message_bits(struct hvd_buf *buf, uint32_t set, uint64_t epoch,
                              const uint64_t *words, uint32_t n_words)
{
    hvd_status_t st = hvd_message_begin(buf, HVD_MESSAGE_BITS, set);

    if (st == HVD_OK)
        st = put_uint(buf, epoch, EPOCH_LEN);
    if (st == HVD_OK && words)
        st = put_words(buf, words, n_words);
    if (st == HVD_OK)
        store_uint(buf->data + COUNT_AT, n_words, 4);
    else
        hvd_buf_reset(buf);
    return st;
}

hvd_status_t hvd_message_add_word(struct hvd_buf *buf, uint64_t word)
{
    return put_uint(buf, word, 8);
}

static hvd_status_t put_behind(struct hvd_buf *buf, const struct hvd_behind *behind)
{
    hvd_status_t st = put_uint(buf, behind->n_known, 4);

    if (st != HVD_OK || behind->n_known == 0)
        return st;
    st = put_uint(buf, behind->progress, 8);
    if (st == HVD_OK)
        st = put_uint(buf, behind->n, 4);
    for (uint32_t i = 0; st == HVD_OK && i < hvd_message_behind_named(behind); i++)
        st = put_uint(buf, (uint32_t)behind->positions[i], 4);
    return st;
}

hvd_status_t hvd_message_beat(struct hvd_buf *buf, enum hvd_message_type type, uint32_t set,
                              const struct hvd_beat *beat, const int *silent)
{
    struct hvd_strview name = beat->name;
    hvd_status_t st = hvd_message_begin(buf, type, set);

    if (name.len > HVD_NAME_MAX)
        name.len = HVD_NAME_MAX;
    if (st == HVD_OK)
        st = put_uint(buf, (uint64_t)beat->kind, 1);
    if (st == HVD_OK)
        st = put_uint(buf, beat->age_ms, 4);
    if (st == HVD_OK)
        st = put_text(buf, name);
    if (st == HVD_OK)
        st = put_behind(buf, &beat->behind);
    for (uint32_t i = 0; st == HVD_OK && i < beat->n_silent; i++)
        st = put_uint(buf, (uint32_t)silent[i], 4);
    if (st == HVD_OK)
        store_uint(buf->data + COUNT_AT, beat->n_silent, 4);
    else
        hvd_buf_reset(buf);
    return st;
}

hvd_status_t hvd_message_end_plan(struct hvd_buf *buf, const struct hvd_plan_head *head)
{
    const size_t start = buf->len;
    hvd_status_t st = put_words(buf, head->words, head->n_words);

    if (st != HVD_OK) {
        buf->len = start;
        return st;
    }
    store_uint(buf->data + HEADER_LEN, head->epoch, 8);
    store_uint(buf->data + HEADER_LEN + 8, (uint64_t)head->fusion, 8);
    store_uint(buf->data + HEADER_LEN + 16, head->cycle_us, 4);
    store_uint(buf->data + HEADER_LEN + 20, head->n_words, 4);
    return HVD_OK;
}

hvd_status_t hvd_message_begin_partial(struct hvd_buf *buf, uint32_t set, uint64_t epoch)
{
    hvd_status_t st = hvd_message_begin(buf, HVD_MESSAGE_PARTIAL, set);

    if (st == HVD_OK)
        st = put_uint(buf, epoch, EPOCH_LEN);
    if (st != HVD_OK)
        hvd_buf_reset(buf);
    return st;
}

static hvd_status_t put_by(struct hvd_buf *buf, const struct hvd_by *by)
{
    hvd_status_t st = put_uint(buf, by->age_ms, 4);

    if (st == HVD_OK)
        st = put_uint(buf, by->n_ranges, 4);
    for (uint32_t i = 0; st == HVD_OK && i < by->n_ranges; i++) {
        st = put_uint(buf, (uint32_t)by->ranges[i].first, 4);
        if (st == HVD_OK)
            st = put_uint(buf, (uint32_t)by->ranges[i].n, 4);
    }
    return st;
}

static hvd_status_t put_rows(struct hvd_buf *buf, const struct hvd_request *req,
                             const struct hvd_by *by)
{
    hvd_status_t st = HVD_OK;

    if (!by->rows)
        return put_uint(buf, (uint64_t)req->shape[0], 8);
    for (uint32_t i = 0; i < by->n_ranges; i++) {
        const int64_t *rows = by->rows + (by->ranges[i].first - by->rows_first);
        for (int k = 0; st == HVD_OK && k < by->ranges[i].n; k++)
            st = put_uint(buf, (uint64_t)rows[k], 8);
    }
    return st;
}

hvd_status_t hvd_message_add_partial(struct hvd_buf *buf, uint32_t slot, const struct hvd_by *by)
{
    const size_t start = buf->len;
    hvd_status_t st = put_uint(buf, slot, 4);

    if (st == HVD_OK)
        st = put_by(buf, by);
    return end_item(buf, start, st);
}

bool hvd_message_has_rows(const struct hvd_request *req)
{
    return req->op == HVD_ALLGATHER && req->ndim > 0;
}

static struct hvd_strview cut_view(struct hvd_strview text)
{
    if (text.len > HVD_TEXT_MAX)
        text.len = HVD_TEXT_MAX;
    return text;
}

hvd_status_t hvd_message_add_request(struct hvd_buf *buf, const struct hvd_request *req,
                                     const struct hvd_by *by)
{
    const size_t start = buf->len;
    const unsigned char flag = by->refusal.len > 0 ? REFUSED : 0;
    const unsigned char head[5] = {(unsigned char)((unsigned char)req->op | flag),
                                   (unsigned char)req->dtype, (unsigned char)req->reduce,
                                   (unsigned char)req->device, (unsigned char)req->ndim};
    hvd_status_t st = hvd_buf_add(buf, head, sizeof(head));

    if (st == HVD_OK)
        st = put_uint(buf, (uint32_t)req->root, 4);
    if (st == HVD_OK)
        st = put_uint(buf, req->group, 4);
    if (st == HVD_OK)
        st = put_uint(buf, req->group_size, 4);
    if (st == HVD_OK)
        st = put_double(buf, req->prescale);
    if (st == HVD_OK)
        st = put_double(buf, req->postscale);
    if (st == HVD_OK)
        st = put_text(buf, req->name);
    for (int i = 0; st == HVD_OK && i < req->ndim; i++) {
        const bool is_row = i == 0 && by->rows && hvd_message_has_rows(req);
        const int64_t n = is_row ? by->rows[by->ranges[0].first - by->rows_first] : req->shape[i];
        st = put_uint(buf, (uint64_t)n, 8);
    }
    if (st == HVD_OK)
        st = put_by(buf, by);
    if (st == HVD_OK && hvd_message_has_rows(req))
        st = put_rows(buf, req, by);
    if (st == HVD_OK && flag)
        st = put_text(buf, cut_view(by->refusal));
    return end_item(buf, start, st);
}

static struct hvd_strview cut_text(const char *text)
{
    return (struct hvd_strview){.data = text, .len = strnlen(text, HVD_TEXT_MAX)};
}

hvd_status_t hvd_message_add_leave(struct hvd_buf *buf, struct hvd_pos_range who,
                                   enum hvd_leave_why why, const char *text)
{
    const size_t start = buf->len;
    hvd_status_t st = put_uint(buf, (uint32_t)who.first, 4);

    if (st == HVD_OK)
        st = put_uint(buf, (uint32_t)who.n, 4);
    if (st == HVD_OK)
        st = put_uint(buf, (uint64_t)why, 1);
    if (st == HVD_OK)
        st = put_text(buf, cut_text(text));
    return end_item(buf, start, st);
}

static hvd_status_t put_step_numbers(struct hvd_buf *buf, const struct hvd_step *step)
{
    const unsigned char head[4] = {(unsigned char)step->kind, (unsigned char)step->dtype,
                                   (unsigned char)step->reduce, (unsigned char)step->device};
    hvd_status_t st = hvd_buf_add(buf, head, sizeof(head));

    if (st == HVD_OK)
        st = put_double(buf, step->prescale);
    if (st == HVD_OK)
        st = put_double(buf, step->postscale);
    if (st == HVD_OK)
        st = put_uint(buf, (uint64_t)step->count, 8);
    if (st == HVD_OK)
        st = put_uint(buf, step->slot, 4);
    if (st == HVD_OK)
        st = put_uint(buf, step->group, 4);
    if (st == HVD_OK)
        st = put_uint(buf, step->group_size, 4);
    return st;
}

hvd_status_t hvd_message_add_step(struct hvd_buf *buf, const struct hvd_step *step,
                                  const int64_t *rows)
{
    const size_t start = buf->len;
    hvd_status_t st = put_step_numbers(buf, step);

    if (st == HVD_OK)
        st = put_text(buf, step->name);
    if (st == HVD_OK)
        st = put_uint(buf, step->n_rows, 4);
    for (uint32_t i = 0; st == HVD_OK && i < step->n_rows; i++)
        st = put_uint(buf, (uint64_t)rows[i], 8);
    if (st == HVD_OK)
        st = put_text(buf, cut_view(step->text));
    return end_item(buf, start, st);
}

/* Reads the fixed fields between the header and the items. */
static bool open_head(struct hvd_reader *r)
{
    const char *p = r->_rest.data;
    size_t head = r->type == HVD_MESSAGE_PLAN ? PLAN_LEN : 0;

    if (r->type == HVD_MESSAGE_BITS || r->type == HVD_MESSAGE_PARTIAL)
        head = EPOCH_LEN;
    if (r->_rest.len < head)
        return false;
    r->_rest.data += head;
    r->_rest.len -= head;
    if (head == 0)
        return true;
    r->epoch = load_uint(p, 8);
    if (r->type == HVD_MESSAGE_PLAN) {
        r->fusion = (int64_t)load_uint(p + 8, 8);
        r->cycle_us = (uint32_t)load_uint(p + 16, 4);
        r->n_words = (uint32_t)load_uint(p + 20, 4);
    } else if (r->type == HVD_MESSAGE_BITS) {
        r->n_words = r->left;
        r->left = 0;
    }
    if (r->n_words > r->_rest.len / 8 || r->n_words > HVD_CACHE_SLOTS_MAX / 64 || r->fusion < 0)
        return false;
    r->_rest.len -= (size_t)r->n_words * 8;
    r->_words = r->_rest.data + r->_rest.len;
    return true;
}

hvd_status_t hvd_message_open(struct hvd_reader *r, const void *data, size_t len,
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
    if (p[3] < HVD_MESSAGE_REQUESTS || p[3] > HVD_MESSAGE_PONG)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a message of unknown type %d", p[3]);
    *r = (struct hvd_reader){.type = (enum hvd_message_type)p[3],
                             .left = (uint32_t)load_uint(p + COUNT_AT, 4),
                             .set = (uint32_t)load_uint(p + SET_AT, 4),
                             ._rest = {.data = p + HEADER_LEN, .len = len - HEADER_LEN}};
    if (!open_head(r))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a malformed message of type %d", p[3]);
    if (r->left == 0 && r->_rest.len > 0 && r->type < HVD_MESSAGE_PING)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "a message with bytes behind its end");
    return HVD_OK;
}

struct hvd_reader hvd_message_of_bits(uint64_t *words, uint32_t n_words, uint64_t epoch)
{
    for (uint32_t i = 0; i < n_words; i++)
        words[i] = htole64(words[i]);
    return (struct hvd_reader){.type = HVD_MESSAGE_BITS,
                               .epoch = epoch,
                               .n_words = n_words,
                               ._words = (const char *)words};
}

/* Takes the next n bytes; NULL when fewer are left. */
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

static bool take_double(struct hvd_reader *r, double *value)
{
    uint64_t bits;

    if (!take_uint(r, 8, &bits))
        return false;
    memcpy(value, &bits, sizeof(*value));
    return true;
}

static bool take_uint32(struct hvd_reader *r, uint32_t *value)
{
    uint64_t wide;

    if (!take_uint(r, 4, &wide))
        return false;
    *value = (uint32_t)wide;
    return true;
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

/* begin_item and finish_item frame the reading of each item: one must be left, and the last one
 * ends the message. */
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

/* Rejects unknown values here, before they become enum values. */
static bool take_dtype_reduce(const char *p, enum hvd_dtype *dtype, enum hvd_reduce *reduce)
{
    if (hvd_dtype_size(p[0]) == 0 || strcmp(hvd_reduce_name(p[1]), "UNKNOWN") == 0)
        return false;
    *dtype = (enum hvd_dtype)p[0];
    *reduce = (enum hvd_reduce)p[1];
    return true;
}

struct hvd_pos_range hvd_message_ranges_at(const struct hvd_pos_ranges *ranges, uint32_t i)
{
    const char *p = ranges->_bytes + (size_t)i * RANGE_LEN;

    if (!ranges->_bytes)
        return ranges->one;
    return (struct hvd_pos_range){.first = (int)load_uint(p, 4), .n = (int)load_uint(p + 4, 4)};
}

bool hvd_message_ranges_within(const struct hvd_pos_ranges *ranges, struct hvd_pos_range range)
{
    const struct hvd_pos_range last = hvd_message_ranges_at(ranges, ranges->n - 1);

    return hvd_message_ranges_at(ranges, 0).first >= range.first &&
           last.first + last.n <= range.first + range.n;
}

/* Checks a range that must follow position *end with a gap, and moves *end to its end. */
static bool check_range(const char *p, int64_t *end)
{
    const int64_t first = (int64_t)load_uint(p, 4);
    const int64_t n = (int64_t)load_uint(p + 4, 4);

    if (first <= *end || n < 1 || first + n > INT32_MAX)
        return false;
    *end = first + n;
    return true;
}

/* Takes the age and the ranges; *n becomes the number of positions in them. */
static bool take_by(struct hvd_reader *r, uint32_t *age_ms, struct hvd_pos_ranges *by, uint64_t *n)
{
    int64_t end = -1;

    if (!take_uint32(r, age_ms) || !take_uint32(r, &by->n) || by->n == 0 ||
        by->n > r->_rest.len / RANGE_LEN)
        return false;
    by->_bytes = take(r, (size_t)by->n * RANGE_LEN);
    *n = 0;
    for (uint32_t i = 0; i < by->n; i++) {
        if (!check_range(by->_bytes + (size_t)i * RANGE_LEN, &end))
            return false;
        *n += (uint64_t)hvd_message_ranges_at(by, i).n;
    }
    return true;
}

/* Takes n rows. The first one must equal the first dimension of the shape. */
static bool take_merged_rows(struct hvd_reader *r, struct hvd_merged_request *merged, uint64_t n)
{
    if (n > r->_rest.len / 8)
        return false;
    merged->_rows = take(r, n * 8);
    for (uint32_t i = 0; i < n; i++)
        if (hvd_message_request_row(merged, i) < 0)
            return false;
    return hvd_message_request_row(merged, 0) == merged->request.shape[0];
}

int64_t hvd_message_request_row(const struct hvd_merged_request *merged, uint32_t i)
{
    return merged->_rows ? (int64_t)load_uint(merged->_rows + (size_t)i * 8, 8)
                         : merged->request.shape[0];
}

struct hvd_merged_request hvd_message_request_of(const struct hvd_request *req, int position)
{
    return (struct hvd_merged_request){.request = *req,
                                       .by = {.n = 1, .one = {.first = position, .n = 1}}};
}

static bool take_request(struct hvd_reader *r, struct hvd_request *req, bool *is_refused)
{
    uint64_t root = 0;
    const char *head = take(r, 5);
    const int op = head ? (unsigned char)head[0] & ~REFUSED : 0;

    if (!head || strcmp(hvd_op_name(op), "UNKNOWN") == 0 ||
        !take_dtype_reduce(head + 1, &req->dtype, &req->reduce) || head[3] < HVD_CPU ||
        head[3] > HVD_GPU)
        return false;
    req->op = (enum hvd_op)op;
    *is_refused = ((unsigned char)head[0] & REFUSED) != 0;
    req->device = (enum hvd_device)head[3];
    req->ndim = (unsigned char)head[4];
    if (!take_uint(r, 4, &root) || root > INT32_MAX)
        return false;
    req->root = (int)root;
    return take_uint32(r, &req->group) && take_uint32(r, &req->group_size) &&
           take_double(r, &req->prescale) && take_double(r, &req->postscale) &&
           take_text(r, HVD_NAME_MAX, &req->name) && take_shape(r, req);
}

static bool take_merged(struct hvd_reader *r, struct hvd_merged_request *merged)
{
    bool is_refused = false;
    uint64_t n = 0;

    if (!take_request(r, &merged->request, &is_refused) ||
        !take_by(r, &merged->age_ms, &merged->by, &n))
        return false;
    if (hvd_message_has_rows(&merged->request) && !take_merged_rows(r, merged, n))
        return false;
    return !is_refused || (take_text(r, HVD_TEXT_MAX, &merged->refusal) && merged->refusal.len > 0);
}

hvd_status_t hvd_message_read_request(struct hvd_reader *r, struct hvd_merged_request *merged,
                                      struct hvd_err *err)
{
    struct hvd_merged_request got = {0};
    hvd_status_t st = begin_item(r, HVD_MESSAGE_REQUESTS, err);

    if (st != HVD_OK)
        return st;
    st = finish_item(r, take_merged(r, &got), err);
    if (st == HVD_OK)
        *merged = got;
    return st;
}

hvd_status_t hvd_message_read_partial(struct hvd_reader *r, struct hvd_partial *partial,
                                      struct hvd_err *err)
{
    struct hvd_partial got = {0};
    uint64_t n = 0;
    hvd_status_t st = begin_item(r, HVD_MESSAGE_PARTIAL, err);

    if (st != HVD_OK)
        return st;
    const bool good = take_uint32(r, &got.slot) && got.slot < HVD_CACHE_SLOTS_MAX &&
                      take_by(r, &got.age_ms, &got.by, &n);
    st = finish_item(r, good, err);
    if (st == HVD_OK)
        *partial = got;
    return st;
}

hvd_status_t hvd_message_read_leave(struct hvd_reader *r, struct hvd_pos_range *who,
                                    enum hvd_leave_why *why, struct hvd_strview *text,
                                    struct hvd_err *err)
{
    uint64_t flag = 0;
    int64_t end = -1;
    struct hvd_strview got = {0};
    hvd_status_t st = begin_item(r, HVD_MESSAGE_LEAVE, err);

    if (st != HVD_OK)
        return st;
    const char *range = take(r, RANGE_LEN);
    bool good = range && check_range(range, &end) && take_uint(r, 1, &flag) &&
                flag <= HVD_LEAVE_STALLED && take_text(r, HVD_TEXT_MAX, &got);
    st = finish_item(r, good, err);
    if (st == HVD_OK) {
        *who = hvd_message_ranges_at(&(struct hvd_pos_ranges){.n = 1, ._bytes = range}, 0);
        *why = (enum hvd_leave_why)flag;
        *text = got;
    }
    return st;
}

int hvd_message_beat_silent(const struct hvd_beat *beat, uint32_t i)
{
    return (int)load_uint(beat->_silent + (size_t)i * 4, 4);
}

/* Positions are in order, without one twice. */
static bool take_behind(struct hvd_reader *r, struct hvd_behind *behind)
{
    if (!take_uint32(r, &behind->n_known))
        return false;
    if (behind->n_known == 0)
        return true;
    if (!take_uint(r, 8, &behind->progress) || !take_uint32(r, &behind->n) || behind->n == 0 ||
        behind->n > behind->n_known)
        return false;
    for (uint32_t i = 0; i < hvd_message_behind_named(behind); i++) {
        uint32_t position;
        if (!take_uint32(r, &position) || position > INT_MAX ||
            (i > 0 && (int)position <= behind->positions[i - 1]))
            return false;
        behind->positions[i] = (int)position;
    }
    return true;
}

static bool take_beat(struct hvd_reader *r, struct hvd_beat *beat)
{
    uint64_t kind = 0;

    if (!take_uint(r, 1, &kind) || kind >= HVD_WAIT_KINDS || !take_uint32(r, &beat->age_ms) ||
        !take_text(r, HVD_NAME_MAX, &beat->name) || !take_behind(r, &beat->behind) ||
        r->left > HVD_SILENT_MAX)
        return false;
    beat->kind = (enum hvd_wait_kind)kind;
    beat->n_silent = r->left;
    beat->_silent = take(r, (size_t)r->left * 4);
    r->left = 0;
    for (uint32_t i = 0; beat->_silent && i < beat->n_silent; i++)
        if (hvd_message_beat_silent(beat, i) < 0)
            return false;
    return beat->_silent != NULL;
}

hvd_status_t hvd_message_read_beat(struct hvd_reader *r, struct hvd_beat *beat, struct hvd_err *err)
{
    struct hvd_beat got = {0};
    hvd_status_t st = finish_item(r, take_beat(r, &got), err);

    if (st == HVD_OK)
        *beat = got;
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
        if (hvd_message_step_row(step, i) < 0)
            return false;
    return true;
}

static bool take_step(struct hvd_reader *r, struct hvd_step *step)
{
    uint64_t count = 0;
    const char *head = take(r, 4);

    if (!head || !take_dtype_reduce(head + 1, &step->dtype, &step->reduce) || head[3] < HVD_CPU ||
        head[3] > HVD_GPU)
        return false;
    step->kind = (unsigned char)head[0];
    step->device = (enum hvd_device)head[3];
    if (!(step->kind >= HVD_STEP_ERROR && step->kind <= HVD_STEP_DROP) &&
        strcmp(hvd_op_name(step->kind), "UNKNOWN") == 0)
        return false;
    if (!take_double(r, &step->prescale) || !take_double(r, &step->postscale) ||
        !take_uint(r, 8, &count) || count > INT64_MAX / 8)
        return false;
    step->count = (int64_t)count;
    return take_uint32(r, &step->slot) &&
           (step->slot == HVD_CACHE_NO_SLOT || step->slot < HVD_CACHE_SLOTS_MAX) &&
           take_uint32(r, &step->group) && take_uint32(r, &step->group_size) &&
           take_text(r, HVD_NAME_MAX, &step->name) && take_rows(r, step) &&
           take_text(r, HVD_TEXT_MAX, &step->text);
}

hvd_status_t hvd_message_read_step(struct hvd_reader *r, struct hvd_step *step, struct hvd_err *err)
{
    struct hvd_step got = {0};
    hvd_status_t st = begin_item(r, HVD_MESSAGE_PLAN, err);

    if (st != HVD_OK)
        return st;
    st = finish_item(r, take_step(r, &got), err);
    if (st == HVD_OK)
        *step = got;
    return st;
}

int64_t hvd_message_step_row(const struct hvd_step *step, uint32_t rank)
{
    return (int64_t)load_uint(step->_rows + (size_t)rank * 8, 8);
}
