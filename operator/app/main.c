/*
 * horovod-operator: reads options and configuration, then runs the event loop. Only this file reads
 * the environment, blocks signals and decides the exit code: 0 after SIGTERM or SIGINT, 1 when it
 * cannot run, 2 for wrong options; --probe: 0 or 1.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "operator/api/json.h"
#include "operator/app/operator.h"
#include "operator/app/options.h"
#include "operator/app/process.h"
#include "operator/kube/client.h"
#include "operator/kube/config.h"
#include "operator/kube/probe.h"

#define PROBE_ATTEMPTS 30 /* one a second */
#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

static const char *get_environment(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static int print_help(void)
{
    struct hvd_buf text;
    int rc = 1;

    hvd_buf_init(&text, 16 * 1024);
    if (hvd_options_help(&text) == HVD_OK && fputs(text.data, stdout) >= 0 && fflush(stdout) == 0)
        rc = 0;
    hvd_buf_fini(&text);
    return rc;
}

/* Opens a descriptor for SIGTERM and SIGINT for the event loop; ignores SIGPIPE. */
static hvd_status_t open_signals(int *out, struct hvd_err *err)
{
    sigset_t set;
    int fd;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "sigprocmask: %s", strerror(errno));
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "signalfd: %s", strerror(errno));
    *out = fd;
    return HVD_OK;
}

static hvd_status_t load_config(const struct hvd_options *options, struct hvd_kube_config *out,
                                struct hvd_err *err)
{
    const struct hvd_kube_config_sources sources = {
        .path = options->kubeconfig,
        .env_kubeconfig = getenv("KUBECONFIG"),
        .service_host = getenv("KUBERNETES_SERVICE_HOST"),
        .service_port = getenv("KUBERNETES_SERVICE_PORT"),
        .service_account = SERVICE_ACCOUNT,
    };

    return hvd_kube_config_load(&sources, out, err);
}

static void warn_of_risks(const struct hvd_kube_config *config, const struct hvd_log *log)
{
    struct hvd_kube_risk risks[HVD_KUBE_MAX_RISKS];
    size_t n = hvd_kube_config_risks(config, risks);

    for (size_t i = 0; i < n; i++)
        HVD_LOG_KV(log, HVD_LOG_WARN, "operator", risks[i].what, {"server", config->server},
                   {"config", config->origin}, {"cluster", config->cluster},
                   {"remedy", risks[i].remedy});
}

static hvd_status_t run(const struct hvd_options *options, const struct hvd_log *log,
                        struct hvd_err *err)
{
    struct hvd_kube_config config = {0};
    struct hvd_operator_setup setup = {.options = options, .config = &config, .log = log};
    struct hvd_operator *op = NULL;
    char identity[256];
    int stop_fd = -1;
    hvd_status_t st = open_signals(&stop_fd, err);

    setup.stop_fd = stop_fd;
    hvd_process_identity(identity, sizeof(identity));
    setup.identity = identity;
    if (st == HVD_OK)
        st = load_config(options, &config, err);
    if (st == HVD_OK)
        st = hvd_kube_client_global_init(err);
    if (st == HVD_OK) {
        HVD_LOG_KV(log, HVD_LOG_INFO, "operator", "starting", {"version", HVD_VERSION},
                   {"server", config.server}, {"config", config.origin},
                   {"namespace", options->ns ? options->ns : "(all)"});
        warn_of_risks(&config, log);
        st = hvd_operator_create(&setup, &op, err);
        if (st == HVD_OK)
            st = hvd_operator_run(op, err);
        hvd_operator_destroy(op);
        hvd_kube_client_global_fini();
    }
    hvd_kube_config_fini(&config);
    if (stop_fd >= 0)
        (void)close(stop_fd);
    return st;
}

/* The exit code of --probe. */
static int probe(const char *url)
{
    struct hvd_err err = {0};
    hvd_status_t st = hvd_kube_client_global_init(&err);

    if (st == HVD_OK) {
        st = hvd_kube_probe_wait(url, PROBE_ATTEMPTS, &err);
        hvd_kube_client_global_fini();
    }
    if (st == HVD_OK)
        return printf("%s: ok\n", url) < 0 || fflush(stdout) != 0;
    (void)fprintf(stderr, "horovod-operator: %s\n", err.msg);
    return 1;
}

int main(int argc, char **argv)
{
    const struct hvd_environment environment = {get_environment, NULL};
    struct hvd_log log = {HVD_LOG_INFO, hvd_log_stderr, NULL};
    struct hvd_options options;
    struct hvd_err err = {0};

    hvd_json_use_base_memory();
    if (hvd_options_parse(argc, (const char *const *)argv, &environment, &options, &err) !=
        HVD_OK) {
        (void)fprintf(stderr, "horovod-operator: %s\n", err.msg);
        return 2;
    }
    if (options.wants_help)
        return print_help();
    if (options.wants_version)
        return puts("horovod-operator " HVD_VERSION) < 0 || fflush(stdout) != 0;
    if (options.probe)
        return probe(options.probe);
    log.level = options.log_level;
    if (run(&options, &log, &err) != HVD_OK) {
        HVD_LOG_KV(&log, HVD_LOG_ERROR, "operator", "cannot run", {"error", err.msg});
        return 1;
    }
    return 0;
}
