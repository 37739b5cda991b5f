#ifndef HVD_WORKER_TRANSPORT_ALGORITHM_H
#define HVD_WORKER_TRANSPORT_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * How ranks that reach each other by messages reduce a payload to all of them. Every one of them
 * gives the same bits on every rank. Recursive doubling and Rabenseifner's add up in the same order
 * whatever the size and wherever in the payload an element lies; the order of the ring depends on
 * where it lies.
 */
enum hvd_algorithm {
    HVD_ALGORITHM_AUTO, /* by size and number of ranks */
    HVD_ALGORITHM_DOUBLING,
    HVD_ALGORITHM_RABENSEIFNER,
    HVD_ALGORITHM_RING,
    HVD_ALGORITHM_MPI, /* whatever MPI does */
};

#define HVD_ALGORITHMS 5

/* "doubling"; "unknown" for one that does not exist. */
const char *hvd_algorithm_name(int algorithm);

/* The algorithm of that name; -1 when there is none. */
int hvd_algorithm_parse(const char *name);

/* Whether the order of adding up may depend on the size of the payload and on where in it an
 * element lies. AUTO: not when it has to be deterministic. */
bool hvd_algorithm_depends_on_offset(enum hvd_algorithm algorithm);

/* --- What suits which payload ----------------------------------------------------------------- */

#define HVD_ALGORITHM_ROWS 64

/* For up to so many ranks, beginning behind the row before: recursive doubling up to a size, the
 * ring from a size on, Rabenseifner's in between. */
struct hvd_algorithm_row {
    int max_ranks;
    int64_t doubling_max; /* bytes; INT64_MAX: always */
    int64_t ring_min;     /* bytes; INT64_MAX: never */
};

/* Rows by rising numbers of ranks; the last one is for INT_MAX. */
struct hvd_algorithm_table {
    int n;
    struct hvd_algorithm_row rows[HVD_ALGORITHM_ROWS];
};

/* The table that was measured when this was written; algorithm.c says how. */
const struct hvd_algorithm_table *hvd_algorithm_builtin(void);

/*
 * Reads RANKS:DOUBLING:RING,... with sizes in bytes: for up to RANKS ranks doubling up to and with
 * DOUBLING, the ring from RING on; "*" in the last row is for all other numbers of ranks, "-" is
 * for a size that no payload has. HVD_ERR_INVALID names the row that is wrong, HVD_ERR_TOO_LARGE
 * says that there are too many; *out is untouched then.
 */
hvd_status_t hvd_algorithm_table_parse(const char *text, struct hvd_algorithm_table *out,
                                       struct hvd_err *err);

/* A number that differs, as good as always, between tables that differ. */
uint64_t hvd_algorithm_table_digest(const struct hvd_algorithm_table *table);

/* What suits a payload of so many bytes and so many ranks; never AUTO or MPI. table: one without
 * rows is the built-in one. deterministic: only those whose order of adding up depends on the ranks
 * alone. */
enum hvd_algorithm hvd_algorithm_choose(const struct hvd_algorithm_table *table, int64_t bytes,
                                        int n_ranks, bool deterministic);

/* --- One rank's part of an allreduce, step by step -------------------------------------------- */

struct hvd_schedule {
    enum hvd_algorithm algorithm; /* not AUTO or MPI */
    int n_ranks;
    int rank;
    int64_t count; /* elements */
};

/* A step: what is sent, and at the same time what is received, from the same or another rank. Both
 * are stretches of the payload, in elements. */
struct hvd_exchange {
    int to; /* -1: nothing is sent */
    int64_t send_at;
    int64_t send_count;
    int from; /* -1: nothing is received */
    int64_t receive_at;
    int64_t receive_count;
    bool combines; /* what is received is combined with what lies there; else it replaces it */
};

/* How many steps every rank takes. */
int hvd_algorithm_steps(const struct hvd_schedule *s);

/* The i-th of them. Stretches may be empty: then nothing is sent. */
struct hvd_exchange hvd_algorithm_step(const struct hvd_schedule *s, int i);

/* The most elements that are received in a step to be combined. */
int64_t hvd_algorithm_room(const struct hvd_schedule *s);

#endif
