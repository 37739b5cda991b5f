/*
 * Broadcast, allgather and alltoall through shared memory. In each round the sending ranks put a
 * part of their data into their stages, and the receiving ranks copy it out.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/reduce/reduce.h"
#include "worker/transport/shm/shm_internal.h"

static size_t width_of(const struct hvd_shm_move *mv)
{
    return hvd_dtype_size((int)mv->c->dtype);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Copies elements to a stage. */
static void stage(struct hvd_shm *s, const struct hvd_shm_move *mv, void *to, const void *data,
                  int64_t count)
{
    const size_t bytes = count > 0 ? (size_t)count * width_of(mv) : 0;

    hvd_payload_copy(to, data, bytes);
    hvd_shm_count(s, bytes, 1, 1);
}

/* Copies elements to element `at` of the output. */
static void put(struct hvd_shm *s, const struct hvd_shm_move *mv, int64_t at, const void *data,
                int64_t count)
{
    const size_t width = width_of(mv);
    char *out = (char *)mv->c->output + (size_t)at * width;

    if (count <= 0 || out == data)
        return;
    if (mv->streams)
        hvd_reduce_copy_stream(out, data, (size_t)count * width);
    else
        hvd_payload_copy(out, data, (size_t)count * width);
    hvd_shm_count(s, (size_t)count * width, 1, 1);
}

/* --- Broadcast -------------------------------------------------------------------------------- */

/* The area of the root's part in this round: behind its flag, or its stage. */
static char *root_area(const struct hvd_shm *s, const struct hvd_shm_move *mv)
{
    if ((size_t)mv->total * width_of(mv) <= s->shape.small_bytes)
        return (char *)hvd_shm_cell(s, mv->c->root, s->round)->payload;
    return hvd_shm_stage(s, mv->c->root, s->round);
}

static void write_root(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    if (s->base.topology.rank == mv->c->root)
        stage(s, mv, root_area(s, mv), mv->input + (size_t)mv->at * width_of(mv),
              least(mv->stride, mv->total - mv->at));
}

static bool read_root(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const bool is_root = s->base.topology.rank == mv->c->root;

    put(s, mv, mv->at, is_root ? mv->input + (size_t)mv->at * width_of(mv) : root_area(s, mv),
        least(mv->stride, mv->total - mv->at));
    mv->at += mv->stride;
    return mv->at >= mv->total;
}

static const struct hvd_shm_steps broadcast_steps = {write_root, read_root};

void hvd_shm_prepare_broadcast(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct hvd_collective *c = mv->c;

    mv->input = c->input;
    mv->total = c->count;
    mv->stride = (int64_t)(s->shape.stage_bytes / width_of(mv));
    mv->streams = (size_t)mv->total * width_of(mv) >= s->tuning.stream_bytes;
    mv->waits_for = c->root;
    mv->steps = &broadcast_steps;
}

/* --- Allgather -------------------------------------------------------------------------------- */

/* The number of elements that this round moves, of a part of `count`. */
static int64_t round_count(const struct hvd_shm_move *mv, int64_t count)
{
    const int64_t left = count - mv->at;

    return left < 0 ? 0 : least(left, mv->stride);
}

static char *gather_area(const struct hvd_shm *s, const struct hvd_shm_move *mv, int rank)
{
    if ((size_t)mv->total * width_of(mv) <= s->shape.small_bytes)
        return (char *)hvd_shm_cell(s, rank, s->round)->payload;
    return hvd_shm_stage(s, rank, s->round);
}

static void write_mine(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int64_t n = round_count(mv, mv->c->count);

    if (n > 0)
        stage(s, mv, gather_area(s, mv, s->base.topology.rank),
              mv->input + (size_t)mv->at * width_of(mv), n);
}

static bool read_all(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const size_t width = width_of(mv);
    int64_t before = 0;

    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        const char *from = rank == s->base.topology.rank ? mv->input + (size_t)mv->at * width
                                                         : gather_area(s, mv, rank);
        put(s, mv, before + mv->at, from, round_count(mv, mv->c->counts[rank]));
        before += mv->c->counts[rank];
    }
    mv->at += mv->stride;
    return mv->at >= mv->total;
}

static const struct hvd_shm_steps allgather_steps = {write_mine, read_all};

