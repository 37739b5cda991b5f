#ifndef HVD_WORKER_TRANSPORT_BOOTSTRAP_H
#define HVD_WORKER_TRANSPORT_BOOTSTRAP_H

#include <stddef.h>

#include "base/aside.h"
#include "worker/transport/algorithm.h"
#include "worker/transport/transport.h"

/*
 * How the ranks of a job find each other, before there is an engine, and how they leave:
 *
 *     create ─> join ─> attend, min, broadcast, read_sets ─> finish ─> the engine runs ─> destroy
 *
 * All ranks make the calls that are marked as collective in the same order. One thread calls, but
 * for min, broadcast and read_sets, which a function given to attend may call from its own.
 */
struct hvd_bootstrap {
    const struct hvd_bootstrap_ops *ops;
    struct hvd_transport *transport; /* from join on, until whoever took it destroys it; NULL: not
                                        joined */
};

/* What a job begins with; what it points to is borrowed, the log until destroy, all else until join
 * has returned or, where that is said, finish. */
struct hvd_bootstrap_options {
    bool allow_single_thread;     /* accept any thread level; then the transport is thread_bound */
    enum hvd_algorithm algorithm; /* of allreduces over this transport */
    struct hvd_algorithm_table table; /* what AUTO chooses by; without rows: the built-in one */
    bool is_deterministic; /* of AUTO: bits of a sum do not depend on where in a payload it lies */
    int64_t warning_ns;    /* a rank that does not come is named after; 0: never */
    int64_t shutdown_ns;   /* and ends the beginning after; 0: never */
    const int *ranks;      /* those who take part, in this order; until finish */
    int n_ranks;           /* 0: all */
    const void *groups; /* the adapter's names of groups of processes: the job, then sets; MPI: an
                           array of MPI_Comm; until finish */
    int n_groups;       /* 0: all processes */
    const struct hvd_log *log;
};

/* Process sets, their ranks of the job one set behind the other. */
struct hvd_bootstrap_sets {
    int *ranks; /* owned */
    int *sizes; /* owned */
    int n;
};

struct hvd_bootstrap_ops {
    /*
     * Finds the other ranks, learns who is where and makes the transport. Collective. HVD_ERR_STATE
     * where this process cannot take part any more, HVD_ERR_INVALID when this rank is not one of
     * `ranks`, or they differ; HVD_ERR_NOMEM, HVD_ERR_SYSTEM; HVD_ERR_GONE as attend.
     */
    hvd_status_t (*join)(struct hvd_bootstrap *b, struct hvd_err *err);

    /*
     * Runs a function that waits for all ranks, and returns what it did; ctx, one allocation, stays
     * the caller's then. HVD_ERR_GONE: the job does not begin, for the reason in err. ctx is taken
     * over then, and the function may still be under way with all that it uses, which has to stay
     * for good: the bootstrap itself does.
     */
    hvd_status_t (*attend)(struct hvd_bootstrap *b, hvd_aside_fn fn, void *ctx,
                           struct hvd_err *err);

    /* Each value becomes the least that a rank has. Collective. HVD_ERR_SYSTEM. */
    hvd_status_t (*min)(struct hvd_bootstrap *b, int64_t *values, int n, struct hvd_err *err);

    /* The bytes become those of the rank `root`. Collective. HVD_ERR_SYSTEM. */
    hvd_status_t (*broadcast)(struct hvd_bootstrap *b, void *data, size_t len, int root,
                              struct hvd_err *err);

    /* The sets that were given as groups, the same on every rank; *out is the caller's to fini.
     * Collective. HVD_ERR_INVALID for groups that cannot be process sets, HVD_ERR_NOMEM,
     * HVD_ERR_SYSTEM. NULL: this adapter knows no groups. */
    hvd_status_t (*read_sets)(struct hvd_bootstrap *b, struct hvd_bootstrap_sets *out,
                              struct hvd_err *err);

    /* The times that count from now on. */
    void (*set_times)(struct hvd_bootstrap *b, int64_t warning_ns, int64_t shutdown_ns);

    /* This rank is through: waits until all are. HVD_ERR_GONE as attend; HVD_ERR_NOMEM,
     * HVD_ERR_SYSTEM. */
    hvd_status_t (*finish)(struct hvd_bootstrap *b, struct hvd_err *err);

    /* For a job that does not begin, or not the last one: what the process needs for another one
     * stays when the transport goes. */
    void (*keep)(struct hvd_bootstrap *b);

    /* Frees it, not the transport. What a call that was left behind may use stays. */
    void (*destroy)(struct hvd_bootstrap *b);
};

/* A way for ranks to find each other. */
struct hvd_bootstrap_provider {
    const char *name;

    /* HVD_ERR_NOMEM. *out is the caller's to destroy. */
    hvd_status_t (*create)(const struct hvd_bootstrap_options *options, struct hvd_bootstrap **out,
                           struct hvd_err *err);

    /* The end for a process that takes part in no job any more, or was left out of it. NULL:
     * nothing is left to be done. */
    void (*leave)(void);
};

/*
 * Tells all ranks how it went here, and waits for the same from them. Collective. HVD_OK when all
 * said so. Else every rank gets a failure: its own, with its own reason, or that of the lowest rank
 * that failed, with a reason that names it.
 */
hvd_status_t hvd_bootstrap_agree(struct hvd_bootstrap *b, hvd_status_t st, struct hvd_err *err);

/* Whether every rank gives the same number; every rank is told the same. Collective;
 * HVD_ERR_SYSTEM. */
hvd_status_t hvd_bootstrap_same(struct hvd_bootstrap *b, uint64_t value, bool *out,
                                struct hvd_err *err);

/* Frees what is in it. */
void hvd_bootstrap_sets_fini(struct hvd_bootstrap_sets *sets);

/* NULL is fine. */
void hvd_bootstrap_destroy(struct hvd_bootstrap *b);

#endif
