/*
 * Reductions through shared memory.
 *
 * A small allreduce is one round: every rank puts its whole payload behind its flag, and every rank
 * reduces all of them. A larger one of two ranks is in shm_exchange.c. One of more ranks goes in
 * chunks that stay in the cache, two rounds each; the chunk has a slice for each rank:
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

#define CACHE_LINE ((size_t)64)

/* What a reduction makes: elements from an offset (bytes) on in each source. */
struct part {
    void *out;
    void *second; /* gets the same; NULL: none */
    size_t offset;
    int64_t count;
    bool streams; /* out is written past the caches */
};

/* The same where nothing is scaled and there is one output: as few steps as can be, because a small
 * allreduce takes as long as a line of the cache takes from one processor to the other. */
static void fold_plain(const struct hvd_shm *s, const struct hvd_collective *c,
                       const struct part *part)
{
    const char *const *from = s->sources;

    hvd_reduce_combine_into(c->dtype, c->reduce, part->out, from[0] + part->offset,
                            from[1] + part->offset, part->count);
    for (int rank = 2; rank < s->shape.n_ranks; rank++)
        hvd_reduce_combine(c->dtype, c->reduce, part->out, from[rank] + part->offset, part->count);
}

/* s->sources, prescaled, reduced in the order of the ranks, and finished. More than two are at most
 * HVD_SHM_SCRATCH bytes. An output may be a source. */
static void fold(const struct hvd_shm *s, const struct hvd_collective *c, const struct part *part)
{
    const char *const *from = s->sources;
    const int last = s->shape.n_ranks - 1;
    struct hvd_reduce_pass pass = {.dtype = c->dtype,
                                   .op = c->reduce,
                                   .a = from[0] + part->offset,
                                   .out = s->scratch,
                                   .count = part->count,
                                   .scaling = &c->scaling,
                                   .prescale_a = true,
                                   .prescale_b = true};

    for (int rank = 1; rank < last; rank++) {
        pass.b = from[rank] + part->offset;
        hvd_reduce_run(&pass);
        pass.a = s->scratch;
        pass.prescale_a = false;
    }
    if (last > 0)
        pass.b = from[last] + part->offset;
    pass.out = part->out;
    pass.second = part->second;
    pass.stream = part->streams;
    pass.finish = true;
    hvd_reduce_run(&pass);
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
    const size_t bytes = (size_t)mv->total * mv->payload.width;

    if (mv->c->pieces)
        hvd_shm_payload_gather(&mv->payload, 0, mv->total, slot->payload);
    else
        memcpy(slot->payload, mv->c->input, bytes);
    hvd_shm_count(s, bytes, 1, 1);
}

