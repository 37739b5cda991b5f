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

/* A folder of a job on this host. */
struct hvd_session_folder {
    int fd; /* locked for as long as any process has it; -1: there is none */
    char path[4096];
};

/* The folders of a job on this host: in `files` mpirun and its daemon keep theirs, and in `shared`
 * the ranks their shared memory. */
struct hvd_session {
    struct hvd_session_folder files;
    struct hvd_session_folder shared;
    pid_t keeper;
};

/* One without folders. */
#define HVD_SESSION_NONE ((struct hvd_session){.files.fd = -1, .shared.fd = -1})

/*
 * Removes the folders of jobs of this user that have no process any more, makes those of this job,
 * and starts their keeper: the program `self`, which removes them once no process has their
 * descriptors. Programs started here get these. `files` is in `place` (may be NULL), else where
 * Open MPI would keep its files; `shared` in /dev/shm. Where a folder cannot be made, or be locked,
 * there is none. A place without room for the files of that major version of mpirun is left for the
 * next one, with a line on standard error. HVD_ERR_SYSTEM, without folders, where there was one
 * without room and no other: err names the places.
 */
hvd_status_t hvd_session_open(struct hvd_session *session, const char *self, const char *folder,
                              int mpi_major, struct hvd_err *err);

/* Removes the folders and ends the keeper: what used them on this host has ended. */
void hvd_session_close(struct hvd_session *session);

/* Names the folders to mpirun, or to its daemon, of that major version, and to the wrappers that it
 * starts, in the environment: `files` instead of a place that stands there already. A folder that
 * there is not is not named. HVD_ERR_NOMEM. */
hvd_status_t hvd_session_export(const struct hvd_session *session, int mpi_major,
                                struct hvd_err *err);

/* In the wrapper around a rank: names the folder for shared memory to Open MPI, in the environment,
 * unless that has one already. Without a folder on this host changes nothing. HVD_ERR_NOMEM. */
hvd_status_t hvd_session_share(struct hvd_err *err);

/* The folder for files that variables name to mpirun, for this host or for others; NULL: none. */
const char *hvd_session_folder(bool is_here);

/* Whether the user tells mpirun otherwise where to keep its files, or how to start daemons: then a
 * folder of ours has no place. */
bool hvd_session_is_chosen(const struct hvd_args *mpi_args);

/* The keeper: argv is {horovodrun, --session-keep, FOLDER, ...}. Returns the exit code. */
int hvd_session_keep(int argc, char **argv);

/*
 * In place of mpirun's daemon on another host: argv is {horovodrun, --session-exec, PLACE, DAEMON,
 * ...}, PLACE as in hvd_session_open, "-" for none. Opens a session there and becomes the daemon;
 * returns 127 or 126 where it cannot, 1 where there is no room.
 */
int hvd_session_exec(int argc, char **argv);

#endif
