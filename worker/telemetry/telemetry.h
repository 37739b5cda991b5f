#ifndef HVD_WORKER_TELEMETRY_TELEMETRY_H
#define HVD_WORKER_TELEMETRY_TELEMETRY_H

#include <stdatomic.h>

#include "base/log.h"
#include "worker/telemetry/core/event.h"
#include "worker/telemetry/core/metrics.h"

/*
 * The telemetry of one rank: its timeline, counters and flight recorder. The engine calls the hooks
 * below where the events happen. A hook takes some nanoseconds while nothing is recorded, accepts a
 * NULL telemetry, never fails and never waits. A separate thread formats and writes, and sleeps
 * while there are no events.
 *
 *     hooks ──> counts                                 ──> metrics file
 *        ├────> ring ──> writer's thread ──> trace     ──> timeline file
 *        └────> recorder                 ──(a failure)──> dump
 */
struct hvd_telemetry {
    atomic_uint _on;        /* the consumers of events, as HVD_TELEMETRY_... bits; 0: none */
    atomic_uint _timelines; /* how many have begun */
    atomic_uint_fast64_t _submitted;
    struct hvd_counts _counts; /* the progress owner's: see hvd_telemetry_add */
    struct hvd_telemetry_state *_state;
};

#define HVD_TELEMETRY_TIMELINE 1U
#define HVD_TELEMETRY_RECORDER 2U
#define HVD_TELEMETRY_WAKE 4U /* the writer sleeps: the next event wakes it */

struct hvd_telemetry_options {
    int rank;
    int size;
    /* Returns the host of a rank, NULL if it is not known. Only hvd_telemetry_create calls it, with
     * ctx. NULL: no host is known. */
    const char *(*host)(const void *ctx, int rank);
    const void *ctx;
    const char *timeline; /* path, or DYNAMIC: it may start later; NULL or empty: it may not */
    bool marks_cycles;
    bool all_ranks;              /* every rank writes a timeline, not rank 0 alone */
    int64_t timeline_bytes;      /* the writer renames a file that grows beyond it; 0: no limit */
    const char *metrics_file;    /* NULL or empty: none */
    const char *flight_recorder; /* path, or - for standard error; NULL or empty: off */
    const struct hvd_log *log;   /* borrowed, for the life of telemetry */
};

/* Creates telemetry. Starts the timeline if a path was given, and logs a path that cannot be
 * written. Copies the paths. HVD_ERR_SYSTEM when no thread starts, HVD_ERR_INVALID when a path is
 * too long, HVD_ERR_NOMEM. */
hvd_status_t hvd_telemetry_create(const struct hvd_telemetry_options *options,
                                  struct hvd_telemetry **out, struct hvd_err *err);

/* Ends the timeline, writes the last metrics, and ends the thread. From then on only dumps are
 * written. Call it once; hooks and counts still work. */
void hvd_telemetry_end(struct hvd_telemetry *w);

/* Ends telemetry if it was not ended, and frees it. No hook may run any more. NULL is fine. */
void hvd_telemetry_destroy(struct hvd_telemetry *w);

/*
 * Starts a timeline at that path, on the ranks that write one. Ends the timeline that runs; if that
 * one has the same path, does nothing. HVD_ERR_STATE when the timeline was not enabled at creation;
 * HVD_ERR_SYSTEM, HVD_ERR_INVALID, HVD_ERR_NOMEM. Any thread.
 */
hvd_status_t hvd_telemetry_start_timeline(struct hvd_telemetry *w, const char *path,
                                          bool marks_cycles, struct hvd_err *err);

/* Ends the timeline that runs, if any, and returns once its file is complete. HVD_ERR_STATE as
 * above. Any thread. */
hvd_status_t hvd_telemetry_stop_timeline(struct hvd_telemetry *w, struct hvd_err *err);

/* Copies the counters to *counts. Any thread. */
void hvd_telemetry_counts(const struct hvd_telemetry *w, struct hvd_counts *counts);

/* Writes the flight recorder's events with a reason. HVD_ERR_STATE when there is no recorder;
 * HVD_ERR_SYSTEM, HVD_ERR_NOMEM. Any thread. */
hvd_status_t hvd_telemetry_dump(struct hvd_telemetry *w, const char *why, struct hvd_err *err);

/* The event that a hook passes on. */
struct hvd_trace_event {
    enum hvd_event_kind kind;
    int32_t detail;
    uint64_t id;
    const struct hvd_request *request; /* may be NULL */
    struct hvd_strview name;
};

/* Records an event; `on` is the value of _on that the hook has read. For the hooks. */
void hvd_telemetry_record(struct hvd_telemetry *w, unsigned on, const struct hvd_trace_event *seen);

/* Cached tensors of a process set with the same event: kinds REQUESTED to DONE of event.h. */
struct hvd_trace_slots {
    enum hvd_event_kind kind;
    int32_t detail; /* READY: the rank; DONE: hvd_status_t */
    uint32_t set;
    uint32_t first; /* word */
    uint32_t n_words;
    const uint64_t *words;
    const char *text; /* STARTED: the transport or step, below HVD_TELEMETRY_TEXT_MAX bytes; else
                         NULL */
};

