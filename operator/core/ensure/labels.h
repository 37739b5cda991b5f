#ifndef HVD_OPERATOR_CORE_ENSURE_LABELS_H
#define HVD_OPERATOR_CORE_ENSURE_LABELS_H

#include "operator/core/pass/pass.h"

/* Within operator/core only. Labels and owner references of ours that somebody has edited. */

/* Restores those of all objects of the job that stay, and tells of each edit in an event. */
void hvd_labels_restore(struct hvd_pass *p);

/* Restores the owner references alone: what a finished job keeps goes with it. */
void hvd_labels_restore_owners(struct hvd_pass *p);

/* Restores those of a master that its Job has let go and that only the status names: it is found
 * then, whatever the next status names. */
void hvd_labels_restore_stray(struct hvd_pass *p);

#endif
