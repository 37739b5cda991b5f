/*
 * Moves collectives by calls of MPI, except for allreduces in steps of our own (steps.c). All calls
 * of a collective are started at once: MPI needs the collectives of a communicator in the same
 * order on every rank, and only their starts have an order. Where an int of MPI is too small for a
 * count, the collective takes several calls. Where MPI cannot scale, or gather from pieces, the
 * data is packed before and unpacked after.
 */
#include "worker/transport/mpi/move.h"

#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "worker/reduce/reduce.h"

#define TAG 2
#define COPY_BYTES ((int64_t)16 << 20) /* per call that only copies */

static size_t width_of(const struct hvd_collective *c)
{
    return hvd_dtype_size((int)c->dtype);
}

static void destroy_one(struct hvd_mpi_move *mv)
{
    hvd_free(mv->counts_displs);
    hvd_free(mv->packed);
    for (int i = 0; i < HVD_MPI_CHUNKS; i++)
        hvd_free(mv->chunks[i].room);
    hvd_free(mv);
}

void hvd_mpi_move_destroy(struct hvd_mpi_move *mv)
{
    while (mv) {
        struct hvd_mpi_move *next = mv->next;
        destroy_one(mv);
        mv = next;
    }
}

/* A move with room for so many calls, reused or new; NULL when out of memory. */
static struct hvd_mpi_move *take_move(struct hvd_mpi_mover *mover, int64_t n_calls)
{
    for (struct hvd_mpi_move **at = &mover->spare; *at; at = &(*at)->next) {
        struct hvd_mpi_move *mv = *at;
        if (mv->room < n_calls)
            continue;
        *at = mv->next;
        mv->n_requests = 0;
        return mv;
    }
    if (n_calls > INT_MAX)
        return NULL;
    struct hvd_mpi_move *mv = hvd_calloc(1, sizeof(*mv) + (size_t)n_calls * sizeof(MPI_Request));
    if (mv)
        mv->room = (int)n_calls;
    return mv;
}

static void keep_move(struct hvd_mpi_mover *mover, struct hvd_mpi_move *mv)
{
    mv->next = mover->spare;
    mover->spare = mv;
}

static bool reserve_packed(struct hvd_mpi_move *mv, size_t bytes)
{
    if (mv->packed_size >= bytes)
        return true;
    char *packed = hvd_realloc(mv->packed, bytes, 1);
    if (!packed)
        return false;
    mv->packed = packed;
    mv->packed_size = bytes;
    return true;
}

static bool reserve_counts(struct hvd_mpi_move *mv, int size)
{
    if (mv->size >= size)
        return true;
    int *both = hvd_realloc(mv->counts_displs, 2 * (size_t)size, sizeof(int));
    if (!both)
        return false;
    mv->counts_displs = both;
    mv->size = size;
    return true;
}

/* Elements per call. A broadcast or alltoall has fewer, so that its progress can be seen. */
static int64_t call_elements(const struct hvd_mpi_mover *m, const struct hvd_collective *c)
{
    const int64_t most = COPY_BYTES / (int64_t)width_of(c);

    if (c->op != HVD_BROADCAST && c->op != HVD_ALLTOALL)
        return m->chunk_elements;
    return most < m->chunk_elements ? most : m->chunk_elements;
}

static int64_t n_chunks(int64_t elements, int64_t in_call)
{
    return (elements + in_call - 1) / in_call;
}

static int64_t chunk_at(int64_t in_call, int64_t count, int64_t at)
{
    return count - at < in_call ? count - at : in_call;
}

/* A collective to start, and its channel. */
struct job {
    const struct hvd_mpi_mover *mover;
    struct hvd_mpi_channel channel;
    const struct hvd_collective *c;
    struct hvd_mpi_move *mv;
};

static MPI_Request *next_request(const struct job *j)
{
    return &j->mv->requests[j->mv->n_requests];
}

static int count_call(const struct job *j, int rc)
{
    j->mv->n_requests += rc == MPI_SUCCESS;
    return rc;
}

/* --- Reductions ------------------------------------------------------------------------------- */

static void pack(const struct hvd_collective *c, char *to)
{
    for (int i = 0; i < c->n_pieces; i++) {
        hvd_reduce_prescale(c->dtype, &c->scaling, to, c->pieces[i].input, c->pieces[i].count);
        to += (size_t)c->pieces[i].count * width_of(c);
    }
}

