#ifndef HVD_OPERATOR_APP_STORE_H
#define HVD_OPERATOR_APP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/slab.h"
#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/app/doubts.h"
#include "operator/app/index.h"
#include "operator/app/node_topology.h"
#include "operator/app/permits.h"
#include "operator/app/queue.h"
#include "operator/app/specs.h"
#include "operator/app/unrest.h"
#include "operator/core/view/view.h"
#include "operator/core/writes/repair.h"

/*
 * The operator's knowledge: for each job the decoded HorovodJob and the projections of the objects
 * filed under it by namespace and label. Children that no HorovodJob controls, and pods that no
 * StatefulSet or Job controls, are filed only while their job exists. Of such children only those
 * with the name of one of the job's are filed. The text of a spec is held only while a child may
 * have to be made from it. All jobs together hold up to HVD_SPECS_MAX bytes of them (specs.h).
 * Otherwise a pass that needs a text reads it. Fed by watches and by the answers to our own writes;
 * an older version never replaces a newer one. One thread.
 */

/* A job, or the place where children without one are filed until it comes. */
struct hvd_entry {
    const char *key; /* "namespace/name" */
    struct hvd_index_node node;
    bool has_job;
    bool is_stale;              /* the version of the job belongs to a history that the server
                                   has lost */
    bool is_foreign_told;       /* the log has the line about the job's other manager */
    unsigned job_round;         /* the list in which the job was last seen */
    struct hvd_job job;         /* valid with has_job; owns nothing */
    struct hvd_spec_place spec; /* of the text of its spec, which is NULL while it is not held */
    void *job_block;            /* what the job would own except for that text */
    uint32_t job_size;
    uint32_t n_objects; /* number of records */
    uint32_t capacity;
    uint32_t n_failures;
    struct hvd_record **records;   /* of children and pods, unordered */
    struct hvd_failure *failures;  /* names and messages owned by the entry */
    struct hvd_entry *next_waiter; /* in the store's list of jobs that a foreign object blocks */
    struct hvd_entry **waiter_at;  /* the link to this one there; NULL: it is not in the list */
    struct hvd_gone *gone;         /* names owned by the entry */
    uint32_t n_gone;
    uint32_t gone_room;         /* capacity */
    struct hvd_repairs repairs; /* recent writes to the job and its objects; like gone, it lies
                                   in the store's slab */
    cJSON *lost; /* owned: fields of the status that the API server does not keep; NULL: none */
    int64_t status_written_ms; /* the server's time; 0: not by this process */
    int32_t free_port;         /* kept for the job until its status shows it; 0: none */
    int32_t held_port;         /* the last result of jobports.c: that one, or the job's; 0: none */
    int64_t event_us;          /* monotonic time of the first unprocessed event; 0: none */
    struct hvd_unrest unrest;  /* consecutive plans that were not empty */
    struct hvd_queue_item item;
    struct hvd_permit permit; /* of its plans */
    char _texts[];            /* namespace, name and key */
};

/* Called when an entry has changed. */
typedef void (*hvd_store_changed_fn)(void *ctx, struct hvd_entry *entry);

/* Called when a version of a job replaces an older one. Both are borrowed. */
typedef void (*hvd_store_replaced_fn)(void *ctx, const struct hvd_job *before,
                                      const struct hvd_job *after);

struct hvd_store {
    struct hvd_slab slab;              /* memory of the records */
    struct hvd_specs specs;            /* the texts in memory */
    struct hvd_object found;           /* the last result of hvd_store_find */
    struct hvd_index entries;          /* by namespace and name */
    struct hvd_index records;          /* of children and pods, by kind, namespace and name */
    struct hvd_queue *queue;           /* which has room for every entry; borrowed */
    struct hvd_node_topology topology; /* of nodes */
    struct hvd_entry *waiters;         /* jobs that a foreign object blocks, or recently blocked */
    unsigned rounds[HVD_N_KINDS];
    unsigned long long told[HVD_N_KINDS]; /* the version up to which the watch has reported
                                             everything */
    struct hvd_doubts doubts;             /* jobs that an answer reported as gone */
    size_t n_by_state[HVD_N_JOB_STATES];
    size_t n_starting; /* our jobs that have begun and do not run yet */
    size_t n_stray;    /* objects that are filed without their job */
    /* The owner sets this while it looks at every entry that changes. Then a worker that failed and
     * is gone stays with its job until a look at the entry, though hvd_store_find does not find
     * it. */
    bool keeps_ends;
    hvd_store_changed_fn changed;
    hvd_store_replaced_fn replaced; /* set by the owner; may be NULL */
    void *ctx;
};

