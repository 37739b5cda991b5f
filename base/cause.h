#ifndef HVD_BASE_CAUSE_H
#define HVD_BASE_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * Finds the cause of a failure within the last lines that a program wrote. The functions accept any
 * bytes, return views into the text that they borrow, and may run in any thread.
 */

/* Returns whether the line is a ruler of dashes, or belongs to the banner that mpirun or prterun
 * prints about a failed rank. The banner names no cause and hides the rank's own message. */
bool hvd_cause_is_banner(struct hvd_strview line);

/* Returns whether the line is a frame of a C or C++ stack, as PyTorch, gdb, the sanitizers and Open
 * MPI print it. Of many frames only the first ones are worth keeping. */
bool hvd_cause_is_frame(struct hvd_strview line);

/* Returns whether the line is a notice: a record below the level of errors in the log of abseil,
 * glog, TensorFlow, libhorovod or Python's logging, or a warning of Python. */
bool hvd_cause_is_notice(struct hvd_strview line);

/* Returns whether the line may be the program's own word: it is neither blank, a notice, a banner
 * nor a part of a stack. */
bool hvd_cause_is_own(struct hvd_strview line);

/*
 * Returns the line that names the cause, without white space around it. In order of preference:
 * 1. the exception of the last Python traceback, unless Python ignored that exception;
 * 2. the last line for which hvd_cause_is_own holds;
 * 3. the last notice;
 * 4. the last line that is neither blank nor a ruler.
 * Returns {.len = 0} if there is none.
 */
struct hvd_strview hvd_cause_line(struct hvd_strview text);

/*
 * Returns the first informative line of the exception's message, if hvd_cause_line returns only the
 * heading of that message: "KeyError: 'bad record'" behind "UnknownError: Graph execution error:"
 * and the place in the graph. Else returns {.len = 0}.
 */
struct hvd_strview hvd_cause_reason(struct hvd_strview text);

/* Returns whether the program itself wrote the line that hvd_cause_line returns. False for a
 * notice, and for a line of a banner or of a crash handler, which hvd_cause_line returns only if
 * there is no better one. */
bool hvd_cause_is_told(struct hvd_strview text);

/*
 * Returns the rank that the line blames, or -1. Only libhorovod's message about a job that another
 * rank ended blames a rank. The cause is then the failure of that rank; this line is a consequence.
 */
int64_t hvd_cause_blamed(struct hvd_strview line);

/*
 * Returns the reason for which the blamed rank was lost, and stores that rank's host in *host
 * (empty if the line names none). Returns {.len = 0} if the line does not report a lost rank.
 */
struct hvd_strview hvd_cause_lost(struct hvd_strview line, struct hvd_strview *host);

/*
 * For a line about a stalled tensor that ended the job: returns the reason, and stores the rank
 * that the tensor waited for in *rank and its host in *host (empty if the line names none). If the
 * tensor waited for several ranks, *rank is the first one and the reason names all. For any other
 * line returns {.len = 0}.
 */
struct hvd_strview hvd_cause_awaited(struct hvd_strview line, int64_t *rank,
                                     struct hvd_strview *host);

/*
 * Returns whether the line blames a rank that called horovod_shutdown while others waited for it.
 * Stores that rank's host in *host and the tensor in *tensor; each is empty if the line does not
 * name it.
 */
bool hvd_cause_left(struct hvd_strview line, struct hvd_strview *host, struct hvd_strview *tensor);

/* Returns whether the line is the library's log record of a lost rank. A rank writes that record
 * also when it ends because of the lost rank. */
bool hvd_cause_is_log_of_loss(struct hvd_strview line);

#endif
