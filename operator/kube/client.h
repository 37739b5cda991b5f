#ifndef HVD_OPERATOR_KUBE_CLIENT_H
#define HVD_OPERATOR_KUBE_CLIENT_H

#include <stdint.h>

#include "base/status.h"
#include "operator/kube/api.h"
#include "operator/kube/config.h"

/* A request that left and has ended. */
struct hvd_kube_observation {
    hvd_verb_t verb;
    enum hvd_kind kind;
    long code;        /* HTTP status, 0 when none came */
    int64_t total_us; /* from send to the end; for a stream that is its life */
};

/* Called after every request that left; the observation is borrowed for the call. */
typedef void (*hvd_kube_observe_fn)(void *ctx, const struct hvd_kube_observation *observation);

/* The Date of an answer that has begun, and when it was under way, by CLOCK_BOOTTIME. */
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
    void *observe_ctx;                    /* of both */
};

/* The client on libcurl: one connection where the server speaks HTTP/2. One thread. */
struct hvd_kube_client;

/* curl_easy_init and the like need this once per process, before threads. */
hvd_status_t hvd_kube_client_global_init(struct hvd_err *err);

/* Undoes hvd_kube_client_global_init. */
void hvd_kube_client_global_fini(void);

/* *out is the caller's to destroy. Connects to nothing yet. HVD_ERR_NOMEM, or what a token file
 * that cannot be read gives. */
hvd_status_t hvd_kube_client_create(const struct hvd_kube_client_options *options,
                                    struct hvd_kube_client **out, struct hvd_err *err);

/* Ends every request under way with HVD_ERR_CANCELED (on_done is called) and frees. NULL is ok. */
void hvd_kube_client_destroy(struct hvd_kube_client *client);

/* The port of this client; valid as long as it is. */
const struct hvd_kube_api *hvd_kube_client_api(const struct hvd_kube_client *client);

/*
 * Gives up every connection: what is not sent yet never leaves this machine, requests under way end
 * with HVD_ERR_UNAVAILABLE and the next ones connect anew. Not from within on_open and on_data.
 */
void hvd_kube_client_drop(struct hvd_kube_client *client, const char *why);

/*
 * Moves bytes and calls on_open, on_data and on_done for what has happened; never blocks. When a
 * request times out and nothing at all has come since it was sent, the connections are dropped.
 */
hvd_status_t hvd_kube_client_step(struct hvd_kube_client *client, struct hvd_err *err);

/*
 * Sends the requests made since the last step, without waiting for the next one. True if there were
 * any: bytes were moved then, and on_open and on_data called, but no on_done.
 */
bool hvd_kube_client_flush(struct hvd_kube_client *client);

/*
 * Waits until the network, one of the n extra descriptors (readable) or the time wants something;
 * not at all after a flush, or a send of a list, which has moved bytes itself: on_done is still to
 * be called for what ended there.
 * Bit i of *readable (may be NULL) tells that fds[i] does.
 */
hvd_status_t hvd_kube_client_wait(struct hvd_kube_client *client, const int *fds, unsigned n,
                                  int timeout_ms, unsigned *readable, struct hvd_err *err);

#endif
