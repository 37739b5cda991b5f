#ifndef HVD_WORKER_CORE_HEARTBEAT_H
#define HVD_WORKER_CORE_HEARTBEAT_H

#include "worker/core/message.h"

/*
 * Detects neighbours in the tree of a set that do not answer while something is waited for. A rank
 * that is stopped or cut off closes no connection and fails no call, so only silence reveals it.
 *
 *     a wait of this rank     ──┐                  ┌──> probe: a PING, which a PONG answers
 *     a wait of a neighbour     ┼─ tick(now), W ───┼──> warn of a neighbour, or give it up
 *     messages from neighbours──┘                  └──> warn of data that does not move, or end it
 *
 * Nothing happens until a wait has lasted a quarter of the warning time W. From then on this rank
 * probes every neighbour, one probe at a time and at most 16 in W. Either messages arrive or the
 * neighbour is lost.
 *
 * A probed rank waits on behalf of the prober and probes its own other neighbours. So one waiting
 * rank suffices to have every rank of the tree probed by its neighbours. An idle rank checks for
 * probes a few times in W.
 *
 * A neighbour that has not answered for half of W is silent. This rank gives it up after the
 * shutdown time without a message from it. Answers carry the known silent ranks, so that distant
 * ranks learn of them and blame no other rank.
 *
 * Answers also carry how far ranks have come with work that only their devices see: each rank puts
 * a number, and the lowest one spreads with the first ranks that have it, summed up on the way:
 *
 *     put: 7 ── A: 1 rank, 7 ──> put: 5 ── A, B: 2 ranks, B has 5 ──> C knows which is behind
 *
 * Times are only compared with each other. Time in which this rank itself did not run, a gap
 * between two ticks, counts against no other rank. Pure.
 */
struct hvd_heartbeat;

struct hvd_heartbeat_options {
    int64_t warning_ns;          /* W; above 0 */
    int64_t shutdown_ns;         /* 0: no rank is given up */
    const struct hvd_node *node; /* borrowed for the call */
    int size;                    /* of the set */
};

/* Creates the state for a node; the caller destroys it. Neighbour 0 is the parent, also at the
 * root, which has none. The others are numbered like the branches of hvd_tree_node_branch.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_heartbeat_create(const struct hvd_heartbeat_options *options,
                                  struct hvd_heartbeat **out, struct hvd_err *err);

/* Frees the state. NULL is allowed. */
void hvd_heartbeat_destroy(struct hvd_heartbeat *h);

/* Records that any message came from a neighbour. */
void hvd_heartbeat_received(struct hvd_heartbeat *h, int neighbour, int64_t now_ns);

/* Records a PING or PONG: the neighbour's wait, and the silent ranks and the progress that it
 * reports. */
void hvd_heartbeat_read(struct hvd_heartbeat *h, int neighbour, const struct hvd_beat *beat,
                        int64_t now_ns);

/* Records that a neighbour has announced that it will not answer any more. */
void hvd_heartbeat_leave(struct hvd_heartbeat *h, int neighbour);

/* A wait of this rank, one of each kind; since_ns 0: none. The name is copied. */
struct hvd_wait {
    int64_t since_ns;
    struct hvd_strview name; /* of a tensor; may be empty */
    uint64_t moved; /* of data: changes whenever data has moved. The wait then counts from the tick
                       that finds the change */
};

struct hvd_waits {
    struct hvd_wait of[HVD_WAIT_KINDS]; /* by enum hvd_wait_kind */
};

/* Computes the due actions; hvd_heartbeat_next returns them. The caller should call this a few
 * times in W. */
void hvd_heartbeat_tick(struct hvd_heartbeat *h, const struct hvd_waits *waits, int64_t now_ns);

enum hvd_beat_action {
    HVD_BEAT_PROBE,        /* send a PING */
    HVD_BEAT_WARN,         /* the neighbour is silent and the warning time has passed; once */
    HVD_BEAT_LOSE,         /* the neighbour has been silent for the shutdown time; once */
    HVD_BEAT_OVERDUE_WARN, /* data does not move and no rank is silent; once. For half of W more, it
                              waits for the progress of all ranks */
    HVD_BEAT_OVERDUE_LOSE, /* likewise, and the shutdown time has passed; once */
};

struct hvd_beat_step {
    enum hvd_beat_action action;
    int neighbour;           /* of the first three actions */
    enum hvd_wait_kind kind; /* of the longest wait here */
    struct hvd_strview name; /* borrowed until the next call */
    int64_t waited_ns;       /* how long that wait has lasted */
    int64_t silent_ns;       /* how much of it passed without a message from the neighbour */
};

/* Returns the next due action; false when there is none. */
bool hvd_heartbeat_next(struct hvd_heartbeat *h, struct hvd_beat_step *step);

/* Writes the positions of the silent ranks, leaving out those that only `neighbour` reported
 * (-1: none is left out). At most HVD_SILENT_MAX. Returns their number. */
int hvd_heartbeat_silent(const struct hvd_heartbeat *h, int neighbour, int *positions);

/* Does the same for the ranks that had been silent for `ns` at the last tick. */
int hvd_heartbeat_missed(const struct hvd_heartbeat *h, int64_t ns, int *positions);

/* Sets how far this rank has come. The number grows, and means the same on each rank. Until the
 * first call, the rank counts as unknown. */
void hvd_heartbeat_put(struct hvd_heartbeat *h, uint64_t progress);

/* Returns the ranks that have come least far, leaving out what only `neighbour` reported (-1:
 * nothing is left out). Reports that are older than half of W do not count. */
struct hvd_behind hvd_heartbeat_behind(const struct hvd_heartbeat *h, int neighbour);

/* Whether neighbours were being probed at the last tick. If so, the next tick must not be late. */
bool hvd_heartbeat_is_active(const struct hvd_heartbeat *h);

#endif
