#ifndef HVD_WORKER_TELEMETRY_TELEMETRY_H
#define HVD_WORKER_TELEMETRY_TELEMETRY_H

#include <stdatomic.h>

#include "base/log.h"
#include "worker/telemetry/core/event.h"
#include "worker/telemetry/core/metrics.h"

/*
 * What can be seen of one rank: its timeline, counters and flight recorder. The engine calls the
 * hooks below where things happen; every hook is some nanoseconds while nothing is recorded, takes
 * a NULL telemetry, never fails and never waits. A thread of its own formats and writes, and sleeps
 * while nothing happens.
 *
 *     hooks ──> counts                                 ──> metrics file
 *        ├────> ring ──> writer's thread ──> trace     ──> timeline file
 *        └────> recorder                 ──(a failure)──> dump
 */
struct hvd_telemetry {
    atomic_uint _on;        /* what records events: HVD_TELEMETRY_...; 0: nothing */
    atomic_uint _timelines; /* begun so far */
    atomic_uint_fast64_t _submitted;
    struct hvd_counts _counts; /* the progress owner's: see hvd_telemetry_add */
    struct hvd_telemetry_state *_state;
};

#define HVD_TELEMETRY_TIMELINE 1U
#define HVD_TELEMETRY_RECORDER 2U
#define HVD_TELEMETRY_WAKE 4U /* the writer sleeps and wants to know of the next event */

struct hvd_telemetry_options {
    int rank;
    int size;
    /* Host of a rank, NULL where it is not known; called by hvd_telemetry_create alone, with ctx.
     * NULL: no host is known. */
    const char *(*host)(const void *ctx, int rank);
    const void *ctx;
    const char *timeline; /* path, or DYNAMIC: may be started later; NULL or empty: may not */
    bool marks_cycles;
    bool all_ranks;              /* every rank writes a timeline, not rank 0 alone */
    int64_t timeline_bytes;      /* a file that grows beyond is set aside; 0: no limit */
    const char *metrics_file;    /* NULL or empty: none */
    const char *flight_recorder; /* path, or - for standard error; NULL or empty: off */
    const struct hvd_log *log;   /* borrowed, for the life of telemetry */
};

/* Telemetry; starts the timeline if a path was given, and logs when that cannot be written. Paths
 * are copied. HVD_ERR_SYSTEM when no thread starts, HVD_ERR_INVALID when a path is too long,
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_telemetry_create(const struct hvd_telemetry_options *options,
                                  struct hvd_telemetry **out, struct hvd_err *err);

/* Ends the timeline, writes the last metrics, ends the thread: nothing is written from then on, but
 * a dump. Once; hooks and counts still work. */
void hvd_telemetry_end(struct hvd_telemetry *w);

/* Ends what was not ended, and frees telemetry: nothing calls hooks any more. NULL is fine. */
void hvd_telemetry_destroy(struct hvd_telemetry *w);

/*
 * Starts a timeline at that path, on the ranks that write one; ends the one that runs, unless it
 * has the same path: then nothing happens. HVD_ERR_STATE when the timeline was not enabled at
 * creation; HVD_ERR_SYSTEM, HVD_ERR_INVALID, HVD_ERR_NOMEM. Any thread.
 */
hvd_status_t hvd_telemetry_start_timeline(struct hvd_telemetry *w, const char *path,
                                          bool marks_cycles, struct hvd_err *err);

/* Ends the timeline that runs, if any, and returns once its file is complete. HVD_ERR_STATE as
 * above. Any thread. */
hvd_status_t hvd_telemetry_stop_timeline(struct hvd_telemetry *w, struct hvd_err *err);

/* What was counted so far. Any thread. */
void hvd_telemetry_counts(const struct hvd_telemetry *w, struct hvd_counts *counts);

/* Writes the flight recorder's events with a reason. HVD_ERR_STATE when there is no recorder;
 * HVD_ERR_SYSTEM, HVD_ERR_NOMEM. Any thread. */
hvd_status_t hvd_telemetry_dump(struct hvd_telemetry *w, const char *why, struct hvd_err *err);

/* What a hook hands over. */
struct hvd_trace_event {
    enum hvd_event_kind kind;
    int32_t detail;
    uint64_t id;
    const struct hvd_request *request; /* may be NULL */
    struct hvd_strview name;
};

/* Records an event; `on` is what _on held. For the hooks. */
void hvd_telemetry_record(struct hvd_telemetry *w, unsigned on, const struct hvd_trace_event *seen);

