#ifndef HVD_OPERATOR_KUBE_CLIENT_H
#define HVD_OPERATOR_KUBE_CLIENT_H

#include <stdint.h>

#include "base/status.h"
#include "operator/kube/api.h"
#include "operator/kube/config.h"

/* A request that was sent and has ended. */
struct hvd_kube_observation {
    hvd_verb_t verb;
    enum hvd_kind kind;
    long code;        /* HTTP status, 0 without an answer */
    int64_t total_us; /* from send to the end; of a stream its lifetime */
};

/* Called after every request that was sent; the observation is borrowed for the call. */
typedef void (*hvd_kube_observe_fn)(void *ctx, const struct hvd_kube_observation *observation);

/* The Date of an answer that has begun, and when the request was under way, by CLOCK_BOOTTIME. */
struct hvd_kube_date {
    int64_t date_s;
    int64_t sent_ms;
    int64_t received_ms;
};

/* Called for every answer of the server that has a Date. Must not send or cancel requests. */
typedef void (*hvd_kube_date_fn)(void *ctx, const struct hvd_kube_date *date);

struct hvd_kube_client_options {
    const struct hvd_kube_config *config; /* borrowed, must outlive the client */
    hvd_kube_observe_fn observe;          /* may be NULL */
    hvd_kube_date_fn dated;               /* may be NULL */
    void *observe_ctx;                    /* for both callbacks */
};

/* The client on libcurl: one connection where the server speaks HTTP/2. One thread. */
struct hvd_kube_client;

/* Initialises libcurl. Call once per process, before any thread starts. */
hvd_status_t hvd_kube_client_global_init(struct hvd_err *err);

/* Undoes hvd_kube_client_global_init. */
void hvd_kube_client_global_fini(void);

/* *out is the caller's to destroy. Opens no connection yet. HVD_ERR_NOMEM, or the error of reading
 * the token file. */
hvd_status_t hvd_kube_client_create(const struct hvd_kube_client_options *options,
                                    struct hvd_kube_client **out, struct hvd_err *err);

/* Ends every request under way with HVD_ERR_CANCELED (calls on_done) and frees. NULL is legal. */
void hvd_kube_client_destroy(struct hvd_kube_client *client);

/* The port of this client; valid until the client is destroyed. */
const struct hvd_kube_api *hvd_kube_client_api(const struct hvd_kube_client *client);

/*
 * Gives up every connection. Unsent bytes never leave this machine, requests under way end with
 * HVD_ERR_UNAVAILABLE, and later ones connect anew. Not from within on_open and on_data.
 */
void hvd_kube_client_drop(struct hvd_kube_client *client, const char *why);

/*
 * Moves bytes and calls on_open, on_data and on_done as needed; never blocks. When a request times
 * out and the server sent nothing since it was sent, the client drops the connections.
 */
hvd_status_t hvd_kube_client_step(struct hvd_kube_client *client, struct hvd_err *err);

/*
 * Sends the requests made since the last step, without waiting for the next one. Returns whether
 * there were any. Then it has moved bytes and may have called on_open and on_data, but not on_done.
 */
bool hvd_kube_client_flush(struct hvd_kube_client *client);

/*
 * Waits until the network, one of the n extra descriptors (readable) or a timer needs service.
 * Returns at once after a flush or the send of a list, which have moved bytes: on_done is due for
 * calls that ended there. Bit i of *readable (may be NULL) is set when fds[i] is readable.
 */
hvd_status_t hvd_kube_client_wait(struct hvd_kube_client *client, const int *fds, unsigned n,
                                  int timeout_ms, unsigned *readable, struct hvd_err *err);

#endif
