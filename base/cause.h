#ifndef HVD_BASE_CAUSE_H
#define HVD_BASE_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * The cause of a failure within the last lines that a program wrote. Borrowed text in, views of it
 * out; any bytes are accepted, any thread may call.
 */

/* Whether the line belongs to the banner that mpirun or prterun prints about a failed rank, or is a
 * ruler of dashes: it repeats what is known and covers what the rank wrote. */
bool hvd_cause_is_banner(struct hvd_strview line);

/* Whether the line is a frame of a stack in C or C++, as PyTorch, gdb, the sanitizers and Open MPI
 * write it: the first of many are worth keeping. */
bool hvd_cause_is_frame(struct hvd_strview line);

/*
 * The line that names the cause, without white space around it: the exception behind the last
 * traceback of Python that it did not ignore; else the last line that is neither blank, nor of that
 * banner, nor of a crash handler's stack; else the last of those that holds a word. {.len = 0} when
 * there is none.
 */
struct hvd_strview hvd_cause_line(struct hvd_strview text);

/* Whether that line is one that the program wrote, and no line of a banner or a crash handler that
 * is given for want of one. */
bool hvd_cause_is_told(struct hvd_strview text);

/*
 * The rank that the line blames, where it is the message with which libhorovod ends a job because
 * of another rank: its own failure is the cause then, and this line a consequence. -1: none.
 */
int64_t hvd_cause_blamed(struct hvd_strview line);

/*
 * The same for a rank that was lost: why, with where it ran in *host (empty where that is not
 * said).
 * {.len = 0} when the line does not say so of any rank.
 */
struct hvd_strview hvd_cause_lost(struct hvd_strview line, struct hvd_strview *host);

/*
 * The rank that a tensor waited for until that ended the job, as the line has it: why, with the
 * rank in *rank and where it ran in *host (empty where that is not said); where the tensor waited
 * for several, the first one, and why names all. {.len = 0} when the line does not say so.
 */
struct hvd_strview hvd_cause_awaited(struct hvd_strview line, int64_t *rank,
                                     struct hvd_strview *host);

/*
 * Whether the line blames a rank that called horovod_shutdown while others waited for it; then with
 * where that one ran in *host and the tensor in *tensor, both empty where that is not said.
 */
bool hvd_cause_left(struct hvd_strview line, struct hvd_strview *host, struct hvd_strview *tensor);

/* Whether the line is the library's log of a rank that was lost: one that ends because of another's
 * end says so, too. */
bool hvd_cause_is_log_of_loss(struct hvd_strview line);

#endif
