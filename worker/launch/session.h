#ifndef HVD_WORKER_LAUNCH_SESSION_H
#define HVD_WORKER_LAUNCH_SESSION_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"
#include "worker/launch/core/args.h"

/* The first argument by which horovodrun knows that it keeps a folder. */
#define HVD_SESSION_KEEP "--session-keep"

/* The first argument by which horovodrun knows that it stands before mpirun's daemon. */
#define HVD_SESSION_EXEC "--session-exec"

/* The folder of a job on this host, in which mpirun and its daemon keep their files. */
struct hvd_session {
    int fd; /* of the folder, locked for as long as any process has it; -1: there is none */
    pid_t keeper;
    char path[4096];
};

/*
 * Removes the folders of jobs of this user that have no process any more, makes one, and starts its
 * keeper: the program `self`, which removes the folder once no process has its descriptor. Programs
 * started here get it. It is in `place` (may be NULL), else where Open MPI would keep its files.
 * Where no folder can be made, or be locked, there is none.
 */
void hvd_session_open(struct hvd_session *session, const char *self, const char *place);

/* Removes the folder and ends the keeper: what used the folder on this host has ended. */
void hvd_session_close(struct hvd_session *session);

/* Names the folder to mpirun, or to its daemon, in the environment, instead of a place that stands
 * there already. Without a folder changes nothing. HVD_ERR_NOMEM. */
hvd_status_t hvd_session_export(const struct hvd_session *session, struct hvd_err *err);

/* The place for files that variables name to mpirun, for this host or for others; NULL: none. */
const char *hvd_session_place(bool is_here);

/* Whether the user tells mpirun otherwise where to keep its files, or how to start daemons: then a
 * folder of ours has no place. */
bool hvd_session_is_chosen(const struct hvd_args *mpi_args);

/* The keeper: argv is {horovodrun, --session-keep, FOLDER}. Returns the exit code. */
int hvd_session_keep(int argc, char **argv);

/*
 * In place of mpirun's daemon on another host: argv is {horovodrun, --session-exec, PLACE, DAEMON,
 * ...}, PLACE as in hvd_session_open, "-" for none. Opens a session there and becomes the daemon;
 * returns 127 or 126 where it cannot.
 */
int hvd_session_exec(int argc, char **argv);

#endif
