#ifndef HVD_OPERATOR_CORE_WRITES_CONTEST_H
#define HVD_OPERATOR_CORE_WRITES_CONTEST_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Writes of the operator that others undo. */

/* Whether the write may be sent now; if not, the plan wakes when it may. Every write asks first. */
bool hvd_contest_admit(struct hvd_pass *p, const struct hvd_write *write);

/* Whether the write only repeats the last one, which another writer has undone. */
bool hvd_contest_is_repeated(const struct hvd_pass *p, const struct hvd_write *write);

/* Whether the write has no record, and no room for one: it is one of many. */
bool hvd_contest_is_shared(const struct hvd_pass *p, const struct hvd_write *write);

/* Sets the condition Contested: what is repeatedly undone, and by which writer. */
void hvd_contest_report(struct hvd_pass *p);

#endif
