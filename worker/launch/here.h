#ifndef HVD_WORKER_LAUNCH_HERE_H
#define HVD_WORKER_LAUNCH_HERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "worker/launch/core/hosts.h"
#include "worker/launch/core/mpirun.h"

/* Marks the hosts of the list that are this machine, by name or by an address of an interface. */
void hvd_here_mark_local(struct hvd_hosts *hosts);

/* Whether this process may access other processes of its user (CAP_SYS_PTRACE). */
bool hvd_here_can_ptrace(void);

/* Whether the list plans more processes here than this process has processors. */
bool hvd_here_is_crowded(const struct hvd_hosts *hosts);

/*
 * Searches for the program as execvp would. HVD_ERR_NOT_FOUND or HVD_ERR_DENIED give the reason and
 * the places searched.
 */
hvd_status_t hvd_here_check_program(const char *program, struct hvd_err *err);

/*
 * Puts this program's directory first in PATH, if PATH has no mpirun but that directory has one;
 * `self` is this program's path. So a virtual environment with pip's Open MPI need not be
 * activated. HVD_ERR_NOMEM leaves PATH as it was.
 */
hvd_status_t hvd_here_find_mpirun(const char *self, struct hvd_err *err);

/* Sets PATH to the usual one if it is missing or empty, because Open MPI 4 searches in it by
 * itself. Sets HOME to the user's if it is missing, because Open MPI 5 does nothing without it.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_here_ensure_environment(struct hvd_err *err);

/* Raises the limit of open files to what mpirun needs for these hosts; mpirun hangs or crashes
 * below that. HVD_ERR_DENIED names both numbers when the limit may not be raised so far. */
hvd_status_t hvd_here_ensure_files(const struct hvd_hosts *hosts, struct hvd_err *err);

/* Fails unless this machine has one of the interfaces, a list with commas: other hosts may have
 * others. HVD_ERR_INVALID names them. */
hvd_status_t hvd_here_check_interfaces(const char *names, struct hvd_err *err);

/* Raises the limit of the stack to what mpirun needs. HVD_ERR_DENIED names both sizes. Call it
 * before any thread starts. */
hvd_status_t hvd_here_ensure_stack(struct hvd_err *err);

/* Reads the major version of the mpirun in PATH. HVD_ERR_NOT_FOUND names the package to install. */
hvd_status_t hvd_here_mpi_major(int *out, struct hvd_err *err);

/* Whether the user's or the system's configuration of ssh sets how strictly it checks the host key
 * of any host that is not local. False where ssh cannot be asked. */
bool hvd_here_ssh_has_strictness(const struct hvd_launch_ssh *ssh, const struct hvd_hosts *hosts);

/* Whether /dev/shm has room for Open MPI's files of so many processes. */
bool hvd_here_has_shared_memory(int64_t n_processes);

/* The number of processes that the kernel killed for memory in this cgroup; -1: unknown. */
int64_t hvd_here_oom_kills(void);

/* The smallest memory limit of this cgroup and those above; INT64_MAX: no limit is visible. */
int64_t hvd_here_memory_limit(void);

#endif
