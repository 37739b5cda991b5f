#ifndef HVD_WORKER_TELEMETRY_CORE_EVENT_H
#define HVD_WORKER_TELEMETRY_CORE_EVENT_H

#include "worker/core/types.h"

/* The kinds of events of a tensor, or of the job. */
enum hvd_event_kind {
    HVD_EVENT_READY = 1, /* coordinator: rank `detail` has requested the tensor */
    HVD_EVENT_SUBMITTED, /* on this rank; has type and shape */
    HVD_EVENT_AGREED,    /* it is in a plan, all ranks have it */
    HVD_EVENT_STARTED,   /* its data moves, or the next step begins; the name is the transport's, or
                            with an underscore that of the step */
    HVD_EVENT_DONE,      /* detail: hvd_status_t */
    HVD_EVENT_PLAN,      /* a plan begins; detail: how many messages came before, or 0 */
    HVD_EVENT_STALLED,   /* the name is a report; detail: how many tensors wait */
    HVD_EVENT_LOST,      /* rank `detail`; the name is the reason */
    HVD_EVENT_FAILED,    /* the job cannot go on; the name is the reason */
    HVD_EVENT_SLOT, /* id: the slot that caches a tensor of this name, type and shape from now on */
    HVD_EVENT_REQUESTED, /* as SUBMITTED, for cached tensors */
    HVD_EVENT_MARK,      /* a phase of the program; detail: 1 it begins, 0 it ends */
};

#define HVD_EVENT_KINDS 13

/*
 * Cached tensors are requested, planned and moved together with others, and so are their events.
 * One event for many tensors names them by bits, in words of 64 with which its name begins. Its id
 * is hvd_event_slot_id(set, first word). Kinds: REQUESTED, READY, AGREED, STARTED, DONE.
 */
#define HVD_EVENT_WORDS_MAX 64

/* Returns the id of an event: the place of a slot, or of the 64 slots of a word. */
static inline uint64_t hvd_event_slot_id(uint32_t set, uint32_t index)
{
    return (uint64_t)set << 32 | index;
}

/* The part of every event that has a fixed size. */
struct hvd_event {
    uint64_t ticks; /* of the clock, see worker/telemetry/clock.h */
    uint64_t id;    /* names the tensor from SUBMITTED to DONE; 0: none */
    int32_t detail;
    uint16_t name_len; /* <= HVD_NAME_MAX */
    uint8_t kind;
    uint8_t op;
    uint8_t dtype;
    uint8_t reduce;
    uint8_t ndim;
    uint8_t n_words; /* words of bits with which the name begins; 0: the event is of one tensor, or
                        of none */
};

/* An event with its shape and name. */
struct hvd_note {
    struct hvd_event event;
    int64_t shape[HVD_NDIM_MAX];
    char name[HVD_NAME_MAX + 1]; /* event.name_len bytes, terminated */
};

/* Returns how many cached tensors an event names by its words; 0: it names one by name, or none. */
uint64_t hvd_event_count_slots(const struct hvd_event *event, const char *name);

/* Returns the name of a kind, such as "SUBMITTED"; "UNKNOWN" for a kind that does not exist. */
const char *hvd_event_kind_name(int kind);

/* Returns the timeline's name of an operation: "ALLREDUCE", "ADASUM"; suffix: as in MPI_BCAST. */
const char *hvd_event_op_name(const struct hvd_event *event, bool suffix);

#endif
