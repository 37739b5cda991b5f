#ifndef HVD_OPERATOR_APP_READS_H
#define HVD_OPERATOR_APP_READS_H

#include "operator/core/pass/plan.h"
#include "operator/kube/api.h"

/* The requests of read actions. perform.c interprets their answers. */

/* Secrets and nodes are read without their contents. */
#define HVD_READS_METADATA "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

/* The receiver of the answer. */
struct hvd_asker {
    hvd_kube_done_fn on_done;
    void *ctx;
};

/* Reads the action's object by its name. A failure means that nothing was sent and on_done is not
 * called. */
hvd_status_t hvd_reads_get(const struct hvd_kube_api *api, const struct hvd_action *action,
                           const struct hvd_asker *asker, struct hvd_err *err);

/* Sends the request of the action, which is a read. Fails likewise. */
hvd_status_t hvd_reads_send(const struct hvd_kube_api *api, const struct hvd_action *action,
                            const struct hvd_asker *asker, struct hvd_err *err);

#endif
