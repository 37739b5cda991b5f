#ifndef HVD_OPERATOR_KUBE_CONFIG_H
#define HVD_OPERATOR_KUBE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/str.h"

/*
 * The address of an API server and the operator's identity there. Owns all its strings; NULL where
 * unset. Zeroed is legal for fini. Of a file and its data at most one is set. Certificates and keys
 * are PEM.
 */
struct hvd_kube_config {
    char *server; /* "https://host:port", optionally with a path; no slash at the end */
    char *ca_file;
    char *ca_data;
    char *cert_file;
    char *cert_data;
    char *key_file;
    char *key_data;
    char *token;
    char *token_file; /* read again when it rotates; takes precedence over token */
    char *tls_server_name;
    char *proxy_url;
    char *ns;         /* the namespace of the context or of our own pod */
    char *cluster;    /* the name of the entry; NULL in a cluster */
    char *origin;     /* the source, for messages: the path, or "in-cluster" */
    bool is_insecure; /* the server's certificate is not verified */
};

/* A setting that is allowed but perhaps not intended. Static texts. */
struct hvd_kube_risk {
    const char *what;
    const char *remedy;
};
#define HVD_KUBE_MAX_RISKS 2

/* Collects the warnings to log at start into out; returns their number. Pure. */
size_t hvd_kube_config_risks(const struct hvd_kube_config *config,
                             struct hvd_kube_risk out[HVD_KUBE_MAX_RISKS]);

/* Frees the strings and zeroes the struct; keys and tokens are wiped first. */
void hvd_kube_config_fini(struct hvd_kube_config *config);

/*
 * Reads the current context of a kubeconfig document (YAML or JSON) into *out, which the caller
 * must fini. Relative file names are put below dir. No I/O. origin names the document in messages.
 * HVD_ERR_INVALID names what is wrong and in which entry; *out is untouched on failure.
 */
hvd_status_t hvd_kubeconfig_parse(struct hvd_strview text, const char *dir, const char *origin,
                                  struct hvd_kube_config *out, struct hvd_err *err);

/* The possible sources of a configuration; NULL where there is none. */
struct hvd_kube_config_sources {
    const char *path;            /* --kubeconfig */
    const char *env_kubeconfig;  /* KUBECONFIG */
    const char *service_host;    /* KUBERNETES_SERVICE_HOST */
    const char *service_port;    /* KUBERNETES_SERVICE_PORT */
    const char *service_account; /* the directory with token, ca.crt and namespace */
};

/*
 * Loads the first source that exists: path, KUBECONFIG (one file), in-cluster. Reads files. The
 * caller finis *out, which is untouched on failure. HVD_ERR_INVALID names the source and the
 * mistake; HVD_ERR_NOT_FOUND, without any source, names what to set.
 */
hvd_status_t hvd_kube_config_load(const struct hvd_kube_config_sources *sources,
                                  struct hvd_kube_config *out, struct hvd_err *err);

/*
 * Reads a small file into a new terminated string (hvd_free it), of at most max bytes.
 * HVD_ERR_SYSTEM with errno, HVD_ERR_TOO_LARGE or HVD_ERR_NOMEM; the message names the file.
 */
hvd_status_t hvd_kube_config_read_file(const char *path, size_t max, char **out,
                                       struct hvd_err *err);

#endif
