#ifndef HVD_OPERATOR_CORE_PASS_PASS_H
#define HVD_OPERATOR_CORE_PASS_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/observe/explain.h"
#include "operator/core/observe/observe.h"
#include "operator/core/outcome/mark.h"
#include "operator/core/pass/plan.h"
#include "operator/core/pass/pods.h"
#include "operator/core/reconcile.h"

#define HVD_TROUBLE_SIZE 384
#define HVD_TROUBLES_MAX 3 /* of a child, of workers, of the master */

/* A cause for which pods do not run, of which the persisted status says nothing (trouble.c). */
struct hvd_trouble {
    const char *reason; /* of its event */
    enum hvd_condition_type type;
    char cause[HVD_TROUBLE_SIZE];
    char text[1024];
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

/* pass.c: what every step uses. */

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

/* contest.c: writes of ours that others undo. */

/* Whether the write may be sent now; if not the plan wakes when it may. Every write asks first. */
bool hvd_contest_admit(struct hvd_pass *p, const struct hvd_write *write);

/* Whether the write only repeats the last one, which another writer has undone. */
bool hvd_contest_is_repeated(const struct hvd_pass *p, const struct hvd_write *write);

/* Whether the write has no record, nor room for one: it is one of many. */
bool hvd_contest_is_shared(const struct hvd_pass *p, const struct hvd_write *write);

/* The condition Contested: what is undone again and again, and by whom. */
void hvd_contest_report(struct hvd_pass *p);

/* drift.c: what others changed and stays so while the job runs; false, and out untouched, if
 * nothing. */
bool hvd_drift_describe(struct hvd_pass *p, char *out, size_t size);

/* admit.c: what must be there before workers are. */

/* Whether the job has the port that it needs; chooses one if not, which is then to be written
 * before anything else. */
bool hvd_admit_port(struct hvd_pass *p);

/* Whether a gang scheduler, if there is to be one, can be asked to place workers. */
bool hvd_admit_gang(struct hvd_pass *p);

/* Removes the PodGroup of a job that has no workers any more, or soon will have none. */
void hvd_admit_release(struct hvd_pass *p);

/* ensure.c: children as they should be. */

/* Makes and repairs Secret, Service, ConfigMap and StatefulSet of a job that is to run. */
void hvd_ensure_children(struct hvd_pass *p);

/* Whether the spec changed so that what runs is of another spec: the job was suspended, changed and
 * resumed before anybody saw it suspended. */
bool hvd_ensure_is_outdated(struct hvd_pass *p);

/* Takes all workers down: sets of ours have no replicas, those of no group are removed. True once
 * no set has any. */
bool hvd_ensure_no_workers(struct hvd_pass *p);

/* start.c. Whether workers of an earlier start are there, or may be, of which no status tells: they
 * are taken down, and the job waits for it. */
bool hvd_start_clears(struct hvd_pass *p);

/* Publishes the list of Ready workers if it differs. */
void hvd_ensure_hosts(struct hvd_pass *p);

/* Whether the list was made immutable and is to be made anew: until then the job gets no workers.
 */
bool hvd_ensure_list_thaws(struct hvd_pass *p);

/* Tells a running master's pod of a list that changed, twice. */
void hvd_ensure_master_told(struct hvd_pass *p);

/* Makes the master's Job once every worker is Ready and the list says so. */
void hvd_ensure_master(struct hvd_pass *p);

/* occupied.c: pods of others that have names of workers. */

/* Reports those that keep the set of the group from making a pod, or that it would take for its
 * own; false if there are none. */
bool hvd_occupied_report(struct hvd_pass *p, size_t group);

/* held.c: a master's Job that another writer keeps from making its pod. */

/* Whether the attempt under way has ended by that, and the next status says it. */
bool hvd_held_ends_attempt(struct hvd_pass *p);

/* Releases the Job, which is ours, if it is held, and tells of it. */
void hvd_held_release(struct hvd_pass *p, const struct hvd_object *job);

/* fields.c: fields of children that the operator leaves unset and another writer has set. */

/* Repairs what the Service is; true while it has to be made anew for that, and nothing else of it
 * is worth a repair. */
bool hvd_fields_repair_service(struct hvd_pass *p, const struct hvd_object *service);

/* Repairs those of a StatefulSet, and of the master's Job that has not ended. */
void hvd_fields_repair_set(struct hvd_pass *p, const struct hvd_object *set);
void hvd_fields_repair_job(struct hvd_pass *p, const struct hvd_object *job);

/* altered.c: fields that cannot be changed, and that others set when the object was made. */

/* Whether the master's Job, or a set, is altered so that the job would be another one. */
bool hvd_altered_is_wrong(const struct hvd_pass *p, enum hvd_kind kind);

/* Ends the job if one of its children is altered so; true if it did. */
bool hvd_altered_ends_job(struct hvd_pass *p);

/* Describes what is altered otherwise of the master's Job, or of a set; false, and out untouched,
 * if nothing is. */
bool hvd_altered_describe(struct hvd_pass *p, enum hvd_kind kind, char *out, size_t size);

/* refusal.c: what others refuse. Each tells why in out, false if there is nothing to tell. */

/* Pods that a StatefulSet, or the master's Job, is not allowed to make; asks if that is not known.
 */
bool hvd_refusal_of_workers(struct hvd_pass *p, char *out, size_t size);
bool hvd_refusal_of_master(struct hvd_pass *p, char *out, size_t size);

/*
 * Asks events about an object, of what holds since that time, if it has lasted for long enough and
 * it was not asked a short while ago. Returns the last answer, borrowed from the view; NULL: none.
 */
const char *hvd_refusal_ask(struct hvd_pass *p, const struct hvd_object *object,
                            enum hvd_question question, int64_t since_ms);

/* Why nothing is known of the object from its events: they name no cause, or cannot be read. */
const char *hvd_refusal_silence(const struct hvd_pass *p, const struct hvd_object *object);

/* The failure of a status that was refused and is told of; NULL: none. Borrowed from the view. */
const struct hvd_failure *hvd_refusal_of_status(const struct hvd_pass *p);

/* Notes a change or a deletion that was denied the last time and waits for its next try; known is
 * borrowed. */
void hvd_refusal_add(struct hvd_pass *p, const struct hvd_failure *known, bool is_removal);

/* All changes and deletions that are planned, or wait, and were denied the last time: each object
 * once, with the words of those who deny them. False, and out untouched, if there are none. */
bool hvd_refusal_of_change(struct hvd_pass *p, char *out, size_t size);

/* Whether the API server has refused an object because the namespace is being deleted: it refuses
 * events, too, and what controllers would make. */
bool hvd_refusal_is_leaving(const struct hvd_pass *p);

/* The same on the condition Running; true if nothing is to be made for that. Once in a long time it
 * may be tried. */
bool hvd_refusal_of_namespace(struct hvd_pass *p);

/* sidecars.c: containers that run on after the master's own has ended. */

#define HVD_REASON_MASTER_ENDED "MasterEnded" /* of the condition Running meanwhile */

/* Whether they keep the pod of the current master from ending. */
bool hvd_sidecars_hold(const struct hvd_pass *p);

/* Whether they have held it for long enough, and none of them is of the job's template: the attempt
 * has ended as the master's container did. */
bool hvd_sidecars_are_over(struct hvd_pass *p);

/* The condition Running meanwhile. */
void hvd_sidecars_show(struct hvd_pass *p);

/* Adds the containers to the text of a master that has succeeded. */
void hvd_sidecars_name(const struct hvd_pass *p, char *out, size_t size);

/* Has the kubelet end the pod of a job that has finished; it stays with its logs. */
void hvd_sidecars_stop(struct hvd_pass *p);

/* stage.c: pods that are slow. */

#define HVD_STAGE_TEXT_SIZE 768

/* Describes why the pod is not Ready, by its events, or that it has been for minutes; false, and
 * out untouched, if there is nothing to tell yet. Asks its events. */
bool hvd_stage_describe(struct hvd_pass *p, const struct hvd_object *pod,
                        char out[HVD_STAGE_TEXT_SIZE]);

/* labels.c: labels and owner references of ours that somebody has edited. */

/* Restores those of all objects of the job that stay, and tells of each edit in an event. */
void hvd_labels_restore(struct hvd_pass *p);

/* Restores the owner references alone: what a finished job keeps goes with it. */
void hvd_labels_restore_owners(struct hvd_pass *p);

/* Restores those of a master that its Job has let go and that only the status names: it is found
 * then, whatever the next status names. */
void hvd_labels_restore_stray(struct hvd_pass *p);

/* trace.c: the end of a master's Job that is gone. */

/* Asks how the Job of that name had ended; its events since the attempt began may tell. Where they
 * could not be read, that is told of and asked again later. */
void hvd_trace_ask(struct hvd_pass *p, const char *name);

/* deadline.c: activeDeadlineSeconds. */

/* True once it is over, and the job failed for it; else wakes then. */
bool hvd_deadline_ends_job(struct hvd_pass *p);

/* The same of a job that waits for a read: if its master has ended by then, the job ends as that
 * says. has_spec: what follows from a failure can be asked of the spec. */
void hvd_deadline_ends_waiting(struct hvd_pass *p, bool has_spec);

/* retry.c: the wait between attempts. */

/* Notes that the attempt under way has failed and another one follows; returns for how many seconds
 * that one has to wait. */
int64_t hvd_retry_note(struct hvd_pass *p);

/* Whether the next attempt has to wait; wakes at the end of that. */
bool hvd_retry_is_waiting(struct hvd_pass *p);

/* Begins the row of failures anew, and ends the wait. */
void hvd_retry_forget(struct hvd_pass *p);

/* lingering.c: pods that are to go and that nobody deletes. */

#define HVD_REASON_NOT_DELETED "ObjectNotDeleted" /* of the condition DeletionBlocked */

/* Since when the pod is to go; 0: it is not, or it is being deleted. */
int64_t hvd_lingering_since_s(const struct hvd_pass *p, const struct hvd_object *pod);

/* Why it is to go, and what to do. */
void hvd_lingering_describe(const struct hvd_pass *p, const struct hvd_object *pod, char *out,
                            size_t size);

/* terminating.c: objects that are to go and do not. */

/* The message of WorkersReady once they are. */
#define HVD_TEXT_REMOVED "the workers are removed: the job has finished"

/* The condition DeletionBlocked, and an event for each object that it names. */
void hvd_terminating_report(struct hvd_pass *p);

/* Whether the StatefulSet or Job that made the pod is being deleted and has not gone in time: its
 * controller then removes no pod any more, and the garbage collector none before it is gone. */
bool hvd_terminating_leaves_pod(struct hvd_pass *p, const struct hvd_object *pod);

/* outcome.c: ends and pauses. */

/* Looks whether the current master has ended; true if so, and the next status says it. */
bool hvd_outcome_master(struct hvd_pass *p);

/* Whether it has succeeded, as its Job or its pod says. */
bool hvd_outcome_is_success(const struct hvd_pass *p);

/* The condition Failed, final. event is its reason for kubectl describe. */
void hvd_outcome_fail(struct hvd_pass *p, const char *reason, const char *message);

#define HVD_REASON_DELETED "Deleted" /* of the end of a HorovodJob that is being deleted */

/* Ends the job as its ConfigMap says (mark.h). */
void hvd_outcome_noted(struct hvd_pass *p);

/* Whether the master's Job has completed though its attempt was given up: it was suspended, or has
 * failed for a lost worker, and the Job could not be deleted in time. The job has succeeded then.
 */
bool hvd_outcome_late(struct hvd_pass *p);

/* Whether a HorovodJob that is being deleted has no master any more, or never gets one; it has
 * failed then. */
bool hvd_outcome_abandoned(struct hvd_pass *p);

/* Removes what a finished job leaves, as cleanPodPolicy and ttlSecondsAfterFinished say, and tells
 * of what may not be removed. */
void hvd_outcome_clean(struct hvd_pass *p);

/* Removes the workers of a job whose master has ended and whose end cannot be written, unless
 * cleanPodPolicy keeps them. The master's Job stays: it alone tells of the end. */
void hvd_outcome_release_workers(struct hvd_pass *p);

/* Removes what runs of a job that has failed for its spec or its deadline, as cleanPodPolicy
 * says, though its status is not written yet. */
void hvd_outcome_take_down(struct hvd_pass *p);

/* Takes master and workers down; true once nothing of them is left. */
bool hvd_outcome_quiesce(struct hvd_pass *p);

/* Notes a worker that was lost under a running master, and ends the attempt if the master does not
 * end by itself; true if it did so. */
bool hvd_outcome_lost(struct hvd_pass *p);

/* Ends an attempt whose workers never become Ready, because one of them ends again and again. */
bool hvd_outcome_hopeless(struct hvd_pass *p);

/* Whether somebody has deleted the Job of the attempt under way; the attempt has ended then. */
bool hvd_outcome_vanished(struct hvd_pass *p);

/* Removes workers that nobody else takes down where the job is to have none. */
void hvd_outcome_remove_workers(struct hvd_pass *p);

/* Removes a master that its Job has let go. */
void hvd_outcome_remove_stray(struct hvd_pass *p);

/* Removes pods that are long overdue, because nobody on their node answers any more. */
void hvd_outcome_force_delete(struct hvd_pass *p);

#endif
