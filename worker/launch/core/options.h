#ifndef HVD_WORKER_LAUNCH_CORE_OPTIONS_H
#define HVD_WORKER_LAUNCH_CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "worker/launch/core/args.h"

#define HVD_LAUNCH_START_TIMEOUT_S 30
#define HVD_LAUNCH_POD_GRACE_S 30 /* the kubelet's default */

/* The options of the command line. Texts are borrowed from argv, which must outlive the struct,
 * unless a comment calls them owned. */
struct hvd_launch_options {
    int64_t n_proc;           /* -np; 0 when not given */
    const char *hosts;        /* -H; NULL when not given */
    const char *hostfile;     /* --hostfile; NULL when not given */
    const char **exports;     /* NAME or NAME=VALUE, from -x and other flags, in their order; the
                                 array is owned */
    size_t n_exports;         /* entries of exports */
    struct hvd_args settings; /* owned: variables that flags set; exports point to them */
    struct hvd_args warnings; /* owned: one for each flag that changes nothing */
    struct hvd_args mpi_args; /* owned: further arguments of mpirun */
    struct hvd_args binding;  /* owned: options that place the ranks, instead of the default */
    int64_t ssh_port;         /* -p; 0 when not given */
    const char *ssh_identity; /* -i; NULL when not given */
    const char *interfaces;   /* --network-interfaces; NULL when not given */
    const char *output_dir;   /* --output-filename; NULL when not given */
    const char *config_file;  /* --config-file; NULL when not given */
    int config_at;            /* the index in argv where that file's words belong */
    const char *report;       /* --timeline-report; then command is the list of timelines */
    int64_t stop_grace_s;     /* of programs after SIGTERM; 0: mpirun's default */
    int64_t start_timeout_s;  /* limit of the checks before the start */
    bool is_verbose;
    bool has_no_prefix; /* ranks' output passes unchanged */
    bool has_timestamp; /* each line of a rank has the time */
    bool is_tcp;        /* between hosts by TCP alone */
    bool wants_build;   /* --check-build */
    bool wants_help;
    bool wants_version;
    bool is_cache_disabled; /* accepted: no run caches anything */
    bool is_mpi;            /* accepted: Open MPI is always used */
    bool has_allocation;    /* a batch system may give the hosts: -np may be missing */
    char *const *command;   /* the program and its arguments, NULL-terminated */
    size_t n_command;       /* 0 only with wants_help, wants_version or wants_build */
};

/* The environment of the command line. */
struct hvd_launch_around {
    const char *stop_grace; /* text of HOROVOD_STOP_GRACE, or NULL; the flag wins over it */
    bool is_pod;
    const char *start_timeout; /* text of HOROVOD_START_TIMEOUT, or NULL; the flag wins over it */
    bool has_allocation;       /* a batch system has given hosts to this process */
};

/*
 * Reads argv[1..] (argv[argc] is NULL). HVD_ERR_INVALID names the unknown or wrong flag and the
 * allowed values. On failure there is nothing to free. A configuration file is only named: the
 * caller reads it, inserts its words into argv at config_at, and parses again.
 */
hvd_status_t hvd_launch_options_parse(int argc, char *const *argv,
                                      const struct hvd_launch_around *around,
                                      struct hvd_launch_options *out, struct hvd_err *err);

/* Frees the owned parts. Accepts a zeroed struct. */
void hvd_launch_options_fini(struct hvd_launch_options *options);

/* The text of --help. */
const char *hvd_launch_help(void);

#endif
