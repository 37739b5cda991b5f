#ifndef HVD_OPERATOR_APP_HISTORY_H
#define HVD_OPERATOR_APP_HISTORY_H

#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/app/store.h"
#include "operator/core/view/projection.h"

/*
 * Facts about an object, by its uid, that its own fields lack. Of a pod: when its deletion was
 * seen, and that its Job has released it. Of a child without its controller: its owner. Metadata
 * can be edited, all of it at once, but what this process saw or made stays true.
 */

/* Records in an object that is about to be filed what the store knows of it. HVD_ERR_NOMEM. */
hvd_status_t hvd_history_note(struct hvd_store *store, struct hvd_object *object);

/* Records in the object that this operator has just made it for the job, if it came without its
 * controller, because a webhook removed that. HVD_ERR_NOMEM. */
hvd_status_t hvd_history_note_made(const struct hvd_job *job, struct hvd_object *object);

#endif
