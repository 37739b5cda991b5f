#ifndef HVD_OPERATOR_KUBE_CODEC_H
#define HVD_OPERATOR_KUBE_CODEC_H

#include <cjson/cJSON.h>

#include "base/status.h"
#include "base/str.h"
#include "operator/api/picker.h"

/* The meaning of a line of a watch stream. */
typedef enum hvd_watch_event_type {
    HVD_WATCH_PUT,      /* ADDED or MODIFIED: the object as it is now */
    HVD_WATCH_REMOVE,   /* DELETED: the last state of the object */
    HVD_WATCH_BOOKMARK, /* only the resource version changed */
} hvd_watch_event_type_t;

struct hvd_watch_event {
    hvd_watch_event_type_t type;
    const cJSON *object;          /* within doc */
    const char *resource_version; /* within doc, never empty */
    cJSON *doc;                   /* the caller frees it with hvd_json_drop */
};

/*
 * Decodes the copy of one line (hvd_object_parse). On HVD_OK the caller drops out->doc; otherwise
 * *out is untouched: HVD_ERR_GONE (list again), HVD_ERR_UNAVAILABLE for other errors that the
 * server reports, HVD_ERR_INVALID for a line that is no watch event, HVD_ERR_NOMEM. err has the
 * reason.
 */
hvd_status_t hvd_kube_codec_watch(struct hvd_strview copy, struct hvd_watch_event *out,
                                  struct hvd_err *err);

/*
 * Feeds bytes of a watch stream, in pieces of any size, to a picker: each line is one text.
 * Failures as hvd_picker_feed; HVD_ERR_INVALID also for a truncated line. Empty lines are ignored.
 */
hvd_status_t hvd_kube_codec_feed(struct hvd_picker *picker, struct hvd_strview bytes);

/* A page of a list without its items, borrowed from its document. */
struct hvd_list_page {
    const char *resource_version; /* never empty */
    const char *continue_token;   /* "" on the last page */
};

/* Reads a list document. HVD_ERR_INVALID when it is no list; *out is untouched then. */
hvd_status_t hvd_kube_codec_list(const cJSON *doc, struct hvd_list_page *out, struct hvd_err *err);

#endif
