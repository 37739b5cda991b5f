/*
 * Allreduces by algorithms of our own, in messages. A payload is cut into chunks, which pass the
 * steps of a schedule (algorithm.h). A few chunks are under way at once, so that one is on the wire
 * while another adds up. A chunk moves on in calls of test; no function waits. Chunks of all
 * collectives of a communicator have tags of their own, since ranks may be at different ones.
 */
#include <limits.h>

#include "base/mem.h"
#include "worker/reduce/reduce.h"
#include "worker/transport/mpi/move.h"

#define TAG_MIN 1000
#define TAGS 16384 /* MPI guarantees 32767 of them */
#define CHUNK_BYTES ((int64_t)1 << 20)
#define BLOCK_BYTES                                                                                \
    ((int64_t)64 << 10) /* of a ring: shorter messages cost more latency than they gain */

static char *data_of(const struct hvd_collective *c, const struct hvd_mpi_move *mv)
{
    return c->pieces ? mv->packed : c->output;
}

/* Elements in a chunk. */
static int64_t steps_elements(const struct hvd_mpi_mover *mover, int n_ranks, size_t width)
{
    int64_t bytes = mover->step_bytes;

    if (bytes == 0)
        bytes = n_ranks * BLOCK_BYTES > CHUNK_BYTES ? n_ranks * BLOCK_BYTES : CHUNK_BYTES;
    const int64_t elements = bytes / (int64_t)width > 0 ? bytes / (int64_t)width : 1;
    return elements < mover->chunk_elements ? elements : mover->chunk_elements;
}

/* Posts the receive and the send of the chunk's current step. */
static int post(const struct hvd_collective *c, MPI_Comm comm, struct hvd_mpi_chunk *chunk)
{
    const struct hvd_exchange *x = &chunk->exchange;
    const MPI_Datatype type = hvd_mpi_type(c->dtype);
    const size_t width = hvd_dtype_size((int)c->dtype);
    int rc = MPI_SUCCESS;

    chunk->exchange = hvd_algorithm_step(&chunk->schedule, chunk->step);
    if (x->from >= 0 && x->receive_count > 0)
        rc = MPI_Irecv(x->combines ? chunk->room : chunk->data + (size_t)x->receive_at * width,
                       (int)x->receive_count, type, x->from, chunk->tag, comm, &chunk->requests[0]);
    if (rc == MPI_SUCCESS && x->to >= 0 && x->send_count > 0)
        rc = MPI_Isend(chunk->data + (size_t)x->send_at * width, (int)x->send_count, type, x->to,
                       chunk->tag, comm, &chunk->requests[1]);
    return rc;
}

/* Passes as many steps as possible without waiting. */
static int move_on(const struct hvd_collective *c, MPI_Comm comm, struct hvd_mpi_move *mv,
                   struct hvd_mpi_chunk *chunk)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    int done = 1;
    int rc = MPI_SUCCESS;

    while (rc == MPI_SUCCESS && chunk->is_active) {
        const struct hvd_exchange *x = &chunk->exchange;
        rc = MPI_Testall(2, chunk->requests, &done, MPI_STATUSES_IGNORE);
        if (rc != MPI_SUCCESS || !done)
            return rc;
        if (x->from >= 0 && x->combines)
            hvd_reduce_combine(c->dtype, c->reduce, chunk->data + (size_t)x->receive_at * width,
                               chunk->room, x->receive_count);
        chunk->is_active = ++chunk->step < chunk->n_steps;
        mv->n_steps++;
        if (chunk->is_active)
            rc = post(c, comm, chunk);
        else
            hvd_reduce_finish(c->dtype, &c->scaling, chunk->data, chunk->schedule.count);
    }
    return rc;
}

static bool reserve_room(struct hvd_mpi_chunk *chunk, size_t bytes)
{
    if (chunk->room_bytes >= bytes)
        return true;
    hvd_free(chunk->room);
    chunk->room_bytes = 0;
    chunk->room = hvd_malloc(bytes, 1);
    if (chunk->room)
        chunk->room_bytes = bytes;
    return chunk->room != NULL;
}

