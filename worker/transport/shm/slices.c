/*
 * Allreduce of more than two ranks, in chunks that stay in the cache. A chunk has a slice for each
 * rank, two rounds:
 *
 *     0   write: the slices of the others into my stage
 *     1   write: my slice, reduced from my input and the stages of the others, into my output and
 *                my other stage;  read: the slices of the others into my output
 *
 * Ranks on several packages, or nodes of memory, go in localities, so that as little as can be
 * crosses between those. A chunk has a slice for each rank of a locality; in every locality one
 * rank has the same slice. Three rounds:
 *
 *     0   write: the slices of the others of my locality into my stage
 *     1   write: my slice of my locality, reduced from my input and the stages of the locality
 *     2   write: my slice of all, reduced from those of all, into my output and my stage;
 *         read: the slices of the others of my locality into my output
 *
 * Only the last one reads from other localities, a slice from each. An element is reduced by one
 * rank of each locality with the same operations in the same order, of ranks within a locality,
 * then of localities: the bits are the same everywhere and in every run.
 */
#include "worker/reduce/reduce.h"
#include "worker/transport/shm/shm_internal.h"

#define CACHE_LINE ((size_t)64)

/* This rank's locality; without localities all ranks are one. */
struct locality {
    int locality_size;
    int index;          /* within the locality: which slice is mine */
    const int *members; /* the ranks of my locality */
    int n_rounds;
};

/* Elements [from, to) of the chunk. */
struct slice {
    int64_t from;
    int64_t to;
};

/* Elements of my slice, few enough to stay in the first-level cache. */
struct block {
    int64_t from; /* element of the chunk */
    int64_t count;
    char *stage; /* their place in my stage */
};

static struct locality locality_of(const struct hvd_shm *s)
{
    const int locality_size = s->shape.n_ranks / s->tuning.n_localities;
    int at = 0;

    while (s->order[at] != s->base.topology.rank)
        at++;
    return (struct locality){.locality_size = locality_size,
                             .index = at % locality_size,
                             .members = s->order + at / locality_size * locality_size,
                             .n_rounds = s->tuning.n_localities > 1 ? 3 : 2};
}

static int64_t chunk_count(const struct hvd_shm_move *mv)
{
    const int64_t left = mv->total - mv->at;

    return left < mv->stride ? left : mv->stride;
}

/* The slice of an index in a locality; it begins on a line of the cache and may be empty. */
static struct slice slice_of(const struct hvd_shm_move *mv, const struct locality *p, int index)
{
    const int64_t count = chunk_count(mv);
    const int64_t line = (int64_t)(CACHE_LINE / mv->payload.width);
    const int64_t share = (count + p->locality_size - 1) / p->locality_size;
    const int64_t step = (share + line - 1) / line * line;
    const int64_t from = step * index < count ? step * index : count;

    return (struct slice){.from = from, .to = from + step < count ? from + step : count};
}

static void stage_others(struct hvd_shm *s, struct hvd_shm_move *mv, const struct locality *p)
{
    const struct slice mine = slice_of(mv, p, p->index);
    const size_t width = mv->payload.width;
    const int64_t count = chunk_count(mv);
    char *stage = hvd_shm_choose_offset(s, &mv->payload, s->round, mv->at);

    hvd_payload_gather(&mv->payload, mv->at, mine.from, stage);
    hvd_payload_gather(&mv->payload, mv->at + mine.to, count - mine.to,
                       stage + (size_t)mine.to * width);
    hvd_shm_count(s, (size_t)(count - (mine.to - mine.from)) * width, 1, 1);
}

/* Finds the operands of my block. In round 1: my input, at `mine`, and the stages of my locality.
 * In round 2: the results of the localities. */
