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

/* Questions to events (explain.h). */
enum hvd_question {
    HVD_ASK_CREATION, /* why the pods of an object cannot be made */
    HVD_ASK_START,    /* why a pod does not start */
    HVD_ASK_READY,    /* why a pod that runs is not Ready */
};

/* The failure of an action that must not be repeated at once. repairs->denials delays denied
 * writes. All other failures (no answer, 409 Conflict of a patch or a delete) are not in the view:
 * the shell retries them with backoff. */
enum hvd_failure_type {
    HVD_FAILURE_FOREIGN,   /* create answered 409 AlreadyExists, and a GET shows a controller
                              other than this job (by uid); of a pod, HVD_ACTION_LOOK found one
                              that is filed elsewhere or nowhere */
    HVD_FAILURE_INVALID,   /* hvd_refusal_judge: the job's own template is permanently wrong */
    HVD_FAILURE_DENIED,    /* hvd_refusal_judge: refused for any other reason (quota, RBAC,
                              admission, a server in trouble): tried again after a wait
                              (denial.h) */
    HVD_FAILURE_STATUS,    /* the same for the status of the job itself */
    HVD_FAILURE_UNREAD,    /* HVD_ACTION_LOOK, LOCATE or READ_SPEC was refused, for example by
                              403 */
    HVD_FAILURE_UNTRACED,  /* HVD_ACTION_TRACE was refused, but not by 403 */
    HVD_FAILURE_LEAVING,   /* hvd_refusal_judge: its namespace is being deleted; also of an
                              event, which then has no name here */
    HVD_FAILURE_NO_PODS,   /* the answer to HVD_ACTION_EXPLAIN; without a message the cause is
                              unknown */
    HVD_FAILURE_NO_TRACE,  /* the answers to HVD_ACTION_TRACE: no event mentions the Job, */
    HVD_FAILURE_BEGUN,     /* it had a pod, but no event reports its end, */
    HVD_FAILURE_SUCCEEDED, /* it had succeeded, */
    HVD_FAILURE_FAILED,    /* it had failed, with the cause in message */
};

/*
 * Kept by the shell, in memory: the latest for each (kind, name) of a job. Dropped when an action
 * on that object succeeds, or when the object appears in the cache as ours. Also dropped, except
 * for DENIED and STATUS, when the job's generation changes.
 */
struct hvd_failure {
    enum hvd_failure_type type;
    enum hvd_kind kind;
    const char *name;    /* of the child */
    const char *message; /* the API server's text (status.message); for FOREIGN may be NULL */
    int64_t at_ms;       /* when it happened */
    /* Of NO_PODS: the question, its object and the time since when. While the question is open, the
     * message is the last answer; is_alone: it needs a list of its own. */
    const char *uid;
    enum hvd_question question;
    int64_t since_s;
    bool is_open;
    bool is_alone;
    bool is_unread;     /* the last list of events was refused, so the answer is unknown */
    uint64_t value;     /* of the action */
    unsigned n;         /* consecutive failures of the object; counted by the shell */
    unsigned told_from; /* of DENIED, STATUS, UNREAD and UNTRACED: the failure is reported when
                           n reaches this (hvd_refusal_is_told) */
};

/*
 * An object of a job that is known to be gone: its deletion was seen or requested, or a GET did not
 * find it as one of this job. The shell keeps it in memory until an object of that kind and name
 * appears among the job's.
 */
struct hvd_gone {
    enum hvd_kind kind;
    uint32_t at_s; /* the time of that, by the clock of hvd_view.monotonic_ms; 0: not known */
    const char *name;
};

/* All pointers are borrowed for the call. */
struct hvd_view {
    const struct hvd_job *job; /* spec.text may be NULL: a pass that needs it requests it */
    const struct hvd_object *const
        *objects; /* children and pods filed under namespace/job name, in any order */
    size_t n_objects;
    const struct hvd_topology_source *topology; /* NULL: nodes cannot be read */
    const struct hvd_failure *failures;
    size_t n_failures;
    const struct hvd_gone *gone;
    size_t n_gone;
    const struct hvd_repairs *repairs; /* recent writes; NULL: none */
    const cJSON *lost;    /* fields of the status that the API server does not keep (kept.h); NULL:
                             none */
    int64_t monotonic_ms; /* now, by the clock of hvd_pod_view.going_ms */
    int64_t status_written_ms; /* when this process last patched this job's status; 0: never */
    size_t n_starting; /* jobs in all namespaces that have begun and do not run yet: with more
                          of them, counts alone are written less often */
    const struct hvd_settings *settings; /* NULL: none */
    int32_t free_port; /* reserved for a job that hvd_ports_is_wanted (ports.h); 0: none is
                          free, and the job is reconciled again when one is */
};

#endif
