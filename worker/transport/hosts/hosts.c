/*
 * Moves the chunks of collectives through their steps, which hosts_internal.h describes. Calls of
 * start and test move all chunks as far as possible; no function blocks. One thread calls at a
 * time.
 */
#include "worker/transport/hosts/hosts.h"

#include <string.h>
#include <utlist.h>

#include "base/mem.h"
#include "worker/transport/hosts/hosts_internal.h"

#define STAGE_DEFAULT ((size_t)512 << 10)
#define BUFFERS_DEFAULT 4
#define PART_MIN ((size_t)2 * HVD_SHM_LINE) /* of a stage, for each rank of the team */
#define BUSY_MAX 64 /* rounds in a call, so that control messages get their turn */

static struct hvd_hosts_shape with_defaults(const struct hvd_hosts_shape *shape, int size)
{
    struct hvd_hosts_shape full = *shape;

    if (full.stage_bytes == 0)
        full.stage_bytes =
            STAGE_DEFAULT > (size_t)size * PART_MIN ? STAGE_DEFAULT : (size_t)size * PART_MIN;
    if (full.n_buffers == 0)
        full.n_buffers = BUFFERS_DEFAULT;
    return full;
}

static bool is_legal(const struct hvd_hosts_shape *shape, int size)
{
    return shape->stage_bytes % HVD_SHM_LINE == 0 && shape->n_buffers > 0 &&
           shape->stage_bytes >= (size_t)size * PART_MIN;
}

size_t hvd_hosts_size(const struct hvd_hosts_shape *shape, int n_local, int size)
{
    const struct hvd_hosts_shape full = with_defaults(shape, size);
    const size_t n = (size_t)n_local;

    if (n_local < 1 || !is_legal(&full, size))
        return 0;
    return n * sizeof(struct hvd_hosts_flags) + (size_t)full.n_buffers * n * full.stage_bytes;
}

bool hvd_hosts_moves(enum hvd_op op)
{
    return op == HVD_ALLREDUCE || op == HVD_BROADCAST || op == HVD_ALLGATHER ||
           op == HVD_REDUCESCATTER;
}

/* --- Flags ------------------------------------------------------------------------------------ */

static uint64_t read_flag(const _Atomic uint64_t *flag)
{
    return atomic_load_explicit(flag, memory_order_acquire);
}

static void raise_flag(struct hvd_hosts *h, _Atomic uint64_t *flag, uint64_t value)
{
    atomic_store_explicit(flag, value, memory_order_release);
    for (int local_rank = 0; h->doorbell && local_rank < h->team->n_local; local_rank++)
        if (local_rank != h->team->local_rank)
            hvd_shm_nudge(h->doorbell, h->doorbell_ranks[local_rank]);
}

static bool is_staged(const struct hvd_hosts *h, int local_rank, uint64_t number)
{
    if (local_rank != HVD_HOSTS_ALL)
        return read_flag(&h->flags[local_rank].staged) > number;
    for (int i = 0; i < h->team->n_local; i++)
        if (read_flag(&h->flags[i].staged) <= number)
            return false;
    return true;
}

static bool has_arrived(const struct hvd_hosts *h, int local_rank, uint64_t number)
{
    if (local_rank != HVD_HOSTS_ALL)
        return read_flag(&h->flags[local_rank].arrived) > number;
    for (int i = 0; i < h->team->n_leaders; i++)
        if (read_flag(&h->flags[i].arrived) <= number)
            return false;
    return true;
}

/* Whether all local peers have fetched the buffer's previous chunk. */
static bool is_free(const struct hvd_hosts *h, uint64_t number)
{
    const uint64_t n_buffers = (uint64_t)h->shape.n_buffers;

    for (int i = 0; i < h->team->n_local; i++)
        if (read_flag(&h->flags[i].fetched) + n_buffers <= number)
            return false;
    return true;
}

/* --- Steps ------------------------------------------------------------------------------------ */

static struct hvd_hosts_chunk *chunk_of(const struct hvd_hosts *h, uint64_t number)
{
    return &h->chunks[number % (uint64_t)h->shape.n_buffers];
}

static bool can_stage(const struct hvd_hosts *h)
{
    return h->next && is_free(h, h->n_staged);
}