static void unpack(const struct hvd_collective *c, const char *from)
{
    for (int i = 0; i < c->n_pieces; i++) {
        const size_t bytes = (size_t)c->pieces[i].count * width_of(c);
        memcpy(c->pieces[i].output, from, bytes);
        from += bytes;
    }
}

static bool is_prescaled(const struct hvd_collective *c)
{
    return c->scaling.prescale != 1;
}

/* Starts MPI's own calls, always in place. Ranks with and without MPI_IN_PLACE must not meet in a
 * call, and a rank does not know whether the outputs of others are their inputs. */
static int start_calls(const struct job *j, char *data)
{
    const struct hvd_collective *c = j->c;
    int rc = MPI_SUCCESS;

    for (int64_t at = 0; at < c->count && rc == MPI_SUCCESS; at += j->mover->chunk_elements) {
        rc = MPI_Iallreduce(MPI_IN_PLACE, data + (size_t)at * width_of(c),
                            (int)chunk_at(j->mover->chunk_elements, c->count, at),
                            hvd_mpi_type(c->dtype), hvd_mpi_op(&j->mover->ops, c->dtype, c->reduce),
                            j->channel.comm, next_request(j));
        rc = count_call(j, rc);
    }
    return rc;
}

static int start_allreduce(const struct job *j)
{
    const struct hvd_collective *c = j->c;

    if (c->pieces)
        pack(c, j->mv->packed);
    if (j->mv->algorithm != HVD_ALGORITHM_MPI)
        return hvd_mpi_steps_start(j->mover, j->channel, c, j->mv);
    if (c->pieces)
        return start_calls(j, j->mv->packed);
    if (c->input != c->output || is_prescaled(c))
        hvd_reduce_prescale(c->dtype, &c->scaling, c->output, c->input, c->count);
    return start_calls(j, c->output);
}

/* Reduces every rank's part to that rank, where one call cannot take all parts. */
static int start_scatter_by_parts(const struct job *j, const char *input)
{
    const struct hvd_collective *c = j->c;
    int rc = MPI_SUCCESS;

    for (int root = 0; root < j->channel.size; root++) {
        for (int64_t at = 0; at < c->counts[root] && rc == MPI_SUCCESS;
             at += j->mover->chunk_elements) {
            const size_t offset = (size_t)at * width_of(c);
            rc = MPI_Ireduce(
                input + offset, root == j->channel.rank ? (char *)c->output + offset : NULL,
                (int)chunk_at(j->mover->chunk_elements, c->counts[root], at),
                hvd_mpi_type(c->dtype), hvd_mpi_op(&j->mover->ops, c->dtype, c->reduce), root,
                j->channel.comm, next_request(j));
            rc = count_call(j, rc);
        }
        input += (size_t)c->counts[root] * width_of(c);
    }
    return rc;
}

static bool is_scatter_packed(const struct hvd_collective *c)
{
    return is_prescaled(c) || c->input == c->output;
}

static int start_scatter(const struct job *j)
{
    const struct hvd_collective *c = j->c;
    const char *input = c->input;

    if (is_scatter_packed(c)) {
        hvd_reduce_prescale(c->dtype, &c->scaling, j->mv->packed, input, c->count);
        input = j->mv->packed;
    }
    if (c->count > j->mover->chunk_elements)
        return start_scatter_by_parts(j, input);
    for (int i = 0; i < j->channel.size; i++)
        j->mv->counts_displs[i] = (int)c->counts[i];
    return count_call(j, MPI_Ireduce_scatter(input, c->output, j->mv->counts_displs,
                                             hvd_mpi_type(c->dtype),
                                             hvd_mpi_op(&j->mover->ops, c->dtype, c->reduce),
                                             j->channel.comm, next_request(j)));
}

/* --- Copies ----------------------------------------------------------------------------------- */

/* Starts one broadcast of `count` elements at `data`, in as many calls as necessary. */
static int start_cast(const struct job *j, int root, char *data, int64_t count)
{
    const int64_t in_call = call_elements(j->mover, j->c);
    int rc = MPI_SUCCESS;

    for (int64_t at = 0; at < count && rc == MPI_SUCCESS; at += in_call) {
        rc = MPI_Ibcast(data + (size_t)at * width_of(j->c), (int)chunk_at(in_call, count, at),
                        hvd_mpi_type(j->c->dtype), root, j->channel.comm, next_request(j));
        rc = count_call(j, rc);
    }
    return rc;
}

