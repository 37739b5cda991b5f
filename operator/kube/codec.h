#ifndef HVD_OPERATOR_KUBE_CODEC_H
#define HVD_OPERATOR_KUBE_CODEC_H

#include <cjson/cJSON.h>

#include "base/status.h"
#include "base/str.h"
#include "operator/api/pick.h"

/* What a line of a watch stream says. */
typedef enum hvd_watch_event_type {
    HVD_WATCH_PUT,      /* ADDED or MODIFIED: the object as it is now */
    HVD_WATCH_REMOVE,   /* DELETED: the object as it was last */
    HVD_WATCH_BOOKMARK, /* only the resource version moved */
} hvd_watch_event_type_t;

struct hvd_watch_event {
    hvd_watch_event_type_t type;
    const cJSON *object;          /* within doc */
    const char *resource_version; /* within doc, never empty */
    cJSON *doc;                   /* the caller's, hvd_json_drop */
};

/*
 * Decodes one line; shape is what is read of it (pick.h), NULL: all. On HVD_OK the caller drops
 * out->doc; otherwise *out is untouched: HVD_ERR_GONE (list again), HVD_ERR_UNAVAILABLE for other
 * errors that the server reports, HVD_ERR_INVALID for a line that is no watch event. err says what
 * the server said.
 */
hvd_status_t hvd_watch_decode(struct hvd_strview line, const struct hvd_shape *shape,
                              struct hvd_watch_event *out, struct hvd_err *err);

/* A page of a list, borrowed from its document. */
struct hvd_list_page {
    const cJSON *items;           /* to be iterated over; empty for null */
    const char *resource_version; /* never empty */
    const char *continue_token;   /* "" on the last page */
};

/* Reads a list document. HVD_ERR_INVALID when it is none; *out is untouched then. */
hvd_status_t hvd_list_decode(const cJSON *doc, struct hvd_list_page *out, struct hvd_err *err);

#endif
