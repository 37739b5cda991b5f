#ifndef HVD_WORKER_LAUNCH_CORE_MPIRUN_H
#define HVD_WORKER_LAUNCH_CORE_MPIRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/args.h"
#include "worker/launch/core/hosts.h"

/* The way to run a command on another host. */
enum hvd_launch_way {
    HVD_WAY_SSH,   /* by ssh */
    HVD_WAY_SRUN,  /* by Slurm, within its allocation; mpirun supports it */
    HVD_WAY_AGENT, /* by a program that the environment names to mpirun */
};

/* How to reach a host; zero and NULL leave the choice to ssh. All borrowed. */
struct hvd_launch_ssh {
    enum hvd_launch_way way;
    const char *agent; /* the program and its arguments, for HVD_WAY_AGENT */
    int64_t port;
    const char *identity;
    const char *config;    /* an ssh_config file */
    bool keeps_strictness; /* of host keys, from the user's configuration */
};

/* All inputs of mpirun's command line. Everything is borrowed. */
struct hvd_mpirun_command {
    int mpi_major;
    const struct hvd_hosts *hosts; /* with exactly the slots that the processes fill */
    struct hvd_launch_ssh ssh;
    const char *interfaces;         /* names or CIDRs separated by commas, or NULL */
    bool is_tcp;                    /* between hosts, TCP alone */
    bool is_alone;                  /* all processes run here: the ranks open no port */
    const struct hvd_args *binding; /* options that place the ranks; empty: slot by slot, unbound */
    const struct hvd_args *mpi_args; /* further arguments, after all others */
    bool is_root;                    /* mpirun refuses root without a flag */
    bool can_ptrace;                 /* without it a process may not copy from another's memory */
    bool is_typed;                   /* a user at a terminal waits for unfinished lines */
    bool is_crowded;                 /* more processes than processors here: waiting ranks yield */
    const char *daemon_wrapper; /* words before the daemon's name, on other hosts; NULL: none */
    const char *const *names;   /* variables to export, NULL-terminated */
    const char *const *rank_wrapper; /* words before the command, NULL-terminated; empty: none */
    const char *const *command;      /* NULL-terminated */
};

/*
 * Reads the major version from the output of "mpirun --version". HVD_ERR_NOT_FOUND when that is not
 * Open MPI's text: the error quotes its first line.
 */
hvd_status_t hvd_mpirun_parse_version(struct hvd_strview text, int *out_major, struct hvd_err *err);

/* Fills *out, which must be empty, with mpirun's arguments. Leaves it empty on failure. */
hvd_status_t hvd_mpirun_build(const struct hvd_mpirun_command *given, struct hvd_args *out,
                              struct hvd_err *err);

/*
 * Fills *out, which must be empty, with the words that run a shell command on the host. The command
 * follows them as one word. Leaves *out empty on failure.
 */
hvd_status_t hvd_mpirun_reach(const struct hvd_launch_ssh *ssh, const char *host, int64_t timeout_s,
                              struct hvd_args *out, struct hvd_err *err);

/*
 * Whether arguments or variables ("NAME=VALUE", NULL-terminated) may let mpirun continue after a
 * rank has failed.
 */
bool hvd_mpirun_may_go_on(const struct hvd_args *mpi_args, char *const *variables);

/* Whether arguments may let mpirun change or redirect the output of ranks. */
bool hvd_mpirun_changes_output(const struct hvd_args *mpi_args);

/* The name of the way in messages: "ssh". */
const char *hvd_mpirun_way_name(const struct hvd_launch_ssh *ssh);

/* Appends the options of ssh, without the program name. Options appended before a failure stay. */
hvd_status_t hvd_mpirun_ssh_options(const struct hvd_launch_ssh *ssh, struct hvd_args *out,
                                    struct hvd_err *err);

#endif
