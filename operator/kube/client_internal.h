#ifndef HVD_OPERATOR_KUBE_CLIENT_INTERNAL_H
#define HVD_OPERATOR_KUBE_CLIENT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>

#include "base/buf.h"
#include "operator/kube/client.h"

/* Shared by the files of the client: client.c (requests) and session.c (TLS, identity). */

struct hvd_kube_session {
    const struct hvd_kube_config *config;
    char *token;              /* last content of the token file; NULL without a file */
    int64_t token_read_ms;    /* when, on the monotonic clock */
    struct curl_slist *alias; /* CURLOPT_CONNECT_TO for tls-server-name, or NULL */
    char *server;             /* the beginning of URLs */
};

/* Prepares identity and address. Failures as hvd_kube_client_create; fini is legal afterwards. */
hvd_status_t hvd_kube_session_init(struct hvd_kube_session *session,
                                   const struct hvd_kube_config *config, struct hvd_err *err);

/* Wipes the token and frees. */
void hvd_kube_session_fini(struct hvd_kube_session *session);

/* Reads the token file again when its content may be older than a minute, or at once when forced.
 * True when the token changed. An unreadable file leaves the old token. */
bool hvd_kube_session_refresh(struct hvd_kube_session *session, int64_t now_ms, bool is_forced);

/* Sets all options of address, TLS, TCP and HTTP version on a new handle. */
CURLcode hvd_kube_session_apply(struct hvd_kube_session *session, CURL *easy);

/* Appends "Authorization: Bearer ..." when there is a token. False: out of memory. */
bool hvd_kube_session_add_auth(const struct hvd_kube_session *session, struct curl_slist **headers);

/* Milliseconds of the monotonic clock that advances while the machine is suspended. */
int64_t hvd_kube_session_now_ms(void);

#endif