/* Initialises an empty store that calls changed(ctx) for every change. Allocates nothing. */
void hvd_store_init(struct hvd_store *store, struct hvd_queue *queue, hvd_store_changed_fn changed,
                    void *ctx);

/* Frees all of it. A zeroed store is legal. */
void hvd_store_fini(struct hvd_store *store);

/*
 * Takes an object from a list or a watch. Ignores the known version and older ones. Failures as
 * hvd_observe and hvd_job_decode; the store is unchanged then.
 */
hvd_status_t hvd_store_put(struct hvd_store *store, enum hvd_kind kind, const cJSON *object,
                           struct hvd_err *err);

/*
 * Takes the answer to our own request, likewise. An answer may come later than the watch event of
 * the object's end. It changes nothing if it is no newer than the reports of the watch, and the
 * object is unknown or doubtful: then the object is gone.
 */
hvd_status_t hvd_store_put_answer(struct hvd_store *store, enum hvd_kind kind, const cJSON *object,
                                  struct hvd_err *err);

/* Takes the answer to the creation of a child of the entry's job, likewise. It is filed as the
 * job's, even if it came without its owner reference or its labels. */
hvd_status_t hvd_store_put_made(struct hvd_store *store, const struct hvd_entry *entry,
                                enum hvd_kind kind, const cJSON *object, struct hvd_err *err);

/* Takes the answer to a status patch with that body, likewise. The fields that it lacks stay with
 * the entry, and are added to each version of the job. */
hvd_status_t hvd_notes_put_status(struct hvd_store *store, struct hvd_entry *entry,
                                  const char *sent, const cJSON *object, struct hvd_err *err);

/* Takes the answer to HVD_ACTION_READ_SPEC, likewise; the text of the spec stays until the next
 * plan of the job is made. */
hvd_status_t hvd_store_put_spec(struct hvd_store *store, const cJSON *object, struct hvd_err *err);

/* The plan of the entry's job is made: the text of its spec may be dropped. */
void hvd_specs_planned(struct hvd_store *store, struct hvd_entry *entry);

/* Whether this version of the object is the known one. */
bool hvd_store_knows(struct hvd_store *store, enum hvd_kind kind, const cJSON *object);

/* The watch of the kind has reported everything up to this version: of a list, or of a removed
 * object. */
void hvd_store_told(struct hvd_store *store, enum hvd_kind kind, const char *version);

/*
 * The watch reports the deletion of the object of this name and uid. is_deleting: it had a deletion
 * timestamp then. A child or pod of a job without one may only have lost the label that the watch
 * selects by. So it stays, to be looked up, unless its end was expected.
 */
void hvd_store_miss(struct hvd_store *store, enum hvd_kind kind, const char *ns, const char *name,
                    const char *uid, bool is_deleting);

/* Forgets the object of this name if it has this uid (NULL: any). */
void hvd_store_remove(struct hvd_store *store, enum hvd_kind kind, const char *ns, const char *name,
                      const char *uid);

/* The entry's objects were all processed: frees those that are gone, which counts as a change. */
void hvd_store_looked(struct hvd_store *store, struct hvd_entry *entry);

/* The server is back at an older version: the next version of each object of the kind is accepted,
 * whatever it is. */
void hvd_store_rewind(struct hvd_store *store, enum hvd_kind kind);

/* A complete list of the kind begins: objects without a put before end are missed then. */
void hvd_store_begin(struct hvd_store *store, enum hvd_kind kind);
void hvd_store_end(struct hvd_store *store, enum hvd_kind kind);

/* The projection of an object; NULL when it is unknown. Borrowed until the next change, or the next
 * call. */
const struct hvd_object *hvd_store_find(struct hvd_store *store, enum hvd_kind kind, const char *ns,
                                        const char *name);

