/*
 * Makes a communicator of the ranks that the program lists. MPI needs the same list from all of
 * them, and hangs where the orders differ. So the ranks meet in ascending order, compare their
 * lists, and then take the order of the lists.
 */
#include "worker/transport/mpi/ranks.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "worker/core/rank_list.h"
#include "worker/core/types.h"

#define TAG 100 /* of the messages by which some ranks make a communicator */

struct choice {
    MPI_Comm from;
    struct hvd_rank_list list;
    int *sorted; /* owned */
    int n;
    int position; /* of this process in the list; -1: it is not in it */
};

static int compare_ints(const void *a, const void *b)
{
    const int left = *(const int *)a;
    const int right = *(const int *)b;

    return (left > right) - (left < right);
}

static int make_sorted(const struct choice *c, MPI_Comm *out)
{
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group chosen = MPI_GROUP_NULL;
    int rc = MPI_Comm_group(c->from, &all);

    if (rc == MPI_SUCCESS)
        rc = MPI_Group_incl(all, c->n, c->sorted, &chosen);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_create_group(c->from, chosen, TAG, out);
    if (chosen != MPI_GROUP_NULL)
        MPI_Group_free(&chosen);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    return rc;
}

/* The first process whose list differs from that of process 0, the same on all of them; 0: none. */
static int find_other(const uint64_t *digests, int n)
{
    for (int i = 1; i < n; i++)
        if (digests[i] != digests[0])
            return i;
    return 0;
}

/* Broadcasts both lists and explains the difference, on all processes. */
static int explain(const struct choice *c, MPI_Comm comm, int other, char *text)
{
    struct hvd_rank_list lists[2] = {c->list, c->list};
    int rc = MPI_Bcast(lists[0].text, HVD_RANK_LIST_TEXT, MPI_CHAR, 0, comm);

    if (rc == MPI_SUCCESS)
        rc = MPI_Bcast(lists[1].text, HVD_RANK_LIST_TEXT, MPI_CHAR, other, comm);
    hvd_rank_list_explain(
        &(struct hvd_rank_list_of){.rank = c->sorted[0], .host = "", .list = lists[0].text},
        &(struct hvd_rank_list_of){.rank = c->sorted[other], .host = "", .list = lists[1].text},
        text, HVD_TEXT_MAX);
    return rc;
}

/* Compares the lists of all ranks; where they differ, writes the explanation into text. */
static int compare(const struct choice *c, MPI_Comm comm, uint64_t *digests, char *text)
{
    int rc = MPI_Allgather(&c->list.digest, 1, MPI_UINT64_T, digests, 1, MPI_UINT64_T, comm);
    const int other = rc == MPI_SUCCESS ? find_other(digests, c->n) : 0;

    return other > 0 ? explain(c, comm, other, text) : rc;
}

static hvd_status_t fail(struct hvd_err *err, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    MPI_Error_string(rc, text, &len);
    return HVD_FAIL(err, HVD_ERR_SYSTEM, rc, "setting up MPI communicators: %.*s", len, text);
}

static hvd_status_t choose(struct choice *c, uint64_t *digests, MPI_Comm *out, struct hvd_err *err)
{
    MPI_Comm sorted = MPI_COMM_NULL;
    char text[HVD_TEXT_MAX] = "";
    int rc = make_sorted(c, &sorted);

    if (rc == MPI_SUCCESS)
        rc = compare(c, sorted, digests, text);
    if (rc == MPI_SUCCESS && !text[0])
        rc = MPI_Comm_split(sorted, 0, c->position, out);
    if (sorted != MPI_COMM_NULL)
        MPI_Comm_free(&sorted);
    if (text[0])
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s", text);
    return rc == MPI_SUCCESS ? HVD_OK : fail(err, rc);
}

static int find_self(MPI_Comm comm, const int *ranks, int n_ranks)
{
    int self = 0;

    MPI_Comm_rank(comm, &self);
    for (int i = 0; i < n_ranks; i++)
        if (ranks[i] == self)
            return i;
    return -1;
}

hvd_status_t hvd_mpi_ranks_choose(const void *from, const int *ranks, int n_ranks, void *out,
                                  struct hvd_err *err)
{
    struct choice c = {.from = *(const MPI_Comm *)from, .n = n_ranks};
    hvd_status_t st = HVD_OK;

    c.position = find_self(c.from, ranks, n_ranks);
    if (c.position < 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "this process is none of the %d ranks of the job",
                        n_ranks);
    uint64_t *digests = hvd_calloc((size_t)n_ranks, sizeof(*digests));
    c.sorted = hvd_malloc((size_t)n_ranks, sizeof(*c.sorted));
    if (digests && c.sorted) {
        hvd_rank_list_init(&c.list, ranks, n_ranks);
        memcpy(c.sorted, ranks, (size_t)n_ranks * sizeof(*c.sorted));
        qsort(c.sorted, (size_t)n_ranks, sizeof(*c.sorted), compare_ints);
        st = choose(&c, digests, out, err);
    } else {
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for the ranks of the job");
    }
    hvd_free(c.sorted);
    hvd_free(digests);
    return st;
}
