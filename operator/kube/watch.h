#ifndef HVD_OPERATOR_KUBE_WATCH_H
#define HVD_OPERATOR_KUBE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/log.h"
#include "operator/kube/api.h"

/*
 * Reports all objects of one resource, and their changes, to a handler: list, then watch, for ever.
 *
 *            +--------- 410 Gone, or garbage ------------+
 *            v                                           |
 *   WAIT -> LIST page by page -> WATCH from its version -+-> WATCH from the last version seen
 *    ^        |                                          |   (stream ended or timed out)
 *    +--------+--------- any other error: backoff -------+
 *                                                        +-> PROBE (stream broke, was refused, or
 *                                                            was silent for 90 s): LIST of one
 *                                                            object, then WATCH, or LIST
 *
 * A server whose etcd was restored from a backup is at an older version than it sent before. A
 * watch from the known version on is silent then. The probe and the list detect it, and the
 * handler's rewind is called: its objects may be newer than the server's.
 *
 * A page that is too large, or late, is requested again with half as many objects, down to one.
 * Then pages grow again.
 */

/*
 * Receives objects with the fields in hvd_shape_of_kind. An object that could not be read entirely
 * has fewer, and HVD_PICK_UNREADABLE. Called from within the client: must not send requests. All
 * borrowed.
 */
struct hvd_watch_handler {
    void *ctx;
    /* A list begins: objects without a put before end are gone. */
    void (*begin)(void *ctx, enum hvd_kind kind);
    void (*put)(void *ctx, enum hvd_kind kind, const cJSON *object);
    void (*remove)(void *ctx, enum hvd_kind kind, const cJSON *object);
    /* The list is complete as of that version. */
    void (*end)(void *ctx, enum hvd_kind kind, const char *version);
    /* Before begin: the known versions of the kind belong to a history that the server has lost, so
     * a lower version may be newer. May be NULL. */
    void (*rewind)(void *ctx, enum hvd_kind kind);
};

struct hvd_watch_options {
    const struct hvd_kube_api *api; /* borrowed, like all pointers here, for the watch's life */
    enum hvd_kind kind;
    const char *ns;             /* NULL: all namespaces */
    const char *label_selector; /* NULL: all objects */
    const char *field_selector; /* NULL: all objects */
    bool is_metadata_only;      /* PartialObjectMetadata: the server sends no contents */
    unsigned page_limit;        /* objects per page; 0: the default */
    uint32_t seed;              /* for jitter */
    struct hvd_watch_handler handler;
    const struct hvd_log *log;
};

struct hvd_watch;

/* *out is the caller's to destroy. Nothing is sent before the first step. HVD_ERR_NOMEM. */
hvd_status_t hvd_watch_create(const struct hvd_watch_options *options, struct hvd_watch **out,
                              struct hvd_err *err);

/* Cancels the request under way and frees. NULL is legal. Not from within a handler. */
void hvd_watch_destroy(struct hvd_watch *watch);

/*
 * Sends what is due at now_ms (any monotonic clock). Returns when it is due again: while it
 * watches, the time at which the stream counts as silent; while it waits for a list, INT64_MAX.
 */
int64_t hvd_watch_step(struct hvd_watch *watch, int64_t now_ms);

/* Ends the stream, and lists at the next step because the known objects may be wrong. Not from a
 * handler. */
void hvd_watch_relist(struct hvd_watch *watch);

/* Whether, since the last call, this watch has noticed that the server is at an older version. */
bool hvd_watch_take_gone_back(struct hvd_watch *watch);

/* Lists anew because the watch of another kind noticed an older version. Not from a handler. */
void hvd_watch_rewind(struct hvd_watch *watch);

/* Whether a list has been completed once. */
bool hvd_watch_is_synced(const struct hvd_watch *watch);

/* The health of a watch as of its last step. Times are those that step was given. */
struct hvd_watch_health {
    bool is_synced;      /* a list has been completed once */
    bool is_missing;     /* the server does not know the resource */
    bool is_open;        /* the server has accepted the watch and the stream has not ended */
    int64_t changed_ms;  /* when is_open became what it is */
    int64_t received_ms; /* when anything last arrived, bookmarks included; 0: never */
    uint64_t n_silences; /* streams that were given up because nothing arrived for 90 s */
    unsigned n_cuts;     /* streams that ended too early, as when a definition is removed */
    const char *problem; /* what ended it last; "" if nothing did. Borrowed until the next step */
};

/* The health as it is now. */
struct hvd_watch_health hvd_watch_health(const struct hvd_watch *watch);

#endif
