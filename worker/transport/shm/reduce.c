/*
 * Reductions through shared memory.
 *
 * A small allreduce takes one round: every rank puts its whole payload behind its flag, and every
 * rank reduces all of them. exchange.c has larger ones of two ranks, slices.c those of more. In a
 * reducescatter every rank stages all its data, and each rank reduces its part.
 *
 * Every element is reduced in the order of the ranks, once, or by all ranks with the same
 * operations: the bits are the same on every rank and in every run.
 */
#include <string.h>

#include "worker/reduce/reduce.h"
#include "worker/transport/shm/shm_internal.h"

#define CACHE_LINE ((size_t)64)

/* Reduces without scaling in as few steps as possible: a small allreduce takes only as long as a
 * cache line needs from one processor to the other. */
static void fold_plain(const struct hvd_shm *s, const struct hvd_collective *c, void *out,
                       int64_t count)
{
    const char *const *from = s->sources;

    hvd_reduce_combine_into(c->dtype, c->reduce, out, from[0], from[1], count);
    for (int rank = 2; rank < s->shape.n_ranks; rank++)
        hvd_reduce_combine(c->dtype, c->reduce, out, from[rank], count);
}

void hvd_shm_fold(const struct hvd_shm *s, const struct hvd_collective *c,
                  const struct hvd_shm_fold *f)
{
    const char *const *from = s->sources;
    const int last = f->n_sources - 1;
    struct hvd_reduce_pass pass = {.dtype = c->dtype,
                                   .op = c->reduce,
                                   .a = from[0],
                                   .out = s->scratch,
                                   .count = f->count,
                                   .scaling = &c->scaling,
                                   .prescale_a = f->prescales,
                                   .prescale_b = f->prescales};

    for (int i = 1; i < last; i++) {
        pass.b = from[i];
        hvd_reduce_run(&pass);
        pass.a = s->scratch;
        pass.prescale_a = false;
    }
    if (last > 0)
        pass.b = from[last];
    pass.out = f->out;
    pass.second = f->second;
    pass.stream = f->streams;
    pass.finish = f->finishes;
    hvd_reduce_run(&pass);
}

int64_t hvd_shm_part(const struct hvd_shm *s, size_t width)
{
    const size_t bytes = s->shape.stage_bytes / (size_t)s->shape.n_ranks;

    return (int64_t)(bytes / CACHE_LINE * CACHE_LINE / width);
}

/* --- Small allreduce -------------------------------------------------------------------------- */

/* The area of a small payload: in the flag's line if it fits there, else behind it. The others poll
 * the flag all the time, so they would take away a line that needs two writes. */
static void *small_area(const struct hvd_shm *s, int rank, size_t bytes)
{
    struct hvd_shm_cell *cell = hvd_shm_cell(s, rank, s->round);

    return bytes <= HVD_SHM_HEAD ? cell->payload : cell->payload + HVD_SHM_HEAD;
}

static void write_small(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const size_t bytes = (size_t)mv->total * mv->payload.width;
    void *area = small_area(s, s->base.topology.rank, bytes);

    if (mv->c->pieces)
        hvd_payload_gather(&mv->payload, 0, mv->total, area);
    else
        memcpy(area, mv->c->input, bytes);
    hvd_shm_count(s, bytes, 1, 1);
}

static bool read_small(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct hvd_collective *c = mv->c;
    const size_t bytes = (size_t)mv->total * mv->payload.width;
    const struct hvd_shm_fold all = {.n_sources = s->shape.n_ranks,
                                     .prescales = true,
                                     .finishes = true,
                                     .out = c->pieces ? s->scratch : c->output,
                                     .count = mv->total};

    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        s->sources[rank] = small_area(s, rank, bytes);
    if (hvd_scale_is_identity(&c->scaling))
        fold_plain(s, c, all.out, all.count);
    else
        hvd_shm_fold(s, c, &all);
    hvd_shm_count(s, bytes, (unsigned)s->shape.n_ranks, 1);
    if (c->pieces) {
        hvd_payload_scatter(&mv->payload, 0, mv->total, s->scratch, false);
        hvd_shm_count(s, bytes, 1, 1);
    }
    return true;
}

static const struct hvd_shm_steps small_steps = {write_small, read_small};

/* --- Larger ones ------------------------------------------------------------------------------ */

char *hvd_shm_choose_offset(struct hvd_shm *s, struct hvd_payload *p, uint64_t round, int64_t at)
{
    struct hvd_shm_cell *cell = hvd_shm_cell(s, s->base.topology.rank, round);
    struct hvd_piece first;

    hvd_payload_stretch(p, at, 1, &first);
    cell->offset = (uint16_t)((uintptr_t)first.output % HVD_SHM_PAGE);
    return hvd_shm_stage(s, s->base.topology.rank, round) + cell->offset;
}

static const struct hvd_shm_steps *choose_steps(const struct hvd_shm *s, size_t bytes)
{
    if (s->shape.n_ranks == 1)
        return &hvd_shm_alone_steps;
    if (bytes <= s->shape.small_bytes)
        return &small_steps;
    return s->shape.n_ranks == 2 ? &hvd_shm_exchange_steps : &hvd_shm_slice_steps;
}

void hvd_shm_prepare_allreduce(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    hvd_payload_init(&mv->payload, mv->c);
    const size_t width = mv->payload.width;
    const size_t bytes = (size_t)mv->c->count * width;

    mv->total = mv->c->count;
    mv->streams = bytes >= s->tuning.stream_bytes;
    mv->steps = choose_steps(s, bytes);
    if (mv->steps == &hvd_shm_exchange_steps)
        mv->stride = (int64_t)(s->tuning.exchange_bytes / width);
    else
        mv->stride = (int64_t)(s->tuning.slices_bytes / width);
}

/* --- Reducescatter ---------------------------------------------------------------------------- */

/* The number of elements of a rank's part that this round moves. */
static int64_t part_count(const struct hvd_shm_move *mv, int rank)
{
    const int64_t left = mv->c->counts[rank] - mv->at;

    return left < 0 ? 0 : left < mv->stride ? left : mv->stride;
}

/* Stages all parts, this rank's too, because the output may overlap the input. */
static void write_parts(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    char *stage = hvd_shm_stage(s, s->base.topology.rank, s->round);
    int64_t before = 0;

    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        hvd_payload_gather(&mv->payload, before + mv->at, part_count(mv, rank),
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

    for (int64_t at = 0; at < count; at += block) {
        const size_t offset = (size_t)(me * mv->stride + at) * width;
        const struct hvd_shm_fold part = {.n_sources = s->shape.n_ranks,
                                          .prescales = true,
                                          .finishes = true,
                                          .out = out + (size_t)at * width,
                                          .count = count - at < block ? count - at : block};
        for (int rank = 0; rank < s->shape.n_ranks; rank++)
            s->sources[rank] = hvd_shm_stage(s, rank, s->round) + offset;
        hvd_shm_fold(s, mv->c, &part);
    }
    hvd_shm_count(s, (size_t)count * width, (unsigned)s->shape.n_ranks, 1);
    mv->at += mv->stride;
    return mv->at >= mv->total;
}

static const struct hvd_shm_steps part_steps = {write_parts, read_part};

void hvd_shm_prepare_reducescatter(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    hvd_payload_init(&mv->payload, mv->c);
    mv->stride = hvd_shm_part(s, mv->payload.width);
    for (int rank = 0; rank < s->shape.n_ranks; rank++)
        if (mv->c->counts[rank] > mv->total)
            mv->total = mv->c->counts[rank];
    mv->steps = &part_steps;
}
