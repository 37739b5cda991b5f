#ifndef HVD_WORKER_ENGINE_NEGOTIATE_CONTROL_H
#define HVD_WORKER_ENGINE_NEGOTIATE_CONTROL_H

#include "worker/engine/state/state.h"

/*
 * Only the progress owner calls these functions, without mu.
 */

/* A message about a set that this rank has not created yet. */
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

/* Requests the cached tensors in set->own.bits, on a rank that receives for others. Converts the
 * bits in place, so that the caller must discard them. */
hvd_status_t hvd_control_own_bits(struct hvd_engine *e, struct hvd_set *set, uint32_t n_words,
                                  int64_t now_ns, struct hvd_err *err);

/* Makes one request by name, on a rank that receives for others. */
hvd_status_t hvd_control_own_request(struct hvd_engine *e, struct hvd_set *set,
                                     const struct hvd_merged_request *merged, int64_t now_ns,
                                     struct hvd_err *err);

/* For telemetry: reports that a rank of the job has requested a tensor. */
void hvd_control_trace_ready(const struct hvd_engine *e, int rank,
                             const struct hvd_request *request);

/* Sends the messages made in this step. The coordinator sends its plan and applies it; an inner
 * node sends its parent what it merged. */
hvd_status_t hvd_control_publish_plan(struct hvd_engine *e, struct hvd_set *set, bool *progressed,
                                      struct hvd_err *err);

/* Reads messages from peers. */
hvd_status_t hvd_control_recv(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                              struct hvd_err *err);

/* Reads messages that came too early and can be handled now. */
hvd_status_t hvd_control_recv_early(struct hvd_engine *e, int64_t now_ns, bool *progressed,
                                    struct hvd_err *err);

/* For the time in which a set is created: checks whether a failed rank requires the coordinator,
 * if this rank is that, to end the job. HVD_ERR_GONE: it does, with the cause in err;
 * HVD_ERR_INVALID. */
hvd_status_t hvd_control_recv_end(struct hvd_engine *e, struct hvd_err *err);

/* Whether this rank passes on messages of others, and so must check for messages while idle.
 * Caller holds mu. */
bool hvd_control_serves_others(const struct hvd_engine *e);

#endif
