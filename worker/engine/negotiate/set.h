#ifndef HVD_WORKER_ENGINE_NEGOTIATE_SET_H
#define HVD_WORKER_ENGINE_NEGOTIATE_SET_H

#include "worker/engine/state/state.h"

/*
 * The life cycle of a process set.
 */

/* Creates a process set of these ranks of the job, which must include this one. HVD_ERR_NOMEM. */
hvd_status_t hvd_set_create(const struct hvd_engine *e, uint32_t id, const int *ranks, int n_ranks,
                            struct hvd_set **out, struct hvd_err *err);

/* Makes room for the bits of all existing slots. HVD_ERR_NOMEM. Only the progress owner calls
 * this, and holds mu. */
hvd_status_t hvd_set_make_room(struct hvd_set *set);

/* Destroys a removed set that has no work left; returns whether it was one. Later messages of
 * peers about it are ignored. Only the progress owner calls this. */
bool hvd_set_retire(struct hvd_engine *e, struct hvd_set *set);

/* Frees the set and its unfinished work, but not its entries. NULL is allowed. */
void hvd_set_destroy(struct hvd_set *set);

/* Frees what the device has for the set, after an orderly end: the program may go on with its
 * device. NULL is allowed. */
void hvd_set_leave_device(struct hvd_set *set);

#endif
