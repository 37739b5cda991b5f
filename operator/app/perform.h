#ifndef HVD_OPERATOR_APP_PERFORM_H
#define HVD_OPERATOR_APP_PERFORM_H

#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "operator/app/explainer.h"
#include "operator/app/metrics.h"
#include "operator/app/store.h"
#include "operator/core/lease/server_clock.h"
#include "operator/kube/api.h"

/* The outcome of a plan. */
struct hvd_outcome {
    hvd_status_t status; /* HVD_OK: reconcile at once; else with backoff */
    int64_t at_least_ms; /* wait that the server requested; 0: none */
    const char *message; /* the cause of a failure; borrowed */
    int64_t wake_at_ms;  /* of the plan: its waits need no backoff; 0: none */
};

/* Called once per plan, after the answer to its last request. May start another plan. */
typedef void (*hvd_performed_fn)(void *ctx, struct hvd_entry *entry,
                                 const struct hvd_outcome *outcome);

/* Executes plans. Everything is borrowed and must outlive the requests. */
struct hvd_performer {
    const struct hvd_kube_api *api;
    struct hvd_store *store;
    struct hvd_metrics *metrics;
    const struct hvd_log *log;
    const struct hvd_stages *stages; /* NULL: no measurement */
    const struct hvd_server_clock *clock;
    struct hvd_explainer *explainer;
    hvd_performed_fn performed;
    void *ctx;
};

/*
 * Starts the plan of an entry, whose queue item is active until performed is called. On success the
 * plan's contents move out of *plan. HVD_ERR_NOMEM leaves them to the caller, and performed is not
 * called.
 */
hvd_status_t hvd_perform(const struct hvd_performer *performer, struct hvd_entry *entry,
                         struct hvd_plan *plan, struct hvd_err *err);

#endif
