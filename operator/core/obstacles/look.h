#ifndef HVD_OPERATOR_CORE_OBSTACLES_LOOK_H
#define HVD_OPERATOR_CORE_OBSTACLES_LOOK_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"
#include "operator/core/view/projection.h"

/*
 * Watches select by a label, which anybody can edit, so an object that they do not show may exist.
 * Before the operator draws a conclusion from an object's absence, it reads the object by its name,
 * once.
 */

/*
 * Plans HVD_ACTION_LOOK for open questions of the view: objects that the watch no longer shows, and
 * expected ones that are neither seen nor known to be gone. True if there is any: then nothing else
 * may be decided before the answers are in the view. Also true while a refused read waits, but not
 * for a finished job: its end is decided, and a deletion names the uid.
 */
bool hvd_look_for_missing(struct hvd_pass *p);

/* Whether a refused read waits for its next try; if so, the plan wakes for that. */
bool hvd_look_waits(struct hvd_pass *p, const struct hvd_failure *failure);

/* The same for the read of that object (HVD_FAILURE_UNREAD), if it was refused. A refusal that must
 * be reported becomes p->unread. */
bool hvd_look_is_put_off(struct hvd_pass *p, enum hvd_kind kind, const char *name);

/* Describes the refused read (p->unread); false, with out untouched, if there is none. */
bool hvd_look_describe(const struct hvd_pass *p, char *out, size_t size);

/* Reports a refused read that delays the job, while it waits for the next try: on the condition
 * WorkersReady, and in an event. */
void hvd_look_report(struct hvd_pass *p);

/*
 * Whether the end of this pod was expected, because its set (NULL: gone) has no place for it any
 * more. Then the watch's report needs no confirmation.
 */
bool hvd_look_is_expected(const struct hvd_object *set, const struct hvd_object *pod);

/* Whether a StatefulSet of the job in the pod's label would adopt the pod on creation: it has a
 * worker's labels and name, and no owner. */
bool hvd_look_is_adoptable(const struct hvd_object *pod);

#endif
