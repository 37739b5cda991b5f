#ifndef HVD_WORKER_TRANSPORT_HYBRID_HYBRID_H
#define HVD_WORKER_TRANSPORT_HYBRID_HYBRID_H

#include "worker/transport/hosts/hosts.h"
#include "worker/transport/shm/shm.h"

struct hvd_hybrid_options {
    bool wants_shm;               /* false on any rank: no rank uses shared memory */
    struct hvd_shm_shape shape;   /* n_ranks is ignored; zeroes stand for the defaults */
    struct hvd_hosts_shape hosts; /* of collectives between hosts */
    uint64_t host;                /* ranks with different numbers never share memory */
    int timeout_ms;               /* for passing the memory to the local peers; 0: 10 s */
    const struct hvd_log *log;    /* borrowed for the call; may be NULL */
};

/*
 * Makes the best transport for the ranks that `far` reaches. Ranks that share memory form a domain,
 * and their messages and data pass through it. With one domain, `far` only names the hosts and ends
 * the job. With several, it carries messages and collectives between domains (hosts.h). Process
 * sets are divided in the same way. Where no two ranks share memory, `far` carries everything. *out
 * then detects lost ranks of its host; it is `far` itself if there are none to watch.
 *
 * Two ranks share memory when one received it from the other; all ranks come to the same answer.
 * Collective. Takes ownership of far and destroys it on failure: HVD_ERR_NOMEM, or the failure of
 * far.
 */
hvd_status_t hvd_hybrid_create(struct hvd_transport *far, const struct hvd_hybrid_options *options,
                               struct hvd_transport **out, struct hvd_err *err);

#endif
