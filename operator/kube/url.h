#ifndef HVD_OPERATOR_KUBE_URL_H
#define HVD_OPERATOR_KUBE_URL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/status.h"
#include "operator/api/kind.h"

/* Which object or collection a URL names; unset parts are NULL. */
struct hvd_url_path {
    enum hvd_kind kind;
    const char *ns;          /* NULL: all namespaces */
    const char *name;        /* NULL: the collection */
    const char *subresource; /* "status" or NULL */
};

/*
 * Appends the URL path, every part percent-encoded:
 * "/apis/apps/v1/namespaces/ns/statefulsets/name". Failures as hvd_buf_add.
 */
hvd_status_t hvd_url_put_path(struct hvd_buf *out, const struct hvd_url_path *path);

/*
 * Appends "?key=value" or "&key=value" (the first of a URL when *first, which becomes false), the
 * value percent-encoded. Nothing when value is NULL or empty. Failures as hvd_buf_add.
 */
hvd_status_t hvd_url_put_query(struct hvd_buf *out, bool *first, const char *key,
                               const char *value);

#endif
