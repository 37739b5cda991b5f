#ifndef HVD_WORKER_CORE_ARRIVAL_H
#define HVD_WORKER_CORE_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Whether all ranks come to a job and through its beginning, where calls that wait for all of them
 * name nobody. The ranks are a tree of their own (rank r hangs under (r - 1) / F); neighbours send:
 *
 *     BEAT   both ways, at once and then eight times in the warning time: I am here
 *     DONE   up, once: I and all under me are through
 *     GO     down, once: all are through. Who has it leaves
 *
 * Nothing follows DONE upwards or GO downwards, so whoever leaves has read all that was sent to it.
 * Who is waited for and has not been heard for the warning time is named, and lost after the
 * shutdown time. A rank that cannot send while it waits says so in its first BEAT, and is not
 * blamed. Times are only compared with each other; while this rank itself did not run, nobody else
 * is to blame. Pure.
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
    int64_t warning_ns;  /* 0: nobody is named, and this rank sends one BEAT */
    int64_t shutdown_ns; /* 0: nobody is lost */
    bool is_mute;        /* this rank cannot send while it waits */
};

/* HVD_ERR_NOMEM. */
hvd_status_t hvd_arrival_create(const struct hvd_arrival_options *options, int64_t now_ns,
                                struct hvd_arrival **out, struct hvd_err *err);

/* NULL is fine. */
void hvd_arrival_destroy(struct hvd_arrival *a);

/* The times that count from now on; options->warning_ns. */
void hvd_arrival_set_times(struct hvd_arrival *a, int64_t warning_ns, int64_t shutdown_ns);

/* How many ranks are next to this one, and which the i-th is. */
int hvd_arrival_neighbours(const struct hvd_arrival *a);
int hvd_arrival_rank(const struct hvd_arrival *a, int i);

/* The i-th neighbour has sent something; interval_ns: in a BEAT, how often it will, 0: never. */
void hvd_arrival_received(struct hvd_arrival *a, int i, enum hvd_arrival_message what,
                          int64_t interval_ns, int64_t now_ns);

/* This rank is through. */
void hvd_arrival_finish(struct hvd_arrival *a);

/* Looks at everything; what is to be done comes from hvd_arrival_next. To be called a few times in
 * the interval. */
void hvd_arrival_tick(struct hvd_arrival *a, int64_t now_ns);

enum hvd_arrival_action {
    HVD_ARRIVAL_SEND, /* the message to the neighbour */
    HVD_ARRIVAL_WARN, /* it has not been heard for the warning time; once in a silence */
    HVD_ARRIVAL_LOSE, /* nor for the shutdown time; once */
};

struct hvd_arrival_step {
    enum hvd_arrival_action action;
    enum hvd_arrival_message message;
    int neighbour;
    bool has_come;     /* it was heard before */
    int64_t silent_ns; /* for so long it was not */
};

/* The next thing to be done; false when there is none. */
bool hvd_arrival_next(struct hvd_arrival *a, struct hvd_arrival_step *step);

/* How often this rank sends a BEAT; 0: once. */
int64_t hvd_arrival_interval(const struct hvd_arrival *a);

/* Whether all ranks are through, and all that was to be done about it is. */
bool hvd_arrival_is_over(const struct hvd_arrival *a);

#endif