#define HVD_TELEMETRY_TEXT_MAX 32

/* Records events for the timeline, with one time for all. Requires a timeline
 * (HVD_TELEMETRY_TIMELINE), and that the slots were recorded since hvd_telemetry_timelines changed.
 * One thread at a time. */
void hvd_telemetry_record_slots(struct hvd_telemetry *w, const struct hvd_trace_slots *seen);

/* Records for the timeline which tensor a slot stands for. Requires a timeline. One thread at a
 * time. */
void hvd_telemetry_record_slot(struct hvd_telemetry *w, uint32_t set, uint32_t index,
                               const struct hvd_request *request);

/* Returns how many timelines have begun: the engine records for each of them which tensors the
 * slots stand for. */
static inline unsigned hvd_telemetry_timelines(const struct hvd_telemetry *w)
{
    return atomic_load_explicit(&w->_timelines, memory_order_acquire);
}

/* Adds to a counter that only the progress owner changes; other threads may read it at the same
 * time. */
static inline void hvd_telemetry_add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* Returns the consumers of events. */
static inline unsigned hvd_telemetry_on(const struct hvd_telemetry *w)
{
    return atomic_load_explicit(&w->_on, memory_order_acquire);
}

/* --- Hooks: id names a tensor from its submission to its end, and is not 0 -------------------- */

/* This rank has submitted a tensor. is_slot: it is cached, and the timeline gets its event with
 * those of other slots. Callers take turns. */
static inline void hvd_telemetry_submitted(struct hvd_telemetry *w, uint64_t id,
                                           const struct hvd_request *request, bool is_slot)
{
    if (!w)
        return;
    atomic_store_explicit(&w->_submitted,
                          atomic_load_explicit(&w->_submitted, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    const unsigned on =
        hvd_telemetry_on(w) & ~(is_slot ? HVD_TELEMETRY_TIMELINE | HVD_TELEMETRY_WAKE : 0U);
    if (on)
        hvd_telemetry_record(
            w, on,
            &(struct hvd_trace_event){
                .kind = HVD_EVENT_SUBMITTED, .id = id, .request = request, .name = request->name});
}

/* The rank requests a cached tensor by its name. The progress owner. */
static inline void hvd_telemetry_named(struct hvd_telemetry *w, uint64_t id,
                                       const struct hvd_request *request)
{
    const unsigned on = w ? hvd_telemetry_on(w) & ~HVD_TELEMETRY_RECORDER : 0;

    if (on & HVD_TELEMETRY_TIMELINE)
        hvd_telemetry_record(
            w, on,
            &(struct hvd_trace_event){
                .kind = HVD_EVENT_SUBMITTED, .id = id, .request = request, .name = request->name});
}

/* The coordinator has received a rank's request for a tensor. is_slot: as above. The progress
 * owner. */
static inline void hvd_telemetry_ready(struct hvd_telemetry *w, int rank,
                                       const struct hvd_request *request, bool is_slot)
{
    const unsigned on = (w ? hvd_telemetry_on(w) : 0) &
                        ~(is_slot ? HVD_TELEMETRY_TIMELINE | HVD_TELEMETRY_WAKE : 0U);

    if (on)
        hvd_telemetry_record(w, on,
                             &(struct hvd_trace_event){.kind = HVD_EVENT_READY,
                                                       .detail = rank,
                                                       .request = request,
                                                       .name = request->name});
}

/* A plan has the tensor. is_slot: as above. The progress owner. */
static inline void hvd_telemetry_agreed(struct hvd_telemetry *w, uint64_t id,
                                        const struct hvd_request *request, bool is_slot)
{
    const unsigned on = (w ? hvd_telemetry_on(w) : 0) &
                        ~(is_slot ? HVD_TELEMETRY_TIMELINE | HVD_TELEMETRY_WAKE : 0U);

    if (on)
        hvd_telemetry_record(
            w, on,
            &(struct hvd_trace_event){.kind = HVD_EVENT_AGREED, .id = id, .request = request});
}

/* The tensor's data begins to move over a transport. is_slot: as above. The progress owner. */
static inline void hvd_telemetry_started(struct hvd_telemetry *w, uint64_t id,
                                         const struct hvd_request *request, const char *transport,
                                         bool is_slot)
{
    const unsigned on = (w ? hvd_telemetry_on(w) : 0) &
                        ~(is_slot ? HVD_TELEMETRY_TIMELINE | HVD_TELEMETRY_WAKE : 0U);

    if (on)
        hvd_telemetry_record(w, on,
                             &(struct hvd_trace_event){.kind = HVD_EVENT_STARTED,
                                                       .id = id,
                                                       .request = request,
                                                       .name = hvd_strview_of(transport)});
}

/* The tensor has ended; bytes of this rank's input. The progress owner. */
static inline void hvd_telemetry_done(struct hvd_telemetry *w, uint64_t id,
                                      const struct hvd_request *request, uint64_t bytes,
                                      hvd_status_t status)
{
    if (!w)
        return;
    if (status == HVD_OK) {
        hvd_telemetry_add(&w->_counts.completed, 1);
        hvd_telemetry_add(&w->_counts.tensors[request->op % HVD_TELEMETRY_OPS], 1);
        hvd_telemetry_add(&w->_counts.bytes[request->op % HVD_TELEMETRY_OPS], bytes);
    } else {
        hvd_telemetry_add(&w->_counts.failed, 1);
    }
    const unsigned on = hvd_telemetry_on(w);
    if (on)
        hvd_telemetry_record(
            w, on,
            &(struct hvd_trace_event){
                .kind = HVD_EVENT_DONE, .id = id, .request = request, .detail = (int32_t)status});
}

/* n tensors of an operation have succeeded while no consumer recorded events. The progress owner.
 */
static inline void hvd_telemetry_done_many(struct hvd_telemetry *w, int op, uint32_t n,
                                           uint64_t bytes)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.completed, n);
    hvd_telemetry_add(&w->_counts.tensors[op % HVD_TELEMETRY_OPS], n);
    hvd_telemetry_add(&w->_counts.bytes[op % HVD_TELEMETRY_OPS], bytes);
}