static int start_broadcast(const struct job *j)
{
    const struct hvd_collective *c = j->c;

    if (j->channel.rank == c->root && c->output != c->input)
        memcpy(c->output, c->input, (size_t)c->count * width_of(c));
    return start_cast(j, c->root, c->output, c->count);
}

static int64_t sum_of(const int64_t *counts, int size)
{
    int64_t sum = 0;

    for (int i = 0; i < size; i++)
        sum += counts[i];
    return sum;
}

/* Copies this rank's part of an allgather to its place in the output. It may lie there already, or
 * where other parts will arrive. */
static void copy_to_output(const struct job *j)
{
    const struct hvd_collective *c = j->c;
    char *own = (char *)c->output + (size_t)sum_of(c->counts, j->channel.rank) * width_of(c);

    if (c->count > 0 && own != c->input)
        memmove(own, c->input, (size_t)c->count * width_of(c));
}

/* Gathers by a broadcast of every rank's part, where one call cannot take all parts. */
static int start_gather_by_parts(const struct job *j)
{
    const struct hvd_collective *c = j->c;
    char *part = c->output;
    int rc = MPI_SUCCESS;

    for (int i = 0; i < j->channel.size && rc == MPI_SUCCESS; i++) {
        rc = start_cast(j, i, part, c->counts[i]);
        part += (size_t)c->counts[i] * width_of(c);
    }
    return rc;
}

static int start_gather(const struct job *j)
{
    const struct hvd_collective *c = j->c;
    int *counts = j->mv->counts_displs;
    int *displs = counts + j->channel.size;
    int at = 0;

    copy_to_output(j);
    if (sum_of(c->counts, j->channel.size) > j->mover->chunk_elements)
        return start_gather_by_parts(j);
    for (int i = 0; i < j->channel.size; i++) {
        counts[i] = (int)c->counts[i];
        displs[i] = at;
        at += counts[i];
    }
    return count_call(j,
                      MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c->output, counts, displs,
                                      hvd_mpi_type(c->dtype), j->channel.comm, next_request(j)));
}

/* Starts the messages between this rank and another one, chunks in order: sends `from`, or receives
 * into `into` when `from` is NULL. */
static int start_exchange(const struct job *j, int peer, const char *from, char *into,
                          int64_t count)
{
    const MPI_Datatype type = hvd_mpi_type(j->c->dtype);
    const int64_t in_call = call_elements(j->mover, j->c);
    int rc = MPI_SUCCESS;

    for (int64_t at = 0; at < count && rc == MPI_SUCCESS; at += in_call) {
        const size_t offset = (size_t)at * width_of(j->c);
        const int n = (int)chunk_at(in_call, count, at);
        rc = from ? MPI_Isend(from + offset, n, type, peer, TAG, j->channel.comm, next_request(j))
                  : MPI_Irecv(into + offset, n, type, peer, TAG, j->channel.comm, next_request(j));
        rc = count_call(j, rc);
    }
    return rc;
}

static int start_alltoall(const struct job *j)
{
    const struct hvd_collective *c = j->c;
    char *out = c->output;
    const char *in = c->input;
    char *mine = NULL;
    int rc = MPI_SUCCESS;

    if (in == out && j->mv->packed) {
        memcpy(j->mv->packed, in, (size_t)sum_of(c->counts, j->channel.size) * width_of(c));
        in = j->mv->packed;
    }

    for (int i = 0; i < j->channel.size && rc == MPI_SUCCESS; i++) {
        if (i == j->channel.rank)
            mine = out;
        else
            rc = start_exchange(j, i, NULL, out, c->received[i]);
        out += (size_t)c->received[i] * width_of(c);
    }
    for (int i = 0; i < j->channel.size && rc == MPI_SUCCESS; i++) {
        const size_t bytes = (size_t)c->counts[i] * width_of(c);
        if (i != j->channel.rank)
            rc = start_exchange(j, i, in, NULL, c->counts[i]);
        else if (bytes > 0 && in)
            memcpy(mine, in, bytes);
        in += bytes;
    }
    return rc;
}

/* --- All of them ------------------------------------------------------------------------------ */

/* An upper bound of the MPI calls that the collective takes. */
static int64_t n_calls(const struct hvd_mpi_mover *m, struct hvd_mpi_channel channel,
                       const struct hvd_collective *c)
{
    const int64_t in_call = call_elements(m, c);
    int64_t n = 0;

    if (c->op == HVD_ALLREDUCE || c->op == HVD_BROADCAST)
        return n_chunks(c->count, in_call);
    for (int i = 0; i < channel.size; i++) {
        n += n_chunks(c->counts[i], in_call);
        if (c->op == HVD_ALLTOALL)
            n += n_chunks(c->received[i], in_call);
    }
    return n > 0 ? n : 1;
}

