#ifndef HVD_OPERATOR_CORE_PASS_PASS_H
#define HVD_OPERATOR_CORE_PASS_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/pass/plan.h"
#include "operator/core/pass/pods.h"
#include "operator/core/view/view.h"

#define HVD_TROUBLE_SIZE 384
#define HVD_TROUBLES_MAX 3 /* of a child, of workers, of the master */

/* A cause for which pods do not run, which the persisted status does not have (trouble.c). */
struct hvd_trouble {
    const char *reason; /* of its event */
    enum hvd_condition_type type;
    char cause[HVD_TROUBLE_SIZE];
    char text[1024];
};

#define HVD_MARK_REASON_SIZE 64
#define HVD_MARK_MESSAGE_SIZE 1024

/* The end of a job, or the suspension of its attempt, recorded on its ConfigMap
 * (HVD_ANNOTATION_END) while the status cannot be written. */
struct hvd_mark {
    enum hvd_job_state state; /* HVD_JOB_SUCCEEDED, _FAILED, _SUSPENDED; _NEW: no record */
    int32_t attempts;         /* for the status */
    int32_t failures;
    int32_t interruptions;
    char reason[HVD_MARK_REASON_SIZE]; /* of the condition of that end, with its message */
    char message[HVD_MARK_MESSAGE_SIZE];
};

#define HVD_DENIED_MAX 8

/* A change or deletion that was denied, and is tried again in this pass, or waits for that. */
struct hvd_denied {
    const struct hvd_failure *known;
    bool is_removal;
};

/*
 * Within operator/core only: one run of hvd_reconcile. The first failure (out of memory, or a spec
 * that must be read first) stays in st and makes every further call do nothing.
 */
struct hvd_pass {
    const struct hvd_view *view; /* of the job below */
    const struct hvd_job *job;   /* as observed, with its status within bounds and the attempt's
                                    size */
    int64_t now_ms;
    int64_t now_s;
    struct hvd_plan *plan;
    const struct hvd_object *child[HVD_N_KINDS]; /* with the job's names, whatever their owners */
    struct hvd_pod_owners owners; /* the sets with the job's names; child[] has the first of
                                     them */
    struct hvd_pods pods;
    cJSON *spec;                /* parsed on first use, owned */
    cJSON *hosts_data;          /* of the Ready workers, built on first use, owned */
    cJSON *all_hosts_data;      /* of all workers, with which the list begins, likewise */
    size_t too_long;            /* bytes of a list that no ConfigMap can hold; 0: it fits */
    int64_t settled_ms;         /* a status that soon changes again waits until then; or 0 */
    struct hvd_job_status next; /* the status to write */
    struct hvd_mark mark;       /* end of the job, or of its attempt, which no status records
                                   yet */
    struct hvd_attempt_end end; /* of the attempt that ends in this pass */
    char *end_message;          /* owned: its message */
    bool is_urgent;             /* the status has news that must not wait */
    bool has_no_room;           /* the gang scheduler has not admitted the workers yet */
    bool is_list_frozen;        /* the list differs and was made immutable */
    bool is_denied;             /* a denied write is tried again in this pass, and may fail
                                   again */
    struct hvd_denied denied[HVD_DENIED_MAX]; /* in the order of kinds and names */
    size_t n_denied;
    bool has_more_denied;             /* more than fit */
    bool is_rescaled;                 /* a set has a wrong number of replicas */
    bool is_occupied;                 /* foreign pods have names of workers */
    bool is_unsure;                   /* a needed read waits for its next try */
    const struct hvd_failure *unread; /* the cause of that, if it must be reported */
    bool is_carried_out;              /* the status is carried out, whether it is written or not */
    bool is_child_held;               /* a denied child waits for its next try */
    bool is_held_untold;              /* a denied write waits, and its denial is not reported yet */
    bool is_blocked;                  /* a foreign child or a refusal was reported in this pass */
    char obstacle[512];               /* its text; "": none */
    const char *trace;                /* how a Job that is gone failed, by its events; or NULL */
    const char *replaced;             /* the master's pod that its Job has replaced; or NULL */
    const char *deferred;             /* replicas that wait for the next attempt; "": none */
    struct hvd_trouble troubles[HVD_TROUBLES_MAX];
    size_t n_troubles;
    size_t n_recorded;    /* writes of this plan that get records of their own */
    unsigned n_shared[2]; /* writes that share one backoff (crowd.h): first ones, repeated ones */
    uint64_t contested;   /* a hash of the repairs that are reported as undone; 0: none */
    hvd_status_t st;
};

enum hvd_child_state {
    HVD_CHILD_MISSING, /* to be created */
    HVD_CHILD_OURS,
    HVD_CHILD_WAIT,  /* terminating, or left by a deleted job of the same name: it goes by
                        itself */
    HVD_CHILD_ALIEN, /* foreign: left alone, retried slowly */
};

/* The state of the child of that kind. Changes nothing. */
enum hvd_child_state hvd_pass_child(const struct hvd_pass *p, enum hvd_kind kind);

/* The same for the StatefulSet of a group. */
enum hvd_child_state hvd_pass_set(const struct hvd_pass *p, size_t group);

/* Whether the object is controlled by this job. */
bool hvd_pass_is_ours(const struct hvd_pass *p, const struct hvd_object *object);

/* Whether a deleted HorovodJob of this name controls the object: the garbage collector removes
 * it. */
bool hvd_pass_is_leftover(const struct hvd_pass *p, const struct hvd_object *object);

/* The reason of the condition Suspended before it is true, while the job still has pods. */
#define HVD_REASON_SUSPENDING "Suspending"

/* Reasons of failures that follow from the spec and the clock, not from the programs. */
#define HVD_REASON_DEADLINE "DeadlineExceeded"
#define HVD_REASON_TEMPLATE "InvalidTemplate"

/* Whether the persisted status has the job suspended, or being suspended: then the job is cleared
 * away before it starts again. Also if a mark records it for a job that is no longer suspended
 * (mark.h). */
bool hvd_pass_is_stopping(const struct hvd_pass *p);

/* The failure reported for the object of that kind and name; NULL if none. Borrowed from the
 * view. */
const struct hvd_failure *hvd_pass_failure(const struct hvd_pass *p, enum hvd_kind kind,
                                           const char *name);

/* Whether the current master's pod runs. */
bool hvd_pass_is_running(const struct hvd_pass *p);

/* The parsed spec, borrowed; NULL after a failure. If the view lacks its text, that is the failure
 * HVD_INPROGRESS, and the pass is repeated with the text. */
const cJSON *hvd_pass_spec(struct hvd_pass *p);

/* Sets a condition of the next status. */
void hvd_pass_condition(struct hvd_pass *p, const struct hvd_condition_update *update);

/* Sets the state of the next status. */
void hvd_pass_state(struct hvd_pass *p, enum hvd_job_state state);

/* Adds the event of the end of the attempt, or of the job. There is one such event until that end
 * is counted, whatever else is found out and whatever the status contains. */
void hvd_pass_end_event(struct hvd_pass *p, const char *reason, const char *message,
                        bool is_warning);

/* Adds an event and makes the status urgent. */
void hvd_pass_event(struct hvd_pass *p, const char *reason, const char *message, bool is_warning);

#endif
