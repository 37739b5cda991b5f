#ifndef HVD_WORKER_CORE_ARRIVAL_H
#define HVD_WORKER_CORE_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Detects ranks that do not arrive at a job, or that stop during its start. The calls of that phase
 * wait for all ranks, and name none that is missing. The ranks form a tree of their own (the parent
 * of rank r is (r - 1) / F), and neighbours send:
 *
 *     BEAT   both ways, at once and then eight times in the warning time: this rank is alive
 *     DONE   up, once: this rank and its whole subtree have finished
 *     GO     down, once: all ranks have finished. Its receiver leaves
 *
 * A rank sends nothing to its parent after DONE, and nothing to a child after GO. So a rank that
 * leaves has read every message to it.
 *
 * A neighbour that sends nothing for the warning time is named. After the shutdown time it counts
 * as lost. A rank that cannot send while it waits announces that in its first BEAT, and is not
 * blamed.
 *
 * Times are only compared with each other. Time in which this rank itself did not run counts
 * against no neighbour. Pure.
 */
struct hvd_arrival;

#define HVD_ARRIVAL_FANOUT 16

enum hvd_arrival_message {
    HVD_ARRIVAL_BEAT = 1,
    HVD_ARRIVAL_DONE = 2,
    HVD_ARRIVAL_GO = 3,
};

struct hvd_arrival_options {
    int rank;
    int size;
    int64_t warning_ns;  /* 0: no rank is named, and this rank sends one BEAT */
    int64_t shutdown_ns; /* 0: no rank counts as lost */
    bool is_mute;        /* this rank cannot send while it waits */
};

/* Creates the state for this rank; the caller destroys it. HVD_ERR_NOMEM. */
hvd_status_t hvd_arrival_create(const struct hvd_arrival_options *options, int64_t now_ns,
                                struct hvd_arrival **out, struct hvd_err *err);

/* Frees the state. NULL is allowed. */
void hvd_arrival_destroy(struct hvd_arrival *a);

/* Replaces the times of the options. */
void hvd_arrival_set_times(struct hvd_arrival *a, int64_t warning_ns, int64_t shutdown_ns);

/* Return the number of neighbours, and the rank of the i-th. */
int hvd_arrival_neighbours(const struct hvd_arrival *a);
int hvd_arrival_rank(const struct hvd_arrival *a, int i);

/* Records a message from the i-th neighbour. interval_ns: the time between its BEATs, as a BEAT
 * reports it; 0: it sends no more. */
void hvd_arrival_received(struct hvd_arrival *a, int i, enum hvd_arrival_message what,
                          int64_t interval_ns, int64_t now_ns);

/* Records that this rank has finished. */
void hvd_arrival_finish(struct hvd_arrival *a);

/* Computes the due actions; hvd_arrival_next returns them. The caller should call this a few
 * times in each interval. */
void hvd_arrival_tick(struct hvd_arrival *a, int64_t now_ns);

enum hvd_arrival_action {
    HVD_ARRIVAL_SEND, /* send the message to the neighbour */
    HVD_ARRIVAL_WARN, /* it was silent for the warning time; once for each silence */
    HVD_ARRIVAL_LOSE, /* it was silent for the shutdown time; once */
};

struct hvd_arrival_step {
    enum hvd_arrival_action action;
    enum hvd_arrival_message message;
    int neighbour;
    bool has_come;     /* a message from it has arrived before */
    int64_t silent_ns; /* how long it has been silent */
};

/* Returns the next due action; false when there is none. */
bool hvd_arrival_next(struct hvd_arrival *a, struct hvd_arrival_step *step);

/* Returns the time between two BEATs of this rank; 0: it sends one. */
int64_t hvd_arrival_interval(const struct hvd_arrival *a);

/* Whether all ranks have finished, and this rank has sent each neighbour its final message. */
bool hvd_arrival_is_over(const struct hvd_arrival *a);

#endif
