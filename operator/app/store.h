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
 * What the operator knows: for each job the decoded HorovodJob and the projections of the objects
 * filed under it by namespace and label. Children that no HorovodJob controls, and pods that no
 * StatefulSet or Job does, are filed only while their job is there; of such children only those
 * that have the name of one of the job's. The text of a spec is held only while a child may have to
 * be made of it, and of all jobs up to HVD_SPECS_MAX bytes (specs.h); beyond that, and of jobs at
 * rest, it is read when a pass needs it. Fed by watches and by the answers to our own writes; an
 * older version never replaces a newer one. One thread.
 */

/* A job, or the place where children without one are filed until it comes. */
struct hvd_entry {
    const char *key; /* "namespace/name" */
    struct hvd_index_node node;
    bool has_job;
    bool is_stale;              /* the version of the job is of a history that is no more */
    bool is_foreign_told;       /* the log says that the job has another manager */
    unsigned job_round;         /* the list in which the job was seen last */
    struct hvd_job job;         /* valid with has_job; owns nothing */
    struct hvd_spec_place spec; /* of the text of its spec, which is NULL while it is not held */
    void *job_block;            /* what the job would own but for that text */
    uint32_t job_size;
    uint32_t n_objects; /* so many records */
    uint32_t capacity;
    uint32_t n_failures;
    struct hvd_record **records;   /* of children and pods, in no order */
    struct hvd_failure *failures;  /* names and messages owned by the entry */
    struct hvd_entry *next_waiter; /* in the store's list of those that a foreign object blocks */
    struct hvd_entry **waiter_at;  /* what points to this one there; NULL: it is not in the list */
    struct hvd_gone *gone;         /* names owned by the entry */
    uint32_t n_gone;
    uint32_t gone_room;         /* so many have room */
    struct hvd_repairs repairs; /* what was written to the job and its objects lately; like what is
                                   gone it lies in the store's slab */
    cJSON *lost; /* owned: of the status, what the API server does not keep; NULL: nothing */
    int64_t status_written_ms; /* the server's time; 0: never by us */
    int32_t free_port;         /* kept for the job until its status shows it; 0: none */
    int32_t held_port;         /* what jobports.c has last found: that one, or the job's; 0: none */
    int64_t event_us;          /* monotonic time of the first event not acted on; 0: none */
    struct hvd_unrest unrest;  /* plans in a row that were not empty */
    struct hvd_queue_item item;
    struct hvd_permit permit; /* of its plans */
    char _texts[];            /* namespace, name and key */
};

/* Called when an entry has changed. */
typedef void (*hvd_store_changed_fn)(void *ctx, struct hvd_entry *entry);

/* Called when a version of a job replaces an older one of it. Both are borrowed. */
typedef void (*hvd_store_replaced_fn)(void *ctx, const struct hvd_job *before,
                                      const struct hvd_job *after);

struct hvd_store {
    struct hvd_slab slab;              /* where the records are */
    struct hvd_specs specs;            /* the texts that are held */
    struct hvd_object found;           /* what hvd_store_find told last */
    struct hvd_index entries;          /* by namespace and name */
    struct hvd_index records;          /* of children and pods, by kind, namespace and name */
    struct hvd_queue *queue;           /* in which every entry has its room; borrowed */
    struct hvd_node_topology topology; /* of nodes */
    struct hvd_entry *waiters;         /* jobs that a foreign object blocks, or blocked lately */
    unsigned rounds[HVD_N_KINDS];
    unsigned long long told[HVD_N_KINDS]; /* the version up to which the watch has told all */
    struct hvd_doubts doubts;             /* jobs that an answer called gone */
    size_t n_by_state[HVD_N_JOB_STATES];
    size_t n_starting; /* jobs of ours that have begun and do not run */
    size_t n_stray;    /* objects that are filed without their job */
    /* Set by the owner while it looks at every entry that changes: a worker that failed and went
     * stays with its job until it was looked at, though hvd_store_find does not find it. */
    bool keeps_ends;
    hvd_store_changed_fn changed;
    hvd_store_replaced_fn replaced; /* set by the owner; may be NULL */
    void *ctx;
};

