#ifndef HVD_WORKER_TRANSPORT_SHM_SEGMENT_H
#define HVD_WORKER_TRANSPORT_SHM_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Passes memory from one process of a host to others: a memfd over a UNIX socket without a name in
 * the file system. Needs no privilege, no /dev/shm and no common /tmp. Every user of the host can
 * connect to the socket, or take over its name once this process is gone. So each side shows the
 * other a number that it received another way. */
struct hvd_shm_offer {
    int fd;         /* of the memory; -1: none */
    int listener;   /* of the socket; -1: none */
    uint64_t token; /* a taker presents it */
    uint64_t proof; /* comes with the memory */
    char name[32];  /* of the socket, its first byte is 0 */
    unsigned name_len;
};

/* Makes zeroed memory of `size` bytes and a socket that hands it out. The caller has to call
 * hvd_shm_offer_fini. HVD_ERR_SYSTEM. */
hvd_status_t hvd_shm_offer_init(struct hvd_shm_offer *offer, size_t size, struct hvd_err *err);

/* Hands the memory to n_takers processes that present the token. Rejects all others, and waits for
 * none of those. HVD_ERR_TIMEOUT when not all takers come in time, HVD_ERR_SYSTEM,
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_shm_offer_serve(struct hvd_shm_offer *offer, int n_takers, int timeout_ms,
                                 struct hvd_err *err);

/* Closes the open descriptors. A caller that keeps offer->fd sets it to -1 first. */
void hvd_shm_offer_fini(struct hvd_shm_offer *offer);

/* Takes the memory of `size` bytes that another process offers. The caller closes *fd.
 * HVD_ERR_TIMEOUT; HVD_ERR_SYSTEM, also when the answer does not come from the process of the
 * offer. */
hvd_status_t hvd_shm_offer_take(const struct hvd_shm_offer *offer, size_t size, int timeout_ms,
                                int *fd, struct hvd_err *err);

/* Maps the memory; the caller calls munmap on *segment. HVD_ERR_SYSTEM. */
hvd_status_t hvd_shm_map(int fd, size_t size, void **segment, struct hvd_err *err);

#endif
