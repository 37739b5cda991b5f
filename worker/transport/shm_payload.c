/*
 * The elements of an allreduce as one run, whether they lie in one tensor or in many that were
 * fused: stages are filled straight from the tensors, results go straight to the outputs. A place
 * is found from the place last used, so that a pass over n pieces costs n steps, not n^2.
 */
#include <string.h>

#include "worker/reduce/reduce.h"
#include "worker/transport/shm_internal.h"

#define COPY_MAX ((size_t)1024) /* libc copies so much with plain loads and stores */

/* For long copies libc uses string instructions, which are several times slower on some processors
 * when both ends lie at about the same place in their pages, as tensors and stages often do. */
void hvd_shm_copy(void *to, const void *from, size_t len)
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

int64_t hvd_shm_payload_stretch(struct hvd_shm_payload *p, int64_t from, int64_t count,
                                struct hvd_piece *found)
{
    int64_t offset = 0;
    const struct hvd_piece *piece = find(p, from, &offset);
    const size_t skip = (size_t)offset * p->width;

    found->input = piece->input ? (const char *)piece->input + skip : NULL;
    found->output = piece->output ? (char *)piece->output + skip : NULL;
    found->count = count < piece->count - offset ? count : piece->count - offset;
    return found->count;
}

void hvd_shm_payload_gather(struct hvd_shm_payload *p, int64_t from, int64_t count, void *to)
{
    struct hvd_piece part;
    char *out = to;

    for (const int64_t end = from + count; from < end; from += part.count) {
        const size_t bytes = (size_t)hvd_shm_payload_stretch(p, from, end - from, &part) * p->width;
        hvd_shm_copy(out, part.input, bytes);
        out += bytes;
    }
}

void hvd_shm_payload_scatter(struct hvd_shm_payload *p, int64_t from, int64_t count,
                             const void *data, bool streams)
{
    struct hvd_piece part;
    const char *in = data;

    for (const int64_t end = from + count; from < end; from += part.count) {
        const size_t bytes = (size_t)hvd_shm_payload_stretch(p, from, end - from, &part) * p->width;
        if (streams && bytes >= HVD_SHM_STREAM_MIN)
            hvd_reduce_copy_stream(part.output, in, bytes);
        else
            hvd_shm_copy(part.output, in, bytes);
        in += bytes;
    }
}