/* An empty store that tells changed(ctx) about every change. Allocates nothing. */
void hvd_store_init(struct hvd_store *store, struct hvd_queue *queue, hvd_store_changed_fn changed,
                    void *ctx);

/* Frees all of it. A zeroed store is legal. */
void hvd_store_fini(struct hvd_store *store);

/*
 * Takes in an object as a list or a watch told it. Silent when it is the version that is known, or
 * an older one. Failures as hvd_observe and hvd_job_decode; the store is unchanged then.
 */
hvd_status_t hvd_store_put(struct hvd_store *store, enum hvd_kind kind, const cJSON *object,
                           struct hvd_err *err);

/*
 * Takes in the answer to a request of ours, likewise. An answer may come later than the watch event
 * of the object's end: one that is not newer than what the watch has told, about an object that is
 * not known, or that is doubtful, is about one that is gone, and changes nothing.
 */
hvd_status_t hvd_store_put_answer(struct hvd_store *store, enum hvd_kind kind, const cJSON *object,
                                  struct hvd_err *err);

/* Takes in the answer to the creation of a child of the entry's job likewise: it is the job's, and
 * is filed as such, also where it came without its owner reference or its labels. */
hvd_status_t hvd_store_put_made(struct hvd_store *store, const struct hvd_entry *entry,
                                enum hvd_kind kind, const cJSON *object, struct hvd_err *err);

/* Takes in the answer to a status patch with that body likewise; what it lacks of the body stays
 * with the entry, and counts as a part of each version of the job. */
hvd_status_t hvd_notes_put_status(struct hvd_store *store, struct hvd_entry *entry,
                                  const char *sent, const cJSON *object, struct hvd_err *err);

/* Takes in the answer to HVD_ACTION_READ_SPEC likewise, and the text of the spec stays until the
 * next plan of the job is made. */
hvd_status_t hvd_store_put_spec(struct hvd_store *store, const cJSON *object, struct hvd_err *err);

/* The plan of the entry's job is made: the text of its spec may be given up. */
void hvd_specs_planned(struct hvd_store *store, struct hvd_entry *entry);

/* Whether this version of the object is the one that is known. */
bool hvd_store_knows(struct hvd_store *store, enum hvd_kind kind, const cJSON *object);

/* The watch of the kind has told all up to this version: of a list, or of an object that went. */
void hvd_store_told(struct hvd_store *store, enum hvd_kind kind, const char *version);

/*
 * A watch says that the object of this name and uid was deleted: going tells whether it had a
 * deletion timestamp then. A child or pod of a job that has none may have lost the label that the
 * watch selects by: it stays, as one to be looked for, unless its end was to be expected.
 */
void hvd_store_miss(struct hvd_store *store, enum hvd_kind kind, const char *ns, const char *name,
                    const char *uid, bool is_deleting);

/* Forgets the object of this name if its uid is the one given (NULL: whatever it is). */
void hvd_store_remove(struct hvd_store *store, enum hvd_kind kind, const char *ns, const char *name,
                      const char *uid);

/* All that is filed under the entry has been looked at, and acted on: frees what went before, which
 * is a change if there was any. */
void hvd_store_looked(struct hvd_store *store, struct hvd_entry *entry);

/* The server is back at an older version: what comes next of each object of the kind is taken,
 * whatever its version. */
void hvd_store_rewind(struct hvd_store *store, enum hvd_kind kind);

/* A complete list of the kind begins: what is not put before end is missed there. */
void hvd_store_begin(struct hvd_store *store, enum hvd_kind kind);
void hvd_store_end(struct hvd_store *store, enum hvd_kind kind);

/* The projection of an object; NULL when it is not known. Borrowed until the next change, or the
 * next call. */
const struct hvd_object *hvd_store_find(struct hvd_store *store, enum hvd_kind kind, const char *ns,
                                        const char *name);

/* The projections of all objects of the entry, n_objects of them: one block, the caller's to
 * hvd_free; what they say is borrowed until the next change. NULL: out of memory. */
const struct hvd_object **hvd_store_entry_objects(const struct hvd_entry *entry);

