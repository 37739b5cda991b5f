#ifndef HVD_WORKER_TIMELINE_REPORT_ANALYSIS_H
#define HVD_WORKER_TIMELINE_REPORT_ANALYSIS_H

#include "worker/timeline_report/model.h"

/* Ranks whose agreements are further apart than this did not take part in the same collective. */
#define HVD_TL_SAME_MAX_NS INT64_C(200000000)

/* A stretch of the typical step in which one class counted. */
struct hvd_tl_stretch {
    int64_t from_ns;
    int64_t to_ns;
    uint8_t class_;
    bool is_backward; /* or handing out, if no backward pass is marked */
};

/* The time of a rank by class. */
struct hvd_tl_share {
    int64_t ns[HVD_TL_CLASSES];
    int64_t beside_ns;           /* of the moving: while backward ran */
    int64_t offset_ns;           /* to add to the rank's clock to get the first rank's */
    struct hvd_tl_stretch *step; /* owned: the typical step; times of the first rank's clock */
    size_t n_step;
    size_t _step_capacity;
};

/* All collectives on a tensor, over all ranks that have a timeline. */
struct hvd_tl_row {
    uint32_t tensor;
    int64_t n;
    double waiting_ns;
    double negotiating_ns;
    double queued_ns;
    double moving_ns;
    double bytes;
    int64_t n_sized; /* those whose bytes the timeline records */
};

/* The results of a report. */
struct hvd_tl_analysis {
    struct hvd_tl_share *shares; /* owned, one per timeline */
    double *waited_ns; /* owned: [waiter * (n + 1) + for whom]; column n: ranks without timeline */
    int64_t *n_last;   /* owned: how often a rank was the last to request; as above */
    struct hvd_tl_row *rows; /* owned, the most time first */
    size_t n_rows;
    size_t n_ranks;
    int64_t n_groups; /* collectives that were compared between ranks */
    int64_t n_odd;    /* those whose ranks do not match: events are missing */
    int64_t n_steps;
    int64_t step_from_ns; /* the typical step; equal: there is none */
    int64_t step_to_ns;
    size_t ends_first;     /* the timeline whose last collective ends first */
    size_t ends_last;      /* and last */
    int64_t ends_apart_ns; /* the time between; 0: it is the same collective, or there is none */
    bool has_backward; /* beside_ns counts marked backward passes, not the handing out of tensors */
};

/* Computes all results. Adds edges to the model and sorts its contents. HVD_ERR_NOMEM. */
hvd_status_t hvd_tl_analysis_make(struct hvd_tl_model *model, struct hvd_tl_analysis *out);

/* Frees everything; a zeroed struct is legal. */
void hvd_tl_analysis_fini(struct hvd_tl_analysis *analysis);

#endif
