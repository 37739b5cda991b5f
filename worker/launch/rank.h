#ifndef HVD_WORKER_LAUNCH_RANK_H
#define HVD_WORKER_LAUNCH_RANK_H

#include <signal.h>

/* The first argument by which horovodrun, started by mpirun, knows that it is the wrapper. */
#define HVD_RANK_EXEC "--rank-exec"

/* How the wrapper treats the program's output: the third argument. */
#define HVD_RANK_PLAIN "plain"   /* as it is */
#define HVD_RANK_PREFIX "prefix" /* "[3]<stdout>:" before each line */
#define HVD_RANK_STAMP "stamp"   /* the time, too */

/* What tells the wrapper to stop its program with SIGTERM and to leave it its grace. It is one that
 * mpirun passes on by itself. */
#define HVD_RANK_STOP_SIGNAL SIGALRM

/* The fourth when the output goes into no files. */
#define HVD_RANK_NO_FILES "-"

/* The sixth: which way standard output takes to the launcher. */
#define HVD_RANK_STREAMS "streams" /* its own */
#define HVD_RANK_PACKETS "packets" /* in packets on standard error (core/packet.h) */

/*
 * The wrapper around one rank: argv is {horovodrun, --rank-exec, NONCE, MODE, FOLDER, GRACE,
 * WAY, PROGRAM, ...}; GRACE is in milliseconds. Runs the program and returns its exit code, 128 +
 * signal when one killed it, 127 or 126 when it cannot be run, 2 when argv is not as above. Must be
 * called by the main thread, before any other exists.
 */
int hvd_rank_exec(int argc, char **argv);

#endif
