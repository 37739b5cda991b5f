#ifndef HVD_OPERATOR_CORE_PASS_PODS_H
#define HVD_OPERATOR_CORE_PASS_PODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "operator/core/children/hosts.h"
#include "operator/core/view/view.h"

/* Within operator/core only. A summary of a job's pods. */
struct hvd_pods {
    /* Owned: Ready, not terminating, ordinal below the wanted count, with an address if the list
     * needs it. Unordered before hvd_pods_sort. */
    struct hvd_worker *ready;
    size_t n_ready;
    int32_t n_ready_of[HVD_JOB_GROUPS_MAX]; /* in each group */
    int32_t n_of[HVD_JOB_GROUPS_MAX];       /* made by each group's set, in any state */
    size_t n_workers;                       /* in any state, terminating ones too */
    size_t n_masters;                       /* likewise */
    /* The first pod of the current master Job, even if the Job has released it; NULL if none. */
    const struct hvd_object *master;
    const struct hvd_object *other;    /* a second pod of that Job, beside a released master */
    const struct hvd_object *stray;    /* a master that its Job has released: only the operator
                                          removes it */
    const struct hvd_object *troubled; /* the first worker with a cause that keeps it from being
                                          Ready */
    const struct hvd_object *slow;     /* the worker that has been at its stage for the longest
                                          time */
    const struct hvd_object
        *misnamed;     /* a pod that a set of ours controls, without a worker's name; the first */
    size_t n_misnamed; /* the number of those */
};

/* The makers of the pods; each may be NULL. */
struct hvd_pod_owners {
    const struct hvd_object *sets[HVD_JOB_GROUPS_MAX]; /* by group */
    const struct hvd_object *master_job;
};

/*
 * Sums up the view's pods. The caller frees *out with hvd_pods_fini. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_pods_collect(const struct hvd_view *view, const struct hvd_pod_owners *owners,
                              struct hvd_pods *out);

/* Whether its StatefulSet reads a number in the pod's name, as in "00": the pod then takes a
 * worker's place. A number beyond int32 does not count, and no controller ever deletes such a
 * pod. */
bool hvd_pods_is_numbered(const struct hvd_object *pod);

/* Sorts the Ready workers in the order of the list: by topology, then by group and number. */
void hvd_pods_sort(struct hvd_pods *pods);

/* Whether a set or the Job of ours made the pod. The maker may be gone, and may have released the
 * pod because it was deleted without its pods or the pod's labels were edited. A pod that has only
 * our labels is foreign: it is no worker and no master, nothing waits for it, and the operator
 * leaves it alone. */
bool hvd_pods_is_ours(const struct hvd_view *view, const struct hvd_object *pod,
                      const struct hvd_pod_owners *owners);

/* Whether a pod of ours has lost the controller that made it. Labels identify a pod of the Job
 * controller. Without them the status does, if it names the pod as the master. */
bool hvd_pods_is_let_go(const struct hvd_job *job, const struct hvd_object *pod);

#define HVD_POD_NAME_SIZE 254

/* The master's pod that the status names, as running or as ended; false: it names none. */
bool hvd_pods_named(const struct hvd_job *job, char out[HVD_POD_NAME_SIZE]);

/* Which worker the pod is, even if its set has released it; false if no set of ours made it. */
bool hvd_pods_identify(const struct hvd_view *view, const struct hvd_object *pod,
                       const struct hvd_pod_owners *owners, struct hvd_worker *out);

/* The ordinal in the name of a pod of the set, -1 for another name. Each ordinal has one notation,
 * so two pods are never the same worker. */
int32_t hvd_pods_ordinal(const struct hvd_object *set, const struct hvd_object *pod);

/* The same by the names alone. */
int32_t hvd_pods_ordinal_in(const char *set, const char *pod);

/* The number that the StatefulSet controller reads in the name, with any leading zeros: it adopts
 * such a pod in place of the worker of that number, or to remove it. INT32_MAX for a larger one,
 * which it adopts and leaves alone; -1 for a name that is not one of the set's pods. */
int32_t hvd_pods_number_in(const char *set, const char *pod);

/* Frees what it owns. A zeroed struct is legal. */
void hvd_pods_fini(struct hvd_pods *pods);

#endif
