/*
 * The operator's options: one table of flags, each with an environment variable of the same name.
 * Pure: the caller passes the environment. A wrong value is an error that names its source, the
 * value and what is allowed; nothing is guessed.
 */
#include "operator/app/options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/core/lease/lease.h"

#define DEFAULT_PORT 8080
#define LEASE_NAME "horovod-operator"
#define LEASE_DURATION_S 15
#define LEASE_DURATION_MIN_S 3

/* Stores a value; source is the flag or variable, for messages. */
typedef hvd_status_t (*set_fn)(struct hvd_options *options, const char *source, const char *value,
                               struct hvd_err *err);

static hvd_status_t set_kubeconfig(struct hvd_options *options, const char *source,
                                   const char *value, struct hvd_err *err)
{
    if (!*value)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s is empty: give the path of a kubeconfig file",
                        source);
    options->kubeconfig = value;
    return HVD_OK;
}

/* A DNS-1123 label, as namespaces are. */
static bool is_label(const char *s)
{
    size_t len = strlen(s);

    if (!len || len > 63 || s[0] == '-' || s[len - 1] == '-')
        return false;
    for (; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '-')
            return false;
    return true;
}

static hvd_status_t set_namespace(struct hvd_options *options, const char *source,
                                  const char *value, struct hvd_err *err)
{
    if (!*value) {
        options->ns = NULL;
        return HVD_OK;
    }
    if (!is_label(value))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s=%s is not a namespace: at most 63 lower-case letters, digits and '-', "
                        "or empty for all namespaces",
                        source, value);
    options->ns = value;
    return HVD_OK;
}

/* "host" of "host:port": empty, an IPv4 address or an IPv6 address in brackets. */
static bool set_host(struct hvd_strview host, char *out, size_t size)
{
    unsigned char address[16];
    int family = AF_INET;

    if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']') {
        family = AF_INET6;
        host = (struct hvd_strview){host.data + 1, host.len - 2};
    }
    if (host.len >= size)
        return false;
    (void)snprintf(out, size, "%.*s", (int)host.len, host.data);
    return !host.len ? family == AF_INET : inet_pton(family, out, address) == 1;
}

static hvd_status_t set_listen(struct hvd_options *options, const char *source, const char *value,
                               struct hvd_err *err)
{
    static const int64_t ports[2] = {0, 65535};
    const char *colon = strrchr(value, ':');
    struct hvd_listen listen = {0};
    int64_t port = 0;
    bool ok = colon != NULL;

    if (ok)
        ok = set_host((struct hvd_strview){value, (size_t)(colon - value)}, listen.host,
                      sizeof(listen.host)) &&
             hvd_str_parse_int64(hvd_strview_of(colon + 1), ports, &port, NULL) == HVD_OK;
    if (!ok)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s=%s is not an address to listen on: give IP:PORT, [IPv6]:PORT or :PORT; "
                        ":0 turns the server off",
                        source, value);
    listen.port = (uint16_t)port;
    options->listen = listen;
    return HVD_OK;
}

static hvd_status_t set_log_level(struct hvd_options *options, const char *source,
                                  const char *value, struct hvd_err *err)
{
    int level = hvd_log_level_parse(value);

    if (level < 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s=%s is not a log level: debug, info, warn or error", source, value);
    options->log_level = (enum hvd_log_level)level;
    return HVD_OK;
}

static hvd_status_t set_gang(struct hvd_options *options, const char *source, const char *value,
                             struct hvd_err *err)
{
    static const char *const names[] = {[HVD_GANG_NONE] = "none",
                                        [HVD_GANG_VOLCANO] = "volcano",
                                        [HVD_GANG_PLUGINS] = "scheduler-plugins"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(value, names[i]) == 0) {
            options->gang = (enum hvd_gang)i;
            return HVD_OK;
        }
    }
    return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                    "%s=%s is not a gang scheduler: none, volcano or scheduler-plugins", source,
                    value);
}

/* A DNS-1123 subdomain, as names of schedulers are. */
static hvd_status_t set_gang_name(struct hvd_options *options, const char *source,
                                  const char *value, struct hvd_err *err)
{
    size_t len = strlen(value);
    bool ok =
        len <= 253 && strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len &&
        (!len || (isalnum((unsigned char)value[0]) && isalnum((unsigned char)value[len - 1])));

    if (!ok)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s=%s is not the name of a scheduler: lower-case letters, digits, '-' and "
                        "'.', or empty for the usual one",
                        source, value);
    options->gang_scheduler = len ? value : NULL;
    return HVD_OK;
}

