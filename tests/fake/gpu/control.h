#ifndef HVD_TESTS_FAKE_GPU_CONTROL_H
#define HVD_TESTS_FAKE_GPU_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fake/gpu/kernel.h"

/*
 * How a test controls the doubles of the driver and of NCCL. The functions are exported by the
 * double of libcuda.so.1: link against it, or find them by dlsym. Any thread may call them.
 * docs/gpu-doubles.md has the behaviours.
 */
#define FAKE_GPU_EXPORT __attribute__((visibility("default")))

/*
 * Options, X(name, default, environment variable). A test sets one by fake_gpu_set; the variable
 * counts when the double is loaded.
 */
#define FAKE_GPU_OPTION_MAP(X)                                                                     \
    /* Devices of the machine, 16 at most. */                                                      \
    X(GPUS, 1, "HVD_FAKE_GPUS")                                                                    \
    /* Which of the machine's GPUs device 0 is, as with CUDA_VISIBLE_DEVICES. */                   \
    X(FIRST_GPU, 0, "HVD_FAKE_GPU_FIRST")                                                          \
    /* Draws the delays. */                                                                        \
    X(SEED, 1, "HVD_FAKE_GPU_SEED")                                                                \
    /* The longest delay in front of work on a stream. */                                          \
    X(DELAY_US, 100, "HVD_FAKE_GPU_DELAY_US")                                                      \
    /* 1: a report ends the process. 0: reports are counted. */                                    \
    X(FATAL, 1, "HVD_FAKE_GPU_FATAL")                                                              \
    /* 1: cuMemFree and cuMemFreeHost wait until the device is idle. */                            \
    X(FREE_WAITS, 1, "HVD_FAKE_GPU_FREE_WAITS")                                                    \
    /* 0: kernels are loaded with their module. 1: when cuModuleGetFunction names them. 2: when    \
     * cuFuncGetAttribute looks, or at the first launch. Loading waits until the device is idle.   \
     */                                                                                            \
    X(LAZY_LOADING, 2, "HVD_FAKE_GPU_LAZY_LOADING")                                                \
    /* 1: a call that waits for the whole device while a collective may run is reported. */        \
    X(REPORT_BLOCKING, 1, "HVD_FAKE_GPU_REPORT_BLOCKING")                                          \
    /* 1: a copy or kernel that reads memory without a value is reported. */                       \
    X(REPORT_UNWRITTEN, 0, "HVD_FAKE_GPU_REPORT_UNWRITTEN")                                        \
    /* 1: values that streams write into pinned memory order the host when it looks. 0: at once.   \
     */                                                                                            \
    X(GUARD_VALUES, 1, "HVD_FAKE_GPU_GUARD_VALUES")                                                \
    /* 1: an access of the host to pinned memory that a stream has written is a race unless the    \
     * host has waited. Not with system calls on that memory. */                                   \
    X(GUARD_PINNED, 0, "HVD_FAKE_GPU_GUARD_PINNED")                                                \
    /* Of cuDriverGetVersion, and the newest PTX that it accepts, times ten. */                    \
    X(DRIVER_VERSION, 13000, "HVD_FAKE_GPU_DRIVER_VERSION")                                        \
    X(PTX_VERSION, 90, "HVD_FAKE_GPU_PTX_VERSION")                                                 \
    /* Of each device: memory, multiprocessors, compute capability times ten. */                   \
    X(MEMORY_MIB, 81920, "HVD_FAKE_GPU_MEMORY_MIB")                                                \
    X(MULTIPROCESSORS, 132, "HVD_FAKE_GPU_MULTIPROCESSORS")                                        \
    X(CAPABILITY, 90, "HVD_FAKE_GPU_CAPABILITY")                                                   \
    /* NCCL: its version, and multiprocessors that a collective occupies. */                       \
    X(NCCL_VERSION, 23203, "HVD_FAKE_NCCL_VERSION")                                                \
    X(CHANNELS, 24, "HVD_FAKE_NCCL_CHANNELS")                                                      \
    /* 1: the first use of an algorithm waits, inside the call, for the peers. */                  \
    X(RUNTIME_CONNECT, 1, "HVD_FAKE_NCCL_RUNTIME_CONNECT")                                         \
    /* 1: NCCL_LAUNCH_ORDER_IMPLICIT, collectives of a device run in program order. */             \
    X(LAUNCH_ORDER_IMPLICIT, 0, "NCCL_LAUNCH_ORDER_IMPLICIT")                                      \
    /* 1: two processes may have ranks on one GPU. */                                              \
    X(MULTI_RANK_GPU, 0, "NCCL_MULTI_RANK_GPU_ENABLE")                                             \
    /* How long ranks wait for one that could not start its part before that is reported. */       \
    X(STUCK_MS, 2000, "HVD_FAKE_NCCL_STUCK_MS")

enum fake_gpu_option {
#define X(name, value, variable) FAKE_GPU_##name,
    FAKE_GPU_OPTION_MAP(X)
#undef X
        FAKE_GPU_N_OPTIONS
};

/* What the doubles find, X(name, text). */
#define FAKE_GPU_FINDING_MAP(X)                                                                    \
    X(RACE, "race")                                                                                \
    X(FREE_IN_FLIGHT, "free in flight")                                                            \
    X(USE_AFTER_FREE, "use after free")                                                            \
    X(OUT_OF_BOUNDS, "out of bounds")                                                              \
    X(UNWRITTEN, "read of memory without a value")                                                 \
    X(HOST_CHANGED, "host memory changed before its copy")                                         \
    X(WRONG_CONTEXT, "wrong context")                                                              \
    X(BAD_HANDLE, "bad handle")                                                                    \
    X(CAPTURING, "call on a capturing stream")                                                     \
    X(CAPTURE_BROKEN, "capture broken")                                                            \
    X(BLOCKING, "wait for the device beside a collective")                                         \
    X(MISMATCH, "mismatch between ranks")                                                          \
    X(LAUNCH_ORDER, "launch order")                                                                \
    X(AFTER_ABORT, "use after abort")                                                              \
    X(LEAK, "leak")                                                                                \
    X(BAD_KERNEL, "bad kernel")

