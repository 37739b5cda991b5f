#ifndef HVD_WORKER_LAUNCH_HERE_H
#define HVD_WORKER_LAUNCH_HERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "worker/launch/core/hosts.h"
#include "worker/launch/core/mpirun.h"

/* Marks the hosts of the list that are this machine: by name, or by an address of an interface. */
void hvd_here_mark_local(struct hvd_hosts *hosts);

/* Whether this process may look into other processes of its user (CAP_SYS_PTRACE). */
bool hvd_here_can_ptrace(void);

/* Whether there are more processes planned for this machine than it has processors for us. */
bool hvd_here_is_crowded(const struct hvd_hosts *hosts);

/*
 * Finds the program as execvp would. HVD_ERR_NOT_FOUND or HVD_ERR_DENIED say what is wrong with it
 * and where it was looked for.
 */
hvd_status_t hvd_here_check_program(const char *program, struct hvd_err *err);

/*
 * Where PATH has no mpirun but there is one beside this program, whose path is `self`, its
 * directory goes first in PATH: of a virtual environment that is not activated, with the Open MPI
 * of pip. HVD_ERR_NOMEM leaves PATH as it was.
 */
hvd_status_t hvd_here_find_mpirun(const char *self, struct hvd_err *err);

/* Where there is no PATH, or an empty one, it becomes the usual one: Open MPI 4 looks in it by
 * itself. Where there is no HOME, without which Open MPI 5 does nothing, it becomes the user's.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_here_ensure_environment(struct hvd_err *err);

/* Raises the limit of open files where mpirun needs more for these hosts. HVD_ERR_DENIED names both
 * numbers when it may not be raised so far; mpirun hangs or crashes below. */
hvd_status_t hvd_here_ensure_files(const struct hvd_hosts *hosts, struct hvd_err *err);

/* Whether this machine has one of the interfaces, a list with commas: hosts need not have the same
 * ones. HVD_ERR_INVALID names them. */
hvd_status_t hvd_here_check_interfaces(const char *names, struct hvd_err *err);

/* Raises the limit of the stack to what mpirun needs. HVD_ERR_DENIED names both sizes. Before any
 * thread. */
hvd_status_t hvd_here_ensure_stack(struct hvd_err *err);

/* The major version of the mpirun in PATH. HVD_ERR_NOT_FOUND says what to install. */
hvd_status_t hvd_here_mpi_major(int *out, struct hvd_err *err);

/* Whether the user's or the system's configuration of ssh says how strict host keys are checked,
 * for any of the hosts that are not local. False where ssh cannot be asked. */
bool hvd_here_ssh_has_strictness(const struct hvd_launch_ssh *ssh, const struct hvd_hosts *hosts);

/* Whether Open MPI finds room in /dev/shm for so many processes. */
bool hvd_here_has_shared_memory(int64_t n_processes);

/* How many processes the kernel killed for memory in this cgroup; -1 when that cannot be read. */
int64_t hvd_here_oom_kills(void);

/* The smallest memory limit of this cgroup and those above; INT64_MAX when none is seen. */
int64_t hvd_here_memory_limit(void);

#endif