static hvd_status_t set_ssh_ports(struct hvd_options *options, const char *source,
                                  const char *value, struct hvd_err *err)
{
    static const int64_t ports[2] = {1024, 65535};
    struct hvd_strview rest = hvd_strview_of(value);
    int64_t first = 0, last = -1;

    if (hvd_str_parse_int64(hvd_strview_cut(&rest, '-'), ports, &first, NULL) != HVD_OK ||
        !rest.data || hvd_str_parse_int64(rest, ports, &last, NULL) != HVD_OK || last < first)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s=%s is not a range of ports: give FIRST-LAST, both from 1024 to 65535",
                        source, value);
    options->launch_ports = (struct hvd_port_range){(int32_t)first, (int32_t)last};
    return HVD_OK;
}

static hvd_status_t set_tls_cert(struct hvd_options *options, const char *source, const char *value,
                                 struct hvd_err *err)
{
    (void)source;
    (void)err;
    options->tls_cert = *value ? value : NULL;
    return HVD_OK;
}

static hvd_status_t set_tls_key(struct hvd_options *options, const char *source, const char *value,
                                struct hvd_err *err)
{
    (void)source;
    (void)err;
    options->tls_key = *value ? value : NULL;
    return HVD_OK;
}

static hvd_status_t set_leader_elect(struct hvd_options *options, const char *source,
                                     const char *value, struct hvd_err *err)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s=%s is neither true nor false", source, value);
    options->is_elected = strcmp(value, "true") == 0;
    return HVD_OK;
}

static hvd_status_t set_lease_namespace(struct hvd_options *options, const char *source,
                                        const char *value, struct hvd_err *err)
{
    if (*value && !is_label(value))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s=%s is not a namespace: at most 63 lower-case letters, digits and '-', "
                        "or empty for the operator's own",
                        source, value);
    options->lease_ns = *value ? value : NULL;
    return HVD_OK;
}

static hvd_status_t set_lease_name(struct hvd_options *options, const char *source,
                                   const char *value, struct hvd_err *err)
{
    if (!is_label(value))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "%s=%s is not a name: at most 63 lower-case letters, digits and '-'",
                        source, value);
    options->lease_name = value;
    return HVD_OK;
}

static hvd_status_t set_lease_duration(struct hvd_options *options, const char *source,
                                       const char *value, struct hvd_err *err)
{
    static const int64_t seconds[2] = {LEASE_DURATION_MIN_S, HVD_LEASE_DURATION_MAX_S};
    int64_t duration_s = 0;

    if (hvd_str_parse_int64(hvd_strview_of(value), seconds, &duration_s, NULL) != HVD_OK)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s=%s is not a number of seconds from %d to %d",
                        source, value, LEASE_DURATION_MIN_S, HVD_LEASE_DURATION_MAX_S);
    options->lease_duration_ms = duration_s * 1000;
    return HVD_OK;
}

static hvd_status_t set_probe(struct hvd_options *options, const char *source, const char *value,
                              struct hvd_err *err)
{
    if (!*value)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s is empty: give the URL of a /readyz", source);
    options->probe = value;
    return HVD_OK;
}

static const struct option_row {
    const char *flag;
    const char *variable; /* NULL: none, for an action instead of running */
    const char *metavar;
    const char *help;
    set_fn set;
    bool is_switch; /* the flag alone means true; a value needs the '=' */
} rows[] = {
    {"--kubeconfig", "HOROVOD_OPERATOR_KUBECONFIG", "FILE",
     "how to reach the API server (default: $KUBECONFIG, else the pod's service account)",
     set_kubeconfig, false},
    {"--namespace", "HOROVOD_OPERATOR_NAMESPACE", "NAME",
     "look after this namespace only (default: all)", set_namespace, false},
    {"--leader-elect", "HOROVOD_OPERATOR_LEADER_ELECT", "true|false",
     "of several operators one works, the others wait (default: false)", set_leader_elect, true},
    {"--lease-namespace", "HOROVOD_OPERATOR_LEASE_NAMESPACE", "NAME",
     "where the Lease of the election is (default: the pod's namespace)", set_lease_namespace,
     false},
    {"--lease-name", "HOROVOD_OPERATOR_LEASE_NAME", "NAME",
     "the Lease's name (default: " LEASE_NAME ")", set_lease_name, false},
    {"--lease-duration", "HOROVOD_OPERATOR_LEASE_DURATION", "SECONDS",
     "how long the others wait for a leader that is silent (default: 15)", set_lease_duration,
     false},
    {"--listen", "HOROVOD_OPERATOR_LISTEN", "IP:PORT",
     "where /healthz, /readyz and /metrics are (default: :8080; :0 is none)", set_listen, false},
    {"--tls-cert-file", "HOROVOD_OPERATOR_TLS_CERT_FILE", "FILE",
     "serve them over TLS with this certificate; read again when it changes (default: no TLS)",
     set_tls_cert, false},
    {"--tls-key-file", "HOROVOD_OPERATOR_TLS_KEY_FILE", "FILE", "the certificate's private key",
     set_tls_key, false},
    {"--log-level", "HOROVOD_OPERATOR_LOG_LEVEL", "LEVEL",
     "debug, info, warn or error (default: info)", set_log_level, false},
    {"--gang-scheduler", "HOROVOD_OPERATOR_GANG_SCHEDULER", "KIND",
     "who places the workers of a job together: none, volcano or scheduler-plugins (default: none)",
     set_gang, false},
    {"--gang-scheduler-name", "HOROVOD_OPERATOR_GANG_SCHEDULER_NAME", "NAME",
     "schedulerName of the workers (default: volcano or scheduler-plugins-scheduler)",
     set_gang_name, false},
    {"--ssh-ports", "HOROVOD_OPERATOR_SSH_PORTS", "FIRST-LAST",
     "ports for sshd of jobs on the nodes' network, one per job (default: 20000-29999)",
     set_ssh_ports, false},
    {"--probe", NULL, "URL",
     "ask this URL once a second until it answers with 200, up to 30 times, and exit", set_probe,
     false},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static hvd_status_t read_environment(const struct hvd_environment *environment,
                                     struct hvd_options *options, struct hvd_err *err)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        const char *variable = rows[i].variable;
        const char *value = variable ? environment->get(environment->ctx, variable) : NULL;
        hvd_status_t st = value ? rows[i].set(options, rows[i].variable, value, err) : HVD_OK;
        if (st != HVD_OK)
            return st;
    }
    return HVD_OK;
}

