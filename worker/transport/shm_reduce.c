/*
 * Reductions through shared memory.
 *
 * A small allreduce is one round: every rank puts its whole payload behind its flag, and every rank
 * reduces all of them. A larger one goes in chunks that stay in the cache, two rounds each; the
 * chunk has a slice for each rank:
 *
 *     first    write: the slices of the others into my stage
 *     second   write: my slice, reduced from my input and the stages of the others, into my output
 *              and my other stage;  read: the slices of the others into my output
 *
 * Every element is reduced in the order of the ranks, once, or by all of them with the same
 * operations: the bits are the same everywhere and in every run.
 */
#include <string.h>

#include "worker/reduce/reduce.h"
#include "worker/transport/shm_internal.h"

#define STREAM_MIN ((int64_t)8 << 20) /* payloads that do not stay in any cache */
#define CACHE_LINE ((size_t)64)

/* The same stretch of every rank's payload. */
struct sources {
    const char *first; /* rank 0's */
    size_t stride;     /* from one rank's to the next's */
    int n_ranks;
    int own;              /* this rank reads its own elsewhere; -1: not */
    const char *own_data; /* there */
};

static const char *source(const struct sources *from, int rank)
{
    return rank == from->own ? from->own_data : from->first + (size_t)rank * from->stride;
}

/* The sources reduced in the order of the ranks, and finished. out is none of them. */
static void fold(const struct hvd_collective *c, void *out, const struct sources *from,
                 int64_t count)
{
    if (from->n_ranks == 1)
        memcpy(out, source(from, 0), (size_t)count * hvd_dtype_size((int)c->dtype));
    else
        hvd_reduce_combine_into(c->dtype, c->reduce, out, source(from, 0), source(from, 1), count);
    for (int rank = 2; rank < from->n_ranks; rank++)
        hvd_reduce_combine(c->dtype, c->reduce, out, source(from, rank), count);
    hvd_reduce_finish(c->dtype, &c->scaling, out, count);
}

int64_t hvd_shm_part(const struct hvd_shm *s, size_t width)
{
    const size_t bytes = s->shape.stage_bytes / (size_t)s->shape.n_ranks;

    return (int64_t)(bytes / CACHE_LINE * CACHE_LINE / width);
}

/* --- Small allreduce -------------------------------------------------------------------------- */

static void write_small(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    struct hvd_shm_slot *slot = hvd_shm_slot(s, s->base.topology.rank, s->round);

    hvd_shm_payload_gather(&mv->payload, mv->c, 0, mv->total, slot->payload);
}

static bool read_small(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct sources from = {
        .first = (const char *)hvd_shm_slot(s, 0, s->round)->payload,
        .stride = 2 * sizeof(struct hvd_shm_slot),
        .n_ranks = s->shape.n_ranks,
        .own = -1,
    };
    void *out = hvd_shm_payload_output(&mv->payload, 0, mv->total);

    fold(mv->c, out ? out : s->scratch, &from, mv->total);
    if (!out)
        hvd_shm_payload_scatter(&mv->payload, 0, mv->total, s->scratch, false);
    return true;
}

static const struct hvd_shm_steps small_steps = {write_small, read_small};

/* --- Allreduce in chunks ---------------------------------------------------------------------- */

/* Elements [from, to) of the chunk. */
struct slice {
    int64_t from;
    int64_t to;
};

static int64_t chunk_count(const struct hvd_shm_move *mv)
{
    const int64_t left = mv->total - mv->at;

    return left < mv->stride ? left : mv->stride;
}

/* The slice of a rank; begins with a line of the cache, may be empty. */
static struct slice slice_of(const struct hvd_shm *s, const struct hvd_shm_move *mv, int rank)
{
    const int64_t count = chunk_count(mv);
    const int64_t line = (int64_t)(CACHE_LINE / mv->payload.width);
    const int64_t share = (count + s->shape.n_ranks - 1) / s->shape.n_ranks;
    const int64_t step = (share + line - 1) / line * line;
    const int64_t from = step * rank < count ? step * rank : count;

    return (struct slice){.from = from, .to = from + step < count ? from + step : count};
}

static void stage_others(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct slice mine = slice_of(s, mv, s->base.topology.rank);
    const int64_t count = chunk_count(mv);
    char *stage = hvd_shm_stage(s, s->base.topology.rank, s->round);

    hvd_shm_payload_gather(&mv->payload, mv->c, mv->at, mine.from, stage);
    hvd_shm_payload_gather(&mv->payload, mv->c, mv->at + mine.to, count - mine.to,
                           stage + (size_t)mine.to * mv->payload.width);
}

/* Two ranks, nothing to scale, a tensor in one piece: one pass writes both the output and the
 * stage. Whether that was it. */
static bool reduce_at_once(struct hvd_shm_move *mv, struct slice mine, const struct sources *from,
                           char *stage)
{
    const struct hvd_collective *c = mv->c;
    const int64_t count = mine.to - mine.from;
    char *output = hvd_shm_payload_output(&mv->payload, mv->at + mine.from, count);
    void *const out[2] = {output, stage};

    if (from->n_ranks != 2 || !from->own_data || !output || c->scaling.postscale != 1 ||
        c->scaling.divisor != 1)
        return false;
    if (mv->streams && output != from->own_data)
        hvd_reduce_combine_into2_stream(c->dtype, c->reduce, out, source(from, 0), source(from, 1),
                                        count);
    else
        hvd_reduce_combine_into2(c->dtype, c->reduce, out, source(from, 0), source(from, 1), count);
    return true;
}

