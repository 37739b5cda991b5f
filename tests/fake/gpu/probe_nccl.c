/*
 * Probes of NCCL, as probe.c has of the driver. Two ranks are two processes on one GPU, whose
 * NCCL_HOSTID differs, so that they count as two hosts. With NCCL's own library run it with
 * NCCL_SOCKET_IFNAME=lo.
 *
 *     fake-nccl-probe [NAME ...]
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/gpu/driver.h"

#define TIMEOUT_S 60
#define N 1000
#define HALF 500

static struct hvd_cu_driver_api cu;
static struct hvd_nccl_api nccl;
static struct CUstream_st *stream;
static int rank; /* of this process */

/* What the two processes share. */
struct shared {
    struct hvd_nccl_id id;
    struct hvd_nccl_id second;
    volatile int stage;
    volatile int ready[2];
};
static struct shared *shared;

/* Ends the probe unless the call returned what is expected. */
static void expect(int line, const char *call, long long seen, long long expected)
{
    if (seen == expected)
        return;
    printf("failed: rank %d, line %d: %s is %lld, not %lld\n", rank, line, call, seen, expected);
    fflush(stdout);
    _exit(1);
}

#define EXPECT(call, expected) expect(__LINE__, #call, (long long)(call), (long long)(expected))
#define OK(call) EXPECT(call, 0)

static void find(void *library, const char *name, void *slot)
{
    void *at = library ? dlsym(library, name) : NULL;

    EXPECT(at != NULL, true);
    memcpy(slot, &at, sizeof(at));
}

static const struct {
    const char *name;
    void *slot;
    bool is_nccl;
} symbols[] = {
#define X(symbol, base, since, is_needed, result, params) {#symbol, &cu.symbol, false},
    HVD_CU_DRIVER_MAP(X)
#undef X
#define X(symbol, since, is_needed, result, params) {#symbol, &nccl.symbol, true},
        HVD_NCCL_MAP(X)
#undef X
};

static void load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *library = dlopen("libnccl.so.2", RTLD_NOW);

    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
        find(symbols[i].is_nccl ? library : driver, symbols[i].name, symbols[i].slot);
}

static void open_gpu(void)
{
    struct CUctx_st *context = NULL;

    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent_v2(context));
    OK(cu.cuStreamCreateWithPriority(&stream, HVD_CU_STREAM_NON_BLOCKING, 0));
}

/* Device memory with these bytes. */
static void *put(const void *from, size_t bytes)
{
    hvd_cu_ptr_t memory = 0;

    OK(cu.cuMemAlloc_v2(&memory, bytes));
    OK(cu.cuMemcpyHtoDAsync_v2(memory, from, bytes, stream));
    OK(cu.cuStreamSynchronize(stream));
    return fake_pointer(memory);
}

static void get(void *to, const void *from, size_t bytes)
{
    OK(cu.cuMemcpyDtoHAsync_v2(to, (hvd_cu_ptr_t)(uintptr_t)from, bytes, stream));
    OK(cu.cuStreamSynchronize(stream));
}

static struct ncclComm *init(int n_ranks)
{
    struct ncclComm *comm = NULL;

    OK(nccl.ncclCommInitRank(&comm, n_ranks, shared->id, rank));
    return comm;
}

static struct hvd_nccl_config config_of(int blocking)
{
    return (struct hvd_nccl_config){.size = sizeof(struct hvd_nccl_config),
                                    .magic = HVD_NCCL_CONFIG_MAGIC,
                                    .version = HVD_NCCL_CONFIG_VERSION,
                                    .blocking = blocking,
                                    .cga_cluster_size = HVD_NCCL_CONFIG_UNSET,
                                    .min_ctas = HVD_NCCL_CONFIG_UNSET,
                                    .max_ctas = HVD_NCCL_CONFIG_UNSET,
                                    .split_share = HVD_NCCL_CONFIG_UNSET};
}

static hvd_nccl_result_t settle(struct ncclComm *comm)
{
    hvd_nccl_result_t result = HVD_NCCL_IN_PROGRESS;

    while (result == HVD_NCCL_IN_PROGRESS) {
        OK(nccl.ncclCommGetAsyncError(comm, &result));
        usleep(1000);
    }
    return result;
}

/* --- One rank --------------------------------------------------------------------------------- */

