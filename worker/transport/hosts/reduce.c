/*
 * Reductions of ranks on several hosts.
 *
 * An allreduce moves in chunks, and a chunk has a slice for each leader of a domain. A rank stages
 * all slices but its own. A leader reduces its slice over its local peers, in the order of the
 * local ranks, then with its peers in the other domains. Every rank then fetches all slices. So a
 * host sends and receives as many bytes as a single rank would, spread over its leaders.
 *
 * A reducescatter moves in windows of every rank's part. A leader serves the ranks of all domains
 * whose local rank is its own, modulo the number of leaders. It reduces their windows, then
 * scatters them among the domains together with its peers.
 *
 * One leader of each domain reduces an element, and the peers all get the same bits for it: so
 * every rank has the same bits. Scaling before the sum happens while staging, scaling after it
 * once, when the sum has arrived.
 */
#include <string.h>

#include "worker/reduce/reduce.h"
#include "worker/transport/hosts/hosts_internal.h"

#define STREAM_MIN ((int64_t)8 << 20) /* payloads that fit no cache */

static const struct hvd_scaling unscaled = {.prescale = 1, .postscale = 1, .divisor = 1};

/* Reduces h->sources from an offset on, in the order of the local ranks. out is none of them. */
static void fold(const struct hvd_hosts *h, const struct hvd_collective *c, char *out,
                 size_t offset, int64_t count)
{
    const char *const *from = h->sources;

    hvd_reduce_combine_into(c->dtype, c->reduce, out, from[0] + offset, from[1] + offset, count);
    for (int local_rank = 2; local_rank < h->team->n_local; local_rank++)
        hvd_reduce_combine(c->dtype, c->reduce, out, from[local_rank] + offset, count);
}

/* Fills in the collective of the peers on the data at `data`. */
static void carry_on(const struct hvd_hosts *h, struct hvd_hosts_chunk *chunk, enum hvd_op op,
                     void *data, int64_t count)
{
    chunk->far = (struct hvd_collective){.op = op,
                                         .dtype = chunk->mv->c->dtype,
                                         .reduce = chunk->mv->c->reduce,
                                         .scaling = unscaled,
                                         .set = h->peers_set,
                                         .input = data,
                                         .output = data,
                                         .count = count};
}

/* Copies elements of the input to `to`, multiplied by the collective's prescale. */
static void gather(struct hvd_hosts_move *mv, int64_t from, int64_t count, void *to)
{
    const struct hvd_collective *c = mv->c;
    struct hvd_piece part;

    if (c->scaling.prescale == 1) {
        hvd_payload_gather(&mv->in, from, count, to);
        return;
    }
    for (const int64_t end = from + count; from < end; from += part.count) {
        hvd_payload_stretch(&mv->in, from, end - from, &part);
        hvd_reduce_prescale(c->dtype, &c->scaling, to, part.input, part.count);
        to = (char *)to + (size_t)part.count * mv->width;
    }
}

/* --- Allreduce -------------------------------------------------------------------------------- */

/* Elements [from, to) of the chunk. */
struct slice {
    int64_t from;
    int64_t to;
};

/* The slice of a local rank; it begins on a line and may be empty. It is empty for ranks that are
 * no leaders. */
static struct slice slice_of(const struct hvd_hosts *h, const struct hvd_hosts_chunk *chunk,
                             int local_rank)
{
    const int64_t n = h->team->n_leaders;
    const int64_t line = (int64_t)(HVD_SHM_LINE / chunk->mv->width);
    const int64_t share = (chunk->count + n - 1) / n;
    const int64_t step = (share + line - 1) / line * line;
    const int64_t from =
        step * local_rank < chunk->count && local_rank < n ? step * local_rank : chunk->count;

    return (struct slice){.from = from,
                          .to = from + step < chunk->count ? from + step : chunk->count};
}

static void stage_slices(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    struct hvd_hosts_move *mv = chunk->mv;
    const struct slice mine = slice_of(h, chunk, h->team->local_rank);
    char *stage = hvd_hosts_stage(h, h->team->local_rank, chunk->number);

    gather(mv, chunk->at, mine.from, stage);
    gather(mv, chunk->at + mine.to, chunk->count - mine.to, stage + (size_t)mine.to * mv->width);
}

