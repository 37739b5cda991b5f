/*
 * Decodes kubeconfig files with libyaml: the current context's cluster and user. No I/O. The
 * document is a tree of nodes that are looked up by key, so aliases cost nothing and unknown keys
 * are ignored, as in kubectl. Unsupported features (exec and auth-provider plugins) are an error
 * here that names the alternatives, not a failed request later.
 */
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/buf.h"
#include "base/mem.h"
#include "operator/kube/base64.h"
#include "operator/kube/config.h"

#define DATA_MAX (256 * 1024)

/* Context of a look-up: the document, and the destination of errors. */
struct reader {
    yaml_document_t doc;
    const char *dir;
    const char *origin;
    struct hvd_err *err;
};

static yaml_node_t *get(struct reader *r, yaml_node_t *map, const char *key)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
         pair++) {
        yaml_node_t *k = yaml_document_get_node(&r->doc, pair->key);
        if (k && k->type == YAML_SCALAR_NODE && k->data.scalar.length == strlen(key) &&
            memcmp(k->data.scalar.value, key, strlen(key)) == 0)
            return yaml_document_get_node(&r->doc, pair->value);
    }
    return NULL;
}

/* The scalar at key; NULL when it is absent, null or empty. */
static const char *text_at(struct reader *r, yaml_node_t *map, const char *key)
{
    yaml_node_t *node = get(r, map, key);
    const char *text;

    if (!node || node->type != YAML_SCALAR_NODE)
        return NULL;
    text = (const char *)node->data.scalar.value;
    if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        (strcmp(text, "null") == 0 || strcmp(text, "~") == 0))
        return NULL;
    return *text ? text : NULL;
}

/* Finds the entry called name in the list at list_key, and returns its value_key mapping. */
static hvd_status_t find_entry(struct reader *r, const char *list_key, const char *value_key,
                               const char *name, yaml_node_t **out)
{
    yaml_node_t *list = get(r, yaml_document_get_root_node(&r->doc), list_key);

    if (list && list->type == YAML_SEQUENCE_NODE)
        for (yaml_node_item_t *item = list->data.sequence.items.start;
             item < list->data.sequence.items.top; item++) {
            yaml_node_t *entry = yaml_document_get_node(&r->doc, *item);
            const char *entry_name = text_at(r, entry, "name");
            if (!entry_name || strcmp(entry_name, name) != 0)
                continue;
            *out = get(r, entry, value_key);
            if (*out && (*out)->type == YAML_MAPPING_NODE)
                return HVD_OK;
            return HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "%s: %s entry \"%s\" has no %s", r->origin,
                            list_key, name, value_key);
        }
    return HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "%s: there is no entry \"%s\" in %s", r->origin,
                    name, list_key);
}

static hvd_status_t copy(struct reader *r, yaml_node_t *map, const char *key, char **out)
{
    const char *text = text_at(r, map, key);

    if (!text)
        return HVD_OK;
    *out = hvd_strdup(text);
    return *out ? HVD_OK : HVD_FAIL(r->err, HVD_ERR_NOMEM, 0, "%s: out of memory", r->origin);
}

/* Copies the file name at key, made absolute. */
static hvd_status_t copy_path(struct reader *r, yaml_node_t *map, const char *key, char **out)
{
    const char *text = text_at(r, map, key);
    struct hvd_buf path;
    hvd_status_t st;

    if (!text || text[0] == '/' || !r->dir)
        return copy(r, map, key, out);
    hvd_buf_init(&path, DATA_MAX);
    st = hvd_buf_printf(&path, "%s/%s", r->dir, text);
    if (st == HVD_OK)
        *out = hvd_buf_take(&path);
    else
        hvd_err_set(r->err, st, 0, "%s: %s: %s", r->origin, key, hvd_status_str(st));
    hvd_buf_fini(&path);
    return st;
}

