/*
 * A collective between GPUs, with its copies. Small tensors of a fused operation share a buffer.
 * Large ones, and lists that lie one behind the other in memory, move where they are, in the same
 * group of NCCL. Only sizes decide between the two, so all ranks decide alike. While one buffer
 * moves, the next one is packed:
 *
 *     pack stream   wait for inputs ──> pack ──┐            (the next one)
 *     move stream                              └──> group of collectives ──> unpack ──> event
 *
 * If the next one has memory in common with those in front of it, its packing waits for them.
 *
 * Runs in the launcher.
 */
#include <string.h>

#include "worker/device/cuda/cuda_internal.h"
#include "worker/device/cuda/route.h"

#define LARGE_BYTES ((size_t)512 << 10) /* a copy costs more than a collective of its own */
#define BUFFER_MIN ((size_t)32 << 20)
#define ALIGNMENT 256

/* One fused operation that is being launched. */
struct launch {
    struct hvd_cuda_device *g;
    struct hvd_cuda_set *set;
    struct hvd_cuda_item *item;
    const struct hvd_collective *c;
    struct hvd_cuda_buffer *buffer; /* NULL: it needs none */
    size_t width;
    size_t scale; /* of an element in units of the type */
    hvd_nccl_type_t type;
    hvd_nccl_op_t op;
    struct hvd_cuda_reduction reduction; /* allreduce */
    bool is_scaled;                      /* copies apply the scaling */
    struct hvd_piece *small;             /* the small pieces; the item's array, sorted */
    int n_small;
    size_t small_bytes; /* of the buffer that they share */
    bool packs;         /* something is packed */
    bool is_behind;     /* earlier work that may not be done uses its memory */
    bool is_in_place;   /* the small ones move where they are, as this one */
    struct hvd_piece whole;
};

static hvd_status_t driver(const struct launch *l, hvd_cu_result_t result, const char *what,
                           struct hvd_err *err)
{
    return hvd_cuda_check(l->g, result, what, err);
}

static hvd_status_t nccl(const struct launch *l, hvd_nccl_result_t result, const char *what,
                         struct hvd_err *err)
{
    return result == HVD_NCCL_SUCCESS
               ? HVD_OK
               : hvd_cuda_library_nccl_failure(l->g->library, result, what, err);
}

static hvd_cu_ptr_t address(const void *memory)
{
    return (hvd_cu_ptr_t)(uintptr_t)memory;
}

/* --- The buffer ------------------------------------------------------------------------------- */

/* Takes the next buffer, which the pack stream may use once its last collective is done. */
static hvd_status_t take_buffer(struct launch *l, size_t bytes, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &l->g->library->cu;
    struct hvd_cuda_set *set = l->set;
    struct hvd_cuda_buffer *b = &set->buffers[set->next_buffer];
    size_t room = BUFFER_MIN;
    hvd_status_t st = HVD_OK;

    set->next_buffer = (set->next_buffer + 1) % HVD_CUDA_BUFFERS;
    l->buffer = b;
    if (b->memory)
        st = driver(l, cu->cuStreamWaitEvent(set->pack.stream, b->free, 0), "cuStreamWaitEvent",
                    err);
    if (st != HVD_OK || b->bytes >= bytes)
        return st;
    if (b->memory)
        st = driver(l, cu->cuMemFreeAsync(b->memory, set->pack.stream), "cuMemFreeAsync", err);
    b->memory = 0;
    b->bytes = 0;
    while (room < bytes)
        room *= 2;
    if (st == HVD_OK)
        st = driver(l, cu->cuMemAllocAsync(&b->memory, room, set->pack.stream), "cuMemAllocAsync",
                    err);
    if (st != HVD_OK)
        return HVD_WRAP(err, st, "a fusion buffer of %zu bytes", room);
    b->bytes = room;
    /* gaps between tensors are reduced, too */
    return driver(l, cu->cuMemsetD8Async(b->memory, 0, room, set->pack.stream), "cuMemsetD8Async",
                  err);
}

