#ifndef HVD_OPERATOR_API_KIND_H
#define HVD_OPERATOR_API_KIND_H

#include <stdbool.h>

/* The kinds of object that the operator reads or writes, with their places in the API. */
enum hvd_kind {
    HVD_KIND_HOROVODJOB,
    HVD_KIND_SECRET,
    HVD_KIND_SERVICE,
    HVD_KIND_STATEFULSET,
    HVD_KIND_CONFIGMAP,
    HVD_KIND_JOB,
    HVD_KIND_POD,
    HVD_KIND_EVENT,
    HVD_KIND_LEASE,
    HVD_KIND_NODE, /* one at a time, for the rank order */
    /* The operator uses at most one of these: the PodGroup of the gang scheduler in its options. */
    HVD_KIND_VOLCANO_PODGROUP,
    HVD_KIND_PLUGINS_PODGROUP,
    HVD_N_KINDS,
};

/* One row per kind; all strings are constants. */
struct hvd_kind_info {
    const char *kind;        /* "StatefulSet" */
    const char *api_version; /* "apps/v1" */
    const char *root;        /* "/apis/apps/v1": before "/namespaces/NS/RESOURCE" */
    const char *resource;    /* "statefulsets" */
    const char *verbs;       /* that the operator may use, "get list": the rights in the chart */
};

/* The row of a kind. Never NULL for a legal kind. */
const struct hvd_kind_info *hvd_kind_info(enum hvd_kind kind);

/* Whether the operator may make that request ("delete") for objects of the kind. The status of a
 * HorovodJob, which it patches, is a resource of its own. */
bool hvd_kind_allows(enum hvd_kind kind, const char *verb);

#define HVD_LABEL_MANAGED_BY "app.kubernetes.io/managed-by"
#define HVD_LABEL_JOB "horovod.io/job-name"
#define HVD_LABEL_ROLE "horovod.io/role"
#define HVD_LABEL_GROUP "horovod.io/worker-group"
#define HVD_MANAGER "horovod-operator" /* value of the label, source of the events */

/* Selects children and pods in watches: the only one of our labels that no other tool writes. */
#define HVD_SELECTOR_MANAGED HVD_LABEL_JOB

/* Annotations, in this order:
 * - the uid of the HorovodJob that a child was made for, which stays when the owner reference is
 *   gone;
 * - the template that a StatefulSet was made from;
 * - the attempt of a master's Job, how many workers of each group it started with, and which: a
 *   hash of their uids and restarts, because times have whole seconds;
 * - the host list that the operator announced to a master's pod, with the stage and the time. */
#define HVD_ANNOTATION_JOB_UID "horovod.io/job-uid"
#define HVD_ANNOTATION_SPEC_HASH "horovod.io/spec-hash"
/* Of the HorovodJob when its set was started. */
#define HVD_ANNOTATION_GENERATION "horovod.io/generation"
#define HVD_ANNOTATION_ATTEMPT "horovod.io/attempt"
/* Of a job, while the operator cannot write its status. */
#define HVD_ANNOTATION_END "horovod.io/end"
#define HVD_ANNOTATION_WORKERS "horovod.io/workers"
#define HVD_ANNOTATION_WORKERS_HASH "horovod.io/workers-hash"
#define HVD_ANNOTATION_SCALED_DOWN "horovod.io/scaled-down"
/* The container of the role, if it is not named after the role. */
#define HVD_ANNOTATION_CONTAINER "horovod.io/container"
#define HVD_ANNOTATION_HOSTS "horovod.io/hosts"

/* On workers: spec.topologyKeys, which names the labels that count for the pod. */
#define HVD_ANNOTATION_TOPOLOGY "horovod.io/topology-keys"

#endif
