/*
 * The elements of a reduction as one run, whether they lie in one tensor or in many that were
 * fused: stages are filled straight from the tensors, results go straight to the outputs. A place
 * is found from the place last used, so that going through n pieces costs n steps, not n^2.
 */
#include "worker/reduce/reduce.h"
#include "worker/transport/hosts/hosts_internal.h"

#define STREAM_MIN                                                                                 \
    ((size_t)4096) /* below it a fence costs more than passing the caches by saves                 \
                    */

void hvd_hosts_payload_init(struct hvd_hosts_payload *p, const struct hvd_collective *c)
{
    *p = (struct hvd_hosts_payload){
        .pieces = c->pieces,
        .whole = {.input = c->input, .output = c->output, .count = c->count},
        .n_pieces = c->pieces ? c->n_pieces : 1,
        .width = hvd_dtype_size((int)c->dtype),
    };
}

/* What begins with element `from` and lies in one piece, of at most count elements. */
static struct hvd_piece stretch_at(struct hvd_hosts_payload *p, int64_t from, int64_t count)
{
    const struct hvd_piece *pieces = p->pieces ? p->pieces : &p->whole;

    while (from < p->before)
        p->before -= pieces[--p->at].count;
    while (from >= p->before + pieces[p->at].count && p->at < p->n_pieces - 1)
        p->before += pieces[p->at++].count;
    const struct hvd_piece *piece = &pieces[p->at];
    const size_t skip = (size_t)(from - p->before) * p->width;
    const int64_t left = p->before + piece->count - from;
    return (struct hvd_piece){.input = piece->input ? (const char *)piece->input + skip : NULL,
                              .output = piece->output ? (char *)piece->output + skip : NULL,
                              .count = left < count ? left : count};
}

const void *hvd_hosts_payload_input(struct hvd_hosts_payload *p, int64_t from, int64_t count)
{
    const struct hvd_piece part = stretch_at(p, from, count);

    return part.count == count ? part.input : NULL;
}

void hvd_hosts_payload_gather(struct hvd_hosts_payload *p, const struct hvd_collective *c,
                              int64_t from, int64_t count, void *to)
{
    const bool is_plain = c->scaling.prescale == 1;
    char *out = to;

    for (const int64_t end = from + count; from < end;) {
        const struct hvd_piece part = stretch_at(p, from, end - from);
        const size_t bytes = (size_t)part.count * p->width;
        if (is_plain)
            hvd_shm_copy(out, part.input, bytes);
        else
            hvd_reduce_prescale(c->dtype, &c->scaling, out, part.input, part.count);
        out += bytes;
        from += part.count;
    }
}

void hvd_hosts_payload_scatter(struct hvd_hosts_payload *p, int64_t from, int64_t count,
                               const void *data, bool streams)
{
    const char *in = data;

    for (const int64_t end = from + count; from < end;) {
        const struct hvd_piece part = stretch_at(p, from, end - from);
        const size_t bytes = (size_t)part.count * p->width;
        if (streams && bytes >= STREAM_MIN)
            hvd_reduce_copy_stream(part.output, in, bytes);
        else
            hvd_shm_copy(part.output, in, bytes);
        in += bytes;
        from += part.count;
    }
}
