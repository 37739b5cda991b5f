/*
 * The lock of the doubles, what every call passes through, faults, options, counts and findings.
 */
#include "tests/fake/gpu/machine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What a call needs, and what it counts as. */
enum {
    NEEDS_INIT = 1,
    NEEDS_CONTEXT = 2,
    MAY_BREAK_CAPTURES = 4,
    BLOCKS = 8,
    IS_SYNC = 16,
    IS_QUERY = 32,
    IS_ALLOCATION = 64,
    IS_FREE = 128
};
#define USES_CONTEXT (NEEDS_INIT | NEEDS_CONTEXT)

static const struct {
    const char *name;
    unsigned flags;
} calls[FAKE_N_CALLS] = {
#define X(symbol, base, since, is_needed, result, params)                                          \
    [FAKE_CALL_##symbol] = {#symbol, FLAGS_##symbol},
#define FLAGS_cuInit 0
#define FLAGS_cuDriverGetVersion 0
#define FLAGS_cuGetErrorName 0
#define FLAGS_cuGetErrorString 0
#define FLAGS_cuDeviceGetCount NEEDS_INIT
#define FLAGS_cuDeviceGet NEEDS_INIT
#define FLAGS_cuDeviceGetName NEEDS_INIT
#define FLAGS_cuDeviceGetUuid_v2 NEEDS_INIT
#define FLAGS_cuDeviceGetAttribute NEEDS_INIT
#define FLAGS_cuDeviceGetPCIBusId NEEDS_INIT
#define FLAGS_cuDevicePrimaryCtxRetain (NEEDS_INIT | BLOCKS)
#define FLAGS_cuDevicePrimaryCtxRelease_v2 NEEDS_INIT
#define FLAGS_cuDevicePrimaryCtxGetState NEEDS_INIT
#define FLAGS_cuCtxPushCurrent_v2 NEEDS_INIT
#define FLAGS_cuCtxPopCurrent_v2 NEEDS_INIT
#define FLAGS_cuCtxGetCurrent NEEDS_INIT
#define FLAGS_cuCtxGetDevice USES_CONTEXT
#define FLAGS_cuCtxSynchronize (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS | IS_SYNC)
#define FLAGS_cuCtxGetStreamPriorityRange USES_CONTEXT
#define FLAGS_cuMemAlloc_v2 (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS | IS_ALLOCATION)
#define FLAGS_cuMemFree_v2 (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS | IS_FREE)
#define FLAGS_cuMemAllocAsync (USES_CONTEXT | IS_ALLOCATION)
#define FLAGS_cuMemFreeAsync (USES_CONTEXT | IS_FREE)
#define FLAGS_cuDeviceGetMemPool NEEDS_INIT
#define FLAGS_cuMemPoolGetAttribute NEEDS_INIT
#define FLAGS_cuMemPoolSetAttribute NEEDS_INIT
#define FLAGS_cuMemHostAlloc (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS | IS_ALLOCATION)
#define FLAGS_cuMemFreeHost (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS | IS_FREE)
#define FLAGS_cuMemGetInfo_v2 USES_CONTEXT
#define FLAGS_cuMemcpyHtoDAsync_v2 USES_CONTEXT
#define FLAGS_cuMemcpyDtoHAsync_v2 USES_CONTEXT
#define FLAGS_cuMemcpyDtoDAsync_v2 USES_CONTEXT
#define FLAGS_cuMemcpyDtoH_v2 (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS | IS_SYNC)
#define FLAGS_cuMemcpyHtoD_v2 (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS | IS_SYNC)
#define FLAGS_cuMemsetD8Async USES_CONTEXT
#define FLAGS_cuPointerGetAttributes NEEDS_INIT
#define FLAGS_cuStreamCreateWithPriority USES_CONTEXT
#define FLAGS_cuStreamDestroy_v2 NEEDS_INIT
#define FLAGS_cuStreamSynchronize (NEEDS_INIT | MAY_BREAK_CAPTURES | BLOCKS | IS_SYNC)
#define FLAGS_cuStreamQuery (NEEDS_INIT | MAY_BREAK_CAPTURES | IS_QUERY)
#define FLAGS_cuStreamWaitEvent NEEDS_INIT
#define FLAGS_cuStreamGetCtx NEEDS_INIT
#define FLAGS_cuStreamIsCapturing NEEDS_INIT
#define FLAGS_cuStreamBeginCapture_v2 NEEDS_INIT
#define FLAGS_cuStreamEndCapture NEEDS_INIT
#define FLAGS_cuThreadExchangeStreamCaptureMode NEEDS_INIT
#define FLAGS_cuStreamWriteValue32_v2 NEEDS_INIT
#define FLAGS_cuStreamWaitValue32_v2 NEEDS_INIT
#define FLAGS_cuLaunchHostFunc NEEDS_INIT
#define FLAGS_cuEventCreate USES_CONTEXT
#define FLAGS_cuEventRecord NEEDS_INIT
#define FLAGS_cuEventQuery (NEEDS_INIT | MAY_BREAK_CAPTURES | IS_QUERY)
#define FLAGS_cuEventSynchronize (NEEDS_INIT | MAY_BREAK_CAPTURES | BLOCKS | IS_SYNC)
#define FLAGS_cuEventDestroy_v2 NEEDS_INIT
#define FLAGS_cuModuleLoadData (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS)
#define FLAGS_cuModuleLoadDataEx (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS)
#define FLAGS_cuModuleGetFunction USES_CONTEXT
#define FLAGS_cuModuleUnload (USES_CONTEXT | MAY_BREAK_CAPTURES | BLOCKS)
#define FLAGS_cuFuncGetAttribute USES_CONTEXT
#define FLAGS_cuLaunchKernel USES_CONTEXT
    HVD_CU_DRIVER_MAP(X)
#undef X
#define X(symbol, since, is_needed, result, params) [FAKE_CALL_##symbol] = {#symbol, 0},
        HVD_NCCL_MAP(X)
#undef X
};

static const char *const findings[] = {
#define X(name, text) text,
    FAKE_GPU_FINDING_MAP(X)
#undef X
};

enum fault_kind { FAIL, DELAY, HANG, FAIL_KERNEL };

struct fault {
    struct fault *next;
    enum fault_kind kind;
    enum fake_call call;
    char kernel[64];
    int nth; /* counts down; applies when it is 1 */
    unsigned value;
};

static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool is_ready;
    long options[FAKE_GPU_N_OPTIONS];
    uint64_t n_calls[FAKE_N_CALLS];
    int n_found[FAKE_GPU_N_FINDINGS];
    char finding[1024];
    struct fault *faults;
    unsigned n_releases; /* of hanging calls */
    struct fake_gpu_counts counts;
    int (*check_leaks)(void); /* of NCCL's double */
} machine = {.mu = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool is_program;

void fake_die(const char *why)
{
    fprintf(stderr, "fake gpu: %s\n", why);
    abort();
}

void *fake_calloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        fake_die("out of memory");
    return p;
}