/* Reduces the slice over the local peers, in blocks that stay in the first-level cache. */
static void reduce_slice(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk, struct slice mine)
{
    struct hvd_hosts_move *mv = chunk->mv;
    const int me = h->team->local_rank;
    const int64_t block = (int64_t)(HVD_SHM_SCRATCH / mv->width);

    for (int local_rank = 0; local_rank < h->team->n_local; local_rank++)
        h->sources[local_rank] = hvd_hosts_stage(h, local_rank, chunk->number);
    char *out = hvd_hosts_stage(h, me, chunk->number);
    for (int64_t at = mine.from; at < mine.to; at += block) {
        const int64_t n = mine.to - at < block ? mine.to - at : block;
        const size_t offset = (size_t)at * mv->width;
        struct hvd_piece part;
        if (hvd_payload_stretch(&mv->in, chunk->at + at, n, &part) < n ||
            mv->c->scaling.prescale != 1) {
            gather(mv, chunk->at + at, n, h->scratch);
            part.input = h->scratch;
        }
        h->sources[me] = (const char *)part.input - offset;
        fold(h, mv->c, out + offset, offset, n);
    }
}

static bool exchange_slice(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    struct hvd_hosts_move *mv = chunk->mv;
    const struct slice mine = slice_of(h, chunk, h->team->local_rank);
    char *data =
        hvd_hosts_stage(h, h->team->local_rank, chunk->number) + (size_t)mine.from * mv->width;

    if (mine.from == mine.to)
        return false;
    if (h->team->n_local > 1)
        reduce_slice(h, chunk, mine);
    else
        gather(mv, chunk->at + mine.from, mine.to - mine.from, data);
    carry_on(h, chunk, HVD_ALLREDUCE, data, mine.to - mine.from);
    return true;
}

static void finish_slice(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    (void)h;
    hvd_reduce_finish(chunk->far.dtype, &chunk->mv->c->scaling, chunk->far.output,
                      chunk->far.count);
}

static void fetch_slices(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    struct hvd_hosts_move *mv = chunk->mv;
    const int n_leaders = h->team->n_leaders;

    for (int i = 0; i < n_leaders; i++) {
        const int local_rank = (h->team->local_rank + i) % n_leaders;
        const struct slice slice = slice_of(h, chunk, local_rank);
        hvd_payload_scatter(&mv->out, chunk->at + slice.from, slice.to - slice.from,
                            hvd_hosts_stage(h, local_rank, chunk->number) +
                                (size_t)slice.from * mv->width,
                            mv->streams);
    }
}

static const struct hvd_hosts_steps allreduce_steps = {stage_slices, exchange_slice, finish_slice,
                                                       fetch_slices};

void hvd_hosts_prepare_allreduce(struct hvd_hosts *h, struct hvd_hosts_move *mv)
{
    hvd_payload_init(&mv->in, mv->c);
    hvd_payload_init(&mv->out, mv->c);
    mv->total = mv->c->count;
    mv->stride = (int64_t)(h->shape.stage_bytes / mv->width);
    mv->streams = mv->total * (int64_t)mv->width >= STREAM_MIN;
    mv->leads = h->team->local_rank < h->team->n_leaders;
    mv->awaits_arrival = HVD_HOSTS_ALL;
    mv->steps = &allreduce_steps;
}

/* --- Reducescatter ---------------------------------------------------------------------------- */

/* The elements that a leader and its peers serve. */
struct region {
    int64_t from;
    int64_t count;
};

/* The region of a leader and its peers. The first half of a stage holds the windows of all ranks,
 * in the team's order by leader. */
static struct region region_of(const struct hvd_hosts *h, const struct hvd_hosts_chunk *chunk,
                               int leader)
{
    const struct hvd_team *team = h->team;
    struct region region = {0};

    for (int i = 0; i < team->size; i++) {
        const int rank = team->by_leader[i];
        const int local_rank = team->local_rank_of[team->leader_of[rank]];
        const int64_t n = hvd_hosts_window(chunk, chunk->mv->c->counts[rank]);
        if (local_rank < team->local_rank_of[leader])
            region.from += n;
        else if (local_rank == team->local_rank_of[leader])
            region.count += n;
    }
    return region;
}

