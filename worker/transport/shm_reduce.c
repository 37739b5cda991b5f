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

/* s->sources from an offset on, reduced in the order of the ranks, and finished. out is none of
 * them. */
static void fold(const struct hvd_shm *s, const struct hvd_collective *c, void *out, size_t offset,
                 int64_t count)
{
    const char *const *from = s->sources;

    if (s->shape.n_ranks == 1)
        memcpy(out, from[0] + offset, (size_t)count * hvd_dtype_size((int)c->dtype));
    else
        hvd_reduce_combine_into(c->dtype, c->reduce, out, from[0] + offset, from[1] + offset,
                                count);
    for (int rank = 2; rank < s->shape.n_ranks; rank++)
        hvd_reduce_combine(c->dtype, c->reduce, out, from[rank] + offset, count);
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
    void *out = hvd_shm_payload_output(&mv->payload, 0, mv->total);

    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        s->sources[rank] = (const char *)hvd_shm_slot(s, rank, s->round)->payload;
    fold(s, mv->c, out ? out : s->scratch, 0, mv->total);
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

/*
 * Where this round's chunk begins in this rank's stage: at the same place of a page as in the
 * output. A load from memory that lies a little behind a recent store, seen modulo a page, waits
 * for that store; with all addresses of an element equal modulo a page, none does. Measured: a
 * factor of 3 for tensors from malloc, which begin 16 bytes into a page.
 */
static char *choose_place(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    struct hvd_shm_slot *slot = hvd_shm_slot(s, s->base.topology.rank, s->round);
    const void *output = hvd_shm_payload_output(&mv->payload, mv->at, 1);

    slot->place = (uintptr_t)output % HVD_SHM_PAGE;
    return hvd_shm_stage(s, s->base.topology.rank, s->round) + slot->place;
}

/* Where a rank's chunk lies that was posted in a round. */
static const char *chunk_of(const struct hvd_shm *s, int rank, uint64_t round)
{
    return hvd_shm_stage(s, rank, round) + hvd_shm_slot(s, rank, round)->place;
}

static void stage_others(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct slice mine = slice_of(s, mv, s->base.topology.rank);
    const int64_t count = chunk_count(mv);
    char *stage = choose_place(s, mv);

    hvd_shm_payload_gather(&mv->payload, mv->c, mv->at, mine.from, stage);
    hvd_shm_payload_gather(&mv->payload, mv->c, mv->at + mine.to, count - mine.to,
                           stage + (size_t)mine.to * mv->payload.width);
}

/* Two ranks, nothing to scale, a tensor in one piece: one pass writes both the output and the
 * stage. Whether that was it. */
static bool reduce_at_once(struct hvd_shm *s, struct hvd_shm_move *mv, struct slice mine,
                           char *stage)
{
    const struct hvd_collective *c = mv->c;
    const int64_t count = mine.to - mine.from;
    const void *input = hvd_shm_payload_input(&mv->payload, mv->at + mine.from, count);
    char *output = hvd_shm_payload_output(&mv->payload, mv->at + mine.from, count);
    void *const out[2] = {output, stage};

    if (s->shape.n_ranks != 2 || !input || !output || c->scaling.prescale != 1 ||
        c->scaling.postscale != 1 || c->scaling.divisor != 1)
        return false;
    s->sources[s->base.topology.rank] = input;
    if (mv->streams && output != input)
        hvd_reduce_combine_into2_stream(c->dtype, c->reduce, out, s->sources[0], s->sources[1],
                                        count);
    else
        hvd_reduce_combine_into2(c->dtype, c->reduce, out, s->sources[0], s->sources[1], count);
    return true;
}

/* The slice by blocks that stay in the first cache. */
static void reduce_by_blocks(struct hvd_shm *s, struct hvd_shm_move *mv, struct slice mine,
                             char *stage)
{
    const struct hvd_collective *c = mv->c;
    const size_t width = mv->payload.width;
    const int64_t block = (int64_t)(HVD_SHM_SCRATCH / width);
    size_t offset = 0;

    for (int64_t at = mine.from; at < mine.to; at += block) {
        const int64_t n = mine.to - at < block ? mine.to - at : block;
        const char *input =
            c->scaling.prescale == 1 ? hvd_shm_payload_input(&mv->payload, mv->at + at, n) : NULL;
        if (!input) {
            hvd_shm_payload_gather(&mv->payload, c, mv->at + at, n, s->scratch);
            input = s->scratch;
        }
        s->sources[s->base.topology.rank] = input - offset;
        fold(s, c, stage + offset, offset, n);
        hvd_shm_payload_scatter(&mv->payload, mv->at + at, n, stage + offset, mv->streams);
        offset += (size_t)n * width;
    }
}

static void reduce_mine(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct slice mine = slice_of(s, mv, s->base.topology.rank);
    const size_t offset = (size_t)mine.from * mv->payload.width;
    char *stage = choose_place(s, mv) + offset;

    if (mine.from == mine.to)
        return;
    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        s->sources[rank] = chunk_of(s, rank, s->round - 1) + offset;
    if (!reduce_at_once(s, mv, mine, stage))
        reduce_by_blocks(s, mv, mine, stage);
}

static void fetch_others(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int rank = s->base.topology.rank;
    const int n_ranks = s->shape.n_ranks;

    for (int i = 1; i < n_ranks; i++) {
        const int from = (rank + i) % n_ranks;
        const struct slice theirs = slice_of(s, mv, from);
        hvd_shm_payload_scatter(
            &mv->payload, mv->at + theirs.from, theirs.to - theirs.from,
            chunk_of(s, from, s->round) + (size_t)theirs.from * mv->payload.width, mv->streams);
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
    const int me = s->base.topology.rank;
    const size_t width = mv->payload.width;
    const int64_t block = (int64_t)(HVD_SHM_SCRATCH / width);
    const int64_t count = part_count(mv, me);
    char *out = (char *)mv->c->output + (size_t)mv->at * width;

    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        s->sources[rank] = hvd_shm_stage(s, rank, s->round) + (size_t)(me * mv->stride) * width;
    for (int64_t at = 0; at < count; at += block) {
        const int64_t n = count - at < block ? count - at : block;
        fold(s, mv->c, out + (size_t)at * width, (size_t)at * width, n);
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
