#ifndef HVD_WORKER_LAUNCH_CORE_EXIT_CODES_H
#define HVD_WORKER_LAUNCH_CORE_EXIT_CODES_H

#include <signal.h>

/*
 * The exit codes of horovodrun beside that of the first rank that failed, or of mpirun if no rank
 * did. horovodrun --help and docs/horovodrun.md list all of them.
 */
#define HVD_EXIT_OTHER 1 /* not started, or a failure without a code of its own */
#define HVD_EXIT_USAGE 2
#define HVD_EXIT_NOT_EXECUTABLE 126 /* the program, as in a shell */
#define HVD_EXIT_NOT_FOUND 127
#define HVD_EXIT_SIGNAL 128 /* plus the signal that killed a rank or stopped horovodrun */
#define HVD_EXIT_NO_READER (HVD_EXIT_SIGNAL + SIGPIPE)

#endif
