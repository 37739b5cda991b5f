/*
 * The names of events and operations in Horovod's timeline. Constants.
 */
#include "worker/telemetry/core/event.h"

#include <string.h>

static const char *const kind_names[HVD_EVENT_KINDS] = {
    [HVD_EVENT_READY] = "READY",     [HVD_EVENT_SUBMITTED] = "SUBMITTED",
    [HVD_EVENT_AGREED] = "AGREED",   [HVD_EVENT_STARTED] = "STARTED",
    [HVD_EVENT_DONE] = "DONE",       [HVD_EVENT_PLAN] = "PLAN",
    [HVD_EVENT_STALLED] = "STALLED", [HVD_EVENT_LOST] = "LOST",
    [HVD_EVENT_FAILED] = "FAILED",   [HVD_EVENT_SLOT] = "SLOT",
    [HVD_EVENT_REQUESTED] = "ASKED", [HVD_EVENT_MARK] = "MARK",
};

static const char *const op_names[][2] = {
    [HVD_ALLREDUCE] = {"ALLREDUCE", "ALLREDUCE"},
    [HVD_ALLGATHER] = {"ALLGATHER", "ALLGATHER"},
    [HVD_BROADCAST] = {"BROADCAST", "BCAST"},
    [HVD_JOIN] = {"JOIN", "JOIN"},
    [HVD_ALLTOALL] = {"ALLTOALL", "ALLTOALL"},
    [HVD_BARRIER] = {"BARRIER", "BARRIER"},
    [HVD_REDUCESCATTER] = {"REDUCESCATTER", "REDUCESCATTER"},
};

uint64_t hvd_event_count_slots(const struct hvd_event *event, const char *name)
{
    uint64_t n = 0;

    for (uint32_t w = 0; w < event->n_words; w++) {
        uint64_t word;
        memcpy(&word, name + w * sizeof(word), sizeof(word));
        n += (uint64_t)__builtin_popcountll(word);
    }
    return n;
}

const char *hvd_event_kind_name(int kind)
{
    const bool exists = kind > 0 && kind < HVD_EVENT_KINDS && kind_names[kind];

    return exists ? kind_names[kind] : "UNKNOWN";
}

const char *hvd_event_op_name(const struct hvd_event *event, bool suffix)
{
    if (event->op == HVD_ALLREDUCE && event->reduce == HVD_ADASUM)
        return suffix ? "ADASUM_ALLREDUCE" : "ADASUM";
    if (event->op >= sizeof(op_names) / sizeof(op_names[0]) || !op_names[event->op][suffix])
        return "UNKNOWN";
    return op_names[event->op][suffix];
}
