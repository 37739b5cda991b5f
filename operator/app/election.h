#ifndef HVD_OPERATOR_APP_ELECTION_H
#define HVD_OPERATOR_APP_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "operator/kube/api.h"
#include "operator/kube/watch.h"

/* Takes part in the election of a leader: follows the Lease, takes it, renews it, releases it. */
struct hvd_election;

/* All pointers are borrowed for the election's life. */
struct hvd_election_options {
    const struct hvd_kube_api *api;
    const char *ns;
    const char *name;     /* of the Lease */
    const char *identity; /* unique to each process */
    int64_t duration_ms;
    uint32_t seed;
    const struct hvd_log *log;
    int64_t (*now_ms)(void);  /* a monotonic clock */
    int64_t (*unix_us)(void); /* the time of day, for readers of the Lease */
};

/* *out is the caller's to destroy. Sends nothing yet. HVD_ERR_NOMEM. */
hvd_status_t hvd_election_create(const struct hvd_election_options *options,
                                 struct hvd_election **out, struct hvd_err *err);

/* Cancels requests under way and frees. NULL is legal. */
void hvd_election_destroy(struct hvd_election *election);

/* Sends what is due. Returns the latest time for the next call. */
int64_t hvd_election_step(struct hvd_election *election);

/* Whether this operator leads. Changes are logged. */
bool hvd_election_is_leader(const struct hvd_election *election);

/* Whether a write may start now. */
bool hvd_election_may_write(const struct hvd_election *election);

/* The port for writes: refuses them (HVD_ERR_STATE) while none may start. Lives as long as the
 * election. */
const struct hvd_kube_api *hvd_election_fence(const struct hvd_election *election);

/* From now on no write starts; further steps release the Lease. */
void hvd_election_stop(struct hvd_election *election);

/* Whether nothing is held any more. */
bool hvd_election_is_over(const struct hvd_election *election);

/* The health of the watch of the Lease. */
struct hvd_watch_health hvd_election_health(const struct hvd_election *election);

#endif
