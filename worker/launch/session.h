#ifndef HVD_WORKER_LAUNCH_SESSION_H
#define HVD_WORKER_LAUNCH_SESSION_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"
#include "worker/launch/core/args.h"

/* The first argument that makes horovodrun the keeper of folders. */
#define HVD_SESSION_KEEP "--session-keep"

/* The first argument that makes horovodrun start mpirun's daemon. */
#define HVD_SESSION_EXEC "--session-exec"

/* A folder of a job on this host. */
struct hvd_session_folder {
    int fd; /* locked while any process has it open; -1: none */
    char path[4096];
};

/* The folders of a job on this host: `files` for those of mpirun and its daemon, `shared` for the
 * ranks' shared memory. */
struct hvd_session {
    struct hvd_session_folder files;
    struct hvd_session_folder shared;
    pid_t keeper;
};

/* A session without folders. */
#define HVD_SESSION_NONE ((struct hvd_session){.files.fd = -1, .shared.fd = -1})

/*
 * Removes the folders of this user's jobs that no process uses any more, makes those of this job,
 * and starts their keeper. The keeper, the program `self`, removes them once no process has their
 * descriptors. Programs started here inherit these.
 *
 * `files` is in `folder` (may be NULL), else where Open MPI would keep its files; `shared` is in
 * /dev/shm. A folder that cannot be made, or locked, is left out. Where a place has no room for the
 * files of that major version of mpirun, the next one is used, with a line on standard error.
 * HVD_ERR_SYSTEM, without folders, if a place had no room and no other was left: err names the
 * places.
 */
hvd_status_t hvd_session_open(struct hvd_session *session, const char *self, const char *folder,
                              int mpi_major, struct hvd_err *err);

/* Removes the folders and ends the keeper. All processes of the job on this host must have
 * ended. */
void hvd_session_close(struct hvd_session *session);

/* Exports the folders to mpirun, or its daemon, of that major version, and to the wrappers that it
 * starts. `files` replaces a place that the environment has already. A missing folder is not
 * exported. HVD_ERR_NOMEM. */
hvd_status_t hvd_session_export(const struct hvd_session *session, int mpi_major,
                                struct hvd_err *err);

/* In the wrapper around a rank: exports the folder for shared memory to Open MPI, unless the
 * environment sets one already. Changes nothing where this host has no such folder.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_session_share(struct hvd_err *err);

/* The folder for files that variables set for mpirun, on this host or on others; NULL: none. */
const char *hvd_session_folder(bool is_here);

/* Whether the user sets the place of mpirun's files, or the start of daemons, by other means. Then
 * no folder of ours is made. */
bool hvd_session_is_chosen(const struct hvd_args *mpi_args);

/* Runs the keeper: argv is {horovodrun, --session-keep, FOLDER, ...}. Returns the exit code. */
int hvd_session_keep(int argc, char **argv);

/*
 * Runs in place of mpirun's daemon on another host: argv is {horovodrun, --session-exec, PLACE,
 * DAEMON, ...}, PLACE as in hvd_session_open, "-" for none. Opens a session there and becomes the
 * daemon; returns 127 or 126 where it cannot, 1 where there is no room.
 */
int hvd_session_exec(int argc, char **argv);

#endif
