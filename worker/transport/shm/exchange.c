/*
 * Allreduce of two ranks, and of one.
 *
 * Two ranks exchange whole chunks, and both reduce all of them. Their caches exchange no more bytes
 * than if each rank reduced a half and handed the result over, and a chunk needs one wait instead
 * of two. While a rank reduces a chunk, it puts the next one into the stage, line by line in turn:
 * reading the tensor waits for memory, reading the other's stage waits for its cache, and the two
 * waits overlap.
 *
 *     first chunk    write: all of it into my stage
 *     each chunk     read:  reduced with the other's stage into my output; the next one into my
 *                    stage of the next round
 *
 * The stage of the next round is free by then. The other rank has posted this round, so it has read
 * the one before, which lay in the same area. Both ranks take rank 0's elements first, so they get
 * the same bits.
 */

#include "base/clock.h"
#include "worker/reduce/reduce.h"
#include "worker/transport/shm/shm_internal.h"

#define MIDDLE ((size_t)16 << 10)

/* One chunk while it is reduced. */
struct exchange {
    const char *mine; /* my stage of this round */
    const char *theirs;
    char *stage;         /* of the next round; NULL: this chunk is the last */
    int64_t at;          /* elements of the chunk done */
    int64_t count;       /* of the chunk */
    int64_t count_ahead; /* of the next chunk */
    bool is_past;        /* the next chunk is written past the caches */
    struct hvd_payload ahead;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static char *stage_at(struct hvd_shm *s, struct hvd_shm_move *mv, uint64_t round, int64_t at)
{
    return hvd_shm_choose_offset(s, &mv->payload, round, at);
}

/* Payloads of different sizes have different paces: measurements of small ones do not apply to
 * large ones. */
static struct hvd_shm_pace *pace_of(struct hvd_shm *s, const struct hvd_shm_move *mv)
{
    const size_t bytes = (size_t)mv->total * mv->payload.width;

