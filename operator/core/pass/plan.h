#ifndef HVD_OPERATOR_CORE_PASS_PLAN_H
#define HVD_OPERATOR_CORE_PASS_PLAN_H

#include <cjson/cJSON.h>

#include "operator/core/view/view.h"

/* The target of a write: an object, or one of its fields (repair.h). */
enum hvd_repair {
    HVD_REPAIR_NONE,      /* not a write to an object */
    HVD_REPAIR_EXISTENCE, /* a creation, or a deletion */
    HVD_REPAIR_MASTER,    /* the same for the master's Job */
    HVD_REPAIR_LABELS,
    HVD_REPAIR_OWNER,      /* the reference to the job, as the controller */
    HVD_REPAIR_SELECTOR,   /* of the Service */
    HVD_REPAIR_UNREADY,    /* publishNotReadyAddresses of the Service */
    HVD_REPAIR_TYPE,       /* type of the Service, with its clusterIP */
    HVD_REPAIR_ADDRESS,    /* deletion of a Service that received an address */
    HVD_REPAIR_REPLICAS,   /* of a StatefulSet; with its template if it starts without pods */
    HVD_REPAIR_STRATEGY,   /* updateStrategy of a StatefulSet */
    HVD_REPAIR_ORDINALS,   /* of a StatefulSet */
    HVD_REPAIR_HOSTS,      /* data of the ConfigMap */
    HVD_REPAIR_IMMUTABLE,  /* deletion of a ConfigMap that was made immutable */
    HVD_REPAIR_HOSTS_SEEN, /* annotation of the master's pod */
    HVD_REPAIR_WORKERS,    /* annotation of the master's Job */
    HVD_REPAIR_SUSPEND,    /* suspend and parallelism of the master's Job */
    HVD_REPAIR_TTL,        /* ttlSecondsAfterFinished of the master's Job */
    HVD_REPAIR_DEADLINE,   /* its activeDeadlineSeconds */
    HVD_REPAIR_BACKOFF,    /* its backoffLimit */
    HVD_REPAIR_GANG,       /* spec of the PodGroup */
    HVD_REPAIR_END,        /* annotation of the ConfigMap */
    HVD_REPAIR_STATUS,     /* of the HorovodJob */
    HVD_N_REPAIRS,
};

#define HVD_REPAIR_ABSENT 0 /* values of a creation and a deletion */
#define HVD_REPAIR_PRESENT 1

enum hvd_action_type {
    HVD_ACTION_CREATE,        /* POST body, fieldValidation=Strict */
    HVD_ACTION_CREATE_SECRET, /* create a key pair and the body (hvd_children_secret_encode,
                                 children.h), POST it */
    HVD_ACTION_PATCH,        /* PATCH body, fieldValidation=Strict; content type by is_json_patch */
    HVD_ACTION_PATCH_STATUS, /* PATCH .../status of the HorovodJob, merge patch */
    HVD_ACTION_DELETE,    /* DELETE with body (DeleteOptions: uid precondition, propagation); 404 is
                             success */
    HVD_ACTION_LOCATE,    /* GET the Node of that name; body holds topology keys, and view.places
                             finds the answer from then on */
    HVD_ACTION_EXPLAIN,   /* read the events about the object of that kind, name and uid (body).
                             Opens an HVD_FAILURE_NO_PODS at once; the result of hvd_explain_find
                             in a list becomes its message, even an empty one; a failed list
                             leaves it open */
    HVD_ACTION_TRACE,     /* LIST the events about the Job of that name, which is gone; the result
                             of hvd_trace_find within the bounds in body becomes a failure, also
                             if the list is forbidden (403) */
    HVD_ACTION_LOOK,      /* GET the object of that kind and name. One that exists enters the view,
                             whatever its labels; one that does not is in view.gone from then on.
                             With a body: LIST by that label selector; name then only names the
                             search */
    HVD_ACTION_READ_SPEC, /* GET the HorovodJob: the next pass has the text of its spec in the
                             view */
    HVD_ACTION_ATTRIBUTE, /* GET the object's metadata with its managedFields, for
                             hvd_repairs_attribute, which gets none if the object is gone or the
                             read is denied; body holds the relevant keys */
    HVD_ACTION_EVENT,     /* POST body; 409 is success: the name is derived from the occurrence */
};

/*
 * Preconditions (uid, resourceVersion) are part of the bodies. A 409 Conflict of a patch or a
 * delete means that the cache is behind: read the object again (or await its watch event) and
 * reconcile anew. Likewise for a 404 of a patch.
 */
struct hvd_action {
    enum hvd_action_type type;
    enum hvd_kind kind;
    char *namespace;            /* owned */
    char *name;                 /* owned */
    char *body;                 /* owned JSON text; NULL for CREATE_SECRET, may be for LOOK */
    enum hvd_repair repair;     /* the target of a write, for hvd_repairs_note; of an event about
                                   one, for hvd_repairs_announced */
    uint64_t value;             /* a hash of the new value; of such an event the record's key */
    enum hvd_question question; /* of EXPLAIN, with the time from which events count */
    int64_t since_s;
    bool is_template;   /* a patch with the job's own template: an invalid one ends the job */
    bool is_json_patch; /* application/json-patch+json, else application/merge-patch+json */
    bool waits;         /* starts only when every earlier action succeeded; others may overlap */
};

struct hvd_plan {
    struct hvd_action *actions; /* owned */
    size_t n_actions;
    int64_t wake_at_ms; /* next reconcile; 0: only after a change */
    size_t _capacity;
};

/* Frees the plan's actions and empties it. A zeroed struct is legal. */
void hvd_plan_fini(struct hvd_plan *plan);

/* Within operator/core only. Adds actions to a plan. All functions: HVD_ERR_NOMEM leaves the plan
 * unchanged. */

/* Adds an action. Takes ownership of body in every case; body may be NULL after a failure of its
 * maker. */
hvd_status_t hvd_plan_add(struct hvd_plan *plan, const struct hvd_action *action,
                          const char *namespace, const char *name);

/* Removes the action of that index; later ones move up. */
void hvd_plan_remove(struct hvd_plan *plan, size_t at);

/* Moves the events, except those about repairs, behind all other actions, which they wait for. */
void hvd_plan_defer_events(struct hvd_plan *plan);

/* Wakes at that time, or at an earlier one that was requested. */
void hvd_plan_wake(struct hvd_plan *plan, int64_t at_ms);

/* A write: the object, its target and the new value (repair.h). */
struct hvd_write {
    enum hvd_kind kind;
    const char *name;
    enum hvd_repair repair;
    uint64_t value;
};

/* Adds the deletion of an object, by uid; its dependents are deleted in the background. */
hvd_status_t hvd_plan_delete(struct hvd_plan *plan, const struct hvd_write *write,
                             const char *namespace, const char *uid);

/* Adds the deletion of a pod without a grace period, because its node does not answer. */
hvd_status_t hvd_plan_kill(struct hvd_plan *plan, const struct hvd_write *write,
                           const struct hvd_object *pod);

/* An event about the job. */
struct hvd_event {
    const char *reason;
    const char *message;
    bool is_warning;
    const char *key; /* identifies its subject, which has one event per attempt, however it is
                        worded; NULL: the message at this point of the job's life */
};

/*
 * Adds an event about the job at now_s. Its name is derived from the job's persisted status. So the
 * same occurrence has the same name until the status that comes with the event is written.
 */
hvd_status_t hvd_plan_event(struct hvd_plan *plan, const struct hvd_job *job,
                            const struct hvd_event *event, int64_t now_s);

#endif
