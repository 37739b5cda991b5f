#ifndef HVD_OPERATOR_KUBE_API_H
#define HVD_OPERATOR_KUBE_API_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "base/str.h"
#include "operator/api/picker.h"
#include "operator/kube/url.h"

/*
 * The port through which watches and writers reach the API server. It has two implementations: the
 * client on libcurl, and the fakes of tests. Everything runs on one thread.
 */

/* The methods of the API, by the verbs that RBAC and the metrics use. */
#define HVD_VERB_MAP(X)                                                                            \
    X(HVD_VERB_GET, "get", "GET")                                                                  \
    X(HVD_VERB_LIST, "list", "GET")                                                                \
    X(HVD_VERB_WATCH, "watch", "GET")                                                              \
    X(HVD_VERB_CREATE, "create", "POST")                                                           \
    X(HVD_VERB_PATCH, "patch", "PATCH")                                                            \
    X(HVD_VERB_DELETE, "delete", "DELETE")

typedef enum hvd_verb {
#define X(name, verb, method) name,
    HVD_VERB_MAP(X)
#undef X
        HVD_VERB_COUNT,
} hvd_verb_t;

/* "create" and the like. Never NULL. */
const char *hvd_kube_api_verb_name(hvd_verb_t verb);

/* "POST" and the like. Never NULL. */
const char *hvd_kube_api_verb_method(hvd_verb_t verb);

/* How a request ended. Everything is borrowed for the call. */
struct hvd_kube_response {
    hvd_status_t status;
    long code;                 /* HTTP status; 0 without an answer */
    int64_t retry_after_ms;    /* requested by the server; 0: it requested no delay */
    const cJSON *body;         /* the document; NULL for streams and for bodies that are not
                                  JSON */
    const struct hvd_err *err; /* names verb, object and the server's own text; NULL when OK */
};

/* Called once for each request that was sent, unless it was cancelled. */
typedef void (*hvd_kube_done_fn)(void *ctx, const struct hvd_kube_response *response);

/*
 * Takes bytes of a stream as they arrive. A result other than HVD_OK ends the stream with that
 * status. Must not send or cancel requests.
 */
typedef hvd_status_t (*hvd_kube_data_fn)(void *ctx, struct hvd_strview bytes);

/*
 * Called once when a successful answer begins, before its first byte: from here on a stream is
 * open. Must not send or cancel requests.
 */
typedef void (*hvd_kube_open_fn)(void *ctx);

/* A request. Send copies it; only ctx must outlive the call. */
struct hvd_kube_request {
    hvd_verb_t verb;
    struct hvd_url_path path;
    const char *query;        /* "?limit=500", encoded; or NULL */
    const char *body;         /* or NULL */
    const char *content_type; /* of the body */
    const char *accept;       /* NULL: application/json */
    /* The part of a successful answer that on_done reads (pick.h), not copied; NULL: all. For the
     * shape of the kind its limits apply. The kind's shape also selects the fields of the objects
     * in a list. */
    const struct hvd_shape *shape;
    int64_t timeout_ms;       /* for the whole request; 0: the default */
    bool is_fresh;            /* on a new connection, because an existing one may be dead */
    hvd_kube_open_fn on_open; /* may be NULL */
    hvd_kube_data_fn on_data; /* NULL: the body is collected and parsed */
    hvd_kube_done_fn on_done;
    void *ctx;
};

/* A request under way, owned by the implementation until on_done returns or cancel. */
struct hvd_kube_call;

struct hvd_kube_api {
    void *self;
    /* Sends a request; *out (may be NULL) is for cancel. On failure on_done is not called. */
    hvd_status_t (*send)(void *self, const struct hvd_kube_request *request,
                         struct hvd_kube_call **out, struct hvd_err *err);
    /* Drops a request without calling on_done. Not from within on_data. */
    void (*cancel)(void *self, struct hvd_kube_call *call);
    /* Reports that a stream was silent for so long though bytes were due. Gives up every connection
     * that is silent as a whole, and calls on_done for its requests. May be NULL. Not from a
     * callback. */
    void (*suspect)(void *self, int64_t silent_ms);
};

/*
 * Converts an HTTP status and the server's Status document (may be NULL) into a status, and fills
 * err with "verb resource ns/name: HTTP code: text". The codes 400, 403, 404, 409, 410 and 422 are
 * facts about an object. Without a Status, or as a 404 about another object, they become
 * HVD_ERR_UNAVAILABLE: a proxy answered. So does a success with another object than the request
 * names.
 */
hvd_status_t hvd_kube_api_judge(const struct hvd_kube_request *request, long code,
                                const cJSON *body, struct hvd_err *err);

/* Writes "verb resource ns/name" for messages into out; returns out. */
const char *hvd_kube_api_describe(const struct hvd_kube_request *request, char *out, size_t size);

/* The string at key of an object (any of them may be absent), else "". Borrowed from object. */
const char *hvd_kube_api_text(const cJSON *object, const char *key);

#endif
