#ifndef HVD_WORKER_TIMELINE_REPORT_MODEL_H
#define HVD_WORKER_TIMELINE_REPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "worker/timeline_report/reader.h"

/* The largest number of timelines in one report. */
#define HVD_TL_RANKS_MAX 1024

/* What a rank does at a moment. If several classes apply, the first one counts. */
enum hvd_tl_class {
    HVD_TL_MOVING,      /* data moves, or is reduced */
    HVD_TL_COPYING,     /* into and out of buffers (Horovod) */
    HVD_TL_QUEUED,      /* the ranks have agreed on it, but it cannot start yet */
    HVD_TL_NEGOTIATING, /* all ranks have requested it, and negotiate */
    HVD_TL_WAITING,     /* another rank has not requested it */
    HVD_TL_IDLE,        /* no tensor is pending */
    HVD_TL_CLASSES,
    HVD_TL_BACKWARD = HVD_TL_CLASSES, /* the program marked it; independent of the others */
    HVD_TL_HANDING_OUT,               /* between the first and the last tensor of a step */
    HVD_TL_ALL,
};

/* A moment at which a class begins (step 1) or ends (-1) in a rank. */
struct hvd_tl_edge {
    int64_t at_ns;
    int32_t blame; /* index of the awaited rank; -1: none */
    int8_t step;
    uint8_t class_;
};

/* One collective in one rank's timeline; times are the rank's. */
struct hvd_tl_op {
    int64_t asked_ns;
    int64_t agreed_ns;
    int64_t moving_ns; /* when its data began to move */
    int64_t done_ns;
    int64_t first_tick_ns; /* when the coordinator received the first rank's request */
    int64_t last_tick_ns;  /* and the last rank's */
    int64_t bytes;         /* -1: not known */
    int32_t last_tick;     /* the rank of the last tick; -1: no ticks */
    int32_t rank;          /* index of its timeline */
    uint32_t tensor;
    uint32_t sequence; /* how often the rank had requested the tensor before */
};

/* A tensor, by its name. */
struct hvd_tl_tensor {
    char *name; /* owned */
    uint64_t hash;
};

/* Ranks of a host in the form of a timeline: "0-3, 8". */
struct hvd_tl_host {
    char *host;  /* owned */
    char *ranks; /* owned */
};

/* One timeline. */
struct hvd_tl_rank {
    int64_t rank;                  /* from the timeline, else its index */
    char host[HVD_TL_NAME_MAX];    /* of the rank; empty: not known */
    char program[HVD_TL_NAME_MAX]; /* that the rank runs; empty: not known */
    int64_t epoch_us;              /* -1: not known */
    int64_t first_ns;
    int64_t last_ns;
    int64_t n_events;
    int64_t n_damaged;
    int64_t n_dropped;
    int64_t n_stalls;
    int64_t n_open;            /* collectives with a request and without an end */
    int64_t n_back;            /* how often an event is far earlier than the one before it */
    bool is_cut;               /* the text is incomplete */
    char trouble[256];         /* the first stall, loss or failure; empty: none */
    struct hvd_tl_edge *edges; /* owned */
    size_t n_edges;
    size_t _edges_capacity;
    bool has_backward;
};

/* All timelines of a job. A zeroed one is empty. */
struct hvd_tl_model {
    struct hvd_tl_rank *ranks; /* owned */
    size_t n_ranks;
    int64_t n_job;             /* ranks of the job, as far as the timelines name them */
    struct hvd_tl_host *hosts; /* owned: in the order of the hosts' first ranks; a host with a long
                                  list has several entries in sequence */
    size_t n_hosts;
    size_t _hosts_capacity;
    struct hvd_tl_op *ops; /* owned; only those with an end */
    size_t n_ops;
    size_t _ops_capacity;
    struct hvd_tl_tensor *tensors; /* owned */
    size_t n_tensors;
    size_t _tensors_capacity;
    uint32_t *_index; /* owned: tensors by hash, number + 1 */
    size_t _index_size;
};

/*
 * Adds the timeline of one rank. HVD_ERR_INVALID if the text has no record of a timeline, or if
 * there are too many timelines; HVD_ERR_NOMEM. After a failure the model can only be freed.
 */
hvd_status_t hvd_tl_model_add(struct hvd_tl_model *model, struct hvd_strview text,
                              struct hvd_err *err);

/* Orders the timelines by their ranks. HVD_ERR_NOMEM. */
hvd_status_t hvd_tl_model_sort(struct hvd_tl_model *model);

/* Adds an edge to a rank. HVD_ERR_NOMEM. */
hvd_status_t hvd_tl_model_add_edge(struct hvd_tl_rank *rank, struct hvd_tl_edge edge);

/* Frees everything; the model is empty afterwards. */
void hvd_tl_model_fini(struct hvd_tl_model *model);

#endif