/* Decodes the base64 text at key, e.g. certificate-authority-data. */
static hvd_status_t copy_data(struct reader *r, yaml_node_t *map, const char *key, char **out)
{
    const char *text = text_at(r, map, key);
    struct hvd_buf data;
    hvd_status_t st;

    if (!text)
        return HVD_OK;
    hvd_buf_init(&data, DATA_MAX);
    st = hvd_base64_decode(hvd_strview_of(text), &data);
    if (st == HVD_OK && (!data.len || memchr(data.data, '\0', data.len)))
        st = HVD_ERR_INVALID;
    if (st == HVD_OK)
        *out = hvd_buf_take(&data);
    else if (st == HVD_ERR_INVALID)
        hvd_err_set(r->err, st, 0, "%s: %s is not base64 of PEM text", r->origin, key);
    else
        hvd_err_set(r->err, st, 0, "%s: %s: %s", r->origin, key, hvd_status_str(st));
    if (data.data)
        explicit_bzero(data.data, data.len);
    hvd_buf_fini(&data);
    return st;
}

/* Data takes precedence over a file, as in kubectl. */
static hvd_status_t copy_pem(struct reader *r, yaml_node_t *map, const char *key, char **file,
                             char **data)
{
    char data_key[64];
    hvd_status_t st;

    (void)snprintf(data_key, sizeof(data_key), "%s-data", key);
    st = copy_data(r, map, data_key, data);
    if (st == HVD_OK && !*data)
        st = copy_path(r, map, key, file);
    return st;
}

static hvd_status_t read_cluster(struct reader *r, yaml_node_t *cluster, const char *name,
                                 struct hvd_kube_config *c)
{
    const char *insecure = text_at(r, cluster, "insecure-skip-tls-verify");
    hvd_status_t st = copy(r, cluster, "server", &c->server);

    if (st == HVD_OK && (!c->server || (!hvd_str_has_prefix(c->server, "https://") &&
                                        !hvd_str_has_prefix(c->server, "http://"))))
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                        "%s: cluster \"%s\": server must be an http or https URL, not \"%s\"",
                        r->origin, name, c->server ? c->server : "");
    while (st == HVD_OK && hvd_str_has_suffix(c->server, "/"))
        c->server[strlen(c->server) - 1] = '\0';
    c->is_insecure = insecure && strcmp(insecure, "true") == 0;
    if (st == HVD_OK)
        st = copy_pem(r, cluster, "certificate-authority", &c->ca_file, &c->ca_data);
    if (st == HVD_OK && c->is_insecure && (c->ca_file || c->ca_data))
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                        "%s: cluster \"%s\": certificate-authority and insecure-skip-tls-verify "
                        "contradict each other: remove one of them",
                        r->origin, name);
    if (st == HVD_OK)
        st = copy(r, cluster, "tls-server-name", &c->tls_server_name);
    if (st == HVD_OK)
        st = copy(r, cluster, "proxy-url", &c->proxy_url);
    return st;
}

static hvd_status_t refuse_unsupported(struct reader *r, yaml_node_t *user, const char *name)
{
    static const char *const unsupported[] = {"exec", "auth-provider", "username", "as"};

    for (size_t i = 0; i < sizeof(unsupported) / sizeof(unsupported[0]); i++)
        if (get(r, user, unsupported[i]))
            return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                            "%s: user \"%s\" uses %s, which is not supported: use client-"
                            "certificate(-data) with client-key(-data), token or tokenFile",
                            r->origin, name, unsupported[i]);
    return HVD_OK;
}

static hvd_status_t read_user(struct reader *r, yaml_node_t *user, const char *name,
                              struct hvd_kube_config *c)
{
    hvd_status_t st = refuse_unsupported(r, user, name);

