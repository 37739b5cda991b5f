#ifndef HVD_TESTS_FAKE_APISERVER_STORE_H
#define HVD_TESTS_FAKE_APISERVER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <uthash.h>

#include "base/buf.h"
#include "tests/fake/apiserver/timers.h"

/* A kind that is served. */
struct fake_kind {
    const char *name;        /* "StatefulSet" */
    const char *api_version; /* "apps/v1" */
    const char *root;        /* "/apis/apps/v1" */
    const char *resource;    /* "statefulsets" */
    bool is_namespaced;
    bool has_status;      /* a subresource; writes to the object itself leave it alone */
    bool has_generation;  /* counts changes outside of metadata and status */
    bool is_custom;       /* defined by a CRD: lists name the kind of each item */
    bool returns_deleted; /* DELETE answers with the object, not with a Status */
};

enum { FAKE_N_KINDS = 13 };
extern const struct fake_kind fake_kinds[FAKE_N_KINDS];

/* The kind of this root and resource, or of this name; NULL when there is none. */
const struct fake_kind *fake_kind_at(const char *root, const char *resource);
const struct fake_kind *fake_kind_named(const char *api_version, const char *name);
const struct fake_kind *fake_kind_of_resource(const char *resource);

/* "horovodjobs.horovod.io", as messages say; static memory. */
const char *fake_kind_group_resource(const struct fake_kind *kind);

/* An object as it was at one resource version; never changed. Counted references. */
struct fake_version {
    unsigned n_refs;
    uint64_t number;
    const struct fake_kind *kind;
    char *key;     /* "namespace/name" */
    cJSON *doc;    /* without apiVersion and kind; only while it is the newest */
    cJSON *labels; /* may be NULL */
    char *text;    /* of doc */
    size_t len;
    char *meta; /* of doc.metadata, made when first asked for */
    size_t meta_len;
};

/* What happened to an object. */
struct fake_event {
    uint64_t number;
    struct fake_version *was; /* NULL: it was made */
    struct fake_version
        *now; /* of a deletion: the object as it was last, at the version of its end */
    bool is_deleted;
};

/* An object that exists. */
struct fake_object {
    UT_hash_handle hh; /* in its kind, by key */
    char *key;         /* "namespace/name" */
    const char *name;  /* in key */
    const struct fake_kind *kind;
    struct fake_version *now;
    struct fake_owner *owner;                    /* by the first owner reference; NULL: none */
    struct fake_object *prev, *next;             /* among the objects of that owner */
    struct fake_object *queue_prev, *queue_next; /* among those that controllers have to look at */
    bool is_queued;
    struct fake_timer timer; /* of the pod's kubelet */
    int stage;               /* how far that kubelet is */
    void *world;             /* for the timer */
};

/* All objects that name an uid as their first owner; it may be long gone. */
struct fake_owner {
    UT_hash_handle hh;
    char *uid;
    struct fake_object *objects;
};

struct fake_log {
    struct fake_event *events; /* owned, in order */
    size_t n;
    size_t capacity;
    uint64_t forgotten; /* all events up to this version */
};

/* Called after each change; of a deletion it is the last that is heard of the object. Must not
 * change objects. */
typedef void (*fake_changed_fn)(void *ctx, struct fake_object *object,
                                const struct fake_event *event);

struct fake_store {
    struct fake_object *objects[FAKE_N_KINDS];
    struct fake_owner *owners;
    struct fake_log logs[FAKE_N_KINDS];
    size_t max_events; /* a log forgets the older half when it has more */
    uint64_t number;   /* the newest resource version */
    uint64_t n_uids;
    fake_changed_fn changed;
    void *ctx;
};

/* The place of a kind in the arrays above. */
size_t fake_kind_index(const struct fake_kind *kind);

/* Frees all. */
void fake_store_fini(struct fake_store *store);

/* The object, or NULL. ns is NULL for kinds without namespaces. */
struct fake_object *fake_find(struct fake_store *store, const struct fake_kind *kind,
                              const char *ns, const char *name);

/* The objects whose first owner has this uid, as a list along next; NULL: none. */
struct fake_object *fake_children(struct fake_store *store, const char *uid);

/* Whether an object of that uid exists among the owners' kinds. */
bool fake_exists(struct fake_store *store, const char *api_version, const char *kind,
                 const char *ns, const char *name, const char *uid);

/*
 * Makes an object of a document that has metadata.name and, where the kind has one, namespace; the
 * document is taken. Fills uid, creationTimestamp, generation and resourceVersion.
 */
struct fake_object *fake_create(struct fake_store *store, const struct fake_kind *kind, cJSON *doc);

/*
 * Replaces the object's document; what users cannot change is kept as it was. part says what may
 * change: all but the status, or the status alone, or both. Nothing happens when nothing differs.
 * An object that is being deleted and has lost its last finalizer goes: false.
 */
enum fake_part { FAKE_PART_MAIN, FAKE_PART_STATUS, FAKE_PART_BOTH };
bool fake_update(struct fake_store *store, struct fake_object *object, cJSON *doc,
                 enum fake_part part);

/* Removes the object, whatever its finalizers. */
void fake_remove(struct fake_store *store, struct fake_object *object);

/* Forgets all events, so that watches from any older version are told 410. */
void fake_compact(struct fake_store *store);

/* References to a version. */
struct fake_version *fake_version_ref(struct fake_version *version);
void fake_version_unref(struct fake_version *version);

/* How an object stands in an answer. */
enum fake_form {
    FAKE_FORM_FULL,
    FAKE_FORM_ITEM, /* of a list: the kind is left out where the real server does */
    FAKE_FORM_META, /* PartialObjectMetadata */
};

/* Appends the object's text. */
void fake_version_put(struct hvd_buf *out, struct fake_version *version, enum fake_form form);

/* The text at a dotted path below metadata of the newest version; "" when there is none. */
const char *fake_meta(const struct fake_object *object, const char *key);

/* The number of objects of a kind. */
size_t fake_count(const struct fake_store *store, const struct fake_kind *kind);

#endif