/* The projections of all objects of the entry, n_objects of them: one block, the caller's to
 * hvd_free. Their contents are borrowed until the next change. NULL: out of memory. */
const struct hvd_object **hvd_store_entry_objects(const struct hvd_entry *entry);

/* Whether one of them is of that kind. */
bool hvd_store_entry_has(const struct hvd_entry *entry, enum hvd_kind kind);

typedef bool (*hvd_entry_is_one_fn)(const struct hvd_object *object);

/* Whether is_one is true for one of them. */
bool hvd_store_entry_any(const struct hvd_entry *entry, hvd_entry_is_one_fn is_one);

/* Whether as many pods of the entry's job are Ready as its master waits for, in any groups. */
bool hvd_store_entry_may_start(const struct hvd_entry *entry);

/* Moves the records to as few pages as possible, and forgets writes that no longer count at now_ms
 * (the server's time). */
void hvd_store_tidy(struct hvd_store *store, int64_t now_ms);

/* Limit of objects that are filed without their job: more of them belong to no job, and were made
 * to look so. */
#define HVD_STORE_STRAYS_MAX 10000

/*
 * Forgets the objects without a job when there are more than that; a job that comes later finds its
 * own by name. While no entry is in use (may_free), frees all empty entries: an operator that does
 * not lead has no other occasion.
 */
void hvd_store_sweep(struct hvd_store *store, bool may_free);

/* The first entry (NULL), and the one after; NULL at the end. Nothing may be added meanwhile. */
struct hvd_entry *hvd_store_next(const struct hvd_store *store, struct hvd_entry *entry);

/* The entry of a queue item. */
struct hvd_entry *hvd_store_entry_of(struct hvd_queue_item *item);

/* The most failures, and the most names, that one job keeps. A webhook, or a made-up name, may
 * produce more. Then the oldest is forgotten, which costs one more request that fails or finds
 * nothing. */
#define HVD_ENTRY_FAILURES_MAX 64
#define HVD_ENTRY_GONE_MAX 256
#define HVD_ENTRY_MESSAGE_MAX 1024 /* of a failure's message, as of a condition's */

/* Stores the latest failure of a child; copies failure's strings, and cuts the message.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_notes_set_failure(struct hvd_entry *entry, const struct hvd_failure *failure);

/* Likewise; a failure of type FOREIGN ends as soon as the watch reports the removal of the object
 * of that name. HVD_ERR_NOMEM. */
hvd_status_t hvd_waiters_set_failure(struct hvd_store *store, struct hvd_entry *entry,
                                     const struct hvd_failure *failure);

/* An object of that name was removed: drops the failures of type FOREIGN that name it, and reports
 * each of their jobs as changed. Looks only at jobs that wait so. */
void hvd_waiters_wake(struct hvd_store *store, enum hvd_kind kind, const char *ns,
                      const char *name);

/* Removes an entry that is about to be freed from the waiting jobs. */
void hvd_waiters_unlink(struct hvd_entry *entry);

/* The failure of that child; NULL: none. Borrowed until the next change. */
struct hvd_failure *hvd_notes_failure(const struct hvd_entry *entry, enum hvd_kind kind,
                                      const char *name);

/* Forgets the failure of that child. */
void hvd_notes_drop_failure(struct hvd_entry *entry, enum hvd_kind kind, const char *name);

/* Forgets the answer about the object of that uid (NULL: nothing). */
void hvd_notes_drop_answer(struct hvd_entry *entry, const char *uid);

/* Forgets all failures; _of_spec keeps denied writes, because another spec may be denied, too. */
void hvd_notes_drop_failures(struct hvd_entry *entry);
void hvd_notes_drop_failures_of_spec(struct hvd_entry *entry);

/* Forgets the lost fields of the status. */
void hvd_notes_drop_lost(struct hvd_entry *entry);

/* Records that an object of the entry's job is certainly gone, until one of that name appears.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_notes_note_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name);

/* Forgets that: an object of that name has appeared. */
void hvd_notes_unnote_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name);

/* Forgets all of them. */
void hvd_notes_drop_gone(struct hvd_entry *entry);

/* Frees an entry without a job and objects. True when it is gone. */
bool hvd_store_collect(struct hvd_store *store, struct hvd_entry *entry);

#endif