/* Cached tensors of a process set to which the same happens: kinds ASKED to DONE of event.h. */
struct hvd_trace_slots {
    enum hvd_event_kind kind;
    int32_t detail; /* READY: the rank; DONE: hvd_status_t */
    uint32_t set;
    uint32_t first; /* word */
    uint32_t n_words;
    const uint64_t *words;
    const char *text; /* STARTED: the transport, below HVD_TELEMETRY_TEXT_MAX bytes; else NULL */
};

#define HVD_TELEMETRY_TEXT_MAX 16

/* Records events for the timeline, with one time for all. There is one (HVD_TELEMETRY_TIMELINE),
 * and the slots were recorded since hvd_telemetry_timelines changed. One thread at a time. */
void hvd_telemetry_record_slots(struct hvd_telemetry *w, const struct hvd_trace_slots *seen);

/* Records for the timeline that a slot stands for a tensor. As above. */
void hvd_telemetry_record_slot(struct hvd_telemetry *w, uint32_t set, uint32_t index,
                               const struct hvd_request *request);

/* How many timelines have begun: each has to be told what slots stand for. */
static inline unsigned hvd_telemetry_timelines(const struct hvd_telemetry *w)
{
    return atomic_load_explicit(&w->_timelines, memory_order_acquire);
}

/* Adds to a counter that the progress owner alone changes: others may read it at the same time. */
static inline void hvd_telemetry_add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* What records events now. */
static inline unsigned hvd_telemetry_on(const struct hvd_telemetry *w)
{
    return atomic_load_explicit(&w->_on, memory_order_acquire);
}

/* --- Hooks: id names a tensor from its submission to its end, and is not 0 -------------------- */

/* A tensor was submitted here. is_slot: it is cached, and the timeline hears of it with others.
 * Callers take turns. */
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

/* A tensor that was cached is requested by its name. The progress owner. */
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

/* The coordinator has heard that a rank requests a tensor. is_slot: as above. The progress owner.
 */
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

/* n tensors of an operation have ended well while nobody recorded events. The progress owner. */
static inline void hvd_telemetry_done_many(struct hvd_telemetry *w, int op, uint32_t n,
                                           uint64_t bytes)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.completed, n);
    hvd_telemetry_add(&w->_counts.tensors[op % HVD_TELEMETRY_OPS], n);
    hvd_telemetry_add(&w->_counts.bytes[op % HVD_TELEMETRY_OPS], bytes);
}

/* A plan is followed. The progress owner. */
static inline void hvd_telemetry_plan(struct hvd_telemetry *w)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.plans, 1);
    const unsigned on = hvd_telemetry_on(w);
    if (on)
        hvd_telemetry_record(w, on, &(struct hvd_trace_event){.kind = HVD_EVENT_PLAN});
}

/* A control message was sent. The progress owner. */
static inline void hvd_telemetry_sent(struct hvd_telemetry *w, size_t bytes)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.messages_sent, 1);
    hvd_telemetry_add(&w->_counts.message_bytes_sent, bytes);
}

/* A control message came in. The progress owner. */
static inline void hvd_telemetry_received(struct hvd_telemetry *w, size_t bytes)
{
    if (!w)
        return;
    hvd_telemetry_add(&w->_counts.messages_received, 1);
    hvd_telemetry_add(&w->_counts.message_bytes_received, bytes);
}

/* The progress owner found nothing to do for long, and sleeps. The progress owner. */
static inline void hvd_telemetry_slept(struct hvd_telemetry *w)
{
    if (w)
        hvd_telemetry_add(&w->_counts.sleeps, 1);
}

/* A sleep without end ended, and there was nothing to do here. The background. */
static inline void hvd_telemetry_idled(struct hvd_telemetry *w)
{
    if (w)
        hvd_telemetry_add(&w->_counts.idle_wakeups, 1);
}

/* The agreed tensors of a plan are on their way in so many collectives. The progress owner. */
static inline void hvd_telemetry_fused(struct hvd_telemetry *w, uint32_t n_fused_ops)
{
    if (w)
        hvd_telemetry_add(&w->_counts.flights, n_fused_ops);
}

/* The cached tensors of a plan have been laid out, before (a hit) or now. The progress owner. */
static inline void hvd_telemetry_laid_out(struct hvd_telemetry *w, bool is_hit)
{
    if (w)
        hvd_telemetry_add(is_hit ? &w->_counts.plan_hits : &w->_counts.plan_misses, 1);
}

/* A phase of the program begins or ends here. Whether a timeline has it. Any thread. */
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

/* Tensors wait for ranks: the report. The progress owner. */
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

/* A rank is gone. The progress owner. */
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

/* The job cannot go on: records it, and dumps the flight recorder. The progress owner. */
void hvd_telemetry_failed(struct hvd_telemetry *w, const char *why);

#endif