static void probe_one_rank(void)
{
    const float factor = 0.5F;
    float value[N];
    hvd_nccl_op_t op = 0;
    struct ncclComm *comm = init(1);

    for (int i = 0; i < N; i++)
        value[i] = (float)i;
    void *at = put(value, sizeof(value));
    OK(nccl.ncclRedOpCreatePreMulSum(&op, (void *)&factor, HVD_NCCL_FLOAT32, HVD_NCCL_SCALAR_HOST,
                                     comm));
    OK(nccl.ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, op, comm, stream));
    OK(nccl.ncclRedOpDestroy(op, comm));
    get(value, at, sizeof(value));
    EXPECT(value[N - 1] == (N - 1) / 2.0F, true);
    OK(nccl.ncclCommDestroy(comm));
}

static void probe_types(void)
{
    struct ncclComm *comm = init(1);
    const char zero[8] = {0};
    void *at = put(zero, sizeof(zero));

    EXPECT(nccl.ncclAllReduce(at, at, 1, 12, HVD_NCCL_SUM, comm, stream),
           HVD_NCCL_INVALID_ARGUMENT);
    OK(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT8_E4M3, HVD_NCCL_SUM, comm, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(nccl.ncclCommDestroy(comm));
}

static void probe_abort_init(void)
{
    struct hvd_nccl_config config = config_of(0);
    struct ncclComm *comm = NULL;

    EXPECT(nccl.ncclCommInitRankConfig(&comm, 2, shared->id, 0, &config), HVD_NCCL_IN_PROGRESS);
    usleep(200000);
    OK(nccl.ncclCommAbort(comm));
}

/* --- Two ranks -------------------------------------------------------------------------------- */

static void probe_results(void)
{
    float value[N];
    float both[2 * N];
    struct ncclComm *comm = init(2);

    for (int i = 0; i < N; i++)
        value[i] = (float)((rank + 1) * i);
    void *in = put(value, sizeof(value));
    void *out = put(both, sizeof(both));
    OK(nccl.ncclAllReduce(in, out, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, stream));
    get(value, out, sizeof(value));
    EXPECT(value[N - 1] == 3.0F * (N - 1), true);
    OK(nccl.ncclAllGather(in, out, N, HVD_NCCL_FLOAT32, comm, stream));
    get(both, out, sizeof(both));
    EXPECT(both[2 * N - 1] == 2.0F * (N - 1), true);
    OK(nccl.ncclBroadcast(in, out, N, HVD_NCCL_FLOAT32, 1, comm, stream));
    get(value, out, sizeof(value));
    EXPECT(value[N - 1] == 2.0F * (N - 1), true);
    OK(nccl.ncclReduceScatter(out, in, HALF, HVD_NCCL_FLOAT32, HVD_NCCL_MAX, comm, stream));
    get(value, in, sizeof(value) / 2);
    EXPECT(value[HALF - 1] == 2.0F * (float)(HALF * (rank + 1) - 1), true);
    OK(nccl.ncclGroupStart());
    OK(nccl.ncclSend(in, 1, HVD_NCCL_FLOAT32, 1 - rank, comm, stream));
    OK(nccl.ncclRecv(out, 1, HVD_NCCL_FLOAT32, 1 - rank, comm, stream));
    OK(nccl.ncclGroupEnd());
    get(value, out, sizeof(float));
    EXPECT(value[0] == (rank == 0 ? (float)N : 0), true);
    OK(nccl.ncclCommDestroy(comm));
}

/* One element of each rank, and the result, by type and operation. */
static const struct {
    hvd_nccl_type_t type;
    hvd_nccl_op_t op;
    uint64_t input[2];
    uint64_t result;
    size_t bytes;
} sums[] = {
    {HVD_NCCL_INT8, HVD_NCCL_SUM, {127, 1}, 0x80, 1},
    {HVD_NCCL_UINT8, HVD_NCCL_SUM, {255, 2}, 1, 1},
    {HVD_NCCL_INT32, HVD_NCCL_AVG, {0xfffffffd, 0}, 0xffffffff, 4},
    {HVD_NCCL_UINT64, HVD_NCCL_MAX, {1ULL << 63, 1}, 1ULL << 63, 8},
    {HVD_NCCL_FLOAT16, HVD_NCCL_SUM, {0x3c00, 0x3c01}, 0x4000, 2},
    {HVD_NCCL_FLOAT16, HVD_NCCL_SUM, {0x7bff, 0x7bff}, 0x7c00, 2},
    {HVD_NCCL_FLOAT16, HVD_NCCL_AVG, {0x0001, 0x0001}, 0x0000, 2},
    {HVD_NCCL_FLOAT32, HVD_NCCL_MAX, {0x7fc00000, 0xbf800000}, 0xbf800000, 4},
    {HVD_NCCL_FLOAT32, HVD_NCCL_MIN, {0x3f800000, 0x7fc00000}, 0x3f800000, 4},
};

static void probe_arithmetic(void)
{
    struct ncclComm *comm = init(2);

    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
        uint64_t result = 0;
        void *at = put(&sums[i].input[rank], sizeof(uint64_t));
        OK(nccl.ncclAllReduce(at, at, 1, sums[i].type, sums[i].op, comm, stream));
        get(&result, at, sums[i].bytes);
        EXPECT(result, sums[i].result);
    }
    OK(nccl.ncclCommDestroy(comm));
}