static bool can_exchange(const struct hvd_hosts *h)
{
    if (h->n_exchanged == h->n_staged)
        return false;
    const struct hvd_hosts_move *mv = chunk_of(h, h->n_exchanged)->mv;
    return !mv->leads || is_staged(h, mv->awaits_stage, h->n_exchanged);
}

static bool can_fetch(const struct hvd_hosts *h)
{
    if (h->n_fetched == h->n_arrived)
        return false;
    const struct hvd_hosts_move *mv = chunk_of(h, h->n_fetched)->mv;
    return mv->fetches_stage ? is_staged(h, mv->awaits_stage, h->n_fetched)
                             : has_arrived(h, mv->awaits_arrival, h->n_fetched);
}

bool hvd_hosts_has_news(const struct hvd_hosts *h)
{
    return !h->is_broken && (can_stage(h) || can_exchange(h) || can_fetch(h));
}

static void stage(struct hvd_hosts *h)
{
    struct hvd_hosts_move *mv = h->next;
    struct hvd_hosts_chunk *chunk = chunk_of(h, h->n_staged);
    const int64_t left = mv->total - mv->staged;

    chunk->mv = mv;
    chunk->number = h->n_staged;
    chunk->at = mv->staged;
    chunk->count = left < mv->stride ? left : mv->stride;
    chunk->is_exchanged = false;
    mv->steps->stage(h, chunk);
    mv->staged += chunk->count;
    if (mv->staged == mv->total)
        h->next = mv->next;
    raise_flag(h, &h->flags[h->team->local_rank].staged, ++h->n_staged);
}

static void exchange(struct hvd_hosts *h)
{
    struct hvd_hosts_chunk *chunk = chunk_of(h, h->n_exchanged++);

    if (!chunk->mv->leads || !chunk->mv->steps->exchange(h, chunk))
        return;
    if (h->far->ops->start(h->far, &chunk->far, &h->failure) == HVD_OK)
        chunk->is_exchanged = true;
    else
        h->is_broken = true;
}

/* Tests the exchanges with other domains; whether a chunk has arrived. */
static bool arrive(struct hvd_hosts *h)
{
    const uint64_t before = h->n_arrived;

    for (uint64_t number = before; number < h->n_exchanged && !h->is_broken; number++) {
        struct hvd_hosts_chunk *chunk = chunk_of(h, number);
        if (!chunk->is_exchanged)
            continue;
        hvd_status_t st = h->far->ops->test(h->far, &chunk->far, &h->failure);
        if (st == HVD_INPROGRESS)
            continue;
        chunk->is_exchanged = false;
        h->is_broken = st != HVD_OK;
        if (h->is_broken)
            h->far->ops->abandon(h->far, &chunk->far);
        else if (chunk->mv->steps->arrive)
            chunk->mv->steps->arrive(h, chunk);
    }
    while (h->n_arrived < h->n_exchanged && !h->is_broken &&
           !chunk_of(h, h->n_arrived)->is_exchanged)
        h->n_arrived++;
    if (h->n_arrived == before)
        return false;
    raise_flag(h, &h->flags[h->team->local_rank].arrived, h->n_arrived);
    return true;
}

static void fetch(struct hvd_hosts *h)
{
    struct hvd_hosts_chunk *chunk = chunk_of(h, h->n_fetched);
    struct hvd_hosts_move *mv = chunk->mv;

    mv->steps->fetch(h, chunk);
    mv->is_done = chunk->at + chunk->count == mv->total;
    if (mv->is_done)
        DL_DELETE(h->first, mv);
    raise_flag(h, &h->flags[h->team->local_rank].fetched, ++h->n_fetched);
}

/* Moves all chunks as far as possible without waiting. */
static void progress(struct hvd_hosts *h)
{
    for (int busy = 0; busy < BUSY_MAX && h->first && !h->is_broken; busy++) {
        bool moved = arrive(h);
        if (!h->is_broken && can_exchange(h)) {
            exchange(h);
            moved = true;
        }
        if (!h->is_broken && can_fetch(h)) {
            fetch(h);
            moved = true;
        }
        if (!h->is_broken && can_stage(h)) {
            stage(h);
            moved = true;
        }
        if (!moved)
            break;
    }
}

/* --- Collectives ------------------------------------------------------------------------------ */

