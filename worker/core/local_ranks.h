#ifndef HVD_WORKER_CORE_LOCAL_RANKS_H
#define HVD_WORKER_CORE_LOCAL_RANKS_H

#include "base/status.h"

/* Returns in *local_ranks the number of each of n ranks among those of its host, in their order;
 * the caller frees it. hosts has a number for each rank that those of its host share. Takes the
 * time of a sort. HVD_ERR_NOMEM. Pure. */
hvd_status_t hvd_local_ranks_of(const int *hosts, int n, int **local_ranks);

#endif
