/*
 * Communicators of the program as ranks of the job, and as process sets that exist from the start.
 * Called while no other thread calls MPI for this library, or under MPI_THREAD_MULTIPLE; no state.
 */
#include "worker/transport/mpi/comms.h"

#include <mpi.h>
#include <string.h>

#include "base/mem.h"

#define NOT_A_MEMBER (-1)
#define NOT_LEGAL (-2)

static hvd_status_t fail(struct hvd_err *err, int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    MPI_Error_string(rc, text, &len);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, rc, "%s: %.*s", what, len, text);
}

/* Translates all members of `from` to ranks in `to`. */
static int translate(MPI_Group from, MPI_Group to, int n, int *ranks)
{
    int *own = hvd_malloc((size_t)n, sizeof(*own));

    if (!own)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < n; i++)
        own[i] = i;
    int rc = MPI_Group_translate_ranks(from, n, own, to, ranks);
    hvd_free(own);
    return rc;
}

hvd_status_t hvd_mpi_comms_ranks(const struct hvd_transport *job, const void *comm, int *ranks,
                                 int *n, struct hvd_err *err)
{
    const MPI_Comm given = *(const MPI_Comm *)comm;
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    int size = 0;

    if (given == MPI_COMM_NULL || !given) /* MPI ends the process for a NULL pointer */
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "the communicator is MPI_COMM_NULL, or NULL");
    int rc = MPI_Comm_group(*(const MPI_Comm *)hvd_mpi_comm(job), &all);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_group(given, &members);
    if (rc == MPI_SUCCESS)
        rc = MPI_Group_size(members, &size);
    const bool fits = size <= job->topology.size;
    if (rc == MPI_SUCCESS && fits)
        rc = translate(members, all, size, ranks);
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    if (rc != MPI_SUCCESS)
        return fail(err, rc, "the members of a communicator");
    for (int i = 0; i < size; i++)
        if (!fits || ranks[i] == MPI_UNDEFINED)
            return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                            "the communicator has members that are not in the job");
    *n = size;
    return HVD_OK;
}

/* The lowest rank of this rank's communicator at an index of the array, or NOT_A_MEMBER or
 * NOT_LEGAL. */
static int leader_of(const struct hvd_transport *job, MPI_Comm comm, int *ranks, int *n)
{
    *n = 0;
    if (comm == MPI_COMM_NULL)
        return NOT_A_MEMBER;
    if (hvd_mpi_comms_ranks(job, &comm, ranks, n, NULL) != HVD_OK)
        return NOT_LEGAL;
    for (int i = 1; i < *n; i++)
        if (ranks[i] < ranks[i - 1])
            return NOT_LEGAL;
    return ranks[0];
}

/* Gathers every rank's leader at one index into leaders. Fails on every rank unless all
 * communicators have consistent members. */
static hvd_status_t exchange(const struct hvd_transport *job, MPI_Comm comm, int index,
                             int *leaders, struct hvd_err *err)
{
    const MPI_Comm all = *(const MPI_Comm *)hvd_mpi_comm(job);
    int *ranks = hvd_malloc((size_t)job->topology.size, sizeof(*ranks));
    int n = 0;

    const int mine = ranks ? leader_of(job, comm, ranks, &n) : NOT_LEGAL;
    int rc = MPI_Allgather(&mine, 1, MPI_INT, leaders, 1, MPI_INT, all);
    int found = 0;
    for (int rank = 0; ranks && rank < job->topology.size && rc == MPI_SUCCESS && mine >= 0; rank++)
        if (leaders[rank] == mine && (found >= n || ranks[found++] != rank))
            found = job->topology.size + 1;
    int is_good = mine == NOT_A_MEMBER || (mine >= 0 && found == n);
    hvd_free(ranks);
    if (rc == MPI_SUCCESS)
        rc = MPI_Allreduce(MPI_IN_PLACE, &is_good, 1, MPI_INT, MPI_LAND, all);
    if (rc != MPI_SUCCESS)
        return fail(err, rc, "the communicators of process sets");
    if (is_good)
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "communicator %d is no process set: its members must be ranks of the job, in "
                    "the order that they have there, and pass the same communicator",
                    index);
}

/* Adds the sets at one index of the array: one for each leader, in order. */
static void add_sets(const int *leaders, int size, struct hvd_bootstrap_sets *out, int *n_ranks)
{
    for (int leader = 0; leader < size; leader++) {
        if (leaders[leader] != leader)
            continue;
        const int first = *n_ranks;
        for (int rank = leader; rank < size; rank++)
            if (leaders[rank] == leader)
                out->ranks[(*n_ranks)++] = rank;
        out->sizes[out->n++] = *n_ranks - first;
    }
}

/* Fails unless all ranks pass the same number of communicators. */
static hvd_status_t agree_on_number(const struct hvd_transport *job, int n, struct hvd_err *err)
{
    int extremes[2] = {n, -n};
    int rc = MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_INT, MPI_MIN,
                           *(const MPI_Comm *)hvd_mpi_comm(job));

    if (rc != MPI_SUCCESS)
        return fail(err, rc, "the number of communicators");
    if (extremes[0] == -extremes[1])
        return HVD_OK;
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "Different ranks tried to set up mismatching numbers of process sets");
}

hvd_status_t hvd_mpi_comms_sets_read(const struct hvd_transport *job, const void *comms,
                                     int n_comms, struct hvd_bootstrap_sets *out,
                                     struct hvd_err *err)
{
    const size_t n_given = (size_t)n_comms;
    const int size = job->topology.size;
    int *leaders = hvd_malloc((size_t)size, sizeof(*leaders));
    /* a copy: the program's array may be gone while a call that was left behind still runs */
    MPI_Comm *given = hvd_malloc(n_given, sizeof(MPI_Comm));
    struct hvd_bootstrap_sets sets = {.ranks = hvd_malloc(n_given * (size_t)size, sizeof(int)),
                                      .sizes = hvd_malloc(n_given * (size_t)size, sizeof(int))};
    hvd_status_t st = HVD_OK;
    int n_ranks = 0;

    /* A rank without memory leaves the others waiting: the launcher has to end them. */
    if (!leaders || !given || !sets.ranks || !sets.sizes)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for process sets");
    else
        memcpy(given, comms, n_given * sizeof(MPI_Comm));
    if (st == HVD_OK)
        st = agree_on_number(job, n_comms, err);
    for (int i = 1; i < n_comms && st == HVD_OK; i++) {
        st = exchange(job, given[i], i, leaders, err);
        if (st == HVD_OK)
            add_sets(leaders, size, &sets, &n_ranks);
    }
    hvd_free(given);
    hvd_free(leaders);
    if (st == HVD_OK)
        *out = sets;
    else
        hvd_bootstrap_sets_fini(&sets);
    return st;
}
