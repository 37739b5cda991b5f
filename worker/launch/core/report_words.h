#ifndef HVD_WORKER_LAUNCH_CORE_REPORT_WORDS_H
#define HVD_WORKER_LAUNCH_CORE_REPORT_WORDS_H

#include "worker/launch/core/report.h"

/* Functions that the readers and writers of reports share. */

/* Parses the text between the two marks of a report's line; false when it is no report of the run
 * with that nonce. */
bool hvd_report_parse(struct hvd_strview text, const char *nonce, struct hvd_report *out);

/* Copies text. Truncates it where it is too long, but not within a character. size is at least
 * 1. */
void hvd_report_set_text(char *out, size_t size, struct hvd_strview text);

/* Takes the cause and the last lines from the tail of a stream; false when that is empty. */
bool hvd_report_take_lines(struct hvd_report *report, const struct hvd_tail *tail);

/* Replaces the last words by those of standard output, if standard error has only notices and the
 * stack of a crash handler, which stay in the log, or if a signal from outside ended the program
 * after a newer line on standard output. If standard output has no words, the last notice is the
 * last output. Without a notice, a signal is a cause without words. */
void hvd_report_replace_words(struct hvd_report *report, const struct hvd_tail *out,
                              const struct hvd_tail *err);

/* The rank that the library's message names as the reason for the end of a job; -1: none. */
int64_t hvd_report_named_by(struct hvd_strview line);

/* The rank that the line names as lost because it fell silent; -1: none. It may be frozen, and
 * continue when the job is ended: what it does then is no cause. */
int64_t hvd_report_silenced(struct hvd_strview line);

#endif
