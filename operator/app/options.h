#ifndef HVD_OPERATOR_APP_OPTIONS_H
#define HVD_OPERATOR_APP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/status.h"
#include "operator/core/launch/ports.h"
#include "operator/core/view/settings.h"

/* The address of the metrics and health server. */
struct hvd_listen {
    char host[64]; /* an IP address, "" for all; no brackets */
    uint16_t port; /* 0: no server */
};

/* The decoded command line and environment. Strings are borrowed from the arguments. */
struct hvd_options {
    const char *kubeconfig; /* NULL: KUBECONFIG, else in-cluster */
    const char *ns;         /* NULL: all namespaces */
    struct hvd_listen listen;
    const char *tls_cert; /* NULL: no TLS on the server; otherwise tls_key is set as well */
    const char *tls_key;
    bool is_elected;        /* writes only while it holds the Lease */
    const char *lease_ns;   /* NULL: the pod's own namespace */
    const char *lease_name; /* never NULL */
    int64_t lease_duration_ms;
    enum hvd_log_level log_level;
    enum hvd_gang gang;
    const char *gang_scheduler;         /* schedulerName; NULL: the gang's usual one */
    struct hvd_port_range launch_ports; /* for jobs on the nodes' network */
    const char *probe;                  /* the URL to probe instead of running; NULL: none */
    bool wants_help;
    bool wants_version;
};

/* Reads an environment variable; getenv in the program. NULL: not set. */
typedef const char *(*hvd_getenv_fn)(void *ctx, const char *name);

struct hvd_environment {
    hvd_getenv_fn get;
    void *ctx;
};

/*
 * Decodes argv (argv[0] is skipped) over HOROVOD_OPERATOR_* over the defaults. HVD_ERR_INVALID
 * names the flag or variable, its value and what is allowed; *out is untouched then. Pure.
 */
hvd_status_t hvd_options_parse(int argc, const char *const *argv,
                               const struct hvd_environment *environment, struct hvd_options *out,
                               struct hvd_err *err);

/* Appends the text of --help. Failures as hvd_buf_add. */
hvd_status_t hvd_options_help(struct hvd_buf *out);

#endif