static bool read_small(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct hvd_collective *c = mv->c;
    const size_t bytes = (size_t)mv->total * mv->payload.width;
    const struct part part = {.out = c->pieces ? s->scratch : c->output, .count = mv->total};

    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        s->sources[rank] = (const char *)hvd_shm_slot(s, rank, s->round)->payload;
    if (hvd_scaling_is_identity(&c->scaling))
        fold_plain(s, c, &part);
    else
        fold(s, c, &part);
    hvd_shm_count(s, bytes, (unsigned)s->shape.n_ranks, 1);
    if (c->pieces) {
        hvd_shm_payload_scatter(&mv->payload, 0, mv->total, s->scratch, false);
        hvd_shm_count(s, bytes, 1, 1);
    }
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

char *hvd_shm_choose_place(struct hvd_shm *s, struct hvd_shm_payload *p, uint64_t round, int64_t at)
{
    struct hvd_shm_slot *slot = hvd_shm_slot(s, s->base.topology.rank, round);
    struct hvd_piece first;

    hvd_shm_payload_stretch(p, at, 1, &first);
    slot->place = (uint32_t)((uintptr_t)first.output % HVD_SHM_PAGE);
    return hvd_shm_stage(s, s->base.topology.rank, round) + slot->place;
}

static void stage_others(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct slice mine = slice_of(s, mv, s->base.topology.rank);
    const size_t width = mv->payload.width;
    const int64_t count = chunk_count(mv);
    char *stage = hvd_shm_choose_place(s, &mv->payload, s->round, mv->at);

    hvd_shm_payload_gather(&mv->payload, mv->at, mine.from, stage);
    hvd_shm_payload_gather(&mv->payload, mv->at + mine.to, count - mine.to,
                           stage + (size_t)mine.to * width);
    hvd_shm_count(s, (size_t)(count - (mine.to - mine.from)) * width, 1, 1);
}

/* A block of the slice that lies at `from`: straight from the input and to the output where it is
 * in one piece, else by way of the stage. */
static void reduce_block(struct hvd_shm *s, struct hvd_shm_move *mv, int64_t from,
                         const struct part *block, char *stage)
{
    struct part part = *block;
    struct hvd_piece piece;
    const bool is_one =
        hvd_shm_payload_stretch(&mv->payload, from, part.count, &piece) == part.count;

    part.out = stage;
    if (is_one) {
        part.out = piece.output;
        part.second = stage;
        part.streams = mv->streams && piece.input != piece.output;
    } else {
        hvd_shm_payload_gather(&mv->payload, from, part.count, stage);
    }
    s->sources[s->base.topology.rank] = (is_one ? (const char *)piece.input : stage) - part.offset;
    fold(s, mv->c, &part);
    if (!is_one) {
        hvd_shm_payload_scatter(&mv->payload, from, part.count, stage, false);
        hvd_shm_count(s, (size_t)part.count * mv->payload.width, 1, 1);
    }
}

/* By blocks that stay in the first cache. */
static void reduce_mine(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct slice mine = slice_of(s, mv, s->base.topology.rank);
    const size_t width = mv->payload.width;
    const int64_t most = (int64_t)(HVD_SHM_SCRATCH / width);
    const size_t offset = (size_t)mine.from * width;
    char *stage = hvd_shm_choose_place(s, &mv->payload, s->round, mv->at) + offset;

    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        s->sources[rank] = hvd_shm_chunk(s, rank, s->round - 1) + offset;
    for (int64_t at = 0; at < mine.to - mine.from; at += most) {
        const int64_t left = mine.to - mine.from - at;
        const struct part block = {.offset = (size_t)at * width,
                                   .count = left < most ? left : most};
        reduce_block(s, mv, mv->at + mine.from + at, &block, stage + block.offset);
    }
    hvd_shm_count(s, (size_t)(mine.to - mine.from) * width, (unsigned)s->shape.n_ranks, 2);
}

static void fetch_others(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int rank = s->base.topology.rank;
    const int n_ranks = s->shape.n_ranks;
    const size_t width = mv->payload.width;

    for (int i = 1; i < n_ranks; i++) {
        const int from = (rank + i) % n_ranks;
        const struct slice theirs = slice_of(s, mv, from);
        const int64_t count = theirs.to - theirs.from;
        hvd_shm_payload_scatter(&mv->payload, mv->at + theirs.from, count,
                                hvd_shm_chunk(s, from, s->round) + (size_t)theirs.from * width,
                                mv->streams);
        hvd_shm_count(s, (size_t)count * width, 1, 1);
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

static const struct hvd_shm_steps *choose_steps(const struct hvd_shm *s, size_t bytes)
{
    if (s->shape.n_ranks == 1)
        return &hvd_shm_alone_steps;
    if (bytes <= s->shape.small_bytes)
        return &small_steps;
    return s->shape.n_ranks == 2 ? &hvd_shm_exchange_steps : &chunk_steps;
}

void hvd_shm_plan_allreduce(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    hvd_shm_payload_init(&mv->payload, mv->c);
    const size_t width = mv->payload.width;
    const size_t bytes = (size_t)mv->c->count * width;

    mv->total = mv->c->count;
    mv->streams = bytes >= s->tuning.stream_bytes;
    mv->steps = choose_steps(s, bytes);
    if (mv->steps == &hvd_shm_exchange_steps)
        mv->stride = (int64_t)(s->tuning.exchange_bytes / width);
    else
        mv->stride = hvd_shm_part(s, width) * s->shape.n_ranks;
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
        hvd_shm_payload_gather(&mv->payload, before + mv->at, part_count(mv, rank),
                               stage + (size_t)(rank * mv->stride) * mv->payload.width);
        hvd_shm_count(s, (size_t)part_count(mv, rank) * mv->payload.width, 1, 1);
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
        const size_t offset = (size_t)at * width;
        const int64_t n = count - at < block ? count - at : block;
        fold(s, mv->c, &(struct part){.out = out + offset, .offset = offset, .count = n});
    }
    hvd_shm_count(s, (size_t)count * width, (unsigned)s->shape.n_ranks, 1);
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