static hvd_status_t zero(const struct launch *l, hvd_cu_ptr_t at, size_t bytes, struct hvd_err *err)
{
    return driver(l, l->g->library->cu.cuMemsetD8Async(at, 0, bytes, l->set->pack.stream),
                  "cuMemsetD8Async", err);
}

/* Makes the move stream wait for the pack stream. */
static hvd_status_t join_streams(const struct launch *l, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &l->g->library->cu;
    struct CUevent_st *packed = l->set->buffers[l->set->next_buffer].packed;
    hvd_status_t st = hvd_cuda_stream_count(l->g, &l->set->pack, err);

    if (st == HVD_OK)
        st = driver(l, cu->cuEventRecord(packed, l->set->pack.stream), "cuEventRecord", err);
    return st == HVD_OK ? driver(l, cu->cuStreamWaitEvent(l->set->move.stream, packed, 0),
                                 "cuStreamWaitEvent", err)
                        : st;
}

/* Records the memory of the work, and whether earlier work that may not be done uses it. */
static void note_memory(struct launch *l)
{
    struct hvd_cuda_set *set = l->set;
    const uint32_t number = set->move.n_launched + 1;
    const uint32_t done = atomic_load_explicit(set->move.done, memory_order_acquire);

    for (int i = 0; i < l->item->work.n_pieces; i++) {
        const struct hvd_piece *p = &l->item->pieces[i];
        if (p->count == 0 && hvd_op_keeps_shape(l->c->op))
            continue;
        if (hvd_recent_add(&set->recent, p->output, true, number, done))
            l->is_behind = true;
        if (p->input != p->output && hvd_recent_add(&set->recent, p->input, false, number, done))
            l->is_behind = true;
    }
}

/* Makes the first stream of the work wait for the inputs. The one that packs also waits for earlier
 * work with the same memory. */
static hvd_status_t await_memory(const struct launch *l, bool packs, struct hvd_err *err)
{
    const struct hvd_cu_driver_api *cu = &l->g->library->cu;
    struct hvd_cuda_set *set = l->set;
    hvd_status_t st = hvd_cuda_await_inputs(l->g, l->item, packs ? &set->pack : &set->move, err);

    if (st != HVD_OK || !packs || !l->is_behind)
        return st;
    st = driver(l, cu->cuEventRecord(set->ordered, set->move.stream), "cuEventRecord", err);
    return st == HVD_OK ? driver(l, cu->cuStreamWaitEvent(set->pack.stream, set->ordered, 0),
                                 "cuStreamWaitEvent", err)
                        : st;
}

/* The collective stream writes the number of this work once the inputs are there. In a set of one
 * rank, nobody asks. */
static hvd_status_t begin(const struct launch *l, struct hvd_err *err)
{
    if (l->item->work.is_alone)
        return HVD_OK;
    return driver(l,
                  l->g->library->cu.cuStreamWriteValue32_v2(l->set->move.stream, l->set->begun_at,
                                                            l->set->move.n_launched + 1,
                                                            HVD_CU_WRITE_VALUE_DEFAULT),
                  "cuStreamWriteValue32", err);
}

/* --- Groups ----------------------------------------------------------------------------------- */

/* Begins a group of NCCL, unless there was an abort. */
static hvd_status_t begin_group(const struct launch *l, struct hvd_err *err)
{
    hvd_status_t st = hvd_cuda_nccl_enter(l->g, l->set, err);

    if (st != HVD_OK)
        return st;
    st = nccl(l, l->g->library->nccl.ncclGroupStart(), "ncclGroupStart", err);
    if (st != HVD_OK)
        hvd_cuda_nccl_leave(l->g, l->set);
    return st;
}

