#ifndef HVD_OPERATOR_CORE_OBSTACLES_LOOK_H
#define HVD_OPERATOR_CORE_OBSTACLES_LOOK_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/*
 * What the watches do not show may be there: they select by a label, which anybody can edit. Before
 * a conclusion is drawn from the absence of an object it is looked for by its name, once.
 */

/*
 * Plans HVD_ACTION_LOOK for what the view leaves open: objects that the watch shows no longer, and
 * those that should be there and are neither seen nor known to be gone. True if there is any:
 * nothing else may be decided before the answers are in the view. So too while a look that was
 * refused waits, but not of a finished job: its end is decided, and a deletion names the uid.
 */
bool hvd_look_for_missing(struct hvd_pass *p);

/* Whether a read that was answered by that refusal waits for its next try, for which the plan
 * wakes then. */
bool hvd_look_waits(struct hvd_pass *p, const struct hvd_failure *failure);

/* The same of the read of that object (HVD_FAILURE_UNREAD), if it was refused; where that is to be
 * told of it becomes p->unread. */
bool hvd_look_is_put_off(struct hvd_pass *p, enum hvd_kind kind, const char *name);

/* Describes what could not be read (p->unread); false, and out untouched, if nothing is. */
bool hvd_look_describe(const struct hvd_pass *p, char *out, size_t size);

/* Tells on the condition WorkersReady, and in an event, what could not be read and holds the job up
 * while it waits for the next try. */
void hvd_look_report(struct hvd_pass *p);

/*
 * Whether the end of this pod was to be expected, as its set (NULL: gone) has no place for it any
 * more: what the watch tells of it needs no confirmation.
 */
bool hvd_look_is_expected(const struct hvd_object *set, const struct hvd_object *pod);

/* Whether a StatefulSet of the job that the pod's label names takes the pod for its own as soon as
 * it is made: it has a worker's labels and name, and no owner. */
bool hvd_look_is_adoptable(const struct hvd_object *pod);

#endif
