#ifndef HVD_WORKER_LAUNCH_RANK_H
#define HVD_WORKER_LAUNCH_RANK_H

#include <signal.h>

/* The first argument that makes horovodrun, started by mpirun, the wrapper. */
#define HVD_RANK_EXEC "--rank-exec"

/* The third argument: how the wrapper treats the program's output. */
#define HVD_RANK_PLAIN "plain"   /* unchanged */
#define HVD_RANK_PREFIX "prefix" /* "[3]<stdout>:" before each line */
#define HVD_RANK_STAMP "stamp"   /* also the time */

/* On this signal the wrapper stops its program with SIGTERM and gives it its grace. mpirun passes
 * this signal on by itself. */
#define HVD_RANK_STOP_SIGNAL SIGALRM

/* The fourth argument if the output goes into no files. */
#define HVD_RANK_NO_FILES "-"

/* The sixth argument: the way of standard output to the launcher. */
#define HVD_RANK_STREAMS "streams" /* its own */
#define HVD_RANK_PACKETS "packets" /* in packets on standard error (core/packet.h) */

/*
 * The wrapper around one rank: argv is {horovodrun, --rank-exec, NONCE, MODE, FOLDER, GRACE, WAY,
 * PROGRAM, ...}; GRACE is in milliseconds. Runs the program and returns its exit code, or 128 +
 * signal when one killed it. Returns 127 or 126 when it cannot be run, 2 for a wrong argv. Only the
 * main thread may call it, before any other thread exists.
 */
int hvd_rank_exec(int argc, char **argv);

#endif
