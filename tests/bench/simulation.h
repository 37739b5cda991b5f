#ifndef HVD_TESTS_BENCH_SIMULATION_H
#define HVD_TESTS_BENCH_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/loggp.h"

/*
 * The negotiation of thousands of ranks in one process: the real coordinator, the real aggregators,
 * the real bytes of every message, and the modelled time of the network and the processors between
 * them. There are no engines, and no data moves.
 *
 *     first     every rank asks for n tensors by name, at time 0; all get slots
 *     cached    every rank asks for the same by bits
 *
 * Counts (messages, bytes, requests that the coordinator reads) are exact. Times are modelled.
 */
struct simulation_options {
    int n_ranks;
    int ranks_per_host;
    int fanout;   /* as in core/tree.h; 0: chosen */
    bool is_star; /* every rank speaks to the coordinator */
    int n_tensors;
    const struct hvd_network *network;
    int64_t item_ns; /* a processor is busy so long with a request or a step */
    int64_t word_ns; /* the same with 64 bits of one message */
    uint64_t seed;
};

/* One negotiation. */
struct simulation_step {
    int64_t ns;        /* modelled: until the last rank has the plan and has followed it */
    uint64_t messages; /* of all ranks, up and down */
    uint64_t bytes;
    uint64_t root_bytes_in;
    uint64_t root_bytes_out;
    uint64_t root_messages_in;
    uint64_t root_items;  /* requests that the coordinator read */
    int up_max;           /* messages that one rank sent to its parent, at most */
    int down_max;         /* plans that one rank got, at most */
    int64_t root_real_ns; /* processor time that the coordinator really took here */
};

struct simulation {
    int depth;        /* hops from the coordinator to the farthest rank */
    int children_max; /* that any rank has */
    int64_t floor_ns; /* modelled: the hops to and from the farthest rank, and nothing else */
    struct simulation_step first;
    struct simulation_step cached;
};

/* Runs it; NULL, or what went wrong. */
const char *simulation_run(const struct simulation_options *options, struct simulation *out);

/* Another design for cached steps: the bits of every host's ranks are ANDed by its first rank;
 * these exchange them in rounds, each with radix - 1 others, until all know those of all; then the
 * ranks of the host are told. radix 2 is recursive doubling. per_host 1: every rank takes part. */
struct simulation_rounds {
    int64_t ns; /* modelled */
    uint64_t messages;
    int sent_max; /* messages that one rank sent, at most */
    int n_rounds;
};

/* Runs that; NULL, or what went wrong. */
const char *simulation_rounds(const struct simulation_options *options, int radix,
                              struct simulation_rounds *out);

/* A network of today between hosts (3 us a hop, 5 million messages a second and rank, 100 Gbit/s),
 * shared memory within. */
extern const struct hvd_network simulation_network;

#endif