static void probe_one_gpu(void)
{
    struct ncclComm *comm = NULL;

    unsetenv("NCCL_HOSTID");
    EXPECT(nccl.ncclCommInitRank(&comm, 2, shared->id, rank), HVD_NCCL_INVALID_USAGE);
}

static void probe_init(void)
{
    struct ncclComm *comm = NULL;

    if (rank == 1) {
        usleep(300000);
        EXPECT(shared->stage, 0);
    }
    comm = init(2);
    shared->stage = 1;
    OK(nccl.ncclCommDestroy(comm));
}

static void probe_connect(void)
{
    const float one = 1;
    struct ncclComm *comm = init(2);
    void *at = put(&one, sizeof(one));

    if (rank == 1) {
        usleep(300000);
        EXPECT(shared->stage, 0); /* rank 0 is inside of its call */
    }
    OK(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, stream));
    shared->stage = 1;
    OK(cu.cuStreamSynchronize(stream));
    OK(nccl.ncclCommDestroy(comm));
}

static void probe_nonblocking(void)
{
    struct hvd_nccl_config config = config_of(0);
    const float one = 1;
    void *at = put(&one, sizeof(one));
    struct ncclComm *comm = NULL;
    float result = 0;

    EXPECT(nccl.ncclCommInitRankConfig(&comm, 2, shared->id, rank, &config), HVD_NCCL_IN_PROGRESS);
    OK(settle(comm));
    EXPECT(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, stream),
           HVD_NCCL_IN_PROGRESS);
    OK(settle(comm));
    get(&result, at, sizeof(result));
    EXPECT(result == 2, true);
    EXPECT(nccl.ncclCommFinalize(comm), HVD_NCCL_IN_PROGRESS);
    OK(settle(comm));
    OK(nccl.ncclCommDestroy(comm));
}

/* Both ranks in the opposite order, and each alone, with the resources of their parent. */
static void probe_split(void)
{
    struct hvd_nccl_config config = config_of(1);
    const float one = 1;
    void *at = put(&one, sizeof(one));
    struct ncclComm *comm = NULL;
    struct ncclComm *both = NULL;
    struct ncclComm *alone = NULL;
    float result = 0;
    int value = -1;

    config.split_share = 1;
    OK(nccl.ncclCommInitRankConfig(&comm, 2, shared->id, rank, &config));
    OK(nccl.ncclCommSplit(comm, 0, -rank, &both, NULL));
    OK(nccl.ncclCommSplit(comm, rank, 0, &alone, NULL));
    OK(nccl.ncclCommUserRank(both, &value));
    EXPECT(value, 1 - rank);
    OK(nccl.ncclCommCount(alone, &value));
    EXPECT(value, 1);
    OK(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, both, stream));
    OK(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, alone, stream));
    OK(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, stream));
    get(&result, at, sizeof(result));
    EXPECT(result == 4, true);
    OK(nccl.ncclCommDestroy(alone));
    OK(nccl.ncclCommDestroy(both));
    OK(nccl.ncclCommDestroy(comm));
}

/* Rank 0 has a kernel that waits for rank 1, which does not do its part, or is dead. */
static void abort_alone(bool is_peer_dead)
{
    const float one = 1;
    struct ncclComm *comm = init(2);
    void *at = put(&one, sizeof(one));
    hvd_nccl_result_t error = HVD_NCCL_SUCCESS;

    OK(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, stream));
    OK(cu.cuStreamSynchronize(stream));
    if (rank == 1) {
        shared->stage = 1;
        while (!is_peer_dead && shared->stage == 1)
            usleep(1000);
        if (is_peer_dead)
            _exit(0);
        OK(nccl.ncclCommAbort(comm));
        return;
    }
    while (shared->stage == 0)
        usleep(1000);
    usleep(100000);
    OK(nccl.ncclAllReduce(at, at, 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comm, stream));
    usleep(200000);
    EXPECT(cu.cuStreamQuery(stream), HVD_CU_NOT_READY);
    if (!is_peer_dead) { /* between hosts, which these processes are, a dead one is noticed */
        OK(nccl.ncclCommGetAsyncError(comm, &error));
        EXPECT(error, HVD_NCCL_SUCCESS);
    }
    OK(nccl.ncclCommAbort(comm));
    OK(cu.cuStreamSynchronize(stream));
    shared->stage = 2;
}

