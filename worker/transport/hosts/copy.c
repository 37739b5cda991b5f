/*
 * Broadcast and allgather of ranks on several hosts. Only the first rank of each domain exchanges
 * with other domains, so each byte crosses to a host once.
 *
 * Broadcast: the root stages a chunk. Its local peers, and with them the leader of its domain, read
 * it there. The leaders of other domains receive it in their stages, where their local peers read
 * it.
 *
 * Allgather: every rank writes a window of its part into the stage of its domain's leader, at the
 * window's place among those of all ranks. The leaders then exchange the windows of their domains
 * in place.
 */
#include <string.h>

#include "worker/reduce/reduce.h"
#include "worker/transport/hosts/hosts_internal.h"

#define STREAM_MIN ((int64_t)8 << 20) /* outputs that fit no cache */

/* Copies elements to element `at` of the output. */
static void put(const struct hvd_hosts_move *mv, int64_t at, const char *data, int64_t count)
{
    char *out = (char *)mv->c->output + (size_t)at * mv->width;

    if (count <= 0 || out == data)
        return;
    if (mv->streams)
        hvd_reduce_copy_stream(out, data, (size_t)count * mv->width);
    else
        hvd_payload_copy(out, data, (size_t)count * mv->width);
}

/* Fills in the leaders' collective; the caller adds what is special to the operation. */
static void carry_on(const struct hvd_hosts *h, struct hvd_hosts_chunk *chunk, enum hvd_op op)
{
    chunk->far = (struct hvd_collective){.op = op,
                                         .dtype = chunk->mv->c->dtype,
                                         .reduce = HVD_SUM,
                                         .scaling = {.prescale = 1, .postscale = 1, .divisor = 1},
                                         .set = h->peers_set};
}

/* --- Broadcast -------------------------------------------------------------------------------- */

static bool is_root(const struct hvd_hosts *h, const struct hvd_hosts_move *mv)
{
    return h->team->rank == mv->c->root;
}

/* The memory of this domain that holds the chunk. */
static char *cast_area(const struct hvd_hosts *h, const struct hvd_hosts_chunk *chunk)
{
    const int root = chunk->mv->c->root;

    return hvd_hosts_stage(
        h, h->team->domain_of[root] == h->team->domain ? h->team->local_rank_of[root] : 0,
        chunk->number);
}

static void stage_root(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    const struct hvd_hosts_move *mv = chunk->mv;

    if (is_root(h, mv))
        hvd_payload_copy(cast_area(h, chunk), mv->input + (size_t)chunk->at * mv->width,
                         (size_t)chunk->count * mv->width);
}

static bool exchange_root(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    carry_on(h, chunk, HVD_BROADCAST);
    chunk->far.root = h->team->domain_of[chunk->mv->c->root]; /* leaders have their domains'
                                                                 numbers */
    chunk->far.input = cast_area(h, chunk);
    chunk->far.output = cast_area(h, chunk);
    chunk->far.count = chunk->count;
    return true;
}

static void fetch_root(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    const struct hvd_hosts_move *mv = chunk->mv;

    put(mv, chunk->at,
        is_root(h, mv) ? mv->input + (size_t)chunk->at * mv->width : cast_area(h, chunk),
        chunk->count);
}

static const struct hvd_hosts_steps broadcast_steps = {stage_root, exchange_root, NULL, fetch_root};

void hvd_hosts_prepare_broadcast(struct hvd_hosts *h, struct hvd_hosts_move *mv)
{
    const int root = mv->c->root;

    mv->input = mv->c->input;
    mv->total = mv->c->count;
    mv->stride = (int64_t)(h->shape.stage_bytes / mv->width);
    mv->streams = mv->total * (int64_t)mv->width >= STREAM_MIN;
    mv->leads = h->team->local_rank == 0;
    mv->fetches_stage = h->team->domain_of[root] == h->team->domain;
    mv->awaits_stage = mv->fetches_stage ? h->team->local_rank_of[root] : h->team->local_rank;
    mv->awaits_arrival = 0;
    mv->steps = &broadcast_steps;
}

