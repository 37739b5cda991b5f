#ifndef HVD_TESTS_FAKE_GPU_MACHINE_H
#define HVD_TESTS_FAKE_GPU_MACHINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/fake/gpu/control.h"
#include "tests/fake/gpu/driver.h"
#include "worker/device/cuda/driver_api.h"
#include "worker/device/cuda/nccl_api.h"

/*
 * What the files of both doubles share. One lock guards everything; a call of the driver holds it
 * from fake_begin to fake_end, but for the time that it waits. Each stream has a thread that runs
 * its work, also under the lock: work on different streams overlaps in the order of its parts, not
 * in its instructions. Objects are never freed, so a handle that is used too late is found.
 */

/* One number for each call, under the name of its symbol. */
enum fake_call {
#define X(symbol, base, since, is_needed, result, params) FAKE_CALL_##symbol,
    HVD_CU_DRIVER_MAP(X)
#undef X
#define X(symbol, since, is_needed, result, params) FAKE_CALL_##symbol,
        HVD_NCCL_MAP(X)
#undef X
            FAKE_N_CALLS
};

/* A vector clock: how much of each agent's work is known to be done. An agent is a stream, or the
 * host as the user of one device. */
struct fake_clock {
    unsigned n;
    uint64_t *at;
};

/* One side of a race: who accessed memory, when by its own count, and what it was. Shared by the
 * ranges of one piece of work. */
struct fake_access {
    struct fake_access *next; /* while it has no users */
    int n_users;
    unsigned agent;
    uint64_t when;
    char what[160];
};

#define FAKE_MAX_DEVICES 16

/* The pool of a device; in bytes. */
struct CUmemPoolHandle_st {
    uint64_t used;
    uint64_t reserved;
    uint64_t threshold; /* what it keeps, used or not */
};

/* A context: the primary one of a device, and the device itself. */
struct CUctx_st {
    int device;
    int n_retained;
    int n_multiprocessors_used;
    bool is_stopped;
    bool is_locked; /* by a thread that loads a kernel */
    hvd_cu_result_t broken;
    unsigned async_error; /* of its communicators */
    size_t used_bytes;
    struct CUmemPoolHandle_st pool;
    unsigned host_agent;
    uint64_t host_when;
    struct fake_clock host; /* what the host knows */
    struct CUstream_st *legacy;
    struct CUstream_st *streams; /* that exist or have work, the legacy one too */
    struct CUstream_st *retired; /* destroyed, without work; they stay for late uses */
};

struct fake_op;

enum fake_step { FAKE_DONE, FAKE_AGAIN };
enum fake_life { FAKE_ALIVE = 0x600d, FAKE_DEAD = 0xdead };

struct CUstream_st {
    struct CUstream_st *next; /* of the context */
    enum fake_life life;
    struct CUctx_st *context;
    int number;
    bool is_blocking; /* synchronises with the legacy stream */
    bool has_thread;
    bool has_heir; /* a later stream has its agent */
    unsigned agent;
    struct fake_clock clock; /* of what is enqueued */
    uint64_t enqueued;       /* sequence numbers */
    uint64_t done;
    uint64_t last_collective; /* that is enqueued */
    uint64_t random;
    struct fake_op *first;
    struct fake_op *last;
    unsigned capture_state;
    unsigned capture_mode;
    struct CUstream_st *capture_origin; /* the stream on which the capture began */
    uint64_t capture_thread;
};

struct CUevent_st {
    struct CUevent_st *next;
    enum fake_life life;
    struct CUctx_st *context;
    int number;
    bool is_captured;
    struct CUstream_st *stream; /* of the latest record; NULL: never recorded */
    uint64_t seq;
    struct fake_clock clock;
};

/* Work on another stream that must be done first. */
struct fake_dep {
    struct CUstream_st *stream;
    uint64_t seq;
};

/* A piece of work on a stream. Its creator fills the first part; fake_enqueue the rest. */
struct fake_op {
    const char *call;
    char what[96];
    enum fake_step (*step)(struct fake_op *op); /* runs under the lock; again if it says so */
    bool (*is_canceled)(struct fake_op *op);    /* it needs no multiprocessors any more; or NULL */
    void (*fini)(struct fake_op *op);           /* or NULL; `data` is freed afterwards */
    void *data;
    int n_multiprocessors; /* that it occupies until it is done */
    bool is_collective;
    const struct fake_clock *learns; /* what is known behind the deps; read only by fake_enqueue */

    struct fake_op *next;
    struct CUstream_st *stream;
    uint64_t seq;
    struct fake_clock clock;
    struct fake_access *access;
    struct fake_dep *deps;
    unsigned n_deps;
    bool is_waiting_for_room;
    bool is_reported; /* one finding about each piece of work is enough */
    bool is_started;
};