/* Ends a group, whose calls had the status st; returns that, or what the end returns. */
static hvd_status_t end_group(const struct launch *l, hvd_status_t st, struct hvd_err *err)
{
    const hvd_status_t ended =
        nccl(l, l->g->library->nccl.ncclGroupEnd(), "ncclGroupEnd", st == HVD_OK ? err : NULL);

    hvd_cuda_nccl_leave(l->g, l->set);
    return st == HVD_OK ? ended : st;
}

/* --- Collectives ------------------------------------------------------------------------------ */

static hvd_status_t gather(const struct launch *l, struct hvd_err *err)
{
    const struct hvd_nccl_api *n = &l->g->library->nccl;
    const struct hvd_piece *p = &l->item->pieces[0];
    const int64_t *counts = l->c->counts;
    bool is_even = true;
    char *to = p->output;
    hvd_status_t st = HVD_OK;

    for (int rank = 1; rank < l->set->size; rank++)
        is_even = is_even && counts[rank] == counts[0];
    if (is_even)
        return nccl(l,
                    n->ncclAllGather(p->input, to, (size_t)counts[0] * l->scale, l->type,
                                     l->set->comm, l->set->move.stream),
                    "ncclAllGather", err);
    for (int rank = 0; rank < l->set->size && st == HVD_OK; rank++) {
        const size_t count = (size_t)counts[rank] * l->scale;
        const void *from = rank == l->set->rank ? p->input : to;
        if (count > 0)
            st = nccl(
                l,
                n->ncclBroadcast(from, to, count, l->type, rank, l->set->comm, l->set->move.stream),
                "ncclBroadcast", err);
        to += (size_t)counts[rank] * l->width;
    }
    return st;
}

static hvd_status_t exchange(const struct launch *l, struct hvd_err *err)
{
    const struct hvd_nccl_api *n = &l->g->library->nccl;
    const struct hvd_piece *p = &l->item->pieces[0];
    const char *from = p->input;
    char *to = p->output;
    hvd_status_t st = HVD_OK;

    for (int rank = 0; rank < l->set->size && st == HVD_OK; rank++) {
        const int64_t sent = l->c->counts[rank];
        const int64_t received = l->c->received[rank];
        if (sent > 0)
            st = nccl(l,
                      n->ncclSend(from, (size_t)sent * l->scale, l->type, rank, l->set->comm,
                                  l->set->move.stream),
                      "ncclSend", err);
        if (received > 0 && st == HVD_OK)
            st = nccl(l,
                      n->ncclRecv(to, (size_t)received * l->scale, l->type, rank, l->set->comm,
                                  l->set->move.stream),
                      "ncclRecv", err);
        from += (size_t)sent * l->width;
        to += (size_t)received * l->width;
    }
    return st;
}

static hvd_status_t scatter(const struct launch *l, const char *from, struct hvd_err *err)
{
    const struct hvd_nccl_api *n = &l->g->library->nccl;
    void *output = l->item->pieces[0].output;
    const int64_t *counts = l->c->counts;
    bool is_even = true;
    hvd_status_t st = HVD_OK;

    for (int rank = 1; rank < l->set->size; rank++)
        is_even = is_even && counts[rank] == counts[0];
    if (is_even)
        return nccl(l,
                    n->ncclReduceScatter(from, output, (size_t)counts[0], l->type, l->op,
                                         l->set->comm, l->set->move.stream),
                    "ncclReduceScatter", err);
    for (int rank = 0; rank < l->set->size && st == HVD_OK; rank++) {
        if (counts[rank] > 0)
            st =
                nccl(l,
                     n->ncclReduce(from, rank == l->set->rank ? output : NULL, (size_t)counts[rank],
                                   l->type, l->op, rank, l->set->comm, l->set->move.stream),
                     "ncclReduce", err);
        from += (size_t)counts[rank] * l->width;
    }
    return st;
}

/* --- Allreduce -------------------------------------------------------------------------------- */

