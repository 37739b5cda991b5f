#ifndef HVD_OPERATOR_CORE_ENSURE_LABELS_H
#define HVD_OPERATOR_CORE_ENSURE_LABELS_H

#include "operator/core/pass/pass.h"

/* Within operator/core only. The operator's labels and owner references that another writer
 * edited. */

/* Restores those of all the job's objects that stay, and reports each edit in an event. */
void hvd_labels_restore(struct hvd_pass *p);

/* Restores only the owner references: the objects that a finished job keeps are removed together
 * with it. */
void hvd_labels_restore_owners(struct hvd_pass *p);

/* Restores those of a master that its Job has released and that only the status names. So it is
 * found even if the next status names another pod. */
void hvd_labels_restore_stray(struct hvd_pass *p);

#endif