/* The slice by blocks that stay in the first cache. */
static void reduce_by_blocks(struct hvd_shm *s, struct hvd_shm_move *mv, struct slice mine,
                             struct sources from, char *stage)
{
    const struct hvd_collective *c = mv->c;
    const size_t width = mv->payload.width;
    const int64_t block = (int64_t)(HVD_SHM_SCRATCH / width);

    for (int64_t at = mine.from; at < mine.to; at += block) {
        const int64_t n = mine.to - at < block ? mine.to - at : block;
        from.own_data =
            c->scaling.prescale == 1 ? hvd_shm_payload_input(&mv->payload, mv->at + at, n) : NULL;
        if (!from.own_data) {
            hvd_shm_payload_gather(&mv->payload, c, mv->at + at, n, s->scratch);
            from.own_data = s->scratch;
        }
        fold(c, stage, &from, n);
        hvd_shm_payload_scatter(&mv->payload, mv->at + at, n, stage, mv->streams);
        from.first += (size_t)n * width;
        stage += (size_t)n * width;
    }
}

static void reduce_mine(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int rank = s->base.topology.rank;
    const struct slice mine = slice_of(s, mv, rank);
    const size_t offset = (size_t)mine.from * mv->payload.width;
    char *stage = hvd_shm_stage(s, rank, s->round) + offset;
    struct sources from = {
        .first = hvd_shm_stage(s, 0, s->round - 1) + offset,
        .stride = 2 * s->shape.stage_bytes,
        .n_ranks = s->shape.n_ranks,
        .own = rank,
    };

    if (mine.from == mine.to)
        return;
    if (mv->c->scaling.prescale == 1)
        from.own_data =
            hvd_shm_payload_input(&mv->payload, mv->at + mine.from, mine.to - mine.from);
    if (!reduce_at_once(mv, mine, &from, stage))
        reduce_by_blocks(s, mv, mine, from, stage);
}

static void fetch_others(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int rank = s->base.topology.rank;
    const int n_ranks = s->shape.n_ranks;

    for (int i = 1; i < n_ranks; i++) {
        const int from = (rank + i) % n_ranks;
        const struct slice theirs = slice_of(s, mv, from);
        hvd_shm_payload_scatter(&mv->payload, mv->at + theirs.from, theirs.to - theirs.from,
                                hvd_shm_stage(s, from, s->round) +
                                    (size_t)theirs.from * mv->payload.width,
                                mv->streams);
    }
}

static void write_chunk(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    if (mv->is_second)
        reduce_mine(s, mv);
    else
        stage_others(s, mv);
}

static bool read_chunk(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    if (mv->is_second) {
        fetch_others(s, mv);
        mv->at += chunk_count(mv);
    }
    mv->is_second = !mv->is_second;
    return mv->at == mv->total;
}

static const struct hvd_shm_steps chunk_steps = {write_chunk, read_chunk};

void hvd_shm_plan_allreduce(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct hvd_collective *c = mv->c;

    hvd_shm_payload_init(&mv->payload, c);
    const int64_t bytes = c->count * (int64_t)mv->payload.width;
    mv->total = c->count;
    mv->stride = hvd_shm_part(s, mv->payload.width) * s->shape.n_ranks;
    mv->streams = bytes >= STREAM_MIN;
    mv->steps = bytes <= (int64_t)s->shape.small_bytes ? &small_steps : &chunk_steps;
}

/* --- Reducescatter ---------------------------------------------------------------------------- */

/* How much of a rank's part this round moves. */
static int64_t part_count(const struct hvd_shm_move *mv, int rank)
{
    const int64_t left = mv->c->counts[rank] - mv->at;

    return left < 0 ? 0 : left < mv->stride ? left : mv->stride;
}

/* Everything is staged, this rank's part too: the output may lie on top of the input. */
static void write_parts(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    char *stage = hvd_shm_stage(s, s->base.topology.rank, s->round);
    int64_t before = 0;

    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        hvd_shm_payload_gather(&mv->payload, mv->c, before + mv->at, part_count(mv, rank),
                               stage + (size_t)(rank * mv->stride) * mv->payload.width);
        before += mv->c->counts[rank];
    }
}

static bool read_part(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int rank = s->base.topology.rank;
    const size_t width = mv->payload.width;
    const int64_t block = (int64_t)(HVD_SHM_SCRATCH / width);
    const int64_t count = part_count(mv, rank);
    char *out = (char *)mv->c->output + (size_t)mv->at * width;
    struct sources from = {
        .first = hvd_shm_stage(s, 0, s->round) + (size_t)(rank * mv->stride) * width,
        .stride = 2 * s->shape.stage_bytes,
        .n_ranks = s->shape.n_ranks,
        .own = -1,
    };

    for (int64_t at = 0; at < count; at += block) {
        const int64_t n = count - at < block ? count - at : block;
        fold(mv->c, out, &from, n);
        from.first += (size_t)n * width;
        out += (size_t)n * width;
    }
    mv->at += mv->stride;
    return mv->at >= mv->total;
}

static const struct hvd_shm_steps part_steps = {write_parts, read_part};

void hvd_shm_plan_reducescatter(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    hvd_shm_payload_init(&mv->payload, mv->c);
    mv->stride = hvd_shm_part(s, mv->payload.width);
    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        if (mv->c->counts[rank] > mv->total)
            mv->total = mv->c->counts[rank];
    mv->steps = &part_steps;
}