static size_t bytes_of(const struct launch *l, const struct hvd_piece *p)
{
    return (size_t)p->count * l->width;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Whether a large tensor has to move through the buffer: this rank has joined, or the tensor shares
 * memory with another one. Other ranks need not know. */
static bool needs_buffer(const struct launch *l, const struct hvd_piece *p)
{
    return !p->input || !p->output || l->item->work.is_shared;
}

/* Moves the small pieces to the front, in their order: all ranks have the same sizes. */
static void sort_pieces(struct launch *l)
{
    struct hvd_piece *pieces = l->item->pieces;
    const int n = l->item->work.n_pieces;

    l->small = pieces;
    for (int i = 0; i < n; i++) {
        const struct hvd_piece p = pieces[i];
        if (bytes_of(l, &p) >= LARGE_BYTES)
            continue;
        memmove(pieces + l->n_small + 1, pieces + l->n_small, (size_t)(i - l->n_small) * sizeof(p));
        pieces[l->n_small++] = p;
    }
}

static struct hvd_pack_list list_of(const struct launch *l, const struct hvd_piece *pieces, int n)
{
    return (struct hvd_pack_list){
        .pieces = pieces, .n_pieces = n, .dtype = l->c->dtype, .is_padded = true};
}

/* Packs tensors into a buffer, or unpacks them. */
static hvd_status_t pack(const struct launch *l, const struct hvd_piece *pieces, int n,
                         hvd_cu_ptr_t buffer, bool is_unpack, struct hvd_err *err)
{
    const struct hvd_cuda_packing packing = {.list = list_of(l, pieces, n),
                                             .buffer = buffer,
                                             .scaling = l->is_scaled ? &l->c->scaling : NULL,
                                             .is_unpack = is_unpack};

    return hvd_cuda_pack(l->g, l->set, &packing, err);
}

/* Packs or unpacks the large tensors that do not move where they are. `at` is where the buffer has
 * room for them. */
static hvd_status_t pack_large(const struct launch *l, hvd_cu_ptr_t at, bool is_unpack,
                               struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (int i = l->n_small; i < l->item->work.n_pieces && st == HVD_OK; i++) {
        const struct hvd_piece *p = &l->item->pieces[i];
        if (needs_buffer(l, p)) {
            if (p->input || (is_unpack && p->output))
                st = pack(l, p, 1, at, is_unpack, err);
            else if (!is_unpack)
                st = zero(l, at, bytes_of(l, p), err);
            at += aligned(bytes_of(l, p));
        } else if (l->is_scaled) { /* the output is its buffer */
            st = pack(l, p, 1, address(p->output), is_unpack, err);
        }
    }
    return st;
}

static hvd_status_t reduce_large(struct launch *l, hvd_cu_ptr_t at, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    for (int i = l->n_small; i < l->item->work.n_pieces && st == HVD_OK; i++) {
        const struct hvd_piece *p = &l->item->pieces[i];
        const bool is_in_buffer = needs_buffer(l, p);
        void *output = is_in_buffer ? hvd_cuda_pointer(at) : p->output;
        const void *input = is_in_buffer || l->is_scaled ? output : p->input;
        st = hvd_cuda_reduce(&l->reduction, input, output, (size_t)p->count, err);
        if (is_in_buffer)
            at += aligned(bytes_of(l, p));
    }
    return st;
}

/* Sorts the tensors, and returns the bytes of the buffer that they need. */
static hvd_status_t plan_allreduce(struct launch *l, size_t *bytes, struct hvd_err *err)
{
    struct hvd_pack_shape shape;

    sort_pieces(l);
    const struct hvd_pack_list list = list_of(l, l->small, l->n_small);
    hvd_status_t st = hvd_pack_table_measure(&list, &shape, err);
    if (st != HVD_OK)
        return st;
    l->small_bytes = (size_t)shape.buffer_bytes;
    l->is_in_place = l->n_small > 0 && !l->is_scaled && !l->item->work.is_shared &&
                     hvd_pack_table_in_place(&list, &l->whole);
    *bytes = l->is_in_place ? 0 : aligned(l->small_bytes);
    l->packs = *bytes > 0 || l->is_scaled;
    for (int i = l->n_small; i < l->item->work.n_pieces; i++)
        if (needs_buffer(l, &l->item->pieces[i]))
            *bytes += aligned(bytes_of(l, &l->item->pieces[i]));
    l->packs = l->packs || *bytes > 0;
    return HVD_OK;
}

/* Performs the present step for each message. */
static hvd_status_t reduce_messages(struct launch *l, hvd_cu_ptr_t buffer, hvd_cu_ptr_t large,
                                    struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (l->is_in_place)
        st = hvd_cuda_reduce(&l->reduction, l->whole.input, l->whole.output, (size_t)l->whole.count,
                             err);
    else if (l->small_bytes > 0)
        st = hvd_cuda_reduce(&l->reduction, hvd_cuda_pointer(buffer), hvd_cuda_pointer(buffer),
                             l->small_bytes / l->width, err);
    return st == HVD_OK ? reduce_large(l, large, err) : st;
}

static hvd_status_t reduce_group(struct launch *l, hvd_cu_ptr_t buffer, hvd_cu_ptr_t large,
                                 struct hvd_err *err)
{
    const hvd_status_t st = begin_group(l, err);

    return st == HVD_OK ? end_group(l, reduce_messages(l, buffer, large, err), err) : st;
}

/* Moves all messages, in one step or in those of the torus; or performs SCATTER or GATHER. */
static hvd_status_t reduce_all(struct launch *l, hvd_cu_ptr_t buffer, hvd_cu_ptr_t large,
                               struct hvd_err *err)
{
    const enum hvd_device_work_kind kind = l->item->work.kind;
    hvd_status_t st;

    l->reduction = (struct hvd_cuda_reduction){
        .g = l->g, .set = l->set, .type = l->type, .op = l->op, .host = l->item->work.host};
    st = hvd_cuda_nccl_enter(l->g, l->set, err);
    if (st != HVD_OK)
        return st;
    st = hvd_cuda_reduction_init(&l->reduction, l->c, kind, err);
    hvd_cuda_nccl_leave(l->g, l->set);
    if (st == HVD_OK && kind == HVD_DEVICE_GATHER) {
        st = reduce_messages(l, buffer, large, err);
        l->reduction.step = HVD_CUDA_REDUCE_GATHER;
    }
    if (st == HVD_OK)
        st = reduce_group(l, buffer, large, err);
    while (st == HVD_OK && l->reduction.has_torus && l->reduction.step < HVD_CUDA_REDUCE_GATHER) {
        l->reduction.step++;
        st = reduce_group(l, buffer, large, err);
    }
    if (st != HVD_OK || kind != HVD_DEVICE_SCATTER)
        return st;
    l->reduction.step = HVD_CUDA_REDUCE_SAVE;
    return reduce_messages(l, buffer, large, err);
}

/* Copies a tensor that is not scaled, in a set of one rank. */
static hvd_status_t copy_one(const struct launch *l, const struct hvd_piece *p, struct hvd_err *err)
{
    if (!p->input || !p->output || p->input == p->output || p->count == 0)
        return HVD_OK;
    return driver(l,
                  l->g->library->cu.cuMemcpyDtoDAsync_v2(address(p->output), address(p->input),
                                                         bytes_of(l, p), l->set->move.stream),
                  "cuMemcpyDtoDAsync", err);
}

/* Copies the tensors that move where they are, in a set of one rank. */
static hvd_status_t copy_group(const struct launch *l, struct hvd_err *err)
{
    hvd_status_t st = l->is_in_place ? copy_one(l, &l->whole, err) : HVD_OK;

    for (int i = l->n_small; i < l->item->work.n_pieces && st == HVD_OK; i++)
        if (!l->is_scaled && !needs_buffer(l, &l->item->pieces[i]))
            st = copy_one(l, &l->item->pieces[i], err);
    return st;
}

/* Returns the elements of a message that this rank has. */
static size_t part_of(const struct hvd_cuda_set *set, size_t count, size_t width)
{
    return hvd_torus_part(hvd_torus_share_of(count, width, set->torus.local_size), &set->torus);
}

/* Packs the inputs. A GATHER has none: it continues in the buffer of its SCATTER. */
static hvd_status_t take_in(struct launch *l, bool has_small, hvd_cu_ptr_t buffer,
                            hvd_cu_ptr_t large, struct hvd_err *err)
{
    const bool packs = l->packs && l->item->work.kind != HVD_DEVICE_GATHER;
    hvd_status_t st = await_memory(l, packs, err);

    if (st == HVD_OK && packs && has_small)
        st = pack(l, l->small, l->n_small, buffer, false, err);
    if (st == HVD_OK && packs)
        st = pack_large(l, large, false, err);
    return st == HVD_OK && packs ? join_streams(l, err) : st;
}

static hvd_status_t move_allreduce(struct launch *l, struct hvd_err *err)
{
    const enum hvd_device_work_kind kind = l->item->work.kind;
    size_t bytes = 0;
    hvd_status_t st = plan_allreduce(l, &bytes, err);
    const bool has_small = !l->is_in_place && l->small_bytes > 0;

    if (kind == HVD_DEVICE_GATHER)
        l->buffer = l->set->halfway;
    else if (st == HVD_OK && bytes > 0)
        st = take_buffer(l, bytes, err);
    const hvd_cu_ptr_t buffer = l->buffer ? l->buffer->memory : 0;
    const hvd_cu_ptr_t large = buffer + (has_small ? aligned(l->small_bytes) : 0);
    if (st == HVD_OK)
        st = take_in(l, has_small, buffer, large, err);
    if (st == HVD_OK)
        st = begin(l, err);
    if (st == HVD_OK)
        st = l->item->work.is_alone ? copy_group(l, err) : reduce_all(l, buffer, large, err);
    if (kind == HVD_DEVICE_SCATTER) {
        l->set->halfway = l->buffer;
        l->buffer = NULL; /* it is free behind the GATHER */
        return st;
    }
    if (st == HVD_OK && has_small)
        st = pack(l, l->small, l->n_small, buffer, true, err);
    return st == HVD_OK ? pack_large(l, large, true, err) : st;
}

/* Whether an allreduce takes three steps, the second one in host memory. */
static bool is_split(const struct hvd_cuda_device *g, const struct hvd_cuda_set *set,
                     const struct hvd_collective *c)
{
    bool is_scaled = false;
    const bool is_averaged = hvd_route_reduce(c, &is_scaled) == HVD_NCCL_AVG;
    const size_t bytes = (size_t)c->count * hvd_dtype_size((int)c->dtype);

    return g->has_hierarchy && set->torus.local_size > 0 && c->op == HVD_ALLREDUCE &&
           hvd_torus_moves(bytes, c->dtype, is_averaged);
}

int64_t hvd_cuda_part(struct hvd_device_port *d, const struct hvd_collective *c)
{
    const struct hvd_cuda_device *g = hvd_cuda_gpu(d);
    const struct hvd_cuda_set *set = hvd_cuda_set_find(g, c->set);
    const size_t width = hvd_dtype_size((int)c->dtype);
    const struct hvd_piece whole = {.count = c->count};
    const struct hvd_piece *pieces = c->n_pieces > 0 ? c->pieces : &whole;
    size_t small = 0;
    size_t part = 0;

    if (!is_split(g, set, c))
        return -1;
    for (int i = 0; i < (c->n_pieces > 0 ? c->n_pieces : 1); i++) {
        const size_t bytes = (size_t)pieces[i].count * width;
        if (bytes >= LARGE_BYTES)
            part += part_of(set, (size_t)pieces[i].count, width);
        else if (bytes > 0)
            small = hvd_pack_table_next(small) + bytes;
    }
    return (int64_t)(part + part_of(set, small / width, width));
}

/* --- All operations --------------------------------------------------------------------------- */

static hvd_status_t move_scatter(struct launch *l, struct hvd_err *err)
{
    const struct hvd_piece *p = &l->item->pieces[0];
    const size_t bytes = bytes_of(l, p);
    hvd_cu_ptr_t from = address(p->input);
    hvd_status_t st = HVD_OK;

    l->packs = l->is_scaled && bytes > 0;
    if (l->packs)
        st = take_buffer(l, bytes, err);
    if (st == HVD_OK)
        st = await_memory(l, l->packs, err);
    if (st == HVD_OK && l->packs) {
        from = l->buffer->memory;
        st = pack(l, p, 1, from, false, err);
    }
    if (st == HVD_OK && l->packs)
        st = join_streams(l, err);
    if (st == HVD_OK)
        st = begin(l, err);
    if (st == HVD_OK)
        st = begin_group(l, err);
    if (st != HVD_OK)
        return st;
    st = end_group(l, scatter(l, hvd_cuda_pointer(from), err), err);
    const struct hvd_piece mine = {.output = p->output, .count = l->c->counts[l->set->rank]};
    return st == HVD_OK && l->packs && mine.count > 0
               ? pack(l, &mine, 1, address(mine.output), true, err)
               : st;
}

static hvd_status_t move_broadcast(const struct launch *l, struct hvd_err *err)
{
    const struct hvd_piece *p = &l->item->pieces[0];

    return nccl(l,
                l->g->library->nccl.ncclBroadcast(l->c->root == l->set->rank ? p->input : p->output,
                                                  p->output, (size_t)p->count * l->scale, l->type,
                                                  l->c->root, l->set->comm, l->set->move.stream),
                "ncclBroadcast", err);
}

/* Moves data that is not reduced. */
static hvd_status_t move_data(struct launch *l, struct hvd_err *err)
{
    hvd_status_t st = hvd_cuda_await_inputs(l->g, l->item, &l->set->move, err);

    if (st == HVD_OK)
        st = begin(l, err);
    if (st == HVD_OK)
        st = begin_group(l, err);
    if (st != HVD_OK)
        return st;
    if (l->c->op == HVD_BROADCAST)
        st = move_broadcast(l, err);
    else if (l->c->op == HVD_ALLTOALL)
        st = exchange(l, err);
    else
        st = gather(l, err);
    return end_group(l, st, err);
}

static hvd_status_t run(struct launch *l, struct hvd_err *err)
{
    /* in a set of one rank, all are copies with the scaling */
    if (l->c->op == HVD_ALLREDUCE || l->item->work.is_alone)
        return move_allreduce(l, err);
    return l->c->op == HVD_REDUCESCATTER ? move_scatter(l, err) : move_data(l, err);
}

hvd_status_t hvd_cuda_move(struct hvd_cuda_device *g, struct hvd_cuda_item *item,
                           struct hvd_cuda_event **out, struct hvd_err *err)
{
    struct launch l = {.g = g,
                       .set = item->set,
                       .item = item,
                       .c = &item->move,
                       .width = hvd_dtype_size((int)item->move.dtype)};
    hvd_status_t st;

    note_memory(&l);
    l.type = hvd_route_type(l.c->op, l.c->dtype, &l.scale);
    l.op = hvd_route_reduce(l.c, &l.is_scaled);
    st = run(&l, err);
    if (st == HVD_OK && l.buffer)
        st = driver(&l, g->library->cu.cuEventRecord(l.buffer->free, l.set->move.stream),
                    "cuEventRecord", err);
    return st == HVD_OK ? hvd_cuda_end_work(g, &l.set->move, !item->work.is_alone, out, err) : st;
}
