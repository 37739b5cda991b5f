#ifndef HVD_WORKER_CORE_HEARTBEAT_H
#define HVD_WORKER_CORE_HEARTBEAT_H

#include "worker/core/message.h"

/*
 * Whether the ranks next to this one in the tree of a set still answer, while something is waited
 * for: a rank that is stopped, or cut off, closes no connection and fails no call.
 *
 *     what this rank waits for ──┐                  ┌──> probe: a PING, which a PONG answers
 *     what a neighbour waits for ┼─ tick(now), W ───┼──> warn of a neighbour, or give it up
 *     messages that come in   ───┘                  └──> warn of data that moves nowhere, or end it
 *
 * Nothing happens until something has been waited for a quarter of the warning time W. From then on
 * every neighbour is probed, one probe at a time, at most 16 in W: messages arrive, or the
 * neighbour is lost. Who is probed waits too, on behalf of who asks: it probes its own other
 * neighbours, so that whoever waits, every rank of the tree is looked at by those next to it. An
 * idle rank looks for probes a few times in W; who has not answered for half of W is silent, and is
 * given up when nothing has come from it for the shutdown time. What is known of silent ranks goes
 * with the answers, so that who is not next to them learns of them as well: nobody else is to blame
 * then.
 *
 * Times are only compared with each other. While this rank itself did not run, nobody else is to
 * blame for anything: a gap between two ticks does not count. Pure.
 */
struct hvd_heartbeat;

struct hvd_heartbeat_options {
    int64_t warning_ns;          /* W; above 0 */
    int64_t shutdown_ns;         /* 0: nobody is given up */
    const struct hvd_node *node; /* borrowed for the call */
};

/* Neighbours are numbered: 0 the parent (also of the root, which has none), then as the branches of
 * hvd_tree_node_branch. HVD_ERR_NOMEM. */
hvd_status_t hvd_heartbeat_create(const struct hvd_heartbeat_options *options,
                                  struct hvd_heartbeat **out, struct hvd_err *err);

/* NULL is fine. */
void hvd_heartbeat_destroy(struct hvd_heartbeat *h);

/* Something came from a neighbour. */
void hvd_heartbeat_received(struct hvd_heartbeat *h, int neighbour, int64_t now_ns);

/* It was a PING or PONG: what the neighbour waits for, and who is silent as far as it knows. */
void hvd_heartbeat_read(struct hvd_heartbeat *h, int neighbour, const struct hvd_beat *beat,
                        int64_t now_ns);

/* A neighbour will not answer any more, and has said so. */
void hvd_heartbeat_leave(struct hvd_heartbeat *h, int neighbour);

/* What this rank waits for, one of each kind; since_ns 0: not. name is copied. */
struct hvd_wait {
    int64_t since_ns;
    struct hvd_strview name; /* of a tensor; may be empty */
    uint64_t moved;          /* of data: another number each time that some has moved. What has
                                moved since the last tick is waited for from this one on */
};

struct hvd_waits {
    struct hvd_wait of[HVD_WAIT_KINDS]; /* by enum hvd_wait_kind */
};

/* Looks at everything; what is to be done comes from hvd_heartbeat_next. To be called a few times
 * in W. */
void hvd_heartbeat_tick(struct hvd_heartbeat *h, const struct hvd_waits *waits, int64_t now_ns);

enum hvd_beat_action {
    HVD_BEAT_PROBE,        /* send a PING */
    HVD_BEAT_WARN,         /* the neighbour is silent, and the warning time is over; once */
    HVD_BEAT_LOSE,         /* the neighbour has been silent for the shutdown time; once */
    HVD_BEAT_OVERDUE_WARN, /* data moves nowhere, and nobody is silent; once */
    HVD_BEAT_OVERDUE_LOSE, /* the same, and the shutdown time is over; once */
};

struct hvd_beat_step {
    enum hvd_beat_action action;
    int neighbour;           /* of the first three */
    enum hvd_wait_kind kind; /* what is waited for here ... */
    struct hvd_strview name; /* borrowed until the next call */
    int64_t waited_ns;       /* ... for so long ... */
    int64_t silent_ns;       /* ... and nothing came from the neighbour for so much of it */
};

/* The next thing to be done; false when there is none. */
bool hvd_heartbeat_next(struct hvd_heartbeat *h, struct hvd_beat_step *step);

/* The ranks that are silent, as far as this one knows from others than `neighbour` (-1: from all):
 * their positions, at most HVD_SILENT_MAX; how many. */
int hvd_heartbeat_silent(const struct hvd_heartbeat *h, int neighbour, int *positions);

/* The same of those that have been silent for so long, as of the last tick. */
int hvd_heartbeat_missed(const struct hvd_heartbeat *h, int64_t ns, int *positions);

/* Whether neighbours are probed, as of the last tick: then the next one is to come in time. */
bool hvd_heartbeat_is_active(const struct hvd_heartbeat *h);

#endif