/* --- The lock --------------------------------------------------------------------------------- */

/* Holds the lock. */
static void prepare(void)
{
    static const struct {
        const char *variable;
        long value;
    } defaults[] = {
#define X(name, value, variable) {variable, value},
        FAKE_GPU_OPTION_MAP(X)
#undef X
    };
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&machine.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (int i = 0; i < FAKE_GPU_N_OPTIONS; i++) {
        const char *text = getenv(defaults[i].variable);
        machine.options[i] = text && *text ? strtol(text, NULL, 10) : defaults[i].value;
    }
    machine.is_ready = true;
}

void fake_lock(void)
{
    pthread_mutex_lock(&machine.mu);
    if (!machine.is_ready)
        prepare();
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&machine.mu);
}

void fake_wait(unsigned timeout_us)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(timeout_us % 1000000) * 1000;
    until.tv_sec += timeout_us / 1000000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&machine.changed, &machine.mu, &until);
}

void fake_wake(void)
{
    pthread_cond_broadcast(&machine.changed);
}

unsigned fake_draw(uint64_t *random, unsigned max)
{
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    return max ? (unsigned)(*random >> 33) % (max + 1) : 0;
}

/* --- Findings --------------------------------------------------------------------------------- */

void fake_report(enum fake_gpu_finding finding, const char *format, ...)
{
    char text[896];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    machine.n_found[finding]++;
    snprintf(machine.finding, sizeof(machine.finding), "%s: %s", findings[finding], text);
    if (machine.options[FAKE_GPU_FATAL]) {
        fprintf(stderr, "fake gpu: %s\n", machine.finding);
        abort();
    }
}