static void probe_abort(void)
{
    abort_alone(false);
}

static void probe_abort_dead(void)
{
    abort_alone(true);
}

/* Kernels of two communicators wait for rank 1. Aborted one after the other, the first would wait
 * for the kernel of the second. */
static void probe_abort_group(void)
{
    const float one = 1;
    struct ncclComm *comms[2] = {init(2), NULL};
    struct CUstream_st *streams[2] = {stream, NULL};
    void *at[2] = {put(&one, sizeof(one)), put(&one, sizeof(one))};

    shared->ready[rank] = 1;
    while (!shared->ready[1 - rank])
        usleep(1000);
    OK(nccl.ncclCommInitRank(&comms[1], 2, shared->second, rank));
    OK(cu.cuStreamCreateWithPriority(&streams[1], HVD_CU_STREAM_NON_BLOCKING, 0));
    for (int i = 0; i < 2; i++) {
        OK(nccl.ncclAllReduce(at[i], at[i], 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comms[i],
                              streams[i]));
        OK(cu.cuStreamSynchronize(streams[i]));
    }
    for (int i = 0; i < 2 && rank == 0; i++)
        OK(nccl.ncclAllReduce(at[i], at[i], 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, comms[i],
                              streams[i]));
    usleep(100000);
    OK(nccl.ncclGroupStart());
    OK(nccl.ncclCommAbort(comms[0]));
    OK(nccl.ncclCommAbort(comms[1]));
    OK(nccl.ncclGroupEnd());
    OK(cu.cuStreamSynchronize(streams[0]));
    OK(cu.cuStreamSynchronize(streams[1]));
}

/* --- The program ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int n_ranks;
    void (*run)(void);
} probes[] = {
    {"nccl-one-rank", 1, probe_one_rank},     {"nccl-types", 1, probe_types},
    {"nccl-abort-init", 1, probe_abort_init}, {"nccl-results", 2, probe_results},
    {"nccl-arithmetic", 2, probe_arithmetic}, {"nccl-init", 2, probe_init},
    {"nccl-connect", 2, probe_connect},       {"nccl-nonblocking", 2, probe_nonblocking},
    {"nccl-one-gpu", 2, probe_one_gpu},       {"nccl-abort-group", 2, probe_abort_group},
    {"nccl-abort", 2, probe_abort},           {"nccl-abort-dead", 2, probe_abort_dead},
    {"nccl-split", 2, probe_split},
};

static pid_t start(int number, void (*probe)(void))
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    rank = number;
    alarm(TIMEOUT_S);
    setenv("NCCL_HOSTID", number == 0 ? "a" : "b", 1);
    open_gpu();
    probe();
    _exit(0);
}

static bool run(size_t i)
{
    pid_t pids[2] = {-1, -1};
    bool is_good = true;

    printf("%s ", probes[i].name);
    fflush(stdout);
    *shared = (struct shared){.stage = 0};
    OK(nccl.ncclGetUniqueId(&shared->second));
    OK(nccl.ncclGetUniqueId(&shared->id)); /* NCCL serves its meeting in this process */
    for (int r = 0; r < probes[i].n_ranks; r++)
        pids[r] = start(r, probes[i].run);
    for (int r = 0; r < probes[i].n_ranks; r++) {
        int status = 0;
        waitpid(pids[r], &status, 0);
        if (WIFSIGNALED(status))
            printf("failed: rank %d: %s\n", r,
                   WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
        is_good = is_good && status == 0;
    }
    if (is_good)
        printf("passed\n");
    return is_good;
}

static bool is_asked(const char *name, int n_names, char **names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n_names == 0;
}

int main(int argc, char **argv)
{
    int n_failed = 0;

    load();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED, true);
    for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++)
        if (is_asked(probes[i].name, argc - 1, argv + 1))
            n_failed += !run(i);
    return n_failed ? 1 : 0;
}
