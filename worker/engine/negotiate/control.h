#ifndef HVD_WORKER_ENGINE_NEGOTIATE_CONTROL_H
#define HVD_WORKER_ENGINE_NEGOTIATE_CONTROL_H

#include "worker/engine/state/state.h"

/*
 * Caller is the progress owner, without mu.
 */

/* A message about a set that this rank has not made yet. */
struct hvd_early {
    struct hvd_early *next;
    int from;
    uint32_t set;
    size_t len;
    char data[];
};

/* Sends a control message. */
hvd_status_t hvd_control_send(struct hvd_engine *e, int rank, const void *data, size_t len,
                              struct hvd_err *err);

/* Requests the cached tensors in set->own.bits on a rank that receives for others, itself among
 * them. What set->own.bits holds then is to be forgotten. */
hvd_status_t hvd_control_own_bits(struct hvd_engine *e, struct hvd_set *set, uint32_t n_words,
                                  int64_t now_ns, struct hvd_err *err);

/* The same with one request, on a rank that receives for others. */
hvd_status_t hvd_control_own_request(struct hvd_engine *e, struct hvd_set *set,
                                     const struct hvd_merged_request *merged, int64_t now_ns,
                                     struct hvd_err *err);

/* For telemetry: a rank of the job has requested a tensor. */
void hvd_control_trace_ready(const struct hvd_engine *e, int rank,
                             const struct hvd_request *request);

/* Sends what was made in this step: the coordinator its plan, which it follows as well, an inner
 * node of the tree what goes up. */
hvd_status_t hvd_control_publish_plan(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                      struct hvd_err *err);

/* Reads what peers have sent. */
hvd_status_t hvd_control_recv(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                              struct hvd_err *err);

/* Reads what came too early and is not any more. */
hvd_status_t hvd_control_recv_early(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                    struct hvd_err *err);

/* While a set is made: whether a rank has failed that the coordinator, which this rank is then, has
 * to end the job for. HVD_ERR_GONE: it has, err says why; HVD_ERR_INVALID. */
hvd_status_t hvd_control_recv_end(struct hvd_engine *e, struct hvd_err *err);

/* Whether this rank passes on what others say: then it looks for messages also when it is idle.
 * Caller holds mu. */
bool hvd_control_serves_others(const struct hvd_engine *e);

#endif
