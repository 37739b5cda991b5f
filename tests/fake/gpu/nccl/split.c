/*
 * Splitting a communicator: all its ranks come with a color and a key. Those of one color make a
 * communicator, in the order of their keys, whose id each of them computes. With `splitShare` it
 * uses the resources of its parent: then an abort of one spoils the whole family.
 */
#include "tests/fake/gpu/nccl/nccl.h"

#include <stdio.h>
#include <string.h>

/* What all ranks come with. */
struct colors {
    int color[MEET_MAX_RANKS];
    int key[MEET_MAX_RANKS];
};

/* Waits until all ranks have counted so far; false: the communicator was aborted. */
static bool wait_for_all(struct ncclComm *comm, bool has_read)
{
    for (int r = 0; r < comm->n_ranks; r++) {
        const struct meet_slot *slot = nccl_slot(comm, r);
        while ((has_read ? slot->splits_read : slot->splits) < comm->n_splits && !comm->is_aborted)
            fake_wait(200);
    }
    return !comm->is_aborted;
}

/* Shows the own color and reads those of all; nobody goes on before all have read them. */
static bool exchange(struct ncclComm *comm, int color, int key, struct colors *all)
{
    struct meet_slot *own = nccl_slot(comm, comm->rank);

    comm->n_splits++;
    own->split_color = color;
    own->split_key = key;
    own->splits = comm->n_splits;
    fake_wake();
    if (!wait_for_all(comm, false))
        return false;
    for (int r = 0; r < comm->n_ranks; r++) {
        all->color[r] = nccl_slot(comm, r)->split_color;
        all->key[r] = nccl_slot(comm, r)->split_key;
    }
    own->splits_read = comm->n_splits;
    fake_wake();
    return wait_for_all(comm, true);
}

/* The id of the new communicator, from those of the parent, the split and the color. */
static struct hvd_nccl_id make_id(const struct ncclComm *comm, int color)
{
    struct hvd_nccl_id id = {{0}};
    uint64_t hash = 14695981039346656037ULL;

    for (size_t i = 0; i < sizeof(comm->id.bytes); i++)
        hash = (hash ^ (unsigned char)comm->id.bytes[i]) * 1099511628211ULL;
    snprintf(id.bytes, sizeof(id.bytes), "%016llx%08x%08x", (unsigned long long)hash,
             comm->n_splits, (unsigned)color);
    return id;
}

static hvd_nccl_result_t begin(struct ncclComm *comm, const struct colors *all,
                               const struct hvd_nccl_config *config, struct ncclComm **out)
{
    const int color = all->color[comm->rank];
    const struct hvd_nccl_id id = make_id(comm, color);
    int n_ranks = 0;
    int rank = 0;

    for (int r = 0; r < comm->n_ranks; r++) {
        if (all->color[r] != color)
            continue;
        n_ranks++;
        rank += all->key[r] < all->key[comm->rank] ||
                (all->key[r] == all->key[comm->rank] && r < comm->rank);
    }
    *out = nccl_comm_create(n_ranks, &id, rank);
    (*out)->parent = comm;
    (*out)->is_sharing = comm->is_shared;
    (*out)->is_shared = comm->is_shared;
    (*out)->n_channels = comm->n_channels;
    const hvd_nccl_result_t result = config ? nccl_configure(*out, config) : HVD_NCCL_SUCCESS;
    return result == 0 ? nccl_init_begin(*out) : result;
}

static hvd_nccl_result_t split(struct ncclComm *comm, int color, int key, struct ncclComm **out,
                               const struct hvd_nccl_config *config)
{
    struct colors all = {{0}, {0}};
    struct ncclComm *made = NULL;

    if (nccl_is_grouped() || !comm->is_blocking)
        return nccl_fail(comm, HVD_NCCL_INVALID_USAGE,
                         "this double splits blocking communicators outside of groups alone");
    if (color < HVD_NCCL_SPLIT_NO_COLOR)
        return nccl_fail(comm, HVD_NCCL_INVALID_ARGUMENT, "ncclCommSplit: color %d", color);
    if (comm->n_in_flight > 1) /* the split is one */
        fake_report(FAKE_GPU_BLOCKING,
                    "ncclCommSplit of communicator %d (rank %d of %d) beside its collectives",
                    comm->number, comm->rank, comm->n_ranks);
    fake_count_blocking();
    if (!exchange(comm, color, key, &all))
        return nccl_fail(comm, HVD_NCCL_INTERNAL_ERROR, "aborted while splitting");
    if (color == HVD_NCCL_SPLIT_NO_COLOR)
        return HVD_NCCL_SUCCESS;
    hvd_nccl_result_t result = begin(comm, &all, config, &made);
    if (result == 0)
        result = nccl_init_finish(made);
    if (result == 0)
        *out = made;
    else
        made->life = NCCL_DESTROYED;
    return result;
}

hvd_nccl_result_t ncclCommSplit(struct ncclComm *comm, int color, int key, struct ncclComm **made,
                                struct hvd_nccl_config *config)
{
    hvd_nccl_result_t result = fake_begin(FAKE_CALL_ncclCommSplit);

    if (result == 0)
        result = nccl_check(comm, FAKE_CALL_ncclCommSplit);
    if (result == 0) {
        *made = NULL;
        comm->n_in_flight++; /* an abort in another thread does not free it meanwhile */
        result = split(comm, color, key, made, config);
        comm->n_in_flight--;
        fake_wake();
    }
    return fake_end(result);
}