int fake_gpu_found(enum fake_gpu_finding finding)
{
    fake_lock();
    const int n = machine.n_found[finding];
    fake_unlock();
    return n;
}

int fake_gpu_found_any(void)
{
    int n = 0;

    for (int i = 0; i < FAKE_GPU_N_FINDINGS; i++)
        n += fake_gpu_found((enum fake_gpu_finding)i);
    return n;
}

void fake_gpu_last_finding(char *text, size_t bytes)
{
    fake_lock();
    snprintf(text, bytes, "%s", machine.finding);
    fake_unlock();
}

void fake_gpu_forget(void)
{
    fake_lock();
    memset(machine.n_found, 0, sizeof(machine.n_found));
    memset(machine.n_calls, 0, sizeof(machine.n_calls));
    memset(&machine.counts, 0, sizeof(machine.counts));
    machine.finding[0] = '\0';
    while (machine.faults) {
        struct fault *gone = machine.faults;
        machine.faults = gone->next;
        free(gone);
    }
    machine.n_releases++;
    fake_wake();
    fake_unlock();
}

void fake_set_leak_check(int (*check)(void))
{
    machine.check_leaks = check;
}

int fake_gpu_check_leaks(void)
{
    fake_lock();
    int n = machine.check_leaks ? machine.check_leaks() : 0;
    n += fake_memory_leaks() + fake_event_leaks() + fake_stream_leaks() + fake_module_leaks() +
         fake_context_leaks();
    fake_unlock();
    return n;
}

/* --- Options and counts ----------------------------------------------------------------------- */

void fake_gpu_set(enum fake_gpu_option option, long value)
{
    fake_lock();
    machine.options[option] = value;
    fake_unlock();
}

long fake_gpu_get(enum fake_gpu_option option)
{
    fake_lock();
    const long value = machine.options[option];
    fake_unlock();
    return value;
}

long fake_option(enum fake_gpu_option option)
{
    return machine.options[option];
}

struct fake_gpu_counts *fake_counts(void)
{
    return &machine.counts;
}

bool fake_is_program(void)
{
    return is_program;
}

void fake_count_blocking(void)
{
    if (!is_program)
        machine.counts.blocking++;
}

void fake_gpu_as_program(bool is_it)
{
    is_program = is_it;
}

void fake_gpu_counts(struct fake_gpu_counts *counts)
{
    fake_lock();
    *counts = machine.counts;
    fake_unlock();
}

static int find_call(const char *symbol)
{
    for (int i = 0; i < FAKE_N_CALLS; i++)
        if (strcmp(calls[i].name, symbol) == 0)
            return i;
    return -1;
}

long fake_gpu_calls(const char *symbol)
{
    const int call = find_call(symbol);

    fake_lock();
    const long n = call < 0 ? -1 : (long)machine.n_calls[call];
    fake_unlock();
    return n;
}

const char *fake_call_name(enum fake_call call)
{
    return calls[call].name;
}

/* --- Faults ----------------------------------------------------------------------------------- */

static void add_fault(const struct fault *like)
{
    struct fault *fault = fake_calloc(1, sizeof(*fault));

    *fault = *like;
    fake_lock();
    fault->next = machine.faults;
    machine.faults = fault;
    fake_unlock();
}

static enum fake_call call_of(const char *symbol)
{
    const int call = find_call(symbol);

    if (call < 0)
        fake_die("a fault names a function that there is not");
    return (enum fake_call)call;
}

void fake_gpu_fail(const char *symbol, int nth, unsigned code)
{
    add_fault(&(struct fault){.kind = FAIL, .call = call_of(symbol), .nth = nth, .value = code});
}

