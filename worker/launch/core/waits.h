#ifndef HVD_WORKER_LAUNCH_CORE_WAITS_H
#define HVD_WORKER_LAUNCH_CORE_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rank_state.h"
#include "worker/launch/core/report.h"

/* The launcher gets a notice after a rank has been within horovod_init or MPI_Finalize, or stopped,
 * for this time ... */
#define HVD_WAITS_FIRST_MS 2000
/* ... and again. */
#define HVD_WAITS_AGAIN_MS 4000
/* A longer time between two looks counts as this: the wrapper itself did not run. */
#define HVD_WAITS_LOOK_MS 4000

/* The state of a rank, as its wrapper sees it. */
struct hvd_waits_view {
    enum hvd_rank_phase phase;
    uint32_t n_joins; /* the number of its calls of horovod_init */
    bool joins_all;   /* a job of all processes */
    bool is_final;    /* it has come to MPI_Finalize */
    bool is_stopped;  /* SIGSTOP has stopped its process, and only the wrapper can report that */
};

/* How long the rank has waited in horovod_init or MPI_Finalize, or stood still. All zero at the
 * start. */
struct hvd_waits {
    int64_t last_ms; /* the last look; 0: none yet */
    uint32_t n_joins;
    bool is_final;               /* at the last look */
    int64_t waited_ms;           /* in horovod_init, or in MPI_Finalize */
    int64_t stopped_ms;          /* its process */
    int64_t since_ms;            /* since the last notice */
    enum hvd_report_notice sent; /* the last notice; HVD_NOTICE_END: none is current */
};

/*
 * Looks at the rank at now_ms (> 0, any clock that goes forward). Whether the launcher has to get a
 * notice: *notice is its kind, with waits->waited_ms as its time.
 */
bool hvd_waits_look(struct hvd_waits *waits, const struct hvd_waits_view *view, int64_t now_ms,
                    enum hvd_report_notice *notice);

#endif
