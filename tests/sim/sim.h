#ifndef HVD_TESTS_SIM_SIM_H
#define HVD_TESTS_SIM_SIM_H

#include "tests/sim/loggp.h"
#include "worker/transport/transport.h"

/*
 * N ranks in one process, for tests: messages are delayed by a seeded number of the receiver's
 * looks into its mailbox, so ranks see different interleavings, the same ones for the same seed as
 * long as one thread drives all ranks. Any number of threads may drive different ranks.
 *
 * With a network there is modelled time instead: a message shows once hvd_sim_advance has moved the
 * time to its arrival. One thread drives then:
 *
 *     step every rank;
 *     while ((rank = hvd_sim_advance(sim)) >= 0) step that rank;
 *
 * Where threads wait in engines, another one has to call hvd_sim_advance all the time.
 */

/* What goes wrong, the same for the same options when one thread drives. Zeroed: nothing. Numbers
 * of events and messages begin at 1; 0 is never. */
struct hvd_sim_faults {
    uint64_t die_at;      /* just before event number so much (see hvd_sim_events) ... */
    int die_rank;         /* ... this rank dies, as by hvd_sim_kill */
    int only_witness;     /* of a death the rank before this one is told, and who died, as it runs
                             on here, and nobody else; 0: all */
    uint64_t spike_every; /* every message of a number divisible by this is late ... */
    unsigned spike_looks; /* ... by so many looks of its receiver */
    unsigned slow_looks;  /* what comes to one rank is late by so many looks; 0: nothing is ... */
    int slow_rank;        /* ... to this one */
    uint64_t duplicate;   /* message number so much comes twice: a transport must not, and ... */
    uint64_t lose;        /* ... this one never: whoever uses it finds out in its own way */
    bool no_data;         /* collectives start and never end: every rank waits for the next one */
    uint64_t n_moves;     /* a collective that all have started takes so many of hvd_sim_move */
};

struct hvd_sim_options {
    int size;
    uint64_t seed;
    unsigned max_delay; /* a message or result shows at the latest at this many-th look; >= 1 */
    int ranks_per_host; /* 0: all on one host */
    struct hvd_sim_faults faults;
    const struct hvd_network *network; /* NULL: no modelled time; borrowed for the call */
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

/* The data of every collective that all its ranks have started moves on a little: see n_moves. */
void hvd_sim_move(struct hvd_sim *sim);

/* Control messages sent so far, by all ranks. */
uint64_t hvd_sim_messages(struct hvd_sim *sim);

/* Events so far: messages sent and received, collectives started, of all ranks. */
uint64_t hvd_sim_events(struct hvd_sim *sim);

/* Moves modelled time on to when something comes to a rank, a message or the end of a collective,
 * and returns the rank; -1 when nothing is on its way. */
int hvd_sim_advance(struct hvd_sim *sim);

/* The modelled time up to which a rank was busy; rank -1: the time that advance has come to. */
int64_t hvd_sim_time(struct hvd_sim *sim, int rank);

#endif