/* The rank carries out a plan. The progress owner. */
static inline void hvd_telemetry_plan(struct hvd_telemetry *w)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.plans, 1);
    const unsigned on = hvd_telemetry_on(w);
    if (on)
        hvd_telemetry_record(w, on, &(struct hvd_trace_event){.kind = HVD_EVENT_PLAN});
}

/* The rank has sent a control message. The progress owner. */
static inline void hvd_telemetry_sent(struct hvd_telemetry *w, size_t bytes)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.messages_sent, 1);
    hvd_telemetry_add(&w->_counts.message_bytes_sent, bytes);
}

/* The rank has received a control message. The progress owner. */
static inline void hvd_telemetry_received(struct hvd_telemetry *w, size_t bytes)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.messages_received, 1);
    hvd_telemetry_add(&w->_counts.message_bytes_received, bytes);
}

/* The progress owner had nothing to do for long, and sleeps. The progress owner. */
static inline void hvd_telemetry_slept(struct hvd_telemetry *w)
{
    if (w)
        hvd_telemetry_add(&w->_counts.sleeps, 1);
}

/* The background thread woke from a sleep without a limit, and had nothing to do. The background
 * thread. */
static inline void hvd_telemetry_idled(struct hvd_telemetry *w)
{
    if (w)
        hvd_telemetry_add(&w->_counts.idle_wakeups, 1);
}

/* The agreed tensors of a plan move in n_fused_ops collectives. The progress owner. */
static inline void hvd_telemetry_fused(struct hvd_telemetry *w, uint32_t n_fused_ops)
{
    if (w)
        hvd_telemetry_add(&w->_counts.flights, n_fused_ops);
}

/* The layout of a plan's cached tensors was found (a hit) or made anew. The progress owner. */
static inline void hvd_telemetry_laid_out(struct hvd_telemetry *w, bool is_hit)
{
    if (w)
        hvd_telemetry_add(is_hit ? &w->_counts.plan_hits : &w->_counts.plan_misses, 1);
}

/* A phase of the program begins or ends. Returns whether a timeline records it. Any thread. */
static inline bool hvd_telemetry_marked(struct hvd_telemetry *w, const char *name, bool begins)
{
    const unsigned on = w ? hvd_telemetry_on(w) & ~HVD_TELEMETRY_RECORDER : 0;

    if (on & HVD_TELEMETRY_TIMELINE)
        hvd_telemetry_record(w, on,
                             &(struct hvd_trace_event){.kind = HVD_EVENT_MARK,
                                                       .detail = begins,
                                                       .name = hvd_strview_of(name)});
    return (on & HVD_TELEMETRY_TIMELINE) != 0;
}

/* Tensors wait for ranks; `report` describes them. The progress owner. */
static inline void hvd_telemetry_stalled(struct hvd_telemetry *w, int n_tensors, const char *report)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.stall_warnings, 1);
    const unsigned on = hvd_telemetry_on(w);
    if (on)
        hvd_telemetry_record(w, on,
                             &(struct hvd_trace_event){.kind = HVD_EVENT_STALLED,
                                                       .detail = n_tensors,
                                                       .name = hvd_strview_of(report)});
}

/* A rank is lost. The progress owner. */
static inline void hvd_telemetry_lost(struct hvd_telemetry *w, int rank, const char *why)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.ranks_lost, 1);
    const unsigned on = hvd_telemetry_on(w);
    if (on)
        hvd_telemetry_record(w, on,
                             &(struct hvd_trace_event){.kind = HVD_EVENT_LOST,
                                                       .detail = rank,
                                                       .name = hvd_strview_of(why)});
}

/* Records that the job cannot go on, and dumps the flight recorder. The progress owner. */
void hvd_telemetry_failed(struct hvd_telemetry *w, const char *why);

#endif
