/*
 * The counters as text for Prometheus. One table names them, so that none is forgotten.
 */
#include "worker/telemetry/core/metrics.h"

#include <inttypes.h>

#define FIELD(name) offsetof(struct hvd_counts, name)

static const struct {
    const char *name;
    size_t offset;
    const char *help;
} metrics[] = {
    {"submitted_tensors", FIELD(submitted), "Tensors submitted by this rank."},
    {"failed_tensors", FIELD(failed), "Tensors that ended with an error."},
    {"plans", FIELD(plans), "Plans followed; tensors / plans is how many share one."},
    {"plan_hits", FIELD(plan_hits), "Plans of cached tensors that had been laid out before."},
    {"plan_misses", FIELD(plan_misses), "Plans of cached tensors that were laid out anew."},
    {"flights", FIELD(flights), "Collectives; tensors / flights is how many were fused."},
    {"messages_sent", FIELD(messages_sent), "Control messages sent."},
    {"messages_received", FIELD(messages_received), "Control messages received."},
    {"message_sent_bytes", FIELD(message_bytes_sent), "Bytes of control messages sent."},
    {"message_received_bytes", FIELD(message_bytes_received),
     "Bytes of control messages received."},
    {"sleeps", FIELD(sleeps), "Times that progress found nothing to do and slept."},
    {"idle_wakeups", FIELD(idle_wakeups), "Wake-ups while there was nothing to do."},
    {"stall_warnings", FIELD(stall_warnings), "Reports of tensors that some rank waits for."},
    {"ranks_lost", FIELD(ranks_lost), "Ranks found to be gone."},
    {"job_failures", FIELD(job_failures), "Times that the job could not go on."},
    {"timeline_events", FIELD(timeline_events), "Events recorded for the timeline."},
    {"timeline_dropped_events", FIELD(timeline_dropped),
     "Events missing from the timeline: its buffer was full."},
};

static hvd_status_t add_head(struct hvd_buf *out, const char *name, const char *help)
{
    return hvd_buf_printf(out, "# HELP horovod_%s_total %s\n# TYPE horovod_%s_total counter\n",
                          name, help, name);
}

/* One metric with a value per operation. */
static hvd_status_t add_by_op(struct hvd_buf *out, const char *name, const char *help,
                              const uint64_t *values, int rank)
{
    static const struct {
        enum hvd_op op;
        const char *label;
    } ops[] = {
        {HVD_ALLREDUCE, "allreduce"}, {HVD_ALLGATHER, "allgather"},
        {HVD_BROADCAST, "broadcast"}, {HVD_ALLTOALL, "alltoall"},
        {HVD_BARRIER, "barrier"},     {HVD_REDUCESCATTER, "reducescatter"},
        {HVD_JOIN, "join"},
    };
    hvd_status_t st = add_head(out, name, help);

    for (size_t i = 0; st == HVD_OK && i < sizeof(ops) / sizeof(ops[0]); i++)
        st = hvd_buf_printf(out, "horovod_%s_total{rank=\"%d\",op=\"%s\"} %" PRIu64 "\n", name,
                            rank, ops[i].label, values[ops[i].op]);
    return st;
}

hvd_status_t hvd_metrics_encode(const struct hvd_counts *counts, int rank, struct hvd_buf *out)
{
    hvd_status_t st =
        add_by_op(out, "tensors", "Tensors completed, by operation.", counts->tensors, rank);

    if (st == HVD_OK)
        st = add_by_op(out, "tensor_bytes", "Bytes of this rank's inputs of completed tensors.",
                       counts->bytes, rank);
    for (size_t i = 0; st == HVD_OK && i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        const char *at = (const char *)counts + metrics[i].offset;
        st = add_head(out, metrics[i].name, metrics[i].help);
        if (st == HVD_OK)
            st = hvd_buf_printf(out, "horovod_%s_total{rank=\"%d\"} %" PRIu64 "\n", metrics[i].name,
                                rank, *(const uint64_t *)(const void *)at);
    }
    return st;
}
