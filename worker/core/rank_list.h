#ifndef HVD_WORKER_CORE_RANK_LIST_H
#define HVD_WORKER_CORE_RANK_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * The ranks that a process passes to horovod_init, in a form in which processes compare their
 * lists. All ranks of a job must pass the same ranks in the same order, which defines their numbers
 * in the job. Pure.
 */
#define HVD_RANK_LIST_TEXT 160

struct hvd_rank_list {
    uint64_t digest;               /* equal for equal lists */
    char text[HVD_RANK_LIST_TEXT]; /* "0-7, 9, 8", or its beginning; "all ranks" */
};

/* Makes the digest and the text of n_ranks ranks in their order. n_ranks = 0 means all ranks;
 * `ranks` may then be NULL. */
void hvd_rank_list_init(struct hvd_rank_list *list, const int *ranks, int n_ranks);

/* Checks that each rank is one of `size` and appears once. HVD_ERR_INVALID names the wrong rank
 * in err. HVD_ERR_NOMEM. */
hvd_status_t hvd_rank_list_check(const int *ranks, int n_ranks, int size, struct hvd_err *err);

/* A rank and the list that it passed; host may be empty. */
struct hvd_rank_list_of {
    int rank; /* in MPI_COMM_WORLD, or in the communicator that was passed */
    const char *host;
    const char *list; /* the list's text */
};

/* Writes that two ranks pass different lists. The order of the two does not change the text. */
void hvd_rank_list_explain(const struct hvd_rank_list_of *a, const struct hvd_rank_list_of *b,
                           char *text, size_t size);

#endif
