#ifndef HVD_OPERATOR_API_HOROVODJOB_H
#define HVD_OPERATOR_API_HOROVODJOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"

/*
 * The HorovodJob as the operator holds it. Scalars are decoded with their defaults. The spec is
 * also kept as compact text, because pod templates must survive with every field, known or not.
 * Only the builders of children need that text, and it may be as large as the object, so a cache
 * need not keep it. The struct owns its strings. Times are whole seconds since 1970 in UTC, 0 = not
 * set.
 */

#define HVD_JOB_KIND "HorovodJob"
/* The value of spec.managedBy that names this operator. */
#define HVD_JOB_CONTROLLER "horovod.io/horovod-operator"
#define HVD_JOB_NAME_MAX 45
#define HVD_JOB_SSH_PORT 2222
#define HVD_JOB_GROUPS_MAX 17     /* spec.worker and 16 of spec.workerGroups */
#define HVD_JOB_WORKERS_MAX 10000 /* in all groups */
/* Of attempts, in a status: so bounded, sums of them never overflow. */
#define HVD_JOB_COUNT_MAX 10000000
#define HVD_JOB_GROUP_NAME_MAX 44 /* such a name fits together with the job's name */

enum hvd_clean_pod_policy {
    HVD_CLEAN_NONE,    /* workers and master stay */
    HVD_CLEAN_RUNNING, /* the workers are removed */
    HVD_CLEAN_ALL,     /* the master's Job and pod too */
};

/* In the order of a job's life; hvd_job_state_str has the names. */
enum hvd_job_state {
    HVD_JOB_NEW, /* not seen by the operator yet: no status */
    HVD_JOB_PENDING,
    HVD_JOB_STARTING,
    HVD_JOB_RUNNING,
    HVD_JOB_SUSPENDED,
    HVD_JOB_RESTARTING,
    HVD_JOB_SUCCEEDED,
    HVD_JOB_FAILED,
    HVD_N_JOB_STATES,
};

enum hvd_condition_type {
    HVD_COND_WORKERS_READY,
    HVD_COND_RUNNING,
    HVD_COND_SUSPENDED,
    HVD_COND_SUCCEEDED,
    HVD_COND_FAILED,
    HVD_COND_CONTESTED,        /* another writer undoes the operator's writes */
    HVD_COND_DELETION_BLOCKED, /* an object of the job is being deleted, and stays */
    HVD_N_CONDITIONS,
};

/* The reason of the condition WorkersReady once the workers of a finished job are removed. */
#define HVD_REASON_JOB_FINISHED "JobFinished"
/* Likewise, while the API server denies the removal of an object of the finished job. */
#define HVD_REASON_REMOVAL_DENIED "RemovalDenied"

enum hvd_truth {
    HVD_ABSENT, /* the condition was never set */
    HVD_FALSE,
    HVD_TRUE,
    HVD_UNKNOWN,
};

/* A metav1.Condition; reason and message are owned, NULL while absent. */
struct hvd_condition {
    enum hvd_truth truth;
    char *reason;
    char *message;
    int64_t since_s; /* lastTransitionTime: when truth last changed */
    int64_t generation;
};

/* Workers of one template; the first group is spec.worker, the others are spec.workerGroups. */
struct hvd_worker_group {
    char *name;       /* "" for spec.worker */
    int32_t replicas; /* >= 1 */
    int32_t n_enough; /* minReplicas: the master starts as soon as so many workers are Ready */
    int32_t slots;    /* per worker, >= 1; `auto` is resolved here */
};

