/*
 * Builds the URLs of objects and collections. Pure. Every foreign text (names, selectors, continue
 * tokens) is percent-encoded here, once.
 */
#include "operator/kube/url.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static hvd_status_t put_escaped(struct hvd_buf *out, const char *s)
{
    hvd_status_t st = HVD_OK;

    for (; *s && st == HVD_OK; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x80 && (isalnum(c) || strchr("-._~", c)))
            st = hvd_buf_add(out, s, 1);
        else
            st = hvd_buf_printf(out, "%%%02X", c);
    }
    return st;
}

/* Appends "/label" and "/value". The label is a literal, so that parts are never mixed up. */
static hvd_status_t put_part(struct hvd_buf *out, const char *prefix, const char *value)
{
    hvd_status_t st;

    if (!value)
        return HVD_OK;
    st = hvd_buf_puts(out, prefix);
    return st == HVD_OK ? put_escaped(out, value) : st;
}

hvd_status_t hvd_url_put_path(struct hvd_buf *out, const struct hvd_url_path *path)
{
    const struct hvd_kind_info *info = hvd_kind_info(path->kind);
    hvd_status_t st;

    st = hvd_buf_puts(out, info->root);
    if (st == HVD_OK)
        st = put_part(out, "/namespaces/", path->ns);
    if (st == HVD_OK)
        st = put_part(out, "/", info->resource);
    if (st == HVD_OK)
        st = put_part(out, "/", path->name);
    if (st == HVD_OK)
        st = put_part(out, "/", path->subresource);
    return st;
}

hvd_status_t hvd_url_put_query(struct hvd_buf *out, bool *first, const char *key, const char *value)
{
    hvd_status_t st;

    if (!value || !*value)
        return HVD_OK;
    st = hvd_buf_printf(out, "%c%s=", *first ? '?' : '&', key);
    *first = false;
    return st == HVD_OK ? put_escaped(out, value) : st;
}
