#ifndef HVD_OPERATOR_APP_JOBPORTS_H
#define HVD_OPERATOR_APP_JOBPORTS_H

#include <stdbool.h>

#include "operator/app/store.h"
#include "operator/core/launch/ports.h"

/*
 * The ports of the jobs in a store (operator/core/launch/ports.h): which one each holds, which one
 * is kept until its status shows it, and when one becomes free.
 */

/* Call when the entry has changed. Returns whether it has released a port, so that a job may wait
 * for it: then call hvd_jobports_assign. */
bool hvd_jobports_note(struct hvd_entry *entry);

/*
 * Keeps ports for all jobs that need one, the longest wait first. Reports each entry that got one,
 * except `asking` (or NULL), as changed. HVD_ERR_NOMEM: none got one.
 */
hvd_status_t hvd_jobports_assign(struct hvd_store *store, const struct hvd_port_range *range,
                                 bool is_shared, const struct hvd_entry *asking);

/* Forgets the ports that are kept: another operator may have given them away. */
void hvd_jobports_forget(struct hvd_store *store);

#endif
