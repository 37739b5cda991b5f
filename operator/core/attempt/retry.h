#ifndef HVD_OPERATOR_CORE_ATTEMPT_RETRY_H
#define HVD_OPERATOR_CORE_ATTEMPT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. The wait between attempts. */

/* Records that the attempt under way failed and another one follows; returns the seconds before
 * that one may begin. */
int64_t hvd_retry_note(struct hvd_pass *p);

/* Whether the next attempt has to wait; if so, wakes when the wait ends. */
bool hvd_retry_is_waiting(struct hvd_pass *p);

/* Starts the series of failures anew, and ends the wait. */
void hvd_retry_forget(struct hvd_pass *p);

#endif
