#ifndef HVD_OPERATOR_CORE_VIEW_PROJECTION_H
#define HVD_OPERATOR_CORE_VIEW_PROJECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "operator/api/kind.h"

/*
 * Projections: of each child and pod only the fields that reconcile reads. Strings are owned, NULL
 * if the object has none. Caches keep projections packed (packed.h), so a new field must be added
 * there, too. Every field read here must be in hvd_shape_of_kind.
 */

enum hvd_role {
    HVD_ROLE_NONE,
    HVD_ROLE_MASTER,
    HVD_ROLE_WORKER,
};

/* Labels of ours that an object has lost, or has with a wrong value. */
enum hvd_label {
    HVD_LOST_MANAGER = 1,
    HVD_LOST_JOB = 2,
    HVD_LOST_ROLE = 4,
    HVD_LOST_GROUP = 8,
};

/* Fields of the master's Job that the operator leaves unset, and another writer has set. */
enum hvd_job_field {
    HVD_JOB_TTL = 1,      /* ttlSecondsAfterFinished: removes the Job before its end is read */
    HVD_JOB_DEADLINE = 2, /* activeDeadlineSeconds */
    HVD_JOB_BACKOFF = 4,  /* a backoffLimit: makes a second master beside the old workers */
};

/* Evidence that the shell has recorded for an object, by its uid. */
enum hvd_noted {
    HVD_NOTED_NOT,
    HVD_NOTED_SEEN, /* the HorovodJob in made_for was its controller */
    HVD_NOTED_MADE, /* the operator made it for that job, and it came without a controller */
};

struct hvd_meta {
    char *namespace;
    char *name;
    char *uid;
    char *resource_version;
    /* The key under which a cache files the object. Immutable evidence comes first: the controller
     * of a child, the subdomain of a pod. Otherwise it is the label horovod.io/job-name. */
    char *job;
    char *owner_kind; /* the controlling owner reference */
    char *owner_name;
    char *owner_uid;
    /* The uid of the HorovodJob that the object was made for. Sources, in this order: the pod
     * template of a child, its own annotation, and what the shell saw of it before (history.h). For
     * a pod only if it has no controller. NULL: unknown. */
    char *made_for;
    enum hvd_noted noted;
    enum hvd_role role;
    int64_t created_s;
    bool is_deleting;
    int64_t deletion_s;  /* deletionTimestamp, of a pod the end of its grace period; 0: none */
    char *finalizers;    /* of an object that is being deleted, joined by ", "; NULL: none */
    bool has_owners;     /* owner references of any kind */
    bool is_in_sight;    /* of the watches: it has the label that they select by */
    bool is_doubtful;    /* the watch no longer shows it; only a GET can decide whether it is
                            gone */
    int32_t lost_labels; /* of enum hvd_label */
};

enum hvd_pod_phase {
    HVD_POD_PENDING,
    HVD_POD_RUNNING,
    HVD_POD_SUCCEEDED,
    HVD_POD_FAILED,
};

/* The stage of a pod that is not Ready and shows no trouble. */
enum hvd_pod_stage {
    HVD_STAGE_NONE,
    HVD_STAGE_GATED,    /* it must not be scheduled yet */
    HVD_STAGE_SCHEDULE, /* its scheduler has not reported about it */
    HVD_STAGE_START,    /* a node has it, and not all of its containers run */
    HVD_STAGE_INIT,     /* an init container runs */
    HVD_STAGE_SIDECAR,  /* a sidecar runs, and its startup probe has not succeeded */
    HVD_STAGE_READY,    /* a container runs and is not ready */
    HVD_STAGE_GATES,    /* all containers are ready, but the pod is not */
};