/* The second half of a stage, for the leader's result of its region. */
static char *result_of(const struct hvd_hosts *h, const struct hvd_hosts_chunk *chunk,
                       int local_rank)
{
    return hvd_hosts_stage(h, local_rank, chunk->number) + h->shape.stage_bytes / 2;
}

static void stage_windows(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    struct hvd_hosts_move *mv = chunk->mv;
    const int64_t *befores = hvd_hosts_befores(h, mv);
    char *stage = hvd_hosts_stage(h, h->team->local_rank, chunk->number);

    for (int i = 0; i < h->team->size; i++) {
        const int rank = h->team->by_leader[i];
        const int64_t n = hvd_hosts_window(chunk, mv->c->counts[rank]);
        gather(mv, befores[rank] + chunk->at, n, stage);
        stage += (size_t)n * mv->width;
    }
}

/* Reduces the region over the local peers, into this rank's stage. */
static void reduce_region(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk, struct region mine)
{
    const size_t width = chunk->mv->width;
    const int64_t block = (int64_t)(HVD_SHM_SCRATCH / width);
    char *out = hvd_hosts_stage(h, h->team->local_rank, chunk->number);

    for (int local_rank = 0; local_rank < h->team->n_local; local_rank++)
        h->sources[local_rank] = hvd_hosts_stage(h, local_rank, chunk->number);
    for (int64_t at = mine.from; at < mine.from + mine.count; at += block) {
        const int64_t left = mine.from + mine.count - at;
        const int64_t n = left < block ? left : block;
        fold(h, chunk->mv->c, h->scratch, (size_t)at * width, n);
        memcpy(out + (size_t)at * width, h->scratch, (size_t)n * width);
    }
}

static bool exchange_region(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    const struct hvd_team *team = h->team;
    const struct region mine = region_of(h, chunk, team->rank);
    int n_peers = 0;
    int last = -1;

    if (mine.count == 0)
        return false;
    if (team->n_local > 1)
        reduce_region(h, chunk, mine);
    carry_on(h, chunk, HVD_REDUCESCATTER,
             hvd_hosts_stage(h, team->local_rank, chunk->number) +
                 (size_t)mine.from * chunk->mv->width,
             mine.count);
    chunk->far.output = result_of(h, chunk, team->local_rank);
    chunk->far.counts = chunk->counts;
    for (int i = 0; i < team->size; i++) {
        const int rank = team->by_leader[i];
        const int leader = team->leader_of[rank];
        if (team->local_rank_of[leader] != team->local_rank)
            continue;
        if (leader != last)
            chunk->counts[n_peers++] = 0;
        chunk->counts[n_peers - 1] += hvd_hosts_window(chunk, chunk->mv->c->counts[rank]);
        last = leader;
    }
    return true;
}

static void fetch_window(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    const struct hvd_team *team = h->team;
    struct hvd_hosts_move *mv = chunk->mv;
    const int leader = team->leader_of[team->rank];
    const int64_t count = hvd_hosts_window(chunk, mv->c->counts[team->rank]);
    const char *data = result_of(h, chunk, team->local_rank_of[leader]);
    char *out = (char *)mv->c->output + (size_t)chunk->at * mv->width;

    if (count == 0)
        return;
    for (int rank = 0; rank < team->rank; rank++) /* the leader serves in rank order */
        if (team->leader_of[rank] == leader)
            data += (size_t)hvd_hosts_window(chunk, mv->c->counts[rank]) * mv->width;
    hvd_payload_copy(out, data, (size_t)count * mv->width);
    hvd_reduce_finish(mv->c->dtype, &mv->c->scaling, out, count);
}

static const struct hvd_hosts_steps scatter_steps = {stage_windows, exchange_region, NULL,
                                                     fetch_window};

void hvd_hosts_prepare_reducescatter(struct hvd_hosts *h, struct hvd_hosts_move *mv)
{
    const struct hvd_team *team = h->team;

    hvd_payload_init(&mv->in, mv->c);
    for (int rank = 0; rank < team->size; rank++)
        if (mv->c->counts[rank] > mv->total)
            mv->total = mv->c->counts[rank];
    mv->stride = (int64_t)(h->shape.stage_bytes / 2 / (size_t)team->size / mv->width);
    mv->leads = team->local_rank < team->n_leaders;
    mv->awaits_arrival = team->local_rank_of[team->leader_of[team->rank]];
    mv->steps = &scatter_steps;
}
