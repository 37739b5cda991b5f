/*
 * The elements of an allreduce as one run, whether they lie in one tensor or in many that were
 * fused: stages are filled straight from the tensors, results go straight to the outputs. A place
 * is found from the place last used, so that a pass over n pieces costs n steps, not n^2.
 */
#include <string.h>

#include "worker/reduce/reduce.h"
#include "worker/transport/shm_internal.h"

#define COPY_MAX ((size_t)1024)   /* libc copies so much with plain loads and stores */
#define STREAM_MIN ((size_t)4096) /* below it the fence costs more than it saves */

/* For long copies libc uses string instructions, which are several times slower on some processors
 * when both ends lie at about the same place in their pages, as tensors and stages often do. */
void hvd_shm_copy(void *to, const void *from, size_t len)
{
    char *out = to;
    const char *in = from;

    for (; len > COPY_MAX; len -= COPY_MAX) {
        memcpy(out, in, COPY_MAX);
        out += COPY_MAX;
        in += COPY_MAX;
    }
    memcpy(out, in, len);
}

void hvd_shm_payload_init(struct hvd_shm_payload *p, const struct hvd_collective *c)
{
    *p = (struct hvd_shm_payload){
        .pieces = c->pieces,
        .whole = {.input = c->input, .output = c->output, .count = c->count},
        .n_pieces = c->pieces ? c->n_pieces : 1,
        .width = hvd_dtype_size((int)c->dtype),
    };
}

/* The piece that holds element `from`; *offset is its place in there. */
static const struct hvd_piece *find(struct hvd_shm_payload *p, int64_t from, int64_t *offset)
{
    const struct hvd_piece *pieces = p->pieces ? p->pieces : &p->whole;

    while (from < p->before)
        p->before -= pieces[--p->at].count;
    while (from >= p->before + pieces[p->at].count && p->at < p->n_pieces - 1)
        p->before += pieces[p->at++].count;
    *offset = from - p->before;
    return &pieces[p->at];
}

const void *hvd_shm_payload_input(struct hvd_shm_payload *p, int64_t from, int64_t count)
{
    int64_t offset = 0;
    const struct hvd_piece *piece = find(p, from, &offset);

    return offset + count <= piece->count ? (const char *)piece->input + (size_t)offset * p->width
                                          : NULL;
}

void *hvd_shm_payload_output(struct hvd_shm_payload *p, int64_t from, int64_t count)
{
    int64_t offset = 0;
    const struct hvd_piece *piece = find(p, from, &offset);

    return offset + count <= piece->count ? (char *)piece->output + (size_t)offset * p->width
                                          : NULL;
}

/* How much of what is asked for lies in this piece. */
static int64_t within(const struct hvd_piece *piece, int64_t offset, int64_t count)
{
    return count < piece->count - offset ? count : piece->count - offset;
}

void hvd_shm_payload_gather(struct hvd_shm_payload *p, const struct hvd_collective *c, int64_t from,
                            int64_t count, void *to)
{
    const bool is_plain = c->scaling.prescale == 1;
    char *out = to;

    while (count > 0) {
        int64_t offset = 0;
        const struct hvd_piece *piece = find(p, from, &offset);
        const int64_t n = within(piece, offset, count);
        const char *in = (const char *)piece->input + (size_t)offset * p->width;
        if (is_plain)
            hvd_shm_copy(out, in, (size_t)n * p->width);
        else
            hvd_reduce_prescale(c->dtype, &c->scaling, out, in, n);
        out += (size_t)n * p->width;
        from += n;
        count -= n;
    }
}

void hvd_shm_payload_scatter(struct hvd_shm_payload *p, int64_t from, int64_t count,
                             const void *data, bool streams)
{
    const char *in = data;

    while (count > 0) {
        int64_t offset = 0;
        const struct hvd_piece *piece = find(p, from, &offset);
        const int64_t n = within(piece, offset, count);
        char *out = (char *)piece->output + (size_t)offset * p->width;
        if (streams && (size_t)n * p->width >= STREAM_MIN)
            hvd_reduce_copy_stream(out, in, (size_t)n * p->width);
        else
            hvd_shm_copy(out, in, (size_t)n * p->width);
        in += (size_t)n * p->width;
        from += n;
        count -= n;
    }
}
