#ifndef HVD_TESTS_SIM_LOGGP_H
#define HVD_TESTS_SIM_LOGGP_H

#include <stdint.h>

#include "base/status.h"

/*
 * Modelled time of messages between ranks, in the LogGP model (Alexandrov et al. 1995):
 *
 *     sender    |o|                    o  overhead: a processor is busy with a message
 *     network     |--- L + bytes x G --->         L  latency, G  time per byte
 *     receiver                           |o|
 *     the next message of the sender leaves g (gap) + bytes x G later at the earliest
 *
 * Every rank has a processor that does one thing at a time, and a network that sends one message at
 * a time. A seed makes the jitter the same every time.
 */
struct hvd_loggp {
    int64_t latency_ns;
    int64_t overhead_ns;
    int64_t gap_ns;
    double byte_ns;
};

struct hvd_network {
    struct hvd_loggp near;   /* between ranks of a host */
    struct hvd_loggp far;    /* between hosts */
    int64_t jitter_ns;       /* a message takes up to so much longer */
    int straggler;           /* this rank's processor is slower */
    double straggler_factor; /* by this; 0: none is */
};

struct hvd_clock;

struct hvd_clock_options {
    const struct hvd_network *network; /* copied */
    int size;                          /* ranks */
    int ranks_per_host;                /* >= 1 */
    uint64_t seed;
};

/* A clock at time 0 everywhere. HVD_ERR_NOMEM. */
hvd_status_t hvd_loggp_create(const struct hvd_clock_options *options, struct hvd_clock **out,
                              struct hvd_err *err);

/* NULL is fine. */
void hvd_loggp_destroy(struct hvd_clock *c);

/* A rank sends a message of len bytes as soon as it can, not before at_ns; when it is there. */
int64_t hvd_loggp_send(struct hvd_clock *c, int from, int to, size_t len, int64_t at_ns);

/* A rank takes in a message that came at that time, as soon as it can; when it has. */
int64_t hvd_loggp_receive(struct hvd_clock *c, int from, int to, int64_t came_ns);

/* A rank works for so long, not before at_ns; when it is done. */
int64_t hvd_loggp_work(struct hvd_clock *c, int rank, int64_t at_ns, int64_t ns);

/* When a rank is done with all that it did so far. */
int64_t hvd_loggp_time(const struct hvd_clock *c, int rank);

/* How long a collective of so many ranks takes that moves so many bytes: twice the hops of a
 * doubling, and every byte there and back. */
int64_t hvd_loggp_collective(const struct hvd_clock *c, int n_ranks, size_t bytes);

#endif
