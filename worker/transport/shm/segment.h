#ifndef HVD_WORKER_TRANSPORT_SHM_SEGMENT_H
#define HVD_WORKER_TRANSPORT_SHM_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* How one process of a host hands memory to the others: a memfd, passed over a UNIX socket without
 * a name in the file system. Needs no privilege, no /dev/shm and no common /tmp. Every user of the
 * host can connect to the socket, or take over its name once this process is gone; so each side
 * shows the other a number that reached it over another way. */
struct hvd_shm_offer {
    int fd;         /* of the memory; -1: none */
    int listener;   /* -1: none */
    uint64_t token; /* who knows it may have the memory */
    uint64_t proof; /* comes with the memory */
    char name[32];  /* of the socket, its first byte is 0 */
    unsigned name_len;
};

/* Makes zeroed memory of `size` bytes and a socket to hand it out by. The caller has to call
 * hvd_shm_offer_fini. HVD_ERR_SYSTEM. */
hvd_status_t hvd_shm_offer_init(struct hvd_shm_offer *offer, size_t size, struct hvd_err *err);

/* Hands the memory to so many processes that know the token; others are turned away, and nobody
 * waits for them. HVD_ERR_TIMEOUT when they do not all come in time, HVD_ERR_SYSTEM, HVD_ERR_NOMEM.
 */
hvd_status_t hvd_shm_offer_serve(struct hvd_shm_offer *offer, int n_takers, int timeout_ms,
                                 struct hvd_err *err);

/* Closes what is open; offer->fd too unless the caller took it and set it to -1. */
void hvd_shm_offer_fini(struct hvd_shm_offer *offer);

/* Takes the memory of `size` bytes that another process offers. *fd is the caller's to close.
 * HVD_ERR_TIMEOUT; HVD_ERR_SYSTEM, also when what answers is not the process of the offer. */
hvd_status_t hvd_shm_offer_take(const struct hvd_shm_offer *offer, size_t size, int timeout_ms,
                                int *fd, struct hvd_err *err);

/* Maps the memory; *segment is the caller's to munmap. HVD_ERR_SYSTEM. */
hvd_status_t hvd_shm_map(int fd, size_t size, void **segment, struct hvd_err *err);

#endif
