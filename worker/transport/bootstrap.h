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
    struct hvd_transport *transport; /* valid from join until its new owner destroys it; NULL: not
                                        joined */
};

/* Options of a job. Pointers are borrowed: the log until destroy, the others until join has
 * returned or, where a comment names it, until finish. */
struct hvd_bootstrap_options {
    bool allow_single_thread;     /* accept any thread level; then the transport is thread_bound */
    enum hvd_algorithm algorithm; /* of allreduces over this transport */
    struct hvd_algorithm_table table; /* AUTO chooses by it; without rows: the built-in one */
    bool is_deterministic; /* of AUTO: bits of a sum do not depend on where in a payload it lies */
    int64_t warning_ns;    /* after this time the log names a rank that has not come; 0: never */
    int64_t shutdown_ns;   /* after this time the job does not begin; 0: never */
    const int *ranks;      /* the participants, in this order; borrowed until finish */
    int n_ranks;           /* 0: all */
    const void *groups; /* the adapter's names of groups of processes: the job, then sets; MPI: an
                           array of MPI_Comm; borrowed until finish */
    int n_groups;       /* 0: all processes */
    const struct hvd_log *log;
};

/* Process sets; `ranks` holds their ranks of the job, one set after the other. */
struct hvd_bootstrap_sets {
    int *ranks; /* owned */
    int *sizes; /* owned */
    int n;
};

struct hvd_bootstrap_ops {
    /*
     * Finds the other ranks, learns their locations and makes the transport. Collective.
     * HVD_ERR_STATE when this process cannot take part in a job any more. HVD_ERR_INVALID when this
     * rank is not one of `ranks`, or the ranks pass different lists. HVD_ERR_NOMEM, HVD_ERR_SYSTEM;
     * HVD_ERR_GONE as attend.
     */
    hvd_status_t (*join)(struct hvd_bootstrap *b, struct hvd_err *err);

    /*
     * Runs a function that waits for all ranks, and returns its result; the caller then still owns
     * ctx, one allocation. HVD_ERR_GONE: the job does not begin, for the reason in err. Then the
     * bootstrap owns ctx, and the function may still be running. All that it uses must stay for
     * good, as the bootstrap itself does.
     */
    hvd_status_t (*attend)(struct hvd_bootstrap *b, hvd_aside_fn fn, void *ctx,
                           struct hvd_err *err);

    /* Replaces each value by the least of all ranks. Collective. HVD_ERR_SYSTEM. */
    hvd_status_t (*min)(struct hvd_bootstrap *b, int64_t *values, int n, struct hvd_err *err);

    /* Replaces the bytes by those of the rank `root`. Collective. HVD_ERR_SYSTEM. */
    hvd_status_t (*broadcast)(struct hvd_bootstrap *b, void *data, size_t len, int root,
                              struct hvd_err *err);

    /* Reads the sets that the options gave as groups, the same on every rank; the caller calls
     * hvd_bootstrap_sets_fini on *out. Collective. HVD_ERR_INVALID for groups that cannot be
     * process sets, HVD_ERR_NOMEM, HVD_ERR_SYSTEM. NULL: this adapter has no groups. */
    hvd_status_t (*read_sets)(struct hvd_bootstrap *b, struct hvd_bootstrap_sets *out,
                              struct hvd_err *err);

    /* Sets the warning and shutdown times that count from now on. */
    void (*set_times)(struct hvd_bootstrap *b, int64_t warning_ns, int64_t shutdown_ns);

    /* Reports that this rank is ready, and waits until all are. HVD_ERR_GONE as attend;
     * HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
    hvd_status_t (*finish)(struct hvd_bootstrap *b, struct hvd_err *err);

    /* For a job that does not begin, or that another job may follow: the end of the transport keeps
     * what the process needs for that one. */
    void (*keep)(struct hvd_bootstrap *b);

    /* Frees the bootstrap, not the transport. Keeps the memory that a call left behind may still
     * use. */
    void (*destroy)(struct hvd_bootstrap *b);
};

/* A factory of bootstraps, one for each way in which ranks find each other. */
struct hvd_bootstrap_provider {
    const char *name;

    /* HVD_ERR_NOMEM. *out is the caller's to destroy. */
    hvd_status_t (*create)(const struct hvd_bootstrap_options *options, struct hvd_bootstrap **out,
                           struct hvd_err *err);

    /* Ends the process's part when it joins no further job, or was left out of one. NULL: nothing
     * to do. */
    void (*leave)(void);
};

/*
 * Exchanges the outcome of every rank and waits for all of them. Collective. HVD_OK when all ranks
 * report HVD_OK. Otherwise every rank gets a failure: its own, for its own reason, or else that of
 * the lowest rank that failed, with a reason that names that rank.
 */
hvd_status_t hvd_bootstrap_agree(struct hvd_bootstrap *b, hvd_status_t st, struct hvd_err *err);

/* Whether every rank passes the same number; the answer is the same on every rank. Collective;
 * HVD_ERR_SYSTEM. */
hvd_status_t hvd_bootstrap_same(struct hvd_bootstrap *b, uint64_t value, bool *out,
                                struct hvd_err *err);

/* Frees the arrays and zeroes the struct. */
void hvd_bootstrap_sets_fini(struct hvd_bootstrap_sets *sets);

/* Accepts NULL. */
void hvd_bootstrap_destroy(struct hvd_bootstrap *b);

#endif