void fake_gpu_delay(const char *symbol, int nth, unsigned delay_ms)
{
    add_fault(
        &(struct fault){.kind = DELAY, .call = call_of(symbol), .nth = nth, .value = delay_ms});
}

void fake_gpu_hang(const char *symbol, int nth)
{
    add_fault(&(struct fault){.kind = HANG, .call = call_of(symbol), .nth = nth});
}

void fake_gpu_fail_kernel(const char *kernel, int nth, unsigned code)
{
    struct fault fault = {.kind = FAIL_KERNEL, .nth = nth, .value = code};

    snprintf(fault.kernel, sizeof(fault.kernel), "%s", kernel);
    add_fault(&fault);
}

void fake_gpu_release(void)
{
    fake_lock();
    for (struct fault **at = &machine.faults; *at;) {
        struct fault *fault = *at;
        if (fault->kind == HANG) {
            *at = fault->next;
            free(fault);
        } else {
            at = &fault->next;
        }
    }
    machine.n_releases++;
    fake_wake();
    fake_unlock();
}

/* Takes the fault that applies now out of the list, if there is one. Holds the lock. */
static bool take_fault(enum fault_kind kind, enum fake_call call, const char *kernel,
                       unsigned *value)
{
    bool is_found = false;

    for (struct fault **at = &machine.faults; *at;) {
        struct fault *fault = *at;
        const bool is_meant = fault->kind == kind &&
                              (kernel ? strcmp(fault->kernel, kernel) == 0 : fault->call == call);
        if (is_meant && --fault->nth == 0) {
            *value = fault->value;
            is_found = true;
            *at = fault->next;
            free(fault);
        } else {
            at = &fault->next;
        }
    }
    return is_found;
}

bool fake_kernel_fails(const char *kernel, unsigned *code)
{
    return take_fault(FAIL_KERNEL, FAKE_N_CALLS, kernel, code);
}

/* Holds the lock, but for the time it waits. */
static void be_late(enum fake_call call)
{
    struct timespec now;
    unsigned value = 0;

    if (take_fault(HANG, call, NULL, &value)) {
        const unsigned before = machine.n_releases;
        while (machine.n_releases == before)
            fake_wait(100000);
    }
    if (take_fault(DELAY, call, NULL, &value)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        const uint64_t end = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + value;
        do {
            fake_wait(1000);
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 < end);
    }
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void count(enum fake_call call)
{
    struct fake_gpu_counts *counts = &machine.counts;
    const unsigned flags = calls[call].flags;

    machine.n_calls[call]++;
    counts->blocking += (flags & BLOCKS) != 0;
    counts->syncs += (flags & IS_SYNC) != 0;
    counts->queries += (flags & IS_QUERY) != 0;
    counts->allocations += (flags & IS_ALLOCATION) != 0;
    counts->frees += (flags & IS_FREE) != 0;
}

/* What the context of the thread has to say about the call. */
static hvd_cu_result_t check_context(void)
{
    struct CUctx_st *context = fake_current();

    if (!context)
        return HVD_CU_INVALID_CONTEXT;
    while (context->is_locked)
        fake_wait(100000);
    return context->broken;
}

unsigned fake_begin(enum fake_call call)
{
    const unsigned flags = calls[call].flags;
    unsigned code = 0;

    fake_lock();
    fake_guard_look();
    if (!is_program) {
        count(call);
        be_late(call);
        if (take_fault(FAIL, call, NULL, &code))
            return code;
    }
    if (flags && fake_is_host_function()) {
        fake_report(FAKE_GPU_WRONG_CONTEXT, "%s in a host function", calls[call].name);
        return 800; /* not permitted */
    }
    if ((flags & NEEDS_INIT) && !fake_is_init())
        return HVD_CU_NOT_INITIALIZED;
    if (flags & NEEDS_CONTEXT)
        code = check_context();
    if (code == 0 && (flags & MAY_BREAK_CAPTURES))
        code = fake_capture_check(call);
    return code;
}

unsigned fake_end(unsigned result)
{
    fake_unlock();
    return result;
}