    return &s->paces[(bytes > MIDDLE) + (mv->total > mv->stride)];
}

/* Copies elements to a stage. */
static void stage(struct hvd_payload *p, int64_t from, int64_t count, char *to, bool is_past)
{
    struct hvd_piece part;

    for (const int64_t end = from + count; from < end; from += part.count) {
        const size_t bytes = (size_t)hvd_payload_stretch(p, from, end - from, &part) * p->width;
        if (is_past && bytes >= HVD_SHM_STRETCH)
            hvd_reduce_stream(to, part.input, bytes);
        else
            hvd_payload_copy(to, part.input, bytes);
        to += bytes;
    }
}

static void write_first(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int64_t count = least(mv->stride, mv->total - mv->at);
    struct hvd_shm_cell *cell = hvd_shm_cell(s, s->base.topology.rank, s->round);
    struct hvd_shm_pace *pace = pace_of(s, mv);

    if (mv->is_second)
        return;
    const bool is_timed = s->base.topology.rank == 0 && hvd_shm_pace_asks(pace);
    if (is_timed)
        mv->spent_ns = -hvd_clock_now_ns();
    cell->is_past = pace->is_past;
    stage(&mv->payload, mv->at, count, stage_at(s, mv, s->round, mv->at), cell->is_past);
    hvd_reduce_stream_end();
    hvd_shm_count(s, (size_t)count * mv->payload.width, 1, 1);
    if (is_timed)
        mv->spent_ns += hvd_clock_now_ns();
}

/* Reduces `count` elements with the peer's; this rank's lie at `mine`. The pass may also copy
 * others. */
static void reduce_with_peer(const struct hvd_shm *s, const struct hvd_shm_move *mv,
                             const char *mine, const char *theirs, struct hvd_reduce_pass *pass)
{
    const bool is_first = s->base.topology.rank == 0;

    pass->dtype = mv->c->dtype;
    pass->op = mv->c->reduce;
    pass->scaling = &mv->c->scaling;
    pass->a = is_first ? mine : theirs;
    pass->b = is_first ? theirs : mine;
    pass->prescale_a = true;
    pass->prescale_b = true;
    pass->finish = true;
    hvd_reduce_run(pass);
}

/* The number of elements of the next chunk to stage along with n of this one. */
static int64_t along(const struct exchange *x, int64_t n)
{
    return x->count_ahead > x->at ? least(n, x->count_ahead - x->at) : 0;
}

/* Reduces a part of the chunk that lies in one piece, and stages the next chunk's along with it.
 * Returns the number of elements. */
static int64_t take_stretch(struct hvd_shm *s, struct hvd_shm_move *mv, struct exchange *x,
                            const struct hvd_piece *part)
{
    const size_t width = mv->payload.width;
    const size_t offset = (size_t)x->at * width;
    const int64_t next_at = mv->at + x->count + x->at;
    struct hvd_piece next = {.count = 0};
    struct hvd_reduce_pass pass = {.out = part->output, .count = part->count, .is_open = true};

    if (along(x, part->count) > 0)
        hvd_payload_stretch(&x->ahead, next_at, along(x, part->count), &next);
    if ((size_t)next.count * width >= HVD_SHM_STRETCH || next.count == part->count) {
        pass.count = next.count;
        pass.next = next.input;
        pass.next_to = x->stage + offset;
        pass.next_streams = x->is_past;
    }
    pass.stream = mv->streams && part->input != part->output &&
                  (size_t)pass.count * width >= HVD_PAYLOAD_STREAM_MIN;
    reduce_with_peer(s, mv, part->input, x->theirs + offset, &pass);
    if (!pass.next && along(x, pass.count) > 0)
        stage(&x->ahead, next_at, along(x, pass.count), x->stage + offset, x->is_past);
    return pass.count;
}

/* Reduces a part that lies in many pieces: my stage has them in one run. Returns the number of
 * elements. */
static int64_t take_pieces(struct hvd_shm *s, struct hvd_shm_move *mv, struct exchange *x)
{
    const size_t width = mv->payload.width;
    const size_t offset = (size_t)x->at * width;
    const int64_t n = least(x->count - x->at, (int64_t)(HVD_SHM_SCRATCH / width));
    struct hvd_reduce_pass pass = {.out = s->scratch, .count = n};

    reduce_with_peer(s, mv, x->mine + offset, x->theirs + offset, &pass);
    hvd_payload_scatter(&mv->payload, mv->at + x->at, n, s->scratch, mv->streams);
    hvd_shm_count(s, (size_t)n * width, 1, 1);
    if (along(x, n) > 0)
        stage(&x->ahead, mv->at + x->count + x->at, along(x, n), x->stage + offset, x->is_past);
    return n;
}

static void take_chunk(struct hvd_shm *s, struct hvd_shm_move *mv, struct exchange *x)
{
    const size_t width = mv->payload.width;

    while (x->at < x->count) {
        struct hvd_piece part;
        const int64_t left = x->count - x->at;
        const int64_t n = hvd_payload_stretch(&mv->payload, mv->at + x->at, left, &part);
        const bool is_long = n == left || (size_t)n * width >= HVD_SHM_STRETCH;
        x->at += is_long ? take_stretch(s, mv, x, &part) : take_pieces(s, mv, x);
    }
    hvd_reduce_stream_end();
    hvd_shm_count(s, (size_t)x->count * width, 2, 1);
    hvd_shm_count(s, (size_t)x->count_ahead * width, 1, 1);
}

/* Records the time of a chunk that is comparable to others: not the last, nor the first of many. */
static void learn(struct hvd_shm *s, const struct hvd_shm_move *mv, const struct exchange *x,
                  int64_t spent_ns)
{
    const bool is_single = x->count == mv->total;
    const int64_t bytes = x->count * (int64_t)mv->payload.width;

    if (is_single)
        spent_ns += mv->spent_ns;
    if (is_single || (mv->at > 0 && x->count_ahead == mv->stride))
        hvd_shm_pace_sample(pace_of(s, mv), (uint64_t)mv->total * mv->payload.width, bytes,
                            spent_ns);
}

static bool read_chunk(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int me = s->base.topology.rank;
    struct hvd_shm_pace *pace = pace_of(s, mv);
    const bool is_timed = me == 0 && hvd_shm_pace_asks(pace);
    const int64_t begin_ns = is_timed ? hvd_clock_now_ns() : 0;
    struct exchange x = {
        .mine = hvd_shm_chunk(s, me, s->round),
        .theirs = hvd_shm_chunk(s, 1 - me, s->round),
        .count = least(mv->stride, mv->total - mv->at),
        .ahead = mv->payload,
    };

    if (me != 0) /* rank 0 tries both ways, the other rank follows */
        pace->is_past = hvd_shm_cell(s, 0, s->round)->is_past;
    x.is_past = pace->is_past;
    x.count_ahead = least(mv->stride, mv->total - mv->at - x.count);
    if (x.count_ahead > 0) {
        x.stage = stage_at(s, mv, s->round + 1, mv->at + x.count);
        hvd_shm_cell(s, me, s->round + 1)->is_past = x.is_past;
    }
    take_chunk(s, mv, &x);
    if (me == 0)
        learn(s, mv, &x, is_timed ? hvd_clock_now_ns() - begin_ns : 0);
    mv->at += x.count;
    mv->is_second = true;
    return mv->at >= mv->total;
}

const struct hvd_shm_steps hvd_shm_exchange_steps = {write_first, read_chunk};

/* --- A rank alone ----------------------------------------------------------------------------- */

static void write_nothing(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    (void)s;
    (void)mv;
}

static bool finish_alone(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct hvd_collective *c = mv->c;
    struct hvd_piece part;

    for (int64_t at = 0; at < mv->total; at += part.count) {
        hvd_payload_stretch(&mv->payload, at, mv->total - at, &part);
        hvd_reduce_run(&(struct hvd_reduce_pass){.dtype = c->dtype,
                                                 .op = c->reduce,
                                                 .a = part.input,
                                                 .out = part.output,
                                                 .count = part.count,
                                                 .scaling = &c->scaling,
                                                 .prescale_a = true,
                                                 .finish = true});
    }
    hvd_shm_count(s, (size_t)mv->total * mv->payload.width, 1, 1);
    return true;
}

const struct hvd_shm_steps hvd_shm_alone_steps = {write_nothing, finish_alone};
