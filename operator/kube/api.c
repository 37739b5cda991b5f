/*
 * Decides the meaning of an answer of the API server. Pure. Foreign codes end here: everything
 * above decides by hvd_status_t alone.
 */
#include "operator/kube/api.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const struct {
    const char *name;
    const char *method;
} verbs[] = {
#define X(name, verb, method) {verb, method},
    HVD_VERB_MAP(X)
#undef X
};

const char *hvd_kube_api_verb_name(hvd_verb_t verb)
{
    return verb < HVD_VERB_COUNT ? verbs[verb].name : "unknown";
}

const char *hvd_kube_api_verb_method(hvd_verb_t verb)
{
    return verb < HVD_VERB_COUNT ? verbs[verb].method : "GET";
}

const char *hvd_kube_api_text(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

    return text ? text : "";
}

const char *hvd_kube_api_describe(const struct hvd_kube_request *request, char *out, size_t size)
{
    const struct hvd_url_path *path = &request->path;

    (void)snprintf(out, size, "%s %s%s%s%s%s%s%s", hvd_kube_api_verb_name(request->verb),
                   hvd_kind_info(path->kind)->resource, path->subresource ? "/" : "",
                   path->subresource ? path->subresource : "", path->ns || path->name ? " " : "",
                   path->ns ? path->ns : "", path->ns && path->name ? "/" : "",
                   path->name ? path->name : "");
    return out;
}

/*
 * The API server answers with 422, not 409, when a patch names the uid of a replaced object or
 * tests a value of it. Only the cause distinguishes that from an invalid patch: metadata.uid, or,
 * of a JSON patch, that it does not apply.
 */
static bool is_about_another_object(const cJSON *body)
{
    const cJSON *details = cJSON_GetObjectItemCaseSensitive(body, "details");
    const cJSON *cause = NULL;

    cJSON_ArrayForEach(cause, cJSON_GetObjectItemCaseSensitive(details, "causes"))
    {
        if (strcmp(hvd_kube_api_text(cause, "field"), "metadata.uid") == 0)
            return true;
    }
    return strcmp(hvd_kube_api_text(body, "message"),
                  "the server rejected our request due to an error in our request") == 0;
}

/*
 * A webhook that denies a request chooses the code itself, and an unreachable webhook causes an
 * internal error. Neither is a fact about the server or our object.
 */
static bool is_of_webhook(const cJSON *body)
{
    const char *message = hvd_kube_api_text(body, "message");

    return hvd_str_has_prefix(message, "admission webhook \"") ||
           hvd_str_has_prefix(message, "Internal error occurred: failed calling webhook \"");
}

/*
 * Proxies answer with these codes, too: a load balancer without a backend, a gateway that does not
 * know the cluster. So only a Status of the server is a fact about an object, and a Status of 404
 * names that object. There are two exceptions. A list or watch of a path that the server does not
 * serve has no Status. Nor has the get or delete of a PodGroup whose definition was removed.
 */
static bool is_of_server(const struct hvd_kube_request *request, long code, const cJSON *body)
{
    const struct hvd_url_path *path = &request->path;
    const cJSON *details = cJSON_GetObjectItemCaseSensitive(body, "details");
    const char *kind = hvd_kube_api_text(details, "kind");
    const bool is_group =
        path->kind == HVD_KIND_VOLCANO_PODGROUP || path->kind == HVD_KIND_PLUGINS_PODGROUP;

    if (code == 404 &&
        (request->verb == HVD_VERB_LIST || request->verb == HVD_VERB_WATCH ||
         (is_group && (request->verb == HVD_VERB_GET || request->verb == HVD_VERB_DELETE))))
        return true;
    if (strcmp(hvd_kube_api_text(body, "kind"), "Status") != 0)
        return false;
    if (code != 404)
        return true;
    return strcmp(hvd_kube_api_text(body, "reason"), "NotFound") == 0 &&
           (!path->name || request->verb == HVD_VERB_CREATE ||
            (strcmp(hvd_kube_api_text(details, "name"), path->name) == 0 &&
             (!*kind || strcmp(kind, hvd_kind_info(path->kind)->resource) == 0)));
}

/* Whether the body is a Status that reports no failure. The kind of the object decides which fields
 * were read. */
static bool is_success(const cJSON *body)
{
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(body, "code");
    const char *status = hvd_kube_api_text(body, "status");

    return strcmp(hvd_kube_api_text(body, "kind"), "Status") == 0 &&
           (!*status || strcmp(status, "Success") == 0) &&
           !(cJSON_IsNumber(code) && code->valuedouble >= 300);
}

