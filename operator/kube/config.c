/*
 * Finds the configuration of the API client: a kubeconfig file, or the service account of the pod.
 * Reads files, at start only; the client itself reads tokens again. main reads the environment and
 * passes the values.
 */
#include "operator/kube/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define KUBECONFIG_MAX (1024 * 1024)
#define NAMESPACE_MAX 4096

static void free_secret(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    hvd_free(s);
}

void hvd_kube_config_fini(struct hvd_kube_config *config)
{
    hvd_free(config->server);
    hvd_free(config->ca_file);
    hvd_free(config->ca_data);
    hvd_free(config->cert_file);
    hvd_free(config->cert_data);
    hvd_free(config->key_file);
    free_secret(config->key_data);
    free_secret(config->token);
    hvd_free(config->token_file);
    hvd_free(config->tls_server_name);
    hvd_free(config->proxy_url);
    hvd_free(config->ns);
    hvd_free(config->cluster);
    hvd_free(config->origin);
    *config = (struct hvd_kube_config){0};
}

size_t hvd_kube_config_risks(const struct hvd_kube_config *config,
                             struct hvd_kube_risk out[HVD_KUBE_MAX_RISKS])
{
    bool is_encrypted = hvd_str_has_prefix(config->server, "https://");
    size_t n = 0;

    if (is_encrypted && config->is_insecure)
        out[n++] = (struct hvd_kube_risk){
            "the API server's certificate is not verified: any server at its address gets "
            "the credentials",
            "replace insecure-skip-tls-verify by certificate-authority"};
    if (!is_encrypted && (config->token || config->token_file))
        out[n++] = (struct hvd_kube_risk){"the token is sent to the API server unencrypted",
                                          "use an https URL as server"};
    return n;
}

static hvd_status_t read_all(int fd, struct hvd_buf *buf)
{
    char piece[4096];
    hvd_status_t st = HVD_OK;

    while (st == HVD_OK) {
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            st = HVD_ERR_SYSTEM;
        if (n <= 0)
            break;
        st = hvd_buf_add(buf, piece, (size_t)n);
    }
    explicit_bzero(piece, sizeof(piece));
    return st;
}

hvd_status_t hvd_kube_config_read_file(const char *path, size_t max, char **out,
                                       struct hvd_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct hvd_buf buf;
    hvd_status_t st;

    if (fd < 0)
        return HVD_FAIL(err, HVD_ERR_SYSTEM, errno, "%s: %s", path, strerror(errno));
    hvd_buf_init(&buf, max);
    st = read_all(fd, &buf);
    if (st == HVD_OK && !buf.len)
        st = hvd_buf_puts(&buf, "");
    if (st == HVD_ERR_SYSTEM)
        hvd_err_set(err, st, errno, "%s: %s", path, strerror(errno));
    else if (st != HVD_OK)
        hvd_err_set(err, st, 0, "%s: %s", path, hvd_status_str(st));
    (void)close(fd);
    if (st == HVD_OK) {
        char *text = buf.data ? hvd_buf_take(&buf) : NULL;
        *out = text ? text : hvd_strdup("");
        if (!*out)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", path);
    }
    hvd_buf_fini(&buf);
    return st;
}

static hvd_status_t load_file(const char *path, struct hvd_kube_config *out, struct hvd_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? hvd_strndup(path, (size_t)(slash - path)) : hvd_strdup(".");
    char *text = NULL;
    hvd_status_t st;

    if (!dir)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", path);
    st = hvd_kube_config_read_file(path, KUBECONFIG_MAX, &text, err);
    if (st == HVD_ERR_SYSTEM)
        st = HVD_ERR_INVALID;
    if (st == HVD_OK)
        st = hvd_kubeconfig_parse(hvd_strview_of(text), dir, path, out, err);
    free_secret(text);
    hvd_free(dir);
    return st;
}

/* base + suffix as a new string, or NULL. */
static char *join(const char *base, const char *suffix)
{
    size_t size = strlen(base) + strlen(suffix) + 1;
    char *s = hvd_malloc(size, 1);

    if (s)
        (void)snprintf(s, size, "%s%s", base, suffix);
    return s;
}

static char *server_url(const char *host, const char *port)
{
    char url[512];
    bool is_ipv6 = strchr(host, ':') != NULL;
    int n = snprintf(url, sizeof(url), "https://%s%s%s:%s", is_ipv6 ? "[" : "", host,
                     is_ipv6 ? "]" : "", port && *port ? port : "443");

    return n > 0 && (size_t)n < sizeof(url) ? hvd_strdup(url) : NULL;
}

static void trim_end(char *s)
{
    size_t len = strlen(s);

    while (len && strchr(" \t\r\n", s[len - 1]))
        s[--len] = '\0';
}

static hvd_status_t load_in_cluster(const struct hvd_kube_config_sources *sources,
                                    struct hvd_kube_config *out, struct hvd_err *err)
{
    struct hvd_kube_config config = {0};
    char *ns_file = join(sources->service_account, "/namespace");
    hvd_status_t st = HVD_OK;

    config.server = server_url(sources->service_host, sources->service_port);
    config.ca_file = join(sources->service_account, "/ca.crt");
    config.token_file = join(sources->service_account, "/token");
    config.origin = hvd_strdup("in-cluster");
    if (!ns_file || !config.server || !config.ca_file || !config.token_file || !config.origin)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "in-cluster configuration: out of memory");
    if (st == HVD_OK && access(config.token_file, R_OK) != 0)
        st = HVD_FAIL(err, HVD_ERR_INVALID, errno,
                      "in-cluster configuration: %s: %s (is automountServiceAccountToken off?)",
                      config.token_file, strerror(errno));
    if (st == HVD_OK && access(config.ca_file, R_OK) != 0)
        st = HVD_FAIL(err, HVD_ERR_INVALID, errno, "in-cluster configuration: %s: %s",
                      config.ca_file, strerror(errno));
    if (st == HVD_OK && access(ns_file, R_OK) == 0)
        st = hvd_kube_config_read_file(ns_file, NAMESPACE_MAX, &config.ns, err);
    if (st == HVD_OK && config.ns)
        trim_end(config.ns);
    if (st == HVD_OK)
        *out = config;
    else
        hvd_kube_config_fini(&config);
    hvd_free(ns_file);
    return st;
}

hvd_status_t hvd_kube_config_load(const struct hvd_kube_config_sources *sources,
                                  struct hvd_kube_config *out, struct hvd_err *err)
{
    const char *env = sources->env_kubeconfig;

    if (sources->path && *sources->path)
        return load_file(sources->path, out, err);
    if (env && strchr(env, ':'))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "KUBECONFIG=%s names more than one file, and merging them is not "
                        "supported: name one, or use --kubeconfig",
                        env);
    if (env && *env)
        return load_file(env, out, err);
    if (sources->service_host && *sources->service_host)
        return load_in_cluster(sources, out, err);
    return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0,
                    "no Kubernetes API server to talk to: give --kubeconfig FILE, set KUBECONFIG, "
                    "or run in a pod with a service account");
}
