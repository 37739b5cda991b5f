#ifndef HVD_WORKER_LAUNCH_CORE_WAITS_H
#define HVD_WORKER_LAUNCH_CORE_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rank_state.h"
#include "worker/launch/core/report.h"

/* So long a rank is within horovod_init or MPI_Finalize, or stopped, and the launcher is sent a
 * notice ... */
#define HVD_WAITS_FIRST_MS 2000
/* ... and again. */
#define HVD_WAITS_AGAIN_MS 4000
/* A longer time between two looks counts as this: the wrapper itself did not run. */
#define HVD_WAITS_LOOK_MS 4000

/* What the wrapper sees of its rank. */
struct hvd_waits_view {
    enum hvd_rank_phase phase;
    uint32_t n_joins; /* how often it has come to horovod_init */
    bool joins_all;   /* a job of all processes */
    bool is_final;    /* it has come to MPI_Finalize */
    bool is_stopped;  /* its process is (SIGSTOP), where nobody else would say so */
};

/* How long the rank has waited in horovod_init or MPI_Finalize, or stood still. All zero at the
 * start. */
struct hvd_waits {
    int64_t last_ms; /* when it was looked; 0: it was not */
    uint32_t n_joins;
    bool is_final;               /* it was, when it was looked */
    int64_t waited_ms;           /* in horovod_init, or in MPI_Finalize */
    int64_t stopped_ms;          /* its process */
    int64_t since_ms;            /* the last notice */
    enum hvd_report_notice sent; /* what it was; HVD_NOTICE_END: none counts any more */
};

/*
 * Looks at the rank at now_ms (> 0, any clock that goes forward). Whether the launcher is to be
 * sent a notice: then *notice is which, and waits->waited_ms belongs to it.
 */
bool hvd_waits_look(struct hvd_waits *waits, const struct hvd_waits_view *view, int64_t now_ms,
                    enum hvd_report_notice *notice);

#endif