/* Starts the next chunk. */
static int begin(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                 struct hvd_mpi_move *mv, struct hvd_mpi_chunk *chunk)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    const size_t offset = (size_t)mv->next_element * width;
    const int64_t left = c->count - mv->next_element;

    chunk->schedule =
        (struct hvd_schedule){.algorithm = mv->algorithm,
                              .n_ranks = channel.size,
                              .rank = channel.rank,
                              .count = left < mv->steps_elements ? left : mv->steps_elements};
    if (!reserve_room(chunk, (size_t)hvd_algorithm_room(&chunk->schedule) * width))
        return MPI_ERR_NO_MEM;
    chunk->data = data_of(c, mv) + offset;
    chunk->step = 0;
    chunk->n_steps = hvd_algorithm_steps(&chunk->schedule);
    chunk->tag = TAG_MIN + (int)(mv->next_tag++ % TAGS);
    chunk->requests[0] = MPI_REQUEST_NULL;
    chunk->requests[1] = MPI_REQUEST_NULL;
    mv->next_element += chunk->schedule.count;
    if (!c->pieces && (c->input != c->output || c->scaling.prescale != 1))
        hvd_reduce_prescale(c->dtype, &c->scaling, chunk->data, (const char *)c->input + offset,
                            chunk->schedule.count);
    chunk->is_active = chunk->n_steps > 0;
    if (chunk->is_active)
        return post(c, channel.comm, chunk);
    hvd_reduce_finish(c->dtype, &c->scaling, chunk->data, chunk->schedule.count);
    return MPI_SUCCESS;
}

int hvd_mpi_steps_test(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                       struct hvd_mpi_move *mv, int *done)
{
    int rc = MPI_SUCCESS;

    *done = 1;
    for (int i = 0; i < HVD_MPI_CHUNKS && rc == MPI_SUCCESS; i++) {
        struct hvd_mpi_chunk *chunk = &mv->chunks[i];
        if (chunk->is_active)
            rc = move_on(c, channel.comm, mv, chunk);
        if (rc == MPI_SUCCESS && !chunk->is_active && mv->next_element < c->count)
            rc = begin(channel, c, mv, chunk);
        if (chunk->is_active)
            *done = 0;
    }
    if (mv->next_element < c->count)
        *done = 0;
    return rc;
}

static int add_rank(int rank, int *ranks, int n, int room)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank)
            return n;
    if (n < room)
        ranks[n++] = rank;
    return n;
}

int hvd_mpi_steps_awaits(const struct hvd_mpi_move *mv, int *ranks, int room)
{
    int n = 0;

    for (int i = 0; i < HVD_MPI_CHUNKS && mv->algorithm != HVD_ALGORITHM_MPI; i++) {
        const struct hvd_mpi_chunk *chunk = &mv->chunks[i];
        const int peers[] = {chunk->exchange.from, chunk->exchange.to};
        for (int k = 0; k < 2 && chunk->is_active; k++) {
            int done = 1;
            if (chunk->requests[k] != MPI_REQUEST_NULL &&
                MPI_Request_get_status(chunk->requests[k], &done, MPI_STATUS_IGNORE) ==
                    MPI_SUCCESS &&
                !done)
                n = add_rank(peers[k], ranks, n, room);
        }
    }
    return n;
}

uint64_t hvd_mpi_steps_moved(const struct hvd_mpi_move *mv)
{
    uint64_t n = 2 * mv->n_steps;

    for (int i = 0; i < HVD_MPI_CHUNKS; i++) {
        const struct hvd_mpi_chunk *chunk = &mv->chunks[i];
        for (int k = 0; k < 2 && chunk->is_active; k++) {
            int done = 1;
            n += MPI_Request_get_status(chunk->requests[k], &done, MPI_STATUS_IGNORE) ==
                     MPI_SUCCESS &&
                 done;
        }
    }
    return n;
}

int hvd_mpi_steps_start(const struct hvd_mpi_mover *mover, struct hvd_mpi_channel channel,
                        const struct hvd_collective *c, struct hvd_mpi_move *mv)
{
    int rc = MPI_SUCCESS;

    mv->next_element = 0;
    mv->n_steps = 0;
    mv->next_tag = channel.next_tag;
    mv->steps_elements = steps_elements(mover, channel.size, hvd_dtype_size((int)c->dtype));
    for (int i = 0; i < HVD_MPI_CHUNKS; i++)
        mv->chunks[i].is_active = false;
    for (int i = 0; i < HVD_MPI_CHUNKS && rc == MPI_SUCCESS && mv->next_element < c->count; i++)
        rc = begin(channel, c, mv, &mv->chunks[i]);
    return rc;
}