static bool reserve(struct hvd_mpi_move *mv, struct hvd_mpi_channel channel,
                    const struct hvd_collective *c)
{
    const size_t bytes = (size_t)c->count * width_of(c);

    if (c->op == HVD_ALLREDUCE)
        return !c->pieces || reserve_packed(mv, bytes);
    if (c->op == HVD_REDUCESCATTER && is_scatter_packed(c) && !reserve_packed(mv, bytes))
        return false;
    if (c->op == HVD_ALLTOALL && c->input == c->output &&
        !reserve_packed(mv, (size_t)sum_of(c->counts, channel.size) * width_of(c)))
        return false;
    return reserve_counts(mv, channel.size);
}

static int start(const struct job *j)
{
    switch ((int)j->c->op) {
    case HVD_ALLREDUCE:
        return start_allreduce(j);
    case HVD_REDUCESCATTER:
        return start_scatter(j);
    case HVD_BROADCAST:
        return start_broadcast(j);
    case HVD_ALLTOALL:
        return start_alltoall(j);
    default:
        return start_gather(j);
    }
}

static enum hvd_algorithm choose(const struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                                 const struct hvd_collective *c)
{
    if (c->op != HVD_ALLREDUCE)
        return HVD_ALGORITHM_MPI;
    if (mover->algorithm != HVD_ALGORITHM_AUTO)
        return mover->algorithm;
    return hvd_algorithm_choose(&mover->table, c->count * (int64_t)width_of(c), channel.size,
                                mover->is_deterministic);
}

struct hvd_mpi_move *hvd_mpi_move_start(struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                                        const struct hvd_collective *c, int *rc,
                                        struct hvd_mpi_move **broken)
{
    const enum hvd_algorithm algorithm = choose(mover, channel, c);
    struct hvd_mpi_move *mv =
        take_move(mover, algorithm == HVD_ALGORITHM_MPI ? n_calls(mover, channel, c) : 1);

    *rc = MPI_SUCCESS;
    *broken = NULL;
    if (mv && !reserve(mv, channel, c)) {
        keep_move(mover, mv);
        mv = NULL;
    }
    if (!mv)
        return NULL;
    mv->algorithm = algorithm;
    const struct job job = {.mover = mover, .channel = channel, .c = c, .mv = mv};
    *rc = start(&job);
    if (*rc == MPI_SUCCESS)
        return mv;
    *broken = mv;
    return NULL;
}

uint32_t hvd_mpi_move_tags(const struct hvd_mpi_move *mv, const struct hvd_collective *c)
{
    if (mv->algorithm == HVD_ALGORITHM_MPI)
        return 0;
    return (uint32_t)((c->count + mv->steps_elements - 1) / mv->steps_elements);
}

int hvd_mpi_move_test(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                      struct hvd_mpi_move *mv, int *done)
{
    if (mv->algorithm != HVD_ALGORITHM_MPI)
        return hvd_mpi_steps_test(channel, c, mv, done);
    return MPI_Testall(mv->n_requests, mv->requests, done, MPI_STATUSES_IGNORE);
}

uint64_t hvd_mpi_move_moved(struct hvd_mpi_move *mv)
{
    uint64_t n = 0;

    if (mv->algorithm != HVD_ALGORITHM_MPI)
        return hvd_mpi_steps_moved(mv);
    for (int i = 0; i < mv->n_requests; i++) {
        int done = 0;
        if (MPI_Request_get_status(mv->requests[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS)
            n += done != 0;
    }
    return n;
}

void hvd_mpi_move_finish(struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                         const struct hvd_collective *c, struct hvd_mpi_move *mv)
{
    if (c->op == HVD_ALLREDUCE && mv->algorithm == HVD_ALGORITHM_MPI)
        hvd_reduce_finish(c->dtype, &c->scaling, c->pieces ? mv->packed : c->output, c->count);
    else if (c->op == HVD_REDUCESCATTER)
        hvd_reduce_finish(c->dtype, &c->scaling, c->output, c->counts[channel.rank]);
    if (c->op == HVD_ALLREDUCE && c->pieces)
        unpack(c, mv->packed);
    keep_move(mover, mv);
}