static void prepare(struct hvd_hosts *h, struct hvd_hosts_move *mv)
{
    switch ((int)mv->c->op) {
    case HVD_ALLREDUCE:
        hvd_hosts_prepare_allreduce(h, mv);
        break;
    case HVD_REDUCESCATTER:
        hvd_hosts_prepare_reducescatter(h, mv);
        break;
    case HVD_BROADCAST:
        hvd_hosts_prepare_broadcast(h, mv);
        break;
    default:
        hvd_hosts_prepare_allgather(h, mv);
        break;
    }
}

hvd_status_t hvd_hosts_start(struct hvd_hosts *h, struct hvd_collective *c, struct hvd_err *err)
{
    struct hvd_hosts_move *mv = h->spare;

    if (mv)
        h->spare = mv->next;
    else
        mv = hvd_malloc(1, sizeof(*mv));
    if (!mv)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for a collective");
    *mv = (struct hvd_hosts_move){
        .c = c, .width = hvd_dtype_size((int)c->dtype), .awaits_stage = HVD_HOSTS_ALL};
    prepare(h, mv);
    c->_state = mv;
    DL_APPEND(h->first, mv);
    if (!h->next)
        h->next = mv;
    progress(h);
    return HVD_OK;
}

static void put_back(struct hvd_hosts *h, struct hvd_collective *c)
{
    struct hvd_hosts_move *mv = c->_state;

    LL_PREPEND(h->spare, mv);
    c->_state = NULL;
}

hvd_status_t hvd_hosts_test(struct hvd_hosts *h, struct hvd_collective *c, struct hvd_err *err)
{
    const struct hvd_hosts_move *mv = c->_state;

    if (!mv->is_done)
        progress(h);
    if (mv->is_done) {
        put_back(h, c);
        return HVD_OK;
    }
    if (h->is_broken)
        return HVD_FAIL(err, h->failure.status, h->failure.sys, "%s", h->failure.msg);
    return HVD_INPROGRESS;
}

/* From here on the chunks of the ranks are out of step, so nothing moves any more. */
void hvd_hosts_abandon(struct hvd_hosts *h, struct hvd_collective *c)
{
    struct hvd_hosts_move *mv = c->_state;

    if (mv->is_done) {
        put_back(h, c);
        return;
    }
    hvd_err_set(&h->failure, HVD_ERR_CANCELED, 0, "an earlier collective was given up");
    h->is_broken = true;
    for (uint64_t number = h->n_arrived; number < h->n_exchanged; number++) {
        struct hvd_hosts_chunk *chunk = chunk_of(h, number);
        if (chunk->is_exchanged)
            h->far->ops->abandon(h->far, &chunk->far);
        chunk->is_exchanged = false;
    }
    DL_DELETE(h->first, mv);
    put_back(h, c);
}

/* Adds the local peers whose flags have not passed a number: `local_rank` alone, or all of them. */
static int add_late(const struct hvd_hosts *h, const _Atomic uint64_t *first, uint64_t number,
                    int local_rank, int *ranks, int room)
{
    const size_t stride = sizeof(struct hvd_hosts_flags) / sizeof(*first);
    int n = 0;

    for (int i = 0; i < h->team->n_local && n < room; i++)
        if ((local_rank == HVD_HOSTS_ALL || local_rank == i) &&
            read_flag(&first[(size_t)i * stride]) <= number)
            ranks[n++] = h->team->ranks[h->team->local_peers[i]];
    return n;
}

int hvd_hosts_awaits(struct hvd_hosts *h, int *ranks, int room)
{
    const uint64_t number = h->n_fetched;
    const uint64_t n_buffers = (uint64_t)h->shape.n_buffers;

    if (number == h->n_staged) /* waits until all have fetched the buffer */
        return number < n_buffers ? 0
                                  : add_late(h, &h->flags[0].fetched, number - n_buffers,
                                             HVD_HOSTS_ALL, ranks, room);
    struct hvd_hosts_chunk *chunk = chunk_of(h, number);
    const struct hvd_hosts_move *mv = chunk->mv;
    if ((number >= h->n_exchanged && mv->leads) || mv->fetches_stage)
        return add_late(h, &h->flags[0].staged, number, mv->awaits_stage, ranks, room);
    if (chunk->is_exchanged)
        return h->far->ops->awaits ? h->far->ops->awaits(h->far, &chunk->far, ranks, room) : 0;
    return add_late(h, &h->flags[0].arrived, number, mv->awaits_arrival, ranks,
                    room < h->team->n_leaders ? room : h->team->n_leaders);
}