/* --- Allgather -------------------------------------------------------------------------------- */

/* The offset of the i-th rank's window in the leader's stage, in the order of the domains. */
static size_t window_offset(const struct hvd_hosts *h, const struct hvd_hosts_chunk *chunk, int i)
{
    int64_t before = 0;

    while (i-- > 0)
        before += hvd_hosts_window(chunk, chunk->mv->c->counts[h->team->by_domain[i]]);
    return (size_t)before * chunk->mv->width;
}

/* The index of this domain's first rank in the order of the domains. */
static int first_of_domain(const struct hvd_team *team)
{
    int first = 0;

    for (int domain = 0; domain < team->domain; domain++)
        first += team->domain_sizes[domain];
    return first;
}

static void stage_mine(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    const struct hvd_hosts_move *mv = chunk->mv;
    const int64_t count = hvd_hosts_window(chunk, mv->c->count);
    const size_t offset = window_offset(h, chunk, first_of_domain(h->team) + h->team->local_rank);

    if (count > 0)
        hvd_payload_copy(hvd_hosts_stage(h, 0, chunk->number) + offset,
                         mv->input + (size_t)chunk->at * mv->width, (size_t)count * mv->width);
}

static bool exchange_domain(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    const struct hvd_team *team = h->team;
    char *stage = hvd_hosts_stage(h, 0, chunk->number);

    carry_on(h, chunk, HVD_ALLGATHER);
    memset(chunk->counts, 0, (size_t)team->n_domains * sizeof(int64_t));
    for (int rank = 0; rank < team->size; rank++)
        chunk->counts[team->domain_of[rank]] += hvd_hosts_window(chunk, chunk->mv->c->counts[rank]);
    chunk->far.input = stage + window_offset(h, chunk, first_of_domain(team));
    chunk->far.output = stage;
    chunk->far.count = chunk->counts[team->domain];
    chunk->far.counts = chunk->counts;
    return true;
}

static void fetch_all(struct hvd_hosts *h, struct hvd_hosts_chunk *chunk)
{
    const struct hvd_hosts_move *mv = chunk->mv;
    const int64_t *befores = hvd_hosts_befores(h, mv);
    const char *data = hvd_hosts_stage(h, 0, chunk->number);

    for (int i = 0; i < h->team->size; i++) {
        const int rank = h->team->by_domain[i];
        const int64_t count = hvd_hosts_window(chunk, mv->c->counts[rank]);
        put(mv, befores[rank] + chunk->at,
            rank == h->team->rank ? mv->input + (size_t)chunk->at * mv->width : data, count);
        data += (size_t)count * mv->width;
    }
}

static const struct hvd_hosts_steps allgather_steps = {stage_mine, exchange_domain, NULL,
                                                       fetch_all};

void hvd_hosts_prepare_allgather(struct hvd_hosts *h, struct hvd_hosts_move *mv)
{
    const struct hvd_collective *c = mv->c;
    const int64_t *befores = hvd_hosts_befores(h, mv);
    int64_t all = 0;

    for (int rank = 0; rank < h->team->size; rank++) {
        all += c->counts[rank];
        if (c->counts[rank] > mv->total)
            mv->total = c->counts[rank];
    }
    mv->input = c->input;
    if (c->input == c->output && c->count > 0) { /* the parts of other ranks may overwrite it */
        char *own = (char *)c->output + (size_t)befores[h->team->rank] * mv->width;
        memmove(own, c->input, (size_t)c->count * mv->width);
        mv->input = own;
    }
    mv->stride = (int64_t)(h->shape.stage_bytes / (size_t)h->team->size / mv->width);
    mv->streams = all * (int64_t)mv->width >= STREAM_MIN;
    mv->leads = h->team->local_rank == 0;
    mv->awaits_arrival = 0;
    mv->steps = &allgather_steps;
}
