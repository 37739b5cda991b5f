#ifndef HVD_WORKER_ENGINE_NEGOTIATE_SET_H
#define HVD_WORKER_ENGINE_NEGOTIATE_SET_H

#include "worker/engine/state/state.h"

/*
 * The life of a process set.
 */

/* A process set of the given ranks of the job, this one among them. HVD_ERR_NOMEM. */
hvd_status_t hvd_set_create(const struct hvd_engine *e, uint32_t id, const int *ranks, int n_ranks,
                            struct hvd_set **out, struct hvd_err *err);

/* Makes room for the bits of all slots that there are. HVD_ERR_NOMEM. Caller is the progress owner
 * and holds mu. */
hvd_status_t hvd_set_make_room(struct hvd_set *set);

/* Forgets a set that was removed and has nothing to do any more; whether it was one. What peers
 * still say about it is not heard. Caller is the progress owner. */
bool hvd_set_retire(struct hvd_engine *e, struct hvd_set *set);

/* Frees the set and what it still has to do, not its entries. NULL is fine. */
void hvd_set_destroy(struct hvd_set *set);

#endif