/* Gives an arrived chunk more weight than any progress of its exchange. */
#define MOVED_SHIFT 32

uint64_t hvd_hosts_moved(struct hvd_hosts *h)
{
    uint64_t n = (h->n_staged + h->n_exchanged + h->n_arrived + h->n_fetched) << MOVED_SHIFT;

    for (uint64_t number = h->n_arrived; number < h->n_exchanged && h->far->ops->moved; number++) {
        struct hvd_hosts_chunk *chunk = chunk_of(h, number);
        n += chunk->is_exchanged ? h->far->ops->moved(h->far, &chunk->far)
                                 : (uint64_t)1 << (MOVED_SHIFT - 8);
    }
    return n;
}

const int64_t *hvd_hosts_befores(struct hvd_hosts *h, const struct hvd_hosts_move *mv)
{
    int64_t before = 0;

    for (int rank = 0; rank < h->team->size; rank++) {
        h->befores[rank] = before;
        before += mv->c->counts[rank];
    }
    return h->befores;
}

/* --- Life ------------------------------------------------------------------------------------- */

static void free_moves(struct hvd_hosts_move *mv)
{
    while (mv) {
        struct hvd_hosts_move *next = mv->next;
        hvd_free(mv);
        mv = next;
    }
}

void hvd_hosts_destroy(struct hvd_hosts *h)
{
    if (!h)
        return;
    free_moves(h->first);
    free_moves(h->spare);
    hvd_free(h->doorbell_ranks);
    hvd_free(h->befores);
    hvd_free(h->chunks);
    hvd_free(h->counts);
    hvd_free(h->scratch);
    hvd_free(h->sources);
    hvd_free(h);
}

static bool allocate(struct hvd_hosts *h, const struct hvd_hosts_options *options)
{
    const size_t n_local = (size_t)h->team->n_local;
    const size_t n_domains = (size_t)h->team->n_domains;
    const size_t n_buffers = (size_t)h->shape.n_buffers;

    h->doorbell_ranks = hvd_malloc(n_local, sizeof(int));
    h->befores = hvd_calloc((size_t)h->team->size, sizeof(int64_t));
    h->chunks = hvd_calloc(n_buffers, sizeof(struct hvd_hosts_chunk));
    h->counts = hvd_calloc(n_buffers * n_domains, sizeof(int64_t));
    h->scratch = hvd_malloc(HVD_SHM_SCRATCH, 1);
    h->sources = hvd_calloc(n_local, sizeof(const char *));
    if (!h->doorbell_ranks || !h->befores || !h->chunks || !h->counts || !h->scratch || !h->sources)
        return false;
    if (h->doorbell)
        memcpy(h->doorbell_ranks, options->doorbell_ranks, n_local * sizeof(int));
    for (size_t i = 0; i < n_buffers; i++)
        h->chunks[i].counts = h->counts + i * n_domains;
    return true;
}

hvd_status_t hvd_hosts_create(const struct hvd_hosts_options *options, struct hvd_hosts **out,
                              struct hvd_err *err)
{
    const struct hvd_hosts_shape shape = with_defaults(&options->shape, options->team->size);
    struct hvd_hosts *h = hvd_calloc(1, sizeof(*h));

    if (!is_legal(&shape, options->team->size)) {
        hvd_free(h);
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "stages of %zu bytes for %d ranks",
                        shape.stage_bytes, options->team->size);
    }
    if (h)
        *h = (struct hvd_hosts){
            .team = options->team,
            .shape = shape,
            .far = options->far,
            .peers_set = options->peers_set,
            .doorbell = options->doorbell,
            .flags = options->segment,
            .stages = (char *)options->segment +
                      (size_t)options->team->n_local * sizeof(struct hvd_hosts_flags),
        };
    if (!h || !allocate(h, options)) {
        hvd_hosts_destroy(h);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for collectives between hosts");
    }
    *out = h;
    return HVD_OK;
}
