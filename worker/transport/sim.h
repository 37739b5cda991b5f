#ifndef HVD_WORKER_TRANSPORT_SIM_H
#define HVD_WORKER_TRANSPORT_SIM_H

#include "worker/transport/transport.h"

/*
 * N ranks in one process, for tests: messages are delayed by a seeded number of the receiver's
 * looks into its mailbox, so ranks see different interleavings, the same ones for the same seed as
 * long as one thread drives all ranks. Any number of threads may drive different ranks.
 */
struct hvd_sim_options {
    int size;
    uint64_t seed;
    unsigned max_delay; /* a message or result shows at the latest at this many-th look; >= 1 */
    int ranks_per_host; /* 0: all on one host */
};

struct hvd_sim;

/* A world without ranks. HVD_ERR_NOMEM. */
hvd_status_t hvd_sim_create(const struct hvd_sim_options *options, struct hvd_sim **out,
                            struct hvd_err *err);

/* Frees the world; all its transports are destroyed before. NULL is fine. */
void hvd_sim_destroy(struct hvd_sim *sim);

/* The transport of a rank, once per rank. HVD_ERR_NOMEM. */
hvd_status_t hvd_sim_join(struct hvd_sim *sim, int rank, struct hvd_transport **out,
                          struct hvd_err *err);

/* The rank dies: what it sent stays on its way, nothing else comes from it, its peers are told. */
void hvd_sim_kill(struct hvd_sim *sim, int rank);

/* Control messages sent so far, by all ranks. */
uint64_t hvd_sim_messages(struct hvd_sim *sim);

#endif