/* Blocks of memory; they stay in the table when they are freed. */
struct fake_segment;
struct fake_block {
    char *at;
    size_t bytes;
    size_t pages; /* bytes that are mapped, from `first` on */
    char *first;
    int fd; /* of pinned memory */
    bool is_host;
    bool is_pooled; /* of the device's pool */
    bool is_free;
    struct CUctx_st *context;
    struct fake_access *freed; /* by whom */
    uint64_t n_writes;         /* by work on streams */
    struct fake_segment *segments;
};

/* --- machine.c: the lock, calls, options, findings ------------------------------------------- */

/* Takes the lock; the first call reads the options. */
FAKE_GPU_EXPORT void fake_lock(void);
/* Releases it. */
FAKE_GPU_EXPORT void fake_unlock(void);
/* Waits, with the lock released, until something changed or so many microseconds have passed. */
FAKE_GPU_EXPORT void fake_wait(unsigned timeout_us);
/* Wakes all that wait. */
FAKE_GPU_EXPORT void fake_wake(void);

/* Begins a call: takes the lock, counts, applies faults, checks what every such call needs. Unless
 * it returns 0, the call must return that through fake_end. */
FAKE_GPU_EXPORT unsigned fake_begin(enum fake_call call);
/* Ends a call: releases the lock and returns the result. */
FAKE_GPU_EXPORT unsigned fake_end(unsigned result);
/* The symbol of a call. */
FAKE_GPU_EXPORT const char *fake_call_name(enum fake_call call);

