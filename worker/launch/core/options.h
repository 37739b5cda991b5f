#ifndef HVD_WORKER_LAUNCH_CORE_OPTIONS_H
#define HVD_WORKER_LAUNCH_CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "worker/launch/core/args.h"

#define HVD_LAUNCH_START_TIMEOUT_S 30

/* What the command line asks for. All texts but settings are borrowed from argv, which must outlive
 * it. */
struct hvd_launch_options {
    int64_t n_proc;           /* -np; 0 when not given */
    const char *hosts;        /* -H; NULL when not given */
    const char *hostfile;     /* --hostfile; NULL when not given */
    const char **exports;     /* NAME or NAME=VALUE, as -x and other flags say, in their order; the
                                 array is owned */
    size_t n_exports;         /* entries of exports */
    struct hvd_args settings; /* what flags set of the runtime; exports point to it */
    int64_t ssh_port;         /* -p; 0 when not given */
    const char *ssh_identity; /* -i; NULL when not given */
    const char *interfaces;   /* --network-interfaces; NULL when not given */
    int64_t start_timeout_s;  /* time that the checks before the start may take */
    bool is_verbose;
    bool has_no_prefix; /* ranks write straight through */
    bool has_timestamp; /* each line of a rank carries the time */
    bool wants_help;
    bool wants_version;
    bool is_cache_disabled; /* accepted: nothing is cached between runs */
    bool is_mpi;            /* accepted: Open MPI is what is used */
    char *const *command;   /* the program and its arguments, NULL-terminated */
    size_t n_command;       /* 0 only with wants_help or wants_version */
};

/*
 * Reads argv[1..] (argv[argc] is NULL). start_timeout is the text of HOROVOD_START_TIMEOUT or NULL;
 * the flag wins over it. HVD_ERR_INVALID names the flag that is unknown or wrong and says what is
 * allowed. On failure there is nothing to free.
 */
hvd_status_t hvd_launch_options_parse(int argc, char *const *argv, const char *start_timeout,
                                      struct hvd_launch_options *out, struct hvd_err *err);

/* Frees what the options own. A zeroed struct is legal. */
void hvd_launch_options_fini(struct hvd_launch_options *options);

/* The text that --help prints. */
const char *hvd_launch_options_help(void);

#endif
