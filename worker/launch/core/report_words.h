#ifndef HVD_WORKER_LAUNCH_CORE_REPORT_WORDS_H
#define HVD_WORKER_LAUNCH_CORE_REPORT_WORDS_H

#include "worker/launch/core/report.h"

/* What those who read and write reports share. */

/* Reads what stands between the two marks of such a line; false when it is no report of the run
 * with that nonce. */
bool hvd_report_parse(struct hvd_strview text, const char *nonce, struct hvd_report *out);

/* Copies text, cut where it is too long, and not within a character. size is at least 1. */
void hvd_report_set_text(char *out, size_t size, struct hvd_strview text);

/* The cause and the last lines, from all that is left of a stream; false when that is nothing. */
bool hvd_report_take_lines(struct hvd_report *report, const struct hvd_tail *tail);

/* Takes the last words from standard output where standard error, of which they are, has none of
 * the program but the stack of a crash handler: that stays in the log. A signal is a cause without
 * words. */
void hvd_report_drop_stack(struct hvd_report *report, const struct hvd_tail *out,
                           const struct hvd_tail *err);

/* The rank that the library's words name as the reason of the end of a job; -1: none. */
int64_t hvd_report_named_by(struct hvd_strview line);

/* The rank that the line names as lost because it had fallen silent; -1: none. It may be frozen,
 * and go on when the job is ended: whatever it does then is no cause. */
int64_t hvd_report_silenced(struct hvd_strview line);

#endif
