#ifndef HVD_WORKER_LAUNCH_CORE_MPIRUN_H
#define HVD_WORKER_LAUNCH_CORE_MPIRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/args.h"
#include "worker/launch/core/hosts.h"

/* How a command is run on another host. */
enum hvd_launch_way {
    HVD_WAY_SSH,   /* by ssh */
    HVD_WAY_SRUN,  /* by Slurm, within its allocation; mpirun knows how */
    HVD_WAY_AGENT, /* by a program that the environment has named to mpirun */
};

/* How to reach a host; zero and NULL mean that ssh decides. All borrowed. */
struct hvd_launch_ssh {
    enum hvd_launch_way way;
    const char *agent; /* the program and its arguments, for HVD_WAY_AGENT */
    int64_t port;
    const char *identity;
    const char *config;    /* an ssh_config file */
    bool keeps_strictness; /* of host keys, as the user has configured it */
};

/* All that decides the command line of mpirun. Everything is borrowed. */
struct hvd_mpirun_command {
    int mpi_major;
    const struct hvd_hosts *hosts; /* what the processes fill exactly */
    struct hvd_launch_ssh ssh;
    const char *interfaces;         /* names or CIDRs separated by commas, or NULL */
    bool is_tcp;                    /* no other network than TCP */
    bool is_alone;                  /* all run here: the ranks open no port */
    const struct hvd_args *binding; /* what places the ranks; empty: one by one, bound to nothing */
    const struct hvd_args *mpi_args; /* more arguments, behind all others */
    bool is_root;                    /* mpirun refuses root unless told */
    bool can_ptrace;                 /* without it one process may not copy from another's memory */
    bool is_typed;                   /* somebody at a terminal waits for unfinished lines */
    bool is_crowded;                 /* more processes than processors here: waiting ranks yield */
    const char *daemon_wrapper; /* words before the daemon's name, on other hosts; NULL: none */
    const char *const *names;   /* variables to export, NULL-terminated */
    const char *const *rank_wrapper; /* stands before the command, NULL-terminated; empty: none */
    const char *const *command;      /* NULL-terminated */
};

/*
 * The major version in what "mpirun --version" prints. HVD_ERR_NOT_FOUND when that is not Open
 * MPI's text: the error shows its first line.
 */
hvd_status_t hvd_mpirun_parse_version(struct hvd_strview text, int *out_major, struct hvd_err *err);

/* Fills *out, which must be empty, with mpirun's arguments. On failure it is empty. */
hvd_status_t hvd_mpirun_build(const struct hvd_mpirun_command *given, struct hvd_args *out,
                              struct hvd_err *err);

/*
 * Fills *out, which must be empty, with the words before a shell command that run it on the host;
 * it is one word. On failure *out is empty.
 */
hvd_status_t hvd_mpirun_reach(const struct hvd_launch_ssh *ssh, const char *host, int64_t timeout_s,
                              struct hvd_args *out, struct hvd_err *err);

/*
 * Whether arguments or variables ("NAME=VALUE", NULL-terminated) may tell mpirun to go on when a
 * rank fails.
 */
bool hvd_mpirun_may_go_on(const struct hvd_args *mpi_args, char *const *variables);

/* Whether arguments may tell mpirun to change or redirect what ranks write. */
bool hvd_mpirun_changes_output(const struct hvd_args *mpi_args);

/* What the way is called in messages: "ssh". */
const char *hvd_mpirun_way_name(const struct hvd_launch_ssh *ssh);

/* Appends the options of ssh, program name not included. What was added before a failure stays. */
hvd_status_t hvd_mpirun_ssh_options(const struct hvd_launch_ssh *ssh, struct hvd_args *out,
                                    struct hvd_err *err);

#endif
