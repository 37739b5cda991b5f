#ifndef HVD_WORKER_ENGINE_STATE_SET_HOSTS_H
#define HVD_WORKER_ENGINE_STATE_SET_HOSTS_H

#include "worker/engine/state/state.h"

/* Sets *hosts to an array with the number of each rank's host, by rank of the set, or to NULL if
 * all share one. The caller frees it by hvd_free. The same on all ranks. HVD_ERR_NOMEM. Any
 * thread. */
hvd_status_t hvd_set_hosts_find(const struct hvd_engine *e, const struct hvd_set *set, int **hosts);

#endif
