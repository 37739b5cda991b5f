/*
 * Presents the elements of a reduction as one run, whether they lie in one tensor or in many that
 * were fused. Stages are filled straight from the tensors, and results go straight to the outputs.
 * A search begins at the piece used last, so that a pass over n pieces costs n steps, not n^2.
 */
#include "worker/transport/payload.h"

#include <string.h>

#include "worker/reduce/reduce.h"

#define COPY_MAX ((size_t)1024) /* libc copies up to this size with plain loads and stores */

/* For long copies libc uses string instructions. On some processors these are several times slower
 * when both ends lie at about the same offset in their pages, as tensors and stages often do. */
void hvd_payload_copy(void *to, const void *from, size_t len)
{
    char *out = to;
    const char *in = from;

    if (len == sizeof(uint32_t)) { /* one element of a fused tensor, often */
        memcpy(out, in, sizeof(uint32_t));
        return;
    }
    for (; len > COPY_MAX; len -= COPY_MAX) {
        memcpy(out, in, COPY_MAX);
        out += COPY_MAX;
        in += COPY_MAX;
    }
    memcpy(out, in, len);
}

void hvd_payload_init(struct hvd_payload *p, const struct hvd_collective *c)
{
    *p = (struct hvd_payload){
        .pieces = c->pieces,
        .whole = {.input = c->input, .output = c->output, .count = c->count},
        .n_pieces = c->pieces ? c->n_pieces : 1,
        .width = hvd_dtype_size((int)c->dtype),
    };
}

/* The piece that holds element `from`; *offset is the element's place in it. */
static const struct hvd_piece *find(struct hvd_payload *p, int64_t from, int64_t *offset)
{
    const struct hvd_piece *pieces = p->pieces ? p->pieces : &p->whole;

    while (from < p->before)
        p->before -= pieces[--p->at].count;
    while (from >= p->before + pieces[p->at].count && p->at < p->n_pieces - 1)
        p->before += pieces[p->at++].count;
    *offset = from - p->before;
    return &pieces[p->at];
}

/* The number of elements, at most count, that lie in this piece. */
static int64_t within(const struct hvd_piece *piece, int64_t offset, int64_t count)
{
    return count < piece->count - offset ? count : piece->count - offset;
}

int64_t hvd_payload_stretch(struct hvd_payload *p, int64_t from, int64_t count,
                            struct hvd_piece *found)
{
    int64_t offset = 0;
    const struct hvd_piece *piece = find(p, from, &offset);
    const size_t skip = (size_t)offset * p->width;

    found->input = piece->input ? (const char *)piece->input + skip : NULL;
    found->output = piece->output ? (char *)piece->output + skip : NULL;
    found->count = within(piece, offset, count);
    return found->count;
}

void hvd_payload_gather(struct hvd_payload *p, int64_t from, int64_t count, void *to)
{
    char *out = to;

    while (count > 0) {
        int64_t offset = 0;
        const struct hvd_piece *piece = find(p, from, &offset);
        const int64_t n = within(piece, offset, count);
        hvd_payload_copy(out, (const char *)piece->input + (size_t)offset * p->width,
                         (size_t)n * p->width);
        out += (size_t)n * p->width;
        from += n;
        count -= n;
    }
}

void hvd_payload_scatter(struct hvd_payload *p, int64_t from, int64_t count, const void *data,
                         bool streams)
{
    const char *in = data;

    while (count > 0) {
        int64_t offset = 0;
        const struct hvd_piece *piece = find(p, from, &offset);
        const int64_t n = within(piece, offset, count);
        const size_t bytes = (size_t)n * p->width;
        char *out = (char *)piece->output + (size_t)offset * p->width;
        if (streams && bytes >= HVD_PAYLOAD_STREAM_MIN)
            hvd_reduce_copy_stream(out, in, bytes);
        else
            hvd_payload_copy(out, in, bytes);
        in += bytes;
        from += n;
        count -= n;
    }
}