void hvd_shm_prepare_allgather(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const struct hvd_collective *c = mv->c;
    const size_t width = width_of(mv);
    const int rank = s->base.topology.rank;
    int64_t all = 0;
    int64_t before = 0;

    for (int i = 0; i < s->shape.n_ranks; i++) {
        before += i < rank ? c->counts[i] : 0;
        all += c->counts[i];
        if (c->counts[i] > mv->total)
            mv->total = c->counts[i];
    }
    mv->input = c->input;
    if (c->input == c->output && c->count > 0) { /* the parts of other ranks may overwrite it */
        char *own = (char *)c->output + (size_t)before * width;
        memmove(own, c->input, (size_t)c->count * width);
        mv->input = own;
    }
    mv->stride = (int64_t)(s->shape.stage_bytes / width);
    mv->streams = (size_t)all * width >= s->tuning.stream_bytes;
    mv->steps = &allgather_steps;
}

/* --- Alltoall --------------------------------------------------------------------------------- */

/* Publishes this rank's counts. The longest part of all determines the number of rounds, and a rank
 * knows only its own parts: so the first round exchanges the counts. */
static void write_counts(struct hvd_shm *s, const struct hvd_shm_move *mv)
{
    memcpy(hvd_shm_stage(s, s->base.topology.rank, s->round), mv->c->counts,
           (size_t)s->shape.n_ranks * sizeof(int64_t));
}

static void read_counts(const struct hvd_shm *s, struct hvd_shm_move *mv)
{
    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        const int64_t *counts = (const int64_t *)(const void *)hvd_shm_stage(s, rank, s->round);
        for (int to = 0; to < s->shape.n_ranks; to++)
            if (counts[to] > mv->total)
                mv->total = counts[to];
    }
    mv->is_second = true;
}

static void write_for_all(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int rank = s->base.topology.rank;
    const size_t width = width_of(mv);
    char *area = hvd_shm_stage(s, rank, s->round);
    int64_t before = 0;

    if (!mv->is_second) {
        write_counts(s, mv);
        return;
    }
    for (int to = 0; to < s->shape.n_ranks; to++) {
        const int64_t n = round_count(mv, mv->c->counts[to]);
        if (to != rank && n > 0)
            stage(s, mv, area + (size_t)(to * mv->stride) * width,
                  mv->input + (size_t)(before + mv->at) * width, n);
        before += mv->c->counts[to];
    }
}

static bool read_from_all(struct hvd_shm *s, struct hvd_shm_move *mv)
{
    const int rank = s->base.topology.rank;
    const size_t width = width_of(mv);
    const size_t offset = (size_t)(rank * mv->stride) * width;
    int64_t sent = 0;
    int64_t before = 0;

    if (!mv->is_second) {
        read_counts(s, mv);
        return mv->total == 0;
    }
    for (int from = 0; from < s->shape.n_ranks; from++) {
        const char *data = hvd_shm_stage(s, from, s->round) + offset;
        if (from == rank)
            data = mv->input + (size_t)(sent + mv->at) * width;
        put(s, mv, before + mv->at, data, round_count(mv, mv->c->received[from]));
        before += mv->c->received[from];
        sent += mv->c->counts[from];
    }
    mv->at += mv->stride;
    return mv->at >= mv->total;
}

static const struct hvd_shm_steps alltoall_steps = {write_for_all, read_from_all};

hvd_status_t hvd_shm_prepare_alltoall(struct hvd_shm *s, struct hvd_shm_move *mv,
                                      struct hvd_err *err)
{
    const struct hvd_collective *c = mv->c;
    const size_t width = width_of(mv);
    int64_t sent = 0;
    int64_t received = 0;

    for (int rank = 0; rank < s->shape.n_ranks; rank++) {
        sent += c->counts[rank];
        received += c->received[rank];
    }
    mv->input = c->input;
    if (c->input == c->output && sent > 0) {
        mv->input_copy = hvd_malloc((size_t)sent, width);
        if (!mv->input_copy)
            return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory: an alltoall in place");
        hvd_payload_copy(mv->input_copy, c->input, (size_t)sent * width);
        mv->input = mv->input_copy;
    }
    mv->stride = hvd_shm_part(s, width);
    mv->streams = (size_t)received * width >= s->tuning.stream_bytes;
    mv->steps = &alltoall_steps;
    return HVD_OK;
}