    if (st == HVD_OK)
        st = copy_pem(r, user, "client-certificate", &c->cert_file, &c->cert_data);
    if (st == HVD_OK)
        st = copy_pem(r, user, "client-key", &c->key_file, &c->key_data);
    if (st == HVD_OK)
        st = copy(r, user, "token", &c->token);
    if (st == HVD_OK)
        st = copy_path(r, user, "tokenFile", &c->token_file);
    if (st == HVD_OK && (c->cert_file || c->cert_data) != (c->key_file || c->key_data))
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                        "%s: user \"%s\": client-certificate and client-key go together", r->origin,
                        name);
    return st;
}

static hvd_status_t read_context(struct reader *r, struct hvd_kube_config *c)
{
    const char *current = text_at(r, yaml_document_get_root_node(&r->doc), "current-context");
    yaml_node_t *context = NULL;
    yaml_node_t *entry = NULL;
    const char *cluster, *user;
    hvd_status_t st;

    if (!current)
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                        "%s: current-context is not set: kubectl config use-context NAME sets it",
                        r->origin);
    st = find_entry(r, "contexts", "context", current, &context);
    if (st != HVD_OK)
        return st;
    cluster = text_at(r, context, "cluster");
    user = text_at(r, context, "user");
    if (!cluster)
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "%s: context \"%s\" names no cluster",
                        r->origin, current);
    st = find_entry(r, "clusters", "cluster", cluster, &entry);
    if (st == HVD_OK)
        st = copy(r, context, "cluster", &c->cluster);
    if (st == HVD_OK)
        st = read_cluster(r, entry, cluster, c);
    if (st == HVD_OK && user) {
        st = find_entry(r, "users", "user", user, &entry);
        if (st == HVD_OK)
            st = read_user(r, entry, user, c);
    }
    return st == HVD_OK ? copy(r, context, "namespace", &c->ns) : st;
}

/* Rejects the character NUL, which a quoted text may hold: a C string would end there, and half a
 * name or token is useless. */
static hvd_status_t check_texts(const struct reader *r)
{
    for (const yaml_node_t *node = r->doc.nodes.start; node < r->doc.nodes.top; node++) {
        if (node->type == YAML_SCALAR_NODE &&
            memchr(node->data.scalar.value, '\0', node->data.scalar.length))
            return HVD_FAIL(r->err, HVD_ERR_INVALID, 0,
                            "%s: line %zu: a text holds the character NUL: remove it", r->origin,
                            node->start_mark.line + 1);
    }
    return HVD_OK;
}

static hvd_status_t read_document(struct reader *r, struct hvd_kube_config *out)
{
    struct hvd_kube_config config = {0};
    hvd_status_t st = check_texts(r);

    if (st)
        return st;
    if (!yaml_document_get_root_node(&r->doc))
        return HVD_FAIL(r->err, HVD_ERR_INVALID, 0, "%s: the file is empty", r->origin);
    config.origin = hvd_strdup(r->origin);
    if (!config.origin)
        st = HVD_FAIL(r->err, HVD_ERR_NOMEM, 0, "%s: out of memory", r->origin);
    if (st == HVD_OK)
        st = read_context(r, &config);
    if (st == HVD_OK)
        *out = config;
    else
        hvd_kube_config_fini(&config);
    return st;
}

hvd_status_t hvd_kubeconfig_parse(struct hvd_strview text, const char *dir, const char *origin,
                                  struct hvd_kube_config *out, struct hvd_err *err)
{
    struct reader r = {.dir = dir, .origin = origin, .err = err};
    yaml_parser_t parser;
    hvd_status_t st;

    if (!yaml_parser_initialize(&parser))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", origin);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.data, text.len);
    if (yaml_parser_load(&parser, &r.doc)) {
        st = read_document(&r, out);
        yaml_document_delete(&r.doc);
    } else {
        st = HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s: line %zu: %s", origin,
                      parser.problem_mark.line + 1, parser.problem ? parser.problem : "not YAML");
    }
    yaml_parser_delete(&parser);
    return st;
}