enum fake_gpu_finding {
#define X(name, text) FAKE_GPU_##name,
    FAKE_GPU_FINDING_MAP(X)
#undef X
        FAKE_GPU_N_FINDINGS
};

/* What calls have done, by threads that do not act as the program (fake_gpu_as_program). */
struct fake_gpu_counts {
    uint64_t launches;    /* kernels, those of NCCL too */
    uint64_t waits;       /* cuStreamWaitEvent */
    uint64_t records;     /* cuEventRecord */
    uint64_t queries;     /* of events and streams */
    uint64_t allocations; /* of device and pinned memory */
    uint64_t frees;
    uint64_t uploads;   /* copies from the host */
    uint64_t downloads; /* copies to the host */
    uint64_t blocking;  /* calls that may have to wait */
    uint64_t syncs;     /* calls whose purpose is to wait */
};

/* Sets an option. GPUS counts until the first cuInit; MULTIPROCESSORS and the like at once. */
FAKE_GPU_EXPORT void fake_gpu_set(enum fake_gpu_option option, long value);

/* Returns the value of an option. */
FAKE_GPU_EXPORT long fake_gpu_get(enum fake_gpu_option option);

/* Returns how many findings of the kind there were since the last fake_gpu_forget. */
FAKE_GPU_EXPORT int fake_gpu_found(enum fake_gpu_finding finding);

/* Returns how many findings there were of all kinds. */
FAKE_GPU_EXPORT int fake_gpu_found_any(void);

/* Copies the text of the latest finding, or "". */
FAKE_GPU_EXPORT void fake_gpu_last_finding(char *text, size_t bytes);

/* Forgets findings, counts, faults and numbers of calls; objects stay. */
FAKE_GPU_EXPORT void fake_gpu_forget(void);

/* Reports everything that is still allocated, created or retained, each as a LEAK; returns how many
 * there are. */
FAKE_GPU_EXPORT int fake_gpu_check_leaks(void);

/* Copies the counts. */
FAKE_GPU_EXPORT void fake_gpu_counts(struct fake_gpu_counts *counts);

/* Returns how often a function was called, by its symbol; -1 if there is none of that name. */
FAKE_GPU_EXPORT long fake_gpu_calls(const char *symbol);

/* The nth call of a symbol from now on (1: the next) returns `code` and does nothing. Of several
 * faults for a symbol each counts by itself. */
FAKE_GPU_EXPORT void fake_gpu_fail(const char *symbol, int nth, unsigned code);

/* The nth call of a symbol from now on waits so long before it does anything. */
FAKE_GPU_EXPORT void fake_gpu_delay(const char *symbol, int nth, unsigned delay_ms);

/* The nth call of a symbol from now on does not go on before fake_gpu_release. */
FAKE_GPU_EXPORT void fake_gpu_hang(const char *symbol, int nth);

/* Ends all hangs, and forgets those that are still to come. */
FAKE_GPU_EXPORT void fake_gpu_release(void);

/* The nth launch of a kernel from now on fails on the device: the context is broken from then on,
 * and all its calls return `code`. */
FAKE_GPU_EXPORT void fake_gpu_fail_kernel(const char *kernel, int nth, unsigned code);

/* The context of a device is broken from now on: all its calls return `code`. 0 mends it. */
FAKE_GPU_EXPORT void fake_gpu_break_device(int device, unsigned code);

/* Stops the work on all streams of a device, or lets it go on. A stopped device is a peer that is
 * dead: others wait for it for ever. */
FAKE_GPU_EXPORT void fake_gpu_stop_device(int device, bool is_stopped);

/* How many multiprocessors of a device are occupied now. */
FAKE_GPU_EXPORT int fake_gpu_occupied(int device);

/* ncclCommGetAsyncError of all communicators of a device returns `code` from now on. */
FAKE_GPU_EXPORT void fake_gpu_set_async_error(int device, unsigned code);

/* What the calling thread does from now on is the program's: it is not counted, fails by no fault,
 * and may use capturing streams. */
FAKE_GPU_EXPORT void fake_gpu_as_program(bool is_program);

/* How many contexts are on the stack of the calling thread. */
FAKE_GPU_EXPORT int fake_gpu_context_depth(void);

/* The host is about to access device-visible host memory: reports a RACE if work on a stream that
 * the host has not waited for accesses it, too. */
FAKE_GPU_EXPORT void fake_gpu_host_access(const void *at, size_t bytes, bool is_write);

/* Copies between the host and device memory, in no order with any stream and without a check. */
FAKE_GPU_EXPORT void fake_gpu_peek(void *to, uint64_t from, size_t bytes);
/* The same in the other direction. */
FAKE_GPU_EXPORT void fake_gpu_poke(uint64_t to, const void *from, size_t bytes);

/* Adds a table of kernels, whose last entry has no name; it must stay. */
FAKE_GPU_EXPORT void fake_gpu_add_kernels(const struct fake_kernel *kernels);

/* Waits until all streams are idle. Returns false if some still has work after the time. */
FAKE_GPU_EXPORT bool fake_gpu_settle(unsigned timeout_ms);

#endif
