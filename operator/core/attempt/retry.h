#ifndef HVD_OPERATOR_CORE_ATTEMPT_RETRY_H
#define HVD_OPERATOR_CORE_ATTEMPT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. The wait between attempts. */

/* Notes that the attempt under way has failed and another one follows; returns for how many seconds
 * that one has to wait. */
int64_t hvd_retry_note(struct hvd_pass *p);

/* Whether the next attempt has to wait; wakes at the end of that. */
bool hvd_retry_is_waiting(struct hvd_pass *p);

/* Begins the row of failures anew, and ends the wait. */
void hvd_retry_forget(struct hvd_pass *p);

#endif