/* Whether one of them is of that kind. */
bool hvd_store_entry_has(const struct hvd_entry *entry, enum hvd_kind kind);

typedef bool (*hvd_entry_is_one_fn)(const struct hvd_object *object);

/* Whether is_one is true for one of them. */
bool hvd_store_entry_any(const struct hvd_entry *entry, hvd_entry_is_one_fn is_one);

/* Whether so many pods of the entry's job are Ready as its master waits for, whatever their group.
 */
bool hvd_store_entry_may_start(const struct hvd_entry *entry);

/* Gathers the records in as few pages as they need, and forgets writes that count no more at
 * now_ms (the server's time). */
void hvd_store_tidy(struct hvd_store *store, int64_t now_ms);

/* Objects that are filed without their job: more are no job's, but somebody made them look so. */
#define HVD_STORE_STRAYS_MAX 10000

/*
 * Forgets what is filed without a job when there is more of it than that; a job that comes later
 * finds its own by name. While nothing is being done about any entry (may_free), frees all that
 * hold nothing any more: while this operator does not lead, nobody else does.
 */
void hvd_store_sweep(struct hvd_store *store, bool may_free);

/* The first entry (NULL), and the one after; NULL at the end. Nothing may be added meanwhile. */
struct hvd_entry *hvd_store_next(const struct hvd_store *store, struct hvd_entry *entry);

/* The entry of a queue item. */
struct hvd_entry *hvd_store_entry_of(struct hvd_queue_item *item);

/* Of one job so much is remembered. A webhook, or a name that somebody makes up, may produce more:
 * the oldest is forgotten then, which costs a request that fails, or that finds nothing, once more.
 */
#define HVD_ENTRY_FAILURES_MAX 64
#define HVD_ENTRY_GONE_MAX 256
#define HVD_ENTRY_MESSAGE_MAX 1024 /* bytes of a failure's message, as of a condition's */

/* Remembers the latest failure of a child; failure's strings are copied, the message cut.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_notes_set_failure(struct hvd_entry *entry, const struct hvd_failure *failure);

/* Likewise, and a failure of type FOREIGN ends as soon as the watch shows that the object of that
 * name was removed. HVD_ERR_NOMEM. */
hvd_status_t hvd_waiters_set_failure(struct hvd_store *store, struct hvd_entry *entry,
                                     const struct hvd_failure *failure);

/* An object of that name was removed: drops the failures of type FOREIGN that name it, and reports
 * each of their jobs as changed. Costs a look at each job that waits so, and none without any. */
void hvd_waiters_wake(struct hvd_store *store, enum hvd_kind kind, const char *ns,
                      const char *name);

/* The entry, which is about to be freed, waits for no object. */
void hvd_waiters_unlink(struct hvd_entry *entry);

/* The failure of that child; NULL: none. Borrowed until the next change. */
struct hvd_failure *hvd_notes_failure(const struct hvd_entry *entry, enum hvd_kind kind,
                                      const char *name);

/* Forgets the failure of that child. */
void hvd_notes_drop_failure(struct hvd_entry *entry, enum hvd_kind kind, const char *name);

/* Forgets what was asked about the object of that uid (NULL: nothing). */
void hvd_notes_drop_answer(struct hvd_entry *entry, const char *uid);

/* Forgets all failures; but for those that were denied, which another spec may be, too. */
void hvd_notes_drop_failures(struct hvd_entry *entry);
void hvd_notes_drop_failures_of_spec(struct hvd_entry *entry);

/* Forgets what the API server did not keep of the status. */
void hvd_notes_drop_lost(struct hvd_entry *entry);

/* An object of the entry's job is gone for sure, until one of that name appears. HVD_ERR_NOMEM. */
hvd_status_t hvd_notes_note_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name);

/* One of that name has appeared. */
void hvd_notes_unnote_gone(struct hvd_entry *entry, enum hvd_kind kind, const char *name);

/* Forgets all that is gone. */
void hvd_notes_drop_gone(struct hvd_entry *entry);

/* Frees an entry that holds neither a job nor objects. True when it is gone. */
bool hvd_store_collect(struct hvd_store *store, struct hvd_entry *entry);

#endif
