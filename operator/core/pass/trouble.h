#ifndef HVD_OPERATOR_CORE_PASS_TROUBLE_H
#define HVD_OPERATOR_CORE_PASS_TROUBLE_H

#include "operator/core/pass/pass.h"

/* Within operator/core only. Causes for which pods of a job do not run. */

/*
 * Takes the text that a condition is about to show of a cause: "pod P image I cannot be pulled:
 * WORDS", "pods of StatefulSet S cannot be made: WORDS" and so on. Replaces the words by those
 * that the persisted condition has of the same cause, if they differ in no more than numbers, as
 * each new text is a write. Remembers the cause for hvd_trouble_events if the persisted condition
 * does not name it. Other texts are left alone.
 */
void hvd_trouble_note(struct hvd_pass *p, enum hvd_condition_type type, char *text, size_t size);

#define HVD_REASON_CONFLICT "Conflict" /* an object in the way, which is somebody else's */

/* A reason why workers or master cannot be made now, on the condition Running; the first in a pass
 * wins. While the master runs the condition stays true and its message tells of the reason. */
void hvd_trouble_report(struct hvd_pass *p, const char *reason, const char *message);

/* The same with an event only where the condition has not had this part of the message. */
void hvd_trouble_report_once(struct hvd_pass *p, const char *reason, const char *message,
                             const char *part);

/*
 * Whether an update of a condition says something else than the persisted one: another reason,
 * another cause, or no cause any more. That must not wait, as a text that outlives its cause is
 * wrong; counts, and the words of a cause that stays, may.
 */
bool hvd_trouble_has_changed(const struct hvd_condition *was,
                             const struct hvd_condition_update *update);

/* Adds an event for each cause that was noted in this pass. An event is named after its cause and
 * the attempt, so the API server refuses a second one of the same cause. */
void hvd_trouble_events(struct hvd_pass *p);

#endif