/* One exists for each job, so members of one size are adjacent: that saves padding. */
struct hvd_job_spec {
    bool is_short_form;    /* image and command in the spec itself, no templates */
    bool is_elastic;       /* minReplicas is set: the loss of a worker does not end the attempt */
    bool is_master_worker; /* the master's pod runs ranks too, as the first host */
    bool has_ip_names;     /* the list names workers by address */
    bool is_suspended;
    bool is_foreign;      /* managedBy names another controller: the operator must not write */
    bool is_host_network; /* the workers use their nodes' network */
    bool has_launch_port; /* spec.ssh.port is given */
    struct hvd_worker_group *groups; /* owned, in the order of the host list */
    size_t n_groups;                 /* >= 1, at most HVD_JOB_GROUPS_MAX */
    int32_t replicas;                /* workers of all groups, >= 1 in a valid spec */
    int32_t master_slots;            /* ranks of the master's pod; >= 1 */
    int32_t backoff_limit;           /* attempts = backoff_limit + 1 */
    enum hvd_clean_pod_policy clean_pod_policy;
    int32_t launch_port;        /* as given, else from the status, else 2222 */
    int32_t min_available;      /* of the gang; 0: the workers that the job needs to start */
    int64_t active_deadline_s;  /* -1: none */
    int64_t ttl_s;              /* after the end; -1: kept */
    int64_t schedule_timeout_s; /* of the gang; -1: the gang scheduler's default */
    char *topology_keys;        /* joined by commas, the most significant first; NULL: none */
    char *image;   /* of the workers of spec.worker, at most 512 bytes; NULL: none is given */
    char *manager; /* the other controller in managedBy, at most 128 bytes; NULL: none */
    char *text;    /* the whole spec as compact JSON; NULL: not kept */
};

/* A worker that was lost while the master ran. */
struct hvd_worker_failure {
    char *message;   /* owned: host, node and what happened; NULL: none was lost */
    int64_t at_s;    /* when the operator saw the loss */
    int32_t attempt; /* of the lost worker; 0: an older operator did not record it */
    int32_t exit_code;
    bool has_exit_code;
    bool is_disruption; /* an eviction, preemption or deletion ended its pod, not the program */
};

/* How an attempt ended, all borrowed. The operator writes it once and never reads it, so no status
 * holds it. */
struct hvd_attempt_end {
    int32_t number;      /* of the attempt, from 1; 0: none ended */
    const char *reason;  /* "MasterFailed" ... */
    const char *message; /* at most 512 bytes of it are written */
    const char *log;     /* last lines of the master, at most 1 KiB; NULL: none */
    bool has_exit_code;
    int32_t exit_code; /* of the master */
    int64_t at_s;
};

/* The status keeps the ends of so many attempts. */
#define HVD_ATTEMPT_LOGS 5

struct hvd_job_status {
    enum hvd_job_state state;
    int32_t workers_desired;
    int32_t workers_ready;
    int32_t replicas;        /* Ready workers of spec.worker alone, which autoscalers read */
    int32_t hosts;           /* in the published list */
    int32_t attempts;        /* masters started */
    int32_t failures;        /* attempts that failed and count against backoffLimit */
    int32_t interruptions;   /* attempts that suspension or failurePolicy ended */
    int32_t failures_in_row; /* consecutive attempts that failed without working for long */
    int64_t retry_s;         /* no attempt begins before this time; 0: no wait */
    int32_t launch_port;     /* chosen for a job on the nodes' network; 0: none */
    int32_t cleaned; /* ended attempts whose pods are gone; while < ended, a restart continues */
    int64_t start_s;
    int64_t completion_s;
    int64_t observed_generation;
    struct hvd_worker_failure worker_failure; /* the last loss, in any attempt */
    char *image;       /* of the workers; of a finished job as it ran, owned; NULL: none */
    char *master_uid;  /* uid of the Job that was last seen as the master's, owned; NULL: none */
    char *failure_log; /* last lines of the master of the last failure, owned; NULL: none */
    char *others;      /* conditions of other writers, a JSON array, owned; NULL: none */
    bool is_inexact;   /* the stored status differs from what the operator would write */
    struct hvd_condition conditions[HVD_N_CONDITIONS];
};

struct hvd_job {
    char *namespace;
    char *name;
    char *uid;
    char *resource_version;
    int64_t generation;
    int64_t created_s;
    bool is_deleting;
    int64_t deletion_s; /* since when it is being deleted; 0: it is not */
    char *finalizers;   /* that delay the deletion, joined by ", "; NULL: none */
    struct hvd_job_spec spec;
    struct hvd_job_status status;
    char *invalid; /* the mistake in the spec, and what is allowed; NULL: none */
};

/*
 * Decodes an API object into *out, which then owns copies of all it needs (hvd_job_fini). A wrong
 * spec that passed the CRD is no failure, nor is an object with an unreadable part
 * (hvd_object_trouble). out->invalid then names the mistake, and reconcile turns it into the
 * condition Failed. Returns HVD_ERR_INVALID for malformed metadata, or HVD_ERR_NOMEM; *out is
 * untouched then.
 */
