/* An allreduce across hosts by two alltoalls; see across.h. Runs in the progress owner. */
#include "worker/engine/execute/across.h"

#include <string.h>

#include "base/mem.h"
#include "worker/reduce/reduce.h"

struct hvd_across {
    int size;
    int n_peers;     /* this rank among them */
    int own;         /* its place among them */
    int *peers;      /* ranks in the set, in their order; owned */
    int64_t *counts; /* to be sent to each rank of the set, then to be received; owned */
    /* of the present operation */
    int64_t count;
    char *part;
    char *stretches; /* as many as peers: the stretch of this rank from each of them */
};

hvd_status_t hvd_across_create(const int *local_ranks, int size, int rank, struct hvd_across **out)
{
    struct hvd_across *a = hvd_calloc(1, sizeof(*a));

    if (!a)
        return HVD_ERR_NOMEM;
    a->size = size;
    a->peers = hvd_calloc((size_t)size, sizeof(*a->peers));
    a->counts = hvd_calloc(2 * (size_t)size, sizeof(*a->counts));
    if (!a->peers || !a->counts) {
        hvd_across_destroy(a);
        return HVD_ERR_NOMEM;
    }
    for (int i = 0; i < size; i++) {
        if (local_ranks ? local_ranks[i] != local_ranks[rank] : i != rank)
            continue;
        if (i == rank)
            a->own = a->n_peers;
        a->peers[a->n_peers++] = i;
    }
    *out = a;
    return HVD_OK;
}

void hvd_across_destroy(struct hvd_across *a)
{
    if (!a)
        return;
    hvd_free(a->peers);
    hvd_free(a->counts);
    hvd_free(a);
}

/* Returns the elements of the stretch of the part that a peer reduces. */
static int64_t stretch_of(const struct hvd_across *a, int64_t count, int peer)
{
    return count / a->n_peers + (peer < count % a->n_peers);
}

/* Returns where the stretches begin behind a part: aligned for every type. */
static size_t stretches_at(int64_t count, enum hvd_dtype dtype)
{
    return ((size_t)count * hvd_dtype_size((int)dtype) + 63) / 64 * 64;
}

size_t hvd_across_bytes(const struct hvd_across *a, int64_t count, enum hvd_dtype dtype)
{
    return stretches_at(count, dtype) +
           (size_t)(stretch_of(a, count, 0) * a->n_peers) * hvd_dtype_size((int)dtype);
}

/* Describes an alltoall between peers; sent and received are by peer. */
static void describe(const struct hvd_across *a, const char *input, char *output,
                     struct hvd_collective *move)
{
    move->op = HVD_ALLTOALL;
    move->reduce = HVD_SUM;
    move->scaling = (struct hvd_scaling){.prescale = 1, .postscale = 1, .divisor = 1};
    move->input = input;
    move->output = output;
    move->pieces = NULL;
    move->n_pieces = 0;
    move->count = 0;
    for (int i = 0; i < a->n_peers; i++)
        move->count += a->counts[a->peers[i]];
    move->counts = a->counts;
    move->received = a->counts + a->size;
    move->_state = NULL;
}

void hvd_across_exchange(struct hvd_across *a, const struct hvd_collective *of, void *memory,
                         int64_t count, struct hvd_collective *move)
{
    a->count = count;
    a->part = memory;
    a->stretches = a->part + stretches_at(count, of->dtype);
    for (int i = 0; i < a->n_peers; i++) {
        a->counts[a->peers[i]] = stretch_of(a, count, i);
        a->counts[a->size + a->peers[i]] = stretch_of(a, count, a->own);
    }
    *move = *of;
    describe(a, a->part, a->stretches, move);
}

void hvd_across_distribute(struct hvd_across *a, enum hvd_reduce reduce,
                           struct hvd_collective *move)
{
    const int64_t own = stretch_of(a, a->count, a->own);
    const size_t bytes = (size_t)own * hvd_dtype_size((int)move->dtype);

    for (int i = 1; i < a->n_peers; i++)
        hvd_reduce_combine(move->dtype, reduce, a->stretches, a->stretches + (size_t)i * bytes,
                           own);
    for (int i = 0; i < a->n_peers; i++) {
        if (i > 0)
            memcpy(a->stretches + (size_t)i * bytes, a->stretches, bytes);
        a->counts[a->peers[i]] = own;
        a->counts[a->size + a->peers[i]] = stretch_of(a, a->count, i);
    }
    describe(a, a->stretches, a->part, move);
}
