#ifndef HVD_OPERATOR_APP_HISTORY_H
#define HVD_OPERATOR_APP_HISTORY_H

#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/app/store.h"
#include "operator/core/view/projection.h"

/*
 * What an object does not tell itself, and is known of it by its uid: of a pod, when its deletion
 * was seen, and that its Job has let it go; of a child without its controller, whose it was.
 * Metadata can be edited, all of it at once: what was seen before, or made by this process, stays
 * true.
 */

/* Notes in the object, which is about to be filed, what the store has of it. HVD_ERR_NOMEM. */
hvd_status_t hvd_history_note(struct hvd_store *store, struct hvd_object *object);

/* Notes in the object that this operator has just made it for the job, if it came without its
 * controller: a webhook removes that. HVD_ERR_NOMEM. */
hvd_status_t hvd_history_note_made(const struct hvd_job *job, struct hvd_object *object);

#endif
