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

/* A cause for which pods do not run, of which the persisted status says nothing (trouble.c). */
struct hvd_trouble {
    const char *reason; /* of its event */
    enum hvd_condition_type type;
    char cause[HVD_TROUBLE_SIZE];
    char text[1024];
};

#define HVD_MARK_REASON_SIZE 64
#define HVD_MARK_MESSAGE_SIZE 1024

/* How a job has ended, or that its attempt was suspended, as its ConfigMap says
 * (HVD_ANNOTATION_END) while its status cannot. */
struct hvd_mark {
    enum hvd_job_state state; /* HVD_JOB_SUCCEEDED, _FAILED, _SUSPENDED; _NEW: nothing is noted */
    int32_t attempts;         /* as the status is to have them */
    int32_t failures;
    int32_t interruptions;
    char reason[HVD_MARK_REASON_SIZE]; /* of the condition of that end, and its message */
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
 * that has to be read first) stays in st and makes every further call do nothing.
 */
struct hvd_pass {
    const struct hvd_view *view; /* of the job below */
    const struct hvd_job *job;   /* as observed, its status within bounds, its size the attempt's */
    int64_t now_ms;
    int64_t now_s;
    struct hvd_plan *plan;
    const struct hvd_object *child[HVD_N_KINDS]; /* of our names; whoever owns them */
    struct hvd_pod_owners owners; /* the sets, of our names; child[] holds the first of them */
    struct hvd_pods pods;
    cJSON *spec;                /* parsed on first use, owned */
    cJSON *hosts_data;          /* of the Ready workers, made on first use, owned */
    cJSON *all_hosts_data;      /* of all workers, with which the list begins, likewise */
    size_t too_long;            /* bytes of a list that no ConfigMap can hold; 0: it fits */
    int64_t settled_ms;         /* until then a status that is about to change again waits; or 0 */
    struct hvd_job_status next; /* what the status should be */
    struct hvd_mark mark;       /* how the job, or its attempt, has ended, as no status says yet */
    struct hvd_attempt_end end; /* of the attempt that ends in this pass */
    char *end_message;          /* owned: its message */
    bool is_urgent;             /* the status says something that must not wait */
    bool has_no_room;           /* the gang scheduler has not let the workers in yet */
    bool is_list_frozen;        /* the list differs and was made immutable */
    bool is_denied;             /* one that is tried again in this pass, and may fail again */
    struct hvd_denied denied[HVD_DENIED_MAX]; /* in the order of kinds and names */
    size_t n_denied;
    bool has_more_denied;             /* than have room */
    bool is_rescaled;                 /* a set has other replicas than it should have */
    bool is_occupied;                 /* pods of others are in the way of workers */
    bool is_unsure;                   /* something has to be read, and the next try waits */
    const struct hvd_failure *unread; /* why, if that is told of */
    bool is_carried_out; /* what the status says is done, whether it is written or not */
    bool is_child_held;  /* a child was denied, and waits for its next try */
    bool is_held_untold; /* a write waits so, and nothing is told of its denial yet */
    bool is_blocked;     /* a foreign child or a refusal was reported in this pass */
    char obstacle[512];  /* its text; "": none */
    const char *trace;   /* how a Job that is gone has failed, by its events; or NULL */
    const char
        *replaced; /* the master's pod, in whose place its Job has made another one; or NULL */
    const char *deferred; /* replicas that wait for the next attempt; "": none */
    struct hvd_trouble troubles[HVD_TROUBLES_MAX];
    size_t n_troubles;
    size_t n_recorded;    /* writes of this plan that get a record of their own */
    unsigned n_shared[2]; /* those that share one backoff (crowd.h): first ones, repeated ones */
    uint64_t contested;   /* a hash of which repairs are reported as undone; 0: none */
    hvd_status_t st;
};

enum hvd_child_state {
    HVD_CHILD_MISSING, /* to be made */
    HVD_CHILD_OURS,
    HVD_CHILD_WAIT,  /* terminating, or left by a deleted job of the same name: goes by itself */
    HVD_CHILD_ALIEN, /* somebody else's: left alone, retried slowly */
};

/* How the child of that kind stands. Sets nothing. */
enum hvd_child_state hvd_pass_child(const struct hvd_pass *p, enum hvd_kind kind);

/* The same for the StatefulSet of a group. */
enum hvd_child_state hvd_pass_set(const struct hvd_pass *p, size_t group);

/* Whether the object is controlled by this job. */
bool hvd_pass_is_ours(const struct hvd_pass *p, const struct hvd_object *object);

/* Whether a HorovodJob of this name that is gone controls the object: the garbage collector takes
 * it.
 */
bool hvd_pass_is_leftover(const struct hvd_pass *p, const struct hvd_object *object);

/* The reason of the condition Suspended, which is not true yet, while pods of the job are left. */
#define HVD_REASON_SUSPENDING "Suspending"

/* Reasons of failures that follow from the spec and the clock, and not from what ran. */
#define HVD_REASON_DEADLINE "DeadlineExceeded"
#define HVD_REASON_TEMPLATE "InvalidTemplate"

/* Whether the persisted status says that the job is suspended, or is being suspended: it then is
 * cleared away before it starts again. So it is where a note says it of a job that is not suspended
 * any more (mark.h). */
bool hvd_pass_is_stopping(const struct hvd_pass *p);

/* The failure reported for the object of that kind and name; NULL if none. Borrowed from the view.
 */
const struct hvd_failure *hvd_pass_failure(const struct hvd_pass *p, enum hvd_kind kind,
                                           const char *name);

/* Whether the current master's pod runs. */
bool hvd_pass_is_running(const struct hvd_pass *p);

/* The parsed spec, borrowed; NULL after a failure. Where the view has no text of it this counts as
 * one, HVD_INPROGRESS, and the pass is made again when the text is there. */
const cJSON *hvd_pass_spec(struct hvd_pass *p);

/* Sets a condition of the next status. */
void hvd_pass_condition(struct hvd_pass *p, const struct hvd_condition_update *update);

/* Sets the state of the next status. */
void hvd_pass_state(struct hvd_pass *p, enum hvd_job_state state);

/* The same of the end of the attempt, or of the job, which has one event, whatever is found out
 * about it, and whatever the status says, until that end is counted. */
void hvd_pass_end_event(struct hvd_pass *p, const char *reason, const char *message,
                        bool is_warning);

/* Adds an event and makes the status urgent. */
void hvd_pass_event(struct hvd_pass *p, const char *reason, const char *message, bool is_warning);

#endif
