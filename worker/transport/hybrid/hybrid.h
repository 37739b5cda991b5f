#ifndef HVD_WORKER_TRANSPORT_HYBRID_HYBRID_H
#define HVD_WORKER_TRANSPORT_HYBRID_HYBRID_H

#include "worker/transport/hosts/hosts.h"
#include "worker/transport/shm/shm.h"

struct hvd_hybrid_options {
    bool wants_shm;               /* false here: no rank uses shared memory */
    struct hvd_shm_shape shape;   /* n_ranks is not used; zeroes are the defaults */
    struct hvd_hosts_shape hosts; /* of collectives between hosts */
    uint64_t host;                /* ranks with another number do not share memory, whatever else */
    int timeout_ms;               /* for handing the memory around; 0: 10 s */
    const struct hvd_log *log;    /* borrowed for the call; may be NULL */
};

/*
 * The best transport for the ranks that `far` reaches. Ranks that share memory are a domain:
 * messages and data between them go through it. Where there is one domain, `far` is kept for its
 * names of hosts and for the end. Where there are more, it carries what goes from domain to domain:
 * messages, and collectives as hosts.h says. Where nobody shares memory, *out is `far` itself.
 * Process sets are divided in the same way.
 *
 * Two ranks share memory when one got it from the other; all ranks come to the same answer.
 * Collective. Takes far over, on failure destroys it: HVD_ERR_NOMEM, or what far returned on
 * failure.
 */
hvd_status_t hvd_hybrid_create(struct hvd_transport *far, const struct hvd_hybrid_options *options,
                               struct hvd_transport **out, struct hvd_err *err);

#endif