/* Reports a finding, with the lock held. Returns only if findings are not fatal. */
FAKE_GPU_EXPORT void fake_report(enum fake_gpu_finding finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What fake_gpu_check_leaks asks as well. */
FAKE_GPU_EXPORT void fake_set_leak_check(int (*check)(void));
/* A number up to max, from the generator at *random. */
FAKE_GPU_EXPORT unsigned fake_draw(uint64_t *random, unsigned max);
/* Ends the process for lack of memory or for an error of the double itself. */
FAKE_GPU_EXPORT void fake_die(const char *why) __attribute__((noreturn));
/* Zeroed memory; ends the process if there is none. */
FAKE_GPU_EXPORT void *fake_calloc(size_t n, size_t size);
/* The counts, to be changed unless fake_is_program. */
FAKE_GPU_EXPORT struct fake_gpu_counts *fake_counts(void);
/* The value of an option, with the lock held. */
FAKE_GPU_EXPORT long fake_option(enum fake_gpu_option option);
/* Whether the calling thread acts as the program. */
FAKE_GPU_EXPORT bool fake_is_program(void);
/* Counts a call that may have to wait. */
FAKE_GPU_EXPORT void fake_count_blocking(void);
/* Whether this launch of a kernel is one that a test wants to fail; *code is the error. */
bool fake_kernel_fails(const char *kernel, unsigned *code);

/* --- context.c -------------------------------------------------------------------------------- */

/* The current context of the calling thread, or NULL. */
FAKE_GPU_EXPORT struct CUctx_st *fake_current(void);
/* The context of device i. */
FAKE_GPU_EXPORT struct CUctx_st *fake_context(int device);
/* Whether cuInit was called. */
bool fake_is_init(void);
/* Reports what the contexts still have; returns how many objects. */
int fake_context_leaks(void);

/* --- race.c: clocks and conflicting accesses -------------------------------------------------- */

/* A new agent. */
unsigned fake_agent(void);
/* Everything that `from` knows is known to `to`. */
FAKE_GPU_EXPORT void fake_clock_join(struct fake_clock *to, const struct fake_clock *from);
/* Whether `clock` knows all that `other` does. */
bool fake_clock_covers(const struct fake_clock *clock, const struct fake_clock *other);
/* Sets one entry. */
void fake_clock_set(struct fake_clock *clock, unsigned agent, uint64_t when);
/* Frees the entries. */
void fake_clock_fini(struct fake_clock *clock);
/* A description of one side, with one user. */
struct fake_access *fake_access_create(unsigned agent, uint64_t when, const char *what);
/* One user less. */
void fake_access_put(struct fake_access *access);
/* Records an access to a range, and reports each earlier one that conflicts and is unknown to the
 * clock; `finding` names the kind. Returns false if the range is no memory that may be accessed,
 * which is reported as well. */
FAKE_GPU_EXPORT bool fake_access_range(struct fake_op *op, const void *at, size_t bytes,
                                       bool is_write);
/* The same for the whole of a block that is freed. Forgets what was recorded. */
void fake_access_free(struct fake_block *block, struct fake_access *by,
                      const struct fake_clock *clock);
/* The first value of a new block, by the one that made it. */
void fake_access_begin(struct fake_block *block, struct fake_access *by);
/* An access by the host that is known to have been `clock` only. */
void fake_access_host(struct fake_block *block, const void *at, size_t bytes, bool is_write);

/* --- memory.c --------------------------------------------------------------------------------- */

/* The block that holds the address, also a freed one; NULL if there is none. */
FAKE_GPU_EXPORT struct fake_block *fake_block_of(const void *at);
/* Whether the host accesses the address at its own, that is, it is not device memory. */
FAKE_GPU_EXPORT bool fake_is_pageable(const void *at);
/* Where threads of the double access the address: at the alias, or there. */
FAKE_GPU_EXPORT void *fake_at(const void *at);
/* Reports blocks that are not freed; returns how many. */
int fake_memory_leaks(void);

/* --- pool.c ----------------------------------------------------------------------------------- */

/* Bytes that the pool gives, and gets back. */
void fake_pool_take(struct CUctx_st *context, size_t bytes);
void fake_pool_put(struct CUctx_st *context, size_t bytes);
/* The host has waited for the device: the pool keeps its threshold at most. */
void fake_pool_trim(struct CUctx_st *context);

/* --- guard.c: what the host sees in pinned memory --------------------------------------------- */

/* A stream is about to write a value into pinned memory, from which the host may learn. */
void fake_guard_value(struct fake_op *op, struct fake_block *block);
/* A stream writes data into pinned memory. */
void fake_guard_data(struct fake_op *op, struct fake_block *block);
/* The block goes. */
void fake_guard_end(struct fake_block *block);
/* Takes into account what the host has seen since the last call. */
void fake_guard_look(void);

/* --- stream.c --------------------------------------------------------------------------------- */

/* The stream behind a handle of the program, with the special handles resolved. Reports and returns
 * NULL for one that is destroyed. */
FAKE_GPU_EXPORT struct CUstream_st *fake_stream_any(struct CUstream_st *handle);
/* The same; special handles are those of the context. */
FAKE_GPU_EXPORT struct CUstream_st *fake_stream_in(struct CUctx_st *context,
                                                   struct CUstream_st *handle);
/* The same for work, whose stream must be of the current context of the thread. */
FAKE_GPU_EXPORT struct CUstream_st *fake_stream_of(struct CUstream_st *handle, const char *call);
/* Puts a copy of the work onto the stream. It then owns data. Returns 0, or an error of capture,
 * in which case nothing happens and data is freed. */
FAKE_GPU_EXPORT hvd_cu_result_t fake_enqueue(struct CUstream_st *stream, const struct fake_op *op,
                                             const struct fake_dep *deps, unsigned n_deps);
/* Waits, with the lock released, until the stream has done that work. */
FAKE_GPU_EXPORT void fake_wait_for(struct CUstream_st *stream, uint64_t seq);
/* Waits for all present work of the stream, which the host then knows. */
FAKE_GPU_EXPORT void fake_wait_stream(struct CUstream_st *stream);
/* Waits until all streams of the context are idle; the host then knows all of it. */
FAKE_GPU_EXPORT void fake_wait_idle(struct CUctx_st *context);
/* Whether work that has not started cannot start now: for what is in front of it, or for room. */
FAKE_GPU_EXPORT bool fake_cannot_start(const struct fake_op *op);
/* Reports BLOCKING if a collective of the context may still run, as far as the host knows. */
FAKE_GPU_EXPORT void fake_check_blocking(struct CUctx_st *context, const char *call);
/* Reports streams that exist; returns how many. */
int fake_stream_leaks(void);

/* --- capture.c -------------------------------------------------------------------------------- */

/* Whether the calling thread may make a call that is unsafe while streams are captured; if not, the
 * captures are broken, and the result is the error. */
hvd_cu_result_t fake_capture_check(enum fake_call call);
/* What the call on a stream means for a capture: 0: there is none; *is_captured: it is recorded and
 * not run; or an error. */
hvd_cu_result_t fake_capture_enqueue(struct CUstream_st *stream, const char *call,
                                     bool *is_captured);

/* Ends the capture that began on a stream, if one did. */
void fake_capture_end(struct CUstream_st *origin);

/* Whether the calling thread runs a host function (value.c). */
bool fake_is_host_function(void);

/* --- event.c, module.c ------------------------------------------------------------------------ */

/* Report events and modules that exist; return how many. */
int fake_event_leaks(void);
int fake_module_leaks(void);

#endif
