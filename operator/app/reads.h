#ifndef HVD_OPERATOR_APP_READS_H
#define HVD_OPERATOR_APP_READS_H

#include "operator/core/pass/plan.h"
#include "operator/kube/api.h"

/* The requests of actions that read. What their answers mean is perform.c's. */

/* Secrets and nodes are read without their contents. */
#define HVD_READS_METADATA "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

/* Who takes the answer. */
struct hvd_asker {
    hvd_kube_done_fn on_done;
    void *ctx;
};

/* Asks for the object that the action is about, by its name. A failure means that nothing was sent
 * and on_done is not called. */
hvd_status_t hvd_reads_get(const struct hvd_kube_api *api, const struct hvd_action *action,
                           const struct hvd_asker *asker, struct hvd_err *err);

/* Asks what the action, which is a read, wants to know. Fails likewise. */
hvd_status_t hvd_reads_send(const struct hvd_kube_api *api, const struct hvd_action *action,
                            const struct hvd_asker *asker, struct hvd_err *err);

#endif
