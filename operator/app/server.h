#ifndef HVD_OPERATOR_APP_SERVER_H
#define HVD_OPERATOR_APP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/status.h"
#include "operator/app/options.h"

/* The server's callbacks to its owner; called on the thread that steps it. */
struct hvd_server_handler {
    void *ctx;
    bool (*is_ready)(void *ctx, struct hvd_buf *why); /* why: a line for each fault */
    hvd_status_t (*put_metrics)(void *ctx, struct hvd_buf *out);
};

/* The server of /healthz, /readyz and /metrics: no thread of its own, driven by the event loop. */
struct hvd_server;

/* All borrowed, for the server's life. */
struct hvd_server_options {
    const struct hvd_listen *listen;
    const char *cert_file; /* NULL: no TLS */
    const char *key_file;
    const struct hvd_log *log;
    struct hvd_server_handler handler;
};

/*
 * Listens; *out is the caller's to destroy. HVD_ERR_SYSTEM names the address and the cause. With
 * TLS, an unusable certificate or key is HVD_ERR_INVALID, or the error of reading it.
 */
hvd_status_t hvd_server_create(const struct hvd_server_options *options, struct hvd_server **out,
                               struct hvd_err *err);

/* Closes all connections. NULL is legal. */
void hvd_server_destroy(struct hvd_server *server);

/* A descriptor that is readable when the server has something to do. */
int hvd_server_fd(const struct hvd_server *server);

/* Serves the pending requests; never blocks. Returns the milliseconds until it must be called again
 * even if the descriptor is not readable; -1: no need. */
int hvd_server_step(struct hvd_server *server);

#endif
