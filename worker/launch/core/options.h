#ifndef HVD_WORKER_LAUNCH_CORE_OPTIONS_H
#define HVD_WORKER_LAUNCH_CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "worker/launch/core/args.h"

#define HVD_LAUNCH_START_TIMEOUT_S 30
#define HVD_LAUNCH_POD_GRACE_S 30 /* as long as the kubelet waits unless told */

/* What the command line asks for. All texts that are not said to be owned are borrowed from argv,
 * which must outlive it. */
struct hvd_launch_options {
    int64_t n_proc;           /* -np; 0 when not given */
    const char *hosts;        /* -H; NULL when not given */
    const char *hostfile;     /* --hostfile; NULL when not given */
    const char **exports;     /* NAME or NAME=VALUE, as -x and other flags say, in their order; the
                                 array is owned */
    size_t n_exports;         /* entries of exports */
    struct hvd_args settings; /* owned: what flags set of the runtime; exports point to it */
    struct hvd_args warnings; /* owned: what to tell about flags that change nothing */
    struct hvd_args mpi_args; /* owned: more arguments of mpirun */
    struct hvd_args binding;  /* owned: what places the ranks, instead of what does so otherwise */
    int64_t ssh_port;         /* -p; 0 when not given */
    const char *ssh_identity; /* -i; NULL when not given */
    const char *interfaces;   /* --network-interfaces; NULL when not given */
    const char *output_dir;   /* --output-filename; NULL when not given */
    const char *config_file;  /* --config-file; NULL when not given */
    int config_at;            /* where in argv the words of that file belong */
    const char *report;       /* --timeline-report; then command is the list of timelines */
    int64_t stop_grace_s;     /* that programs have after SIGTERM; 0: what mpirun gives them */
    int64_t start_timeout_s;  /* time that the checks before the start may take */
    bool is_verbose;
    bool has_no_prefix; /* ranks write straight through */
    bool has_timestamp; /* each line of a rank carries the time */
    bool is_tcp;        /* between hosts by TCP alone */
    bool wants_build;   /* --check-build */
    bool wants_help;
    bool wants_version;
    bool is_cache_disabled; /* accepted: nothing is cached between runs */
    bool is_mpi;            /* accepted: Open MPI is what is used */
    bool has_allocation;    /* the hosts may come from the batch system: -np may be missing */
    char *const *command;   /* the program and its arguments, NULL-terminated */
    size_t n_command;       /* 0 only with wants_help, wants_version or wants_build */
};

/* What the environment says beside the command line. */
struct hvd_launch_around {
    const char *stop_grace; /* text of HOROVOD_STOP_GRACE, or NULL; the flag wins over it */
    bool is_pod;
    const char *start_timeout; /* text of HOROVOD_START_TIMEOUT, or NULL; the flag wins over it */
    bool has_allocation;       /* a batch system has given us hosts */
};

/*
 * Reads argv[1..] (argv[argc] is NULL). HVD_ERR_INVALID names the flag that is unknown or wrong and
 * says what is allowed. On failure there is nothing to free. A configuration file is only named:
 * read it, put its words into argv at config_at, and parse again.
 */
hvd_status_t hvd_launch_options_parse(int argc, char *const *argv,
                                      const struct hvd_launch_around *around,
                                      struct hvd_launch_options *out, struct hvd_err *err);

/* Frees what the options own. A zeroed struct is legal. */
void hvd_launch_options_fini(struct hvd_launch_options *options);

/* The text that --help prints. */
const char *hvd_launch_help(void);

#endif