/* The row of "--flag" or "--flag=value"; *value is set for the latter. */
static const struct option_row *find_row(const char *arg, const char **value)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        size_t len = strlen(rows[i].flag);
        if (strncmp(arg, rows[i].flag, len) != 0 || (arg[len] && arg[len] != '='))
            continue;
        *value = arg[len] ? arg + len + 1 : NULL;
        return &rows[i];
    }
    return NULL;
}

static hvd_status_t read_flag(const char *const *args, int n_left, int *n_used,
                              struct hvd_options *options, struct hvd_err *err)
{
    const char *value = NULL;
    const struct option_row *row = find_row(args[0], &value);

    *n_used = 1;
    if (strcmp(args[0], "--help") == 0 || strcmp(args[0], "-h") == 0) {
        options->wants_help = true;
        return HVD_OK;
    }
    if (strcmp(args[0], "--version") == 0) {
        options->wants_version = true;
        return HVD_OK;
    }
    if (!row)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "unknown argument %s: --help lists the options",
                        args[0]);
    if (!value && row->is_switch)
        return row->set(options, row->flag, "true", err);
    if (!value && n_left < 2)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s needs a value: %s %s", row->flag, row->flag,
                        row->metavar);
    if (!value) {
        value = args[1];
        *n_used = 2;
    }
    return row->set(options, row->flag, value, err);
}

hvd_status_t hvd_options_parse(int argc, const char *const *argv,
                               const struct hvd_environment *environment, struct hvd_options *out,
                               struct hvd_err *err)
{
    struct hvd_options options = {.listen = {.port = DEFAULT_PORT},
                                  .lease_name = LEASE_NAME,
                                  .lease_duration_ms = INT64_C(1000) * LEASE_DURATION_S,
                                  .log_level = HVD_LOG_INFO,
                                  .launch_ports = {HVD_PORTS_FIRST, HVD_PORTS_LAST}};
    hvd_status_t st = read_environment(environment, &options, err);
    int n_used = 0;

    for (int i = 1; i < argc && st == HVD_OK; i += n_used)
        st = read_flag(argv + i, argc - i, &n_used, &options, err);
    if (st == HVD_OK && !options.tls_cert != !options.tls_key)
        st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "--tls-cert-file and --tls-key-file go together");
    if (st == HVD_OK)
        *out = options;
    return st;
}

hvd_status_t hvd_options_help(struct hvd_buf *out)
{
    hvd_status_t st = hvd_buf_puts(
        out, "Usage: horovod-operator [OPTION]...\n"
             "Runs HorovodJobs: watches them, makes their workers, master and host list.\n\n");

    for (size_t i = 0; i < N_ROWS && st == HVD_OK; i++)
        st =
            hvd_buf_printf(out, "  %s%s%s%s\n      %s%s%s%s\n", rows[i].flag,
                           rows[i].is_switch ? "[=" : " ", rows[i].metavar,
                           rows[i].is_switch ? "]" : "", rows[i].help, rows[i].variable ? " [" : "",
                           rows[i].variable ? rows[i].variable : "", rows[i].variable ? "]" : "");
    if (st == HVD_OK)
        st = hvd_buf_puts(out, "  --version\n      print the version and exit\n"
                               "  --help\n      print this text and exit\n");
    return st;
}