static int find_sources(struct hvd_shm *s, const struct hvd_shm_move *mv, const struct locality *p,
                        const struct block *block, const char *mine)
{
    const size_t offset = (size_t)block->from * mv->payload.width;
    const bool is_locality = mv->phase == 1;
    const int n = is_locality ? p->locality_size : s->tuning.n_localities;

    for (int i = 0; i < n; i++) {
        const int rank = is_locality ? p->members[i] : s->order[i * p->locality_size + p->index];
        s->sources[i] = hvd_shm_chunk(s, rank, s->round - 1) + offset;
    }
    if (is_locality)
        s->sources[p->index] = mine;
    return n;
}

/* Reduces straight from the input and to the output if the block lies in one piece, else through
 * the stage. */
static void reduce_block(struct hvd_shm *s, struct hvd_shm_move *mv, const struct locality *p,
                         const struct block *block)
{
    const int64_t at = mv->at + block->from;
    const bool is_last = mv->phase == p->n_rounds - 1;
    struct hvd_piece piece;
    const bool is_one = hvd_payload_stretch(&mv->payload, at, block->count, &piece) == block->count;
    struct hvd_shm_fold fold = {.prescales = mv->phase == 1,
                                .finishes = is_last,
                                .out = block->stage,
                                .count = block->count};

    if (mv->phase == 1 && !is_one)
        hvd_payload_gather(&mv->payload, at, block->count, block->stage);
    fold.n_sources = find_sources(s, mv, p, block, is_one ? piece.input : block->stage);
    if (is_last && is_one) {
        fold.out = piece.output;
        fold.second = block->stage;
        fold.streams = mv->streams && piece.input != piece.output;
    }
    hvd_shm_fold(s, mv->c, &fold);
    if (is_last && !is_one) {
        hvd_payload_scatter(&mv->payload, at, block->count, block->stage, false);
        hvd_shm_count(s, (size_t)block->count * mv->payload.width, 1, 1);
    }
}

static void reduce_mine(struct hvd_shm *s, struct hvd_shm_move *mv, const struct locality *p)
{
    const struct slice mine = slice_of(mv, p, p->index);
    const size_t width = mv->payload.width;
    const int64_t most = (int64_t)(HVD_SHM_SCRATCH / width);
    char *stage = hvd_shm_choose_offset(s, &mv->payload, s->round, mv->at);
    const int n_sources = mv->phase == 1 ? p->locality_size : s->tuning.n_localities;
    struct block block = {.from = mine.from};

    for (; block.from < mine.to; block.from += block.count) {
        block.count = mine.to - block.from < most ? mine.to - block.from : most;
        block.stage = stage + (size_t)block.from * width;
        reduce_block(s, mv, p, &block);
    }
    hvd_shm_count(s, (size_t)(mine.to - mine.from) * width, (unsigned)n_sources,
                  mv->phase == p->n_rounds - 1 ? 2 : 1);
}

static void fetch_others(struct hvd_shm *s, struct hvd_shm_move *mv, const struct locality *p)
{
    const size_t width = mv->payload.width;

    for (int i = 1; i < p->locality_size; i++) {
        const int index = (p->index + i) % p->locality_size;
        const struct slice theirs = slice_of(mv, p, index);
        const int64_t count = theirs.to - theirs.from;
        const char *data = hvd_shm_chunk(s, p->members[index], s->round);
        hvd_payload_scatter(&mv->payload, mv->at + theirs.from, count,
                            data + (size_t)theirs.from * width, mv->streams);
        hvd_shm_count(s, (size_t)count * width, 1, 1);
    }
}

static void write_slices(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct locality p = locality_of(s);

    if (mv->phase == 0)
        stage_others(s, mv, &p);
    else
        reduce_mine(s, mv, &p);
}

static bool read_slices(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct locality p = locality_of(s);

    if (++mv->phase < p.n_rounds)
        return false;
    mv->phase = 0;
    fetch_others(s, mv, &p);
    mv->at += chunk_count(mv);
    return mv->at == mv->total;
}

const struct hvd_shm_steps hvd_shm_slice_steps = {write_slices, read_slices};