/*
 * Whether a successful answer holds another object than the one that the request names: then a
 * proxy or a webhook is faulty. The answer to a deletion may be a Status, which names no object.
 */
static bool is_of_another(const struct hvd_kube_request *request, const cJSON *body)
{
    const struct hvd_url_path *path = &request->path;
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(body, "metadata");
    const char *name = hvd_kube_api_text(meta, "name"), *ns = hvd_kube_api_text(meta, "namespace");
    const char *kind = hvd_kube_api_text(body, "kind");
    const bool is_deletion = request->verb == HVD_VERB_DELETE;

    if (!path->name || !body ||
        (request->verb != HVD_VERB_GET && request->verb != HVD_VERB_PATCH && !is_deletion))
        return false;
    if (is_deletion && !*name)
        return !is_success(body);
    return strcmp(name, path->name) != 0 || (path->ns && *ns && strcmp(ns, path->ns) != 0) ||
           (*kind && strcmp(kind, "PartialObjectMetadata") != 0 &&
            strcmp(kind, hvd_kind_info(path->kind)->kind) != 0);
}

/* Refuses such an answer in a way that the caller retries later. */
static hvd_status_t refuse_another(const struct hvd_kube_request *request, long code,
                                   const cJSON *body, struct hvd_err *err)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(body, "metadata");
    const char *kind = hvd_kube_api_text(body, "kind"), *ns = hvd_kube_api_text(meta, "namespace");
    const char *name = hvd_kube_api_text(meta, "name");
    char what[512];

    (void)hvd_kube_api_describe(request, what, sizeof(what));
    hvd_err_set(err, HVD_ERR_UNAVAILABLE, (int)code,
                "%s: HTTP %ld with another object, %.63s %.63s%s%.253s: check proxies and webhooks "
                "before the API server",
                what, code, *kind ? kind : "of no kind", ns, *ns ? "/" : "",
                *name ? name : "without a name");
    return HVD_ERR_UNAVAILABLE;
}

/* Codes that callers act on, so they have to be the server's own. */
static bool is_fact(long code)
{
    return code == 400 || code == 403 || code == 404 || code == 409 || code == 410 || code == 422;
}

static hvd_status_t status_of(long code, const cJSON *body)
{
    if (code >= 200 && code < 300)
        return HVD_OK;
    if (is_of_webhook(body))
        return HVD_ERR_DENIED;
    if (code == 422 && is_about_another_object(body))
        return HVD_ERR_CONFLICT;
    if (code == 400 || code == 422)
        return HVD_ERR_INVALID;
    if (code == 401 || code == 403)
        return HVD_ERR_DENIED;
    if (code == 404)
        return HVD_ERR_NOT_FOUND;
    if (code == 409)
        return strcmp(hvd_kube_api_text(body, "reason"), "AlreadyExists") == 0 ? HVD_ERR_EXISTS
                                                                               : HVD_ERR_CONFLICT;
    if (code == 410)
        return HVD_ERR_GONE;
    if (code == 413)
        return HVD_ERR_TOO_LARGE;
    if (code == 408 || code == 429 || code >= 500)
        return HVD_ERR_UNAVAILABLE;
    return HVD_ERR_SYSTEM;
}

hvd_status_t hvd_kube_api_judge(const struct hvd_kube_request *request, long code,
                                const cJSON *body, struct hvd_err *err)
{
    const bool is_stray =
        is_fact(code) && !is_of_webhook(body) && !is_of_server(request, code, body);
    hvd_status_t st = is_stray ? HVD_ERR_UNAVAILABLE : status_of(code, body);
    const char *text = hvd_kube_api_text(body, "message");
    char what[512];

    if (st == HVD_OK && is_of_another(request, body))
        return refuse_another(request, code, body, err);
    if (st == HVD_OK)
        return st;
    (void)hvd_kube_api_describe(request, what, sizeof(what));
    if (code == 401)
        hvd_err_set(err, st, (int)code,
                    "%s: HTTP 401: the API server does not know us: the token or the client "
                    "certificate is missing, wrong or expired",
                    what);
    else
        hvd_err_set(err, st, (int)code, "%s: HTTP %ld%s%s%s", what, code,
                    is_stray ? ", which is not the API server's answer about it" : "",
                    *text ? ": " : "", text);
    return st;
}
