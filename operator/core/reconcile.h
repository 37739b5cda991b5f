#ifndef HVD_OPERATOR_CORE_RECONCILE_H
#define HVD_OPERATOR_CORE_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/api/kind.h"
#include "operator/core/observe/explain.h"
#include "operator/core/observe/observe.h"
#include "operator/core/view/settings.h"
#include "operator/core/view/topology.h"
#include "operator/core/writes/repair.h"

/*
 * The whole decision: one job and what is observed of its children, in; a plan of actions, out. No
 * state is kept between calls, so a restart continues from what the API server holds.
 *
 * How the shell (operator/app) drives it
 * - Reconcile a job only after the caches of HorovodJobs and of all six child kinds are filled.
 * - Reconcile again after any change of the job or of an object filed under it, at wake_at_ms, and
 *   after a plan with actions was carried out.
 * - What a create, a patch or a status patch returns goes into the cache at once (hvd_observe,
 *   hvd_job_decode), so that the next pass sees it; a watch event about an older uid of the same
 *   name never removes a newer object.
 */

/* How an action ended that is not to be repeated at once. What was denied is put off by
 * repairs->denials. Everything else (no answer, 409 Conflict of a patch or a delete) is the shell's
 * to retry with backoff; none of it is told here.
 */
enum hvd_failure_type {
    HVD_FAILURE_FOREIGN,  /* create answered 409 AlreadyExists and a GET shows a controller other
                             than this job (by uid); of a pod, HVD_ACTION_LOOK found one that is
                             filed elsewhere or nowhere */
    HVD_FAILURE_INVALID,  /* hvd_refusal_judge: the job's own template is wrong, now and always */
    HVD_FAILURE_DENIED,   /* hvd_refusal_judge: refused for any other reason (quota, RBAC,
                             admission, a server in trouble): retried by the shell with backoff */
    HVD_FAILURE_STATUS,   /* the same of the status of the job itself */
    HVD_FAILURE_UNREAD,   /* HVD_ACTION_LOOK, LOCATE or READ_SPEC was answered, and not by what is
                             there or is not: 403, say */
    HVD_FAILURE_UNTRACED, /* HVD_ACTION_TRACE was, and not by a list or by 403 */
    HVD_FAILURE_LEAVING,  /* hvd_refusal_judge: its namespace is being deleted; of an event, which
                             has no name here, too */
    HVD_FAILURE_NO_PODS,  /* the answer to HVD_ACTION_EXPLAIN; without a message nobody knows why */
    HVD_FAILURE_NO_TRACE, /* the answers to HVD_ACTION_TRACE: nothing tells of the Job, */
    HVD_FAILURE_BEGUN,    /* it had a pod, and nothing tells how it ended, */
    HVD_FAILURE_SUCCEEDED, /* it had succeeded, */
    HVD_FAILURE_FAILED,    /* it had failed, as the message tells */
};

/*
 * Kept by the shell, in memory, at most one per (kind, name) of a job: the latest. Dropped when an
 * action on that object succeeds, when the object appears in the cache as ours, and, but for DENIED
 * and STATUS, when the job's generation changes.
 */
struct hvd_failure {
    enum hvd_failure_type type;
    enum hvd_kind kind;
    const char *name;    /* of the child */
    const char *message; /* the API server's text (status.message); for FOREIGN may be NULL */
    int64_t at_ms;       /* when it happened */
    /* Of NO_PODS: what was asked of which object since when. While the question is open the message
     * is the last answer; is_alone: it needs a list of its own. */
    const char *uid;
    enum hvd_question question;
    int64_t since_s;
    bool is_open;
    bool is_alone;
    bool is_unread;     /* the last list of events was refused, so they tell nothing */
    uint64_t value;     /* of the action */
    unsigned n;         /* how often in a row the object failed so; counted by the shell */
    unsigned told_from; /* of DENIED, STATUS, UNREAD and UNTRACED: nothing is told of it before n is
                           that (hvd_refusal_ is_told) */
};

/*
 * An object of a job that is known to be gone: its deletion was seen or asked for, or a GET did not
 * find it (any more, or not as one of this job). Kept by the shell, in memory, until an object of
 * that kind and name appears among the job's.
 */
struct hvd_gone {
    enum hvd_kind kind;
    uint32_t at_s; /* when that was noted, by the clock of hvd_view.monotonic_ms; 0: not known */
    const char *name;
};

/* All pointers are borrowed for the call. */
struct hvd_view {
    const struct hvd_job *job; /* spec.text may be NULL: a pass that needs it asks for it */
    const struct hvd_object *const
        *objects; /* children and pods filed under namespace/job name, any order */
    size_t n_objects;
    const struct hvd_topology_source *topology; /* NULL: nodes cannot be read */
    const struct hvd_failure *failures;
    size_t n_failures;
    const struct hvd_gone *gone;
    size_t n_gone;
    const struct hvd_repairs *repairs; /* what was written, as long as it counts; NULL: nothing */
    const cJSON *lost; /* of the status, what the API server does not keep (kept.h); NULL: none */
    int64_t monotonic_ms;      /* now, by the clock of hvd_pod_view.going_ms */
    int64_t status_written_ms; /* when this process last patched this job's status; 0: never */
    size_t n_starting; /* jobs of all namespaces that have begun and do not run: the more of them,
                          the more seldom counts alone are written */
    const struct hvd_settings *settings; /* NULL: none */
    int32_t free_port; /* for a job that hvd_ports_is_wanted (ports.h); kept for it; 0: none is
                          left, and the job is reconciled again when one is */
};

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

/*
 * Decides what to do next for a job at time now_ms (the API server's). Fills *out, which must be
 * zeroed or come from an earlier call after hvd_plan_fini; the caller frees it with hvd_plan_fini.
 * An empty plan means that all is as it should be. If an action fails, the actions that wait behind
 * it are dropped and the job is reconciled anew. A pass that needs the text of the spec where the
 * view has none plans HVD_ACTION_READ_SPEC alone. HVD_ERR_NOMEM, or HVD_ERR_INVALID for a view that
 * is no view; *out is empty then.
 */
hvd_status_t hvd_reconcile(const struct hvd_view *view, int64_t now_ms, struct hvd_plan *out,
                           struct hvd_err *err);

/* Frees the plan's actions and empties it. A zeroed struct is legal. */
void hvd_plan_fini(struct hvd_plan *plan);

#endif
