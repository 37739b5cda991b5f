#ifndef HVD_WORKER_CORE_RANK_LIST_H
#define HVD_WORKER_CORE_RANK_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * The ranks that a process passes to horovod_init, as other processes compare them with theirs. All
 * ranks of a job pass the same ones in the same order, which numbers them in the job. Pure.
 */
#define HVD_RANK_LIST_TEXT 160

struct hvd_rank_list {
    uint64_t digest;               /* the same for the same list, of as many ranks */
    char text[HVD_RANK_LIST_TEXT]; /* "0-7, 9, 8", or the beginning of it; "all ranks" */
};

/* Of the ranks in their order; n_ranks = 0: all, and ranks may be NULL. */
void hvd_rank_list_init(struct hvd_rank_list *list, const int *ranks, int n_ranks);

/* HVD_ERR_INVALID where a rank is not one of `size`, or is given twice: it is named in err.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_rank_list_check(const int *ranks, int n_ranks, int size, struct hvd_err *err);

/* Who passes which list; host may be empty. */
struct hvd_rank_list_of {
    int rank; /* of MPI_COMM_WORLD, or of the communicator that was passed */
    const char *host;
    const char *list; /* the text */
};

/* Writes that two ranks pass different lists, the same text for the two in any order. */
void hvd_rank_list_explain(const struct hvd_rank_list_of *a, const struct hvd_rank_list_of *b,
                           char *text, size_t size);

#endif
