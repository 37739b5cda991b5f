#ifndef HVD_OPERATOR_CORE_PASS_PLAN_H
#define HVD_OPERATOR_CORE_PASS_PLAN_H

#include <cjson/cJSON.h>

#include "operator/core/view/view.h"

/* What a write sets: an object, or one of its fields (repair.h). */
enum hvd_repair {
    HVD_REPAIR_NONE,      /* not a write to an object */
    HVD_REPAIR_EXISTENCE, /* a creation, or a deletion */
    HVD_REPAIR_MASTER,    /* the same of the master's Job */
    HVD_REPAIR_LABELS,
    HVD_REPAIR_OWNER,      /* the reference to the job, as the controller */
    HVD_REPAIR_SELECTOR,   /* of the Service */
    HVD_REPAIR_UNREADY,    /* publishNotReadyAddresses of the Service */
    HVD_REPAIR_TYPE,       /* type of the Service, with its clusterIP */
    HVD_REPAIR_ADDRESS,    /* deletion of a Service that got an address */
    HVD_REPAIR_REPLICAS,   /* of a StatefulSet; with its template where it starts without pods */
    HVD_REPAIR_STRATEGY,   /* updateStrategy of a StatefulSet */
    HVD_REPAIR_ORDINALS,   /* of a StatefulSet */
    HVD_REPAIR_HOSTS,      /* data of the ConfigMap */
    HVD_REPAIR_IMMUTABLE,  /* deletion of a ConfigMap that was made immutable */
    HVD_REPAIR_HOSTS_SEEN, /* annotation of the master's pod */
    HVD_REPAIR_WORKERS,    /* annotation of the master's Job */
    HVD_REPAIR_SUSPEND,    /* suspend and parallelism of the master's Job */
    HVD_REPAIR_TTL,        /* ttlSecondsAfterFinished of the master's Job */
    HVD_REPAIR_DEADLINE,   /* activeDeadlineSeconds of it */
    HVD_REPAIR_BACKOFF,    /* backoffLimit of it */
    HVD_REPAIR_GANG,       /* spec of the PodGroup */
    HVD_REPAIR_END,        /* annotation of the ConfigMap */
    HVD_REPAIR_STATUS,     /* of the HorovodJob */
    HVD_N_REPAIRS,
};

#define HVD_REPAIR_ABSENT 0 /* values of a creation and a deletion */
#define HVD_REPAIR_PRESENT 1

enum hvd_action_type {
    HVD_ACTION_CREATE,        /* POST body, fieldValidation=Strict */
    HVD_ACTION_CREATE_SECRET, /* make a key pair, body from hvd_children_secret_encode (children.h),
                               * POST it
                               */
    HVD_ACTION_PATCH,        /* PATCH body, fieldValidation=Strict; content type by is_json_patch */
    HVD_ACTION_PATCH_STATUS, /* PATCH .../status of the HorovodJob, merge patch */
    HVD_ACTION_DELETE,  /* DELETE with body (DeleteOptions: uid precondition, propagation); 404 is
                           success */
    HVD_ACTION_LOCATE,  /* GET the Node of that name; body holds topology keys, and the answer is
                           found by view.places from then on */
    HVD_ACTION_EXPLAIN, /* ask the events about the object of that kind, name and uid (body): at
                           once an open HVD_FAILURE_NO_PODS; what hvd_explain_find reads in a list
                           is its message, also if it is nothing; a list that failed leaves it */
    HVD_ACTION_TRACE,   /* LIST the events about the Job of that name, which is gone; what
                           hvd_trace_find reads of those within the bounds in body becomes a failure,
                           likewise if nobody may list them (403) */
    HVD_ACTION_LOOK, /* GET the object of that kind and name: what is found takes its place in the
                        view, whatever its labels are; what is not is in view.gone from then on.
                        With a body: LIST  by that label selector, where name only names what was
                        looked for */
    HVD_ACTION_READ_SPEC, /* GET the HorovodJob: the text of its spec is in the view of the next
                             pass */
    HVD_ACTION_ATTRIBUTE, /* GET the object's metadata with its managedFields, for
                             hvd_repairs_attribute, which gets none if it is gone or denied; body
                             holds the keys that matter */
    HVD_ACTION_EVENT,     /* POST body; 409 is success: the name is derived from the occurrence */
};

/*
 * Preconditions (uid, resourceVersion) stand inside the bodies; a 409 Conflict of a patch or a
 * delete means that the cache is behind: read the object again (or await its watch event),
 * reconcile anew. A 404 of a patch likewise.
 */
struct hvd_action {
    enum hvd_action_type type;
    enum hvd_kind kind;
    char *namespace;        /* owned */
    char *name;             /* owned */
    char *body;             /* owned JSON text; NULL for CREATE_SECRET, may be for LOOK */
    enum hvd_repair repair; /* what a write sets, for hvd_repairs_note; of an event, if it is about
                               one, for hvd_repairs_announced */
    uint64_t value;         /* a hash of what it is set to; of such an event the record's key */
    enum hvd_question question; /* of EXPLAIN, with the time before which events do not count */
    int64_t since_s;
    bool is_template;   /* a patch with the job's own template: one that is invalid ends the job */
    bool is_json_patch; /* application/json-patch+json, else application/merge-patch+json */
    bool waits;         /* starts only when every action before it succeeded; others may overlap */
};

struct hvd_plan {
    struct hvd_action *actions; /* owned */
    size_t n_actions;
    int64_t wake_at_ms; /* reconcile again then; 0: only when something changes */
    size_t _capacity;
};

/* Frees the plan's actions and empties it. A zeroed struct is legal. */
void hvd_plan_fini(struct hvd_plan *plan);

/* Within operator/core only. Adding actions to a plan. All: HVD_ERR_NOMEM leaves the plan as it
 * was. */

/* Adds an action; body is taken over in every case and may be NULL after a failure of its maker. */
hvd_status_t hvd_plan_add(struct hvd_plan *plan, const struct hvd_action *action,
                          const char *namespace, const char *name);

/* Removes the action of that number; those behind it move up. */
void hvd_plan_remove(struct hvd_plan *plan, size_t at);

/* Puts the events, but for those about repairs, behind all other actions, which they wait for. */
void hvd_plan_defer_events(struct hvd_plan *plan);

/* Wakes at that time, or earlier if something else asks for it. */
void hvd_plan_wake(struct hvd_plan *plan, int64_t at_ms);

/* A write: the object, and what of it is set to what (repair.h). */
struct hvd_write {
    enum hvd_kind kind;
    const char *name;
    enum hvd_repair repair;
    uint64_t value;
};

/* Adds the deletion of an object, by uid; its dependents go in the background. */
hvd_status_t hvd_plan_delete(struct hvd_plan *plan, const struct hvd_write *write,
                             const char *namespace, const char *uid);

/* Adds the deletion of a pod without any grace period: its node does not answer. */
hvd_status_t hvd_plan_kill(struct hvd_plan *plan, const struct hvd_write *write,
                           const struct hvd_object *pod);

/* An event about the job. */
struct hvd_event {
    const char *reason;
    const char *message;
    bool is_warning;
    const char *key; /* what it tells of, once per attempt, however it is worded; NULL: the message
                        at this point of the job's life */
};

/*
 * Adds an event about the job at now_s. Its name is derived from what the job's persisted status
 * holds, so until the status that comes with the event is written, the same occurrence has the same
 * name.
 */
hvd_status_t hvd_plan_event(struct hvd_plan *plan, const struct hvd_job *job,
                            const struct hvd_event *event, int64_t now_s);

#endif
