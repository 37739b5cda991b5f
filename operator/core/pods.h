#ifndef HVD_OPERATOR_CORE_PODS_H
#define HVD_OPERATOR_CORE_PODS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "operator/core/reconcile.h"

/* Within operator/core only. What the pods of a job amount to. */
struct hvd_pods {
    int32_t *ready; /* owned: ordinals below the wanted count, Ready, not terminating; ascending */
    size_t n_ready;
    size_t n_workers;                  /* in any state, terminating ones too */
    size_t n_masters;                  /* likewise */
    const struct hvd_object *master;   /* the pod of the current master Job; NULL if none */
    const struct hvd_object *troubled; /* the first worker that something keeps from being Ready */
};

/*
 * Sums up the view's pods; worker_set and master_job (may be NULL) are their owners. The caller
 * frees *out with hvd_pods_fini. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_pods_collect(const struct hvd_view *view, const struct hvd_object *worker_set,
                              const struct hvd_object *master_job, struct hvd_pods *out);

/* Frees what it owns. A zeroed struct is legal. */
void hvd_pods_fini(struct hvd_pods *pods);

#endif
