/*
 * Allreduces by algorithms of our own, in messages: a payload goes in chunks, each on its way
 * through the steps of a schedule (algorithm.h), a few at once, so that while one adds up another
 * is on the wire. A chunk moves on when somebody tests it; nobody waits here. Chunks of all
 * collectives of a communicator have tags of their own, since ranks may be at different ones.
 */
#include <limits.h>

#include "base/mem.h"
#include "worker/reduce/reduce.h"
#include "worker/transport/mpi_move.h"

#define TAG_MIN 1000
#define TAGS 16384 /* MPI guarantees 32767 of them */
#define RUN_BYTES ((int64_t)1 << 20)
#define BLOCK_BYTES                                                                                \
    ((int64_t)64 << 10) /* of a ring: shorter messages are not worth their latency */

static char *data_of(const struct hvd_collective *c, const struct hvd_mpi_move *mv)
{
    return c->pieces ? mv->packed : c->output;
}

/* Elements in a run. */
static int64_t run_elements(const struct hvd_mpi_mover *mover, int n_ranks, size_t width)
{
    int64_t bytes = mover->step_bytes;

    if (bytes == 0)
        bytes = n_ranks * BLOCK_BYTES > RUN_BYTES ? n_ranks * BLOCK_BYTES : RUN_BYTES;
    const int64_t elements = bytes / (int64_t)width > 0 ? bytes / (int64_t)width : 1;
    return elements < mover->chunk_elements ? elements : mover->chunk_elements;
}

/* Sends and receives what the run's step says. */
static int post(const struct hvd_collective *c, MPI_Comm comm, struct hvd_mpi_run *run)
{
    const struct hvd_exchange *x = &run->exchange;
    const MPI_Datatype type = hvd_mpi_type(c->dtype);
    const size_t width = hvd_dtype_size((int)c->dtype);
    int rc = MPI_SUCCESS;

    run->exchange = hvd_schedule_step(&run->schedule, run->step);
    if (x->from >= 0 && x->receive_count > 0)
        rc = MPI_Irecv(x->combines ? run->room : run->data + (size_t)x->receive_at * width,
                       (int)x->receive_count, type, x->from, run->tag, comm, &run->requests[0]);
    if (rc == MPI_SUCCESS && x->to >= 0 && x->send_count > 0)
        rc = MPI_Isend(run->data + (size_t)x->send_at * width, (int)x->send_count, type, x->to,
                       run->tag, comm, &run->requests[1]);
    return rc;
}

/* Steps on as far as it goes without waiting. */
static int move_on(const struct hvd_collective *c, MPI_Comm comm, struct hvd_mpi_move *mv,
                   struct hvd_mpi_run *run)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    int done = 1;
    int rc = MPI_SUCCESS;

    while (rc == MPI_SUCCESS && run->is_active) {
        const struct hvd_exchange *x = &run->exchange;
        rc = MPI_Testall(2, run->requests, &done, MPI_STATUSES_IGNORE);
        if (rc != MPI_SUCCESS || !done)
            return rc;
        if (x->from >= 0 && x->combines)
            hvd_reduce_combine(c->dtype, c->reduce, run->data + (size_t)x->receive_at * width,
                               run->room, x->receive_count);
        run->is_active = ++run->step < run->n_steps;
        mv->n_steps++;
        if (run->is_active)
            rc = post(c, comm, run);
        else
            hvd_reduce_finish(c->dtype, &c->scaling, run->data, run->schedule.count);
    }
    return rc;
}

static bool reserve_room(struct hvd_mpi_run *run, size_t bytes)
{
    if (run->room_bytes >= bytes)
        return true;
    hvd_free(run->room);
    run->room_bytes = 0;
    run->room = hvd_malloc(bytes, 1);
    if (run->room)
        run->room_bytes = bytes;
    return run->room != NULL;
}

/* The next chunk on its way. */
static int begin(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                 struct hvd_mpi_move *mv, struct hvd_mpi_run *run)
{
    const size_t width = hvd_dtype_size((int)c->dtype);
    const size_t offset = (size_t)mv->next_element * width;
    const int64_t left = c->count - mv->next_element;

    run->schedule =
        (struct hvd_schedule){.algorithm = mv->algorithm,
                              .n_ranks = channel.size,
                              .rank = channel.rank,
                              .count = left < mv->run_elements ? left : mv->run_elements};
    if (!reserve_room(run, (size_t)hvd_schedule_room(&run->schedule) * width))
        return MPI_ERR_NO_MEM;
    run->data = data_of(c, mv) + offset;
    run->step = 0;
    run->n_steps = hvd_schedule_steps(&run->schedule);
    run->tag = TAG_MIN + (int)(mv->next_tag++ % TAGS);
    run->requests[0] = MPI_REQUEST_NULL;
    run->requests[1] = MPI_REQUEST_NULL;
    mv->next_element += run->schedule.count;
    if (!c->pieces && (c->input != c->output || c->scaling.prescale != 1))
        hvd_reduce_prescale(c->dtype, &c->scaling, run->data, (const char *)c->input + offset,
                            run->schedule.count);
    run->is_active = run->n_steps > 0;
    if (run->is_active)
        return post(c, channel.comm, run);
    hvd_reduce_finish(c->dtype, &c->scaling, run->data, run->schedule.count);
    return MPI_SUCCESS;
}

int hvd_mpi_steps_test(struct hvd_mpi_channel channel, const struct hvd_collective *c,
                       struct hvd_mpi_move *mv, int *done)
{
    int rc = MPI_SUCCESS;

    *done = 1;
    for (int i = 0; i < HVD_MPI_RUNS && rc == MPI_SUCCESS; i++) {
        struct hvd_mpi_run *run = &mv->runs[i];
        if (run->is_active)
            rc = move_on(c, channel.comm, mv, run);
        if (rc == MPI_SUCCESS && !run->is_active && mv->next_element < c->count)
            rc = begin(channel, c, mv, run);
        if (run->is_active)
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

    for (int i = 0; i < HVD_MPI_RUNS && mv->algorithm != HVD_ALGORITHM_MPI; i++) {
        const struct hvd_mpi_run *run = &mv->runs[i];
        const int peers[] = {run->exchange.from, run->exchange.to};
        for (int k = 0; k < 2 && run->is_active; k++) {
            int done = 1;
            if (run->requests[k] != MPI_REQUEST_NULL &&
                MPI_Request_get_status(run->requests[k], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
                !done)
                n = add_rank(peers[k], ranks, n, room);
        }
    }
    return n;
}

uint64_t hvd_mpi_steps_moved(const struct hvd_mpi_move *mv)
{
    uint64_t n = 2 * mv->n_steps;

    for (int i = 0; i < HVD_MPI_RUNS; i++) {
        const struct hvd_mpi_run *run = &mv->runs[i];
        for (int k = 0; k < 2 && run->is_active; k++) {
            int done = 1;
            n +=
                MPI_Request_get_status(run->requests[k], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
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
    mv->run_elements = run_elements(mover, channel.size, hvd_dtype_size((int)c->dtype));
    for (int i = 0; i < HVD_MPI_RUNS; i++)
        mv->runs[i].is_active = false;
    for (int i = 0; i < HVD_MPI_RUNS && rc == MPI_SUCCESS && mv->next_element < c->count; i++)
        rc = begin(channel, c, mv, &mv->runs[i]);
    return rc;
}
