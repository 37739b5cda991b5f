#ifndef HVD_OPERATOR_CORE_PASS_TROUBLE_H
#define HVD_OPERATOR_CORE_PASS_TROUBLE_H

#include "operator/core/pass/pass.h"

/* Within operator/core only. Causes for which pods of a job do not run. */

/*
 * Processes the text of a cause for a condition: "pod P image I cannot be pulled: WORDS", "pods of
 * StatefulSet S cannot be made: WORDS" and so on. If its words differ from the persisted ones of
 * the same cause only in numbers, it restores those: each new text is a write. Records the cause
 * for hvd_trouble_events if the persisted condition does not name it. Leaves other texts unchanged.
 */
void hvd_trouble_note(struct hvd_pass *p, enum hvd_condition_type type, char *text, size_t size);

#define HVD_REASON_CONFLICT "Conflict" /* a foreign object is in the way */

/* Reports on the condition Running why workers or master cannot be made now; the first report in a
 * pass wins. While the master runs the condition stays true, and its message includes the
 * reason. */
void hvd_trouble_report(struct hvd_pass *p, const char *reason, const char *message);

/* The same, with an event only if the condition has not had this part of the message. */
void hvd_trouble_report_once(struct hvd_pass *p, const char *reason, const char *message,
                             const char *part);

/*
 * Whether an update of a condition has news: another reason, another cause, or no cause any more.
 * News must not wait, because a text that outlives its cause is wrong. Counts, and a new wording of
 * the same cause, may wait.
 */
bool hvd_trouble_has_changed(const struct hvd_condition *was,
                             const struct hvd_condition_update *update);

/* Adds an event for each cause that was recorded in this pass. Cause and attempt form its name, so
 * the API server rejects a second event of the same cause. */
void hvd_trouble_events(struct hvd_pass *p);

#endif
