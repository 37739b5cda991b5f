#ifndef HVD_OPERATOR_CORE_VIEW_VIEW_H
#define HVD_OPERATOR_CORE_VIEW_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "operator/api/horovodjob.h"
#include "operator/api/kind.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/settings.h"
#include "operator/core/view/topology.h"

struct hvd_repairs;

/* What is asked of events (explain.h). */
enum hvd_question {
    HVD_ASK_CREATION, /* why the pods of an object cannot be made */
    HVD_ASK_START,    /* why a pod does not start */
    HVD_ASK_READY,    /* why a pod that runs is not Ready */
};

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

#endif