hvd_status_t hvd_job_decode(const cJSON *object, struct hvd_job *out, struct hvd_err *err);

/* Frees what the job owns. A zeroed struct is legal. */
void hvd_job_fini(struct hvd_job *job);

/* The size in bytes of one block for all that the job owns. */
size_t hvd_job_size(const struct hvd_job *job);

/* Moves the job, with all that it owns, into a block of that size, aligned as for a pointer. *to
 * then is the same job and owns nothing; *from is no longer valid. */
void hvd_job_move(struct hvd_job *from, void *block, struct hvd_job *to);

/* Whether the condition Succeeded or Failed is true: the operator never starts such a job again. */
bool hvd_job_is_finished(const struct hvd_job_status *status);

/* Whether the operator must not use the spec's templates now: the job has ended or is ending, is
 * suspended, has another manager, or has an invalid spec. */
bool hvd_job_is_idle(const struct hvd_job *job);

/* The number of attempts that ended and are recorded; the next or running attempt has the number
 * after it. */
int32_t hvd_job_ended(const struct hvd_job_status *status);

/* Replaces the worker failure; text is copied, NULL for none. HVD_ERR_NOMEM leaves it as it was. */
hvd_status_t hvd_job_set_worker_failure(struct hvd_job_status *status,
                                        const struct hvd_worker_failure *failure);

/* Replaces the image of the workers, likewise. */
hvd_status_t hvd_job_set_image(struct hvd_job_status *status, const char *image);

/* Replaces the uid of the master's Job, likewise. */
hvd_status_t hvd_job_set_master_uid(struct hvd_job_status *status, const char *uid);

/* Replaces the log of the failed master; text is copied, NULL for none. HVD_ERR_NOMEM likewise. */
hvd_status_t hvd_job_set_failure_log(struct hvd_job_status *status, const char *text);

/*
 * Bounds the values of a status that others may have forged, at time now_s. Bounds counts by each
 * other, and times by the job's creation and by now. Derives the state and the end from the
 * condition Succeeded or Failed (Failed if both are true). Callers trust the rest. Changes no text
 * that the status owns.
 */
void hvd_job_status_bound(struct hvd_job_status *status, int64_t created_s, int64_t now_s);

/* "Pending", "Succeeded" ...; "" for HVD_JOB_NEW. */
const char *hvd_job_state_str(enum hvd_job_state state);

/* "WorkersReady" ... */
const char *hvd_job_condition_str(enum hvd_condition_type type);

/* Copies a status deeply into *out. HVD_ERR_NOMEM leaves *out untouched. */
hvd_status_t hvd_job_status_copy(const struct hvd_job_status *from, struct hvd_job_status *out);

/* Frees what the status owns. A zeroed struct is legal. */
void hvd_job_status_fini(struct hvd_job_status *status);

/* Whether both statuses would be written alike. */
bool hvd_job_status_equal(const struct hvd_job_status *a, const struct hvd_job_status *b);

/* What hvd_job_condition_set writes; the strings are copied, message is cut at 1 KiB. */
struct hvd_condition_update {
    enum hvd_condition_type type;
    enum hvd_truth truth;
    const char *reason;
    const char *message;
};

/*
 * Sets a condition. Its time changes only together with its truth. *changed (may be NULL) becomes
 * whether the truth changed. HVD_ERR_NOMEM leaves the condition as it was.
 */
hvd_status_t hvd_job_condition_set(struct hvd_job_status *status,
                                   const struct hvd_condition_update *update, int64_t now_s,
                                   bool *changed);

/*
 * Encodes the body of a merge patch of the status subresource: preconditions (uid, resourceVersion)
 * and the whole status, null for each unset field. Adds the attempt's end (may be NULL, or number
 * 0) to status.attemptLogs and removes the one beyond the limit; the others stay, unread. The
 * caller frees *out with hvd_free. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_job_status_encode(const struct hvd_job *job, const struct hvd_job_status *status,
                                   const struct hvd_attempt_end *end, char **out,
                                   struct hvd_err *err);

#endif
