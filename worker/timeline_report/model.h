#ifndef HVD_WORKER_TIMELINE_REPORT_MODEL_H
#define HVD_WORKER_TIMELINE_REPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "worker/timeline_report/reader.h"

/* Timelines that one report takes at most. */
#define HVD_TL_RANKS_MAX 1024

/* What a rank does at a time; where several are so, the first of them counts. */
enum hvd_tl_class {
    HVD_TL_MOVING,      /* data is on its way, or being reduced */
    HVD_TL_COPYING,     /* into and out of buffers (Horovod) */
    HVD_TL_QUEUED,      /* agreed, but it cannot start yet */
    HVD_TL_NEGOTIATING, /* all ranks have asked for it, and the agreement is on its way */
    HVD_TL_WAITING,     /* another rank has not asked for it */
    HVD_TL_IDLE,        /* nothing is outstanding */
    HVD_TL_CLASSES,
    HVD_TL_BACKWARD = HVD_TL_CLASSES, /* the program marked it so; beside the others */
    HVD_TL_HANDING_OUT,               /* between the first and the last tensor of a step */
    HVD_TL_ALL,
};

/* Where a class begins (step 1) or ends (-1) in a rank. */
struct hvd_tl_edge {
    int64_t at_ns;
    int32_t blame; /* index of the rank that is waited for; -1: none */
    int8_t step;
    uint8_t class_;
};

/* One collective as one rank saw it; times are the rank's. */
struct hvd_tl_op {
    int64_t asked_ns;
    int64_t agreed_ns;
    int64_t moving_ns; /* when its data began to move */
    int64_t done_ns;
    int64_t first_tick_ns; /* when the coordinator knew of the first rank */
    int64_t last_tick_ns;  /* and of the last */
    int64_t bytes;         /* -1: not said */
    int32_t last_tick;     /* which was the last; -1: no ticks */
    int32_t rank;          /* index of its timeline */
    uint32_t tensor;
    uint32_t sequence; /* how often the rank had asked for the tensor before */
};

/* A name, and what is known of it. */
struct hvd_tl_tensor {
    char *name; /* owned */
    uint64_t hash;
};

/* Ranks of a host, as a timeline says it: "0-3, 8". */
struct hvd_tl_host {
    char *host;  /* owned */
    char *ranks; /* owned */
};

/* One timeline. */
struct hvd_tl_rank {
    int64_t rank;                  /* as it says, else its index */
    char host[HVD_TL_NAME_MAX];    /* of the rank; empty: not said */
    char program[HVD_TL_NAME_MAX]; /* that it runs; the same */
    int64_t epoch_us;              /* -1: not said */
    int64_t first_ns;
    int64_t last_ns;
    int64_t n_events;
    int64_t n_damaged;
    int64_t n_dropped;
    int64_t n_stalls;
    int64_t n_open;            /* collectives that were asked for and have no end */
    int64_t n_back;            /* how often an event is far earlier than the one before it */
    bool is_cut;               /* the text breaks off */
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
    int64_t n_job;             /* ranks that the job has, as far as the timelines show */
    struct hvd_tl_host *hosts; /* owned: in the order of the hosts' first ranks; a host whose list
                                    is long has several, one behind the other */
    size_t n_hosts;
    size_t _hosts_capacity;
    struct hvd_tl_op *ops; /* owned; only those that came to their end */
    size_t n_ops;
    size_t _ops_capacity;
    struct hvd_tl_tensor *tensors; /* owned */
    size_t n_tensors;
    size_t _tensors_capacity;
    uint32_t *_index; /* owned: tensors by hash, number + 1 */
    size_t _index_size;
};

/*
 * Adds the timeline of one rank. HVD_ERR_INVALID when the text holds no record of one, or when
 * there are too many; HVD_ERR_NOMEM. After a failure the model can only be freed.
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
