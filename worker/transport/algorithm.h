#ifndef HVD_WORKER_TRANSPORT_ALGORITHM_H
#define HVD_WORKER_TRANSPORT_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Algorithms by which ranks that exchange messages reduce a payload to all of them. Each gives the
 * same bits on every rank. Recursive doubling and Rabenseifner's add up in one order, whatever the
 * size and wherever an element lies in the payload. In the ring the order depends on where the
 * element lies.
 */
enum hvd_algorithm {
    HVD_ALGORITHM_AUTO, /* chosen by size and number of ranks */
    HVD_ALGORITHM_DOUBLING,
    HVD_ALGORITHM_RABENSEIFNER,
    HVD_ALGORITHM_RING,
    HVD_ALGORITHM_MPI, /* MPI chooses */
};

#define HVD_ALGORITHMS 5

/* "doubling"; "unknown" where no algorithm has the number. */
const char *hvd_algorithm_name(int algorithm);

/* The algorithm of that name; -1 where there is none. */
int hvd_algorithm_parse(const char *name);

/* Whether the order of additions may depend on the size of the payload and on where an element lies
 * in it. False for AUTO, which chooses no such algorithm when it has to be deterministic. */
bool hvd_algorithm_depends_on_offset(enum hvd_algorithm algorithm);

/* --- Choice by payload ------------------------------------------------------------------------ */

#define HVD_ALGORITHM_ROWS 64

/* A row for up to max_ranks ranks, beyond those of the row before: recursive doubling up to a size,
 * the ring from a size on, Rabenseifner's in between. */
struct hvd_algorithm_row {
    int max_ranks;
    int64_t doubling_max; /* bytes; INT64_MAX: always */
    int64_t ring_min;     /* bytes; INT64_MAX: never */
};

/* Rows by rising numbers of ranks; max_ranks of the last one is INT_MAX. */
struct hvd_algorithm_table {
    int n;
    struct hvd_algorithm_row rows[HVD_ALGORITHM_ROWS];
};

/* The built-in table; algorithm.c describes the measurement behind it. */
const struct hvd_algorithm_table *hvd_algorithm_builtin(void);

/*
 * Reads RANKS:DOUBLING:RING,... with sizes in bytes. Up to RANKS ranks use doubling up to and with
 * DOUBLING, and the ring from RING on. "*" in the last row stands for all other numbers of ranks,
 * "-" for a size that no payload has. HVD_ERR_INVALID names the wrong row, HVD_ERR_TOO_LARGE
 * reports too many rows; *out is untouched then.
 */
hvd_status_t hvd_algorithm_table_parse(const char *text, struct hvd_algorithm_table *out,
                                       struct hvd_err *err);

/* A digest of the table. Tables that differ almost always have different digests. */
uint64_t hvd_algorithm_table_digest(const struct hvd_algorithm_table *table);

/* Chooses the algorithm for a payload of so many bytes and so many ranks; never AUTO or MPI. A
 * table without rows stands for the built-in one. With `deterministic` the order of additions
 * depends on the ranks alone. */
enum hvd_algorithm hvd_algorithm_choose(const struct hvd_algorithm_table *table, int64_t bytes,
                                        int n_ranks, bool deterministic);

/* --- One rank's part of an allreduce, step by step -------------------------------------------- */

struct hvd_schedule {
    enum hvd_algorithm algorithm; /* not AUTO or MPI */
    int n_ranks;
    int rank;
    int64_t count; /* elements */
};

/* A step: a rank sends, and at the same time receives, from the same or another rank. Both are
 * stretches of the payload, in elements. */
struct hvd_exchange {
    int to; /* -1: nothing to send */
    int64_t send_at;
    int64_t send_count;
    int from; /* -1: nothing to receive */
    int64_t receive_at;
    int64_t receive_count;
    bool combines; /* combine the received elements with those that lie there, else replace those */
};

/* The number of steps, which is the same on every rank. */
int hvd_algorithm_steps(const struct hvd_schedule *s);

/* The i-th step. A stretch may be empty: then no message is sent. */
struct hvd_exchange hvd_algorithm_step(const struct hvd_schedule *s, int i);

/* The largest number of elements that a step receives to combine them. */
int64_t hvd_algorithm_room(const struct hvd_schedule *s);

#endif