struct hvd_pod_view {
    enum hvd_pod_phase phase;
    bool is_orphan; /* a StatefulSet or the Job of its job made it, but no longer controls it */
    bool is_ready;
    char *trouble; /* what keeps it from being Ready and does not pass by itself; NULL: nothing */
    enum hvd_pod_stage stage;
    int64_t stage_s;       /* since when */
    char *stage_container; /* its container, or its scheduler; NULL: unknown, or all */
    char *hosts_seen;      /* annotation horovod.io/hosts */
    char *reason;          /* status.reason, e.g. Evicted */
    char *message;         /* status.message, at most 1 KiB */
    char *disruption;      /* why it has to go, from the condition DisruptionTarget; NULL: it has
                              not */
    int64_t disrupted_s;   /* since when */
    char *node;
    char *ip;          /* of a worker */
    char *topology;    /* of a worker with topology keys: hvd_topology_text of its labels */
    uint64_t revision; /* of a worker: of its template; 0: not known */
    int64_t started_s; /* when the role's container was started; 0: it was not */
    int64_t deleted_s; /* when its grace period is over; 0: it is not being deleted */
    int64_t grace_s;   /* length of that period when it was deleted */
    /* Set by the shell, by its monotonic clock: when it saw the deletion. If the pod was deleting
     * when first seen, its grace period earlier. 0: not known. */
    int64_t going_ms;
    bool is_killed; /* it is being deleted without a grace period */
    /* Of a master the container that failed first (init containers come first); of a worker the
     * role's container if it has ended and was perhaps restarted. has_failed: there is one. */
    bool has_failed;
    bool is_init; /* that container is an init container */
    int32_t exit_code;
    int32_t exit_signal;
    int64_t ended_s;
    int64_t own_ended_s; /* of a master: when its own container ended; 0: unknown, or it did not */
    int32_t restarts;    /* of a worker's container */
    char *container;
    char *container_reason; /* e.g. OOMKilled, Error */
    char *memory_limit;     /* of a container that was killed for memory; NULL: none, or unknown */
    char *left; /* of a master that has ended: its containers that still run, see sidecars.c */
    int64_t deadline_s; /* spec.activeDeadlineSeconds of a master; 0: none */
    char *last_line;    /* of its termination message: names the cause, at most 1 KiB */
    char *last_lines;   /* the whole lines at its end, at most 1 KiB, without mpirun's banner */
};

#define HVD_GANG_FIELDS 5
#define HVD_MARK_TEXT_MAX 1280 /* of the annotation that holds a mark (mark.h) */

/* An immutable field that differs from what the operator sent (altered.c). */
struct hvd_altered {
    int32_t field; /* its row; 0: none */
    char *value;
};

struct hvd_object {
    enum hvd_kind kind;
    struct hvd_meta meta;
    union {
        struct {
            bool is_headless;
            bool has_address; /* of its own, which it cannot lose any more */
            bool publishes_not_ready;
            bool selects_job; /* exactly by our labels */
        } service;
        struct {
            int64_t replicas;
            uint64_t revision; /* a hash of the name of its template's revision; 0: none yet */
            bool is_on_delete; /* the update strategy, with nothing else in it */
            struct hvd_altered altered;
            bool is_unseen;     /* its controller has not seen this version */
            bool is_shifted;    /* its first worker's number is not 0 */
            int64_t generation; /* annotation: of its HorovodJob when it was started; 0: not
                                   recorded */
            char *spec_hash;
        } statefulset;
        struct {
            uint64_t data_hash; /* hvd_hosts_hash of its data */
            bool is_immutable;
            bool is_shadowed; /* binaryData holds a file of the list, so data cannot */
            char *end;        /* annotation: the recorded end of the job (mark.h), or NULL */
        } configmap;
        struct {
            int32_t attempt;       /* 0: not ours */
            char *workers;         /* annotation horovod.io/workers: replicas of each group */
            char *scaled_down;     /* annotation: when and how scaling removed workers, or NULL */
            uint64_t workers_hash; /* annotation; 0: none, or the Job has ended */
            bool is_held;          /* its spec keeps it from making a pod: suspend, or no
                                      parallelism */
            int32_t set_by_others; /* of enum hvd_job_field */
            struct hvd_altered altered;
            bool is_unseen; /* its controller has not seen it */
            char *manager;  /* the other controller in spec.managedBy; NULL: none */
            bool is_complete;
            bool is_failed;
            int64_t failed_s; /* when */
            char *message;    /* of the condition Failed */
        } job;
        struct {
            char *spec_hash;                  /* annotation of ours */
            uint64_t fields[HVD_GANG_FIELDS]; /* hashes of the fields that the operator may set;
                                                 0: absent */
            bool is_pending;                  /* the gang scheduler has not placed it yet */
        } podgroup;
        struct hvd_pod_view pod;
    } u;
};

#endif
