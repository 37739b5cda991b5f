#ifndef HVD_OPERATOR_APP_OPERATOR_H
#define HVD_OPERATOR_APP_OPERATOR_H

#include "base/log.h"
#include "base/status.h"
#include "operator/app/options.h"
#include "operator/kube/config.h"

/* The running operator: client, watches, store, queue and server, on one thread. */
struct hvd_operator;

/* All borrowed, for the operator's life. */
struct hvd_operator_setup {
    const struct hvd_options *options;
    const struct hvd_kube_config *config;
    const struct hvd_log *log;
    const char *identity; /* in the Lease; unique to each process */
    int stop_fd;          /* readable when the operator must stop */
};

/* *out is the caller's to destroy. Listens already; run connects to the API server. */
hvd_status_t hvd_operator_create(const struct hvd_operator_setup *setup, struct hvd_operator **out,
                                 struct hvd_err *err);

/*
 * Works until stop_fd is readable; with an election only while it leads. Gives writes under way
 * half a second to end, then releases the Lease.
 */
hvd_status_t hvd_operator_run(struct hvd_operator *op, struct hvd_err *err);

/* Cancels requests under way and frees. NULL is legal. */
void hvd_operator_destroy(struct hvd_operator *op);

#endif
