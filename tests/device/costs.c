/*
 * device_costs [two]: what the adapter for GPUs calls for a fused operation of one rank: launches
 * of kernels and copied bytes for each list of tensors, and the processor time of its thread beside
 * that of the same call of NCCL. With `two` the time alone, of two processes on the first GPU.
 * Lines of JSON. Exit status 77 where there is no GPU.
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/integration/cuda/machine_gpu.h"
#include "tests/integration/cuda/tensor_lists.h"
#include "worker/device/cuda/cuda.h"
#include "worker/device/cuda/library.h"

#define N_CALLS 400
#define N_WARM 50
#define N_QUEUED 8 /* operations that the adapter has at once, as with an engine */
#define CHECK(CALL) machine_gpu_check(machine_gpu_api()->CALL, #CALL)

static struct hvd_device_port *port;
static int my_rank;
static int n_ranks = 1;

/* What two processes exchange: the keys of the adapter and of NCCL alone. */
static struct exchange {
    char keys[2][HVD_DEVICE_KEY_MAX];
    atomic_int n_keys;
} * exchange;

static void good(hvd_status_t st, const char *what, const struct hvd_err *err)
{
    if (st == HVD_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, err->msg);
    exit(1);
}

/* --- Counting calls --------------------------------------------------------------------------- */

static struct hvd_cu_driver_api real;
static int n_launches;
static size_t n_copied;

/* The parameters are the driver's. NOLINTNEXTLINE(readability-function-size) */
static hvd_cu_result_t count_launch(struct CUfunc_st *function, unsigned int x, unsigned int y,
                                    unsigned int z, unsigned int block_x, unsigned int block_y,
                                    unsigned int block_z, unsigned int shared,
                                    struct CUstream_st *stream, void **params, void **extra)
{
    n_launches++;
    return real.cuLaunchKernel(function, x, y, z, block_x, block_y, block_z, shared, stream, params,
                               extra);
}

static hvd_cu_result_t count_copy(hvd_cu_ptr_t to, hvd_cu_ptr_t from, size_t bytes,
                                  struct CUstream_st *stream)
{
    n_copied += bytes;
    return real.cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

/* Puts counters in front of two functions of the adapter. Before it has a thread. */
static void count_calls(void)
{
    const struct hvd_cuda_library *library = NULL;
    struct hvd_cu_driver_api *api = NULL;
    struct hvd_err err = {0};

    good(hvd_cuda_library(&library, &err), "the driver", &err);
    const struct hvd_cu_driver_api *constant = &library->cu;
    memcpy(&api, &constant, sizeof(void *)); /* this program alone changes them */
    real = *api;
    api->cuLaunchKernel = count_launch;
    api->cuMemcpyDtoDAsync_v2 = count_copy;
}

/* --- Work ------------------------------------------------------------------------------------- */

static void *pointer(hvd_cu_ptr_t at)
{
    void *memory = NULL;

    memcpy(&memory, &at, sizeof(memory));
    return memory;
}

static void begin(struct hvd_device_work *work)
{
    struct hvd_device_event *ready = NULL;
    struct hvd_err err = {0};

    good(port->ops->mark(port, NULL, &ready, &err), "mark", &err);
    work->ready = &ready;
    work->n_ready = ready != NULL;
    good(port->ops->launch(port, work, &err), "launch", &err);
    hvd_device_event_release(ready);
}

/* Waits until it is launched, and on request until it is done. */
static void end(struct hvd_device_work *work, bool waits)
{
    struct hvd_err err = {0};
    hvd_status_t st;

    while ((st = port->ops->test(port, work, &err)) == HVD_INPROGRESS)
        (void)usleep(2);
    good(st, "test", &err);
    if (waits && work->event)
        good(port->ops->wait(port, work->event, &err), "wait", &err);
    hvd_device_event_release(work->event);
}

/* --- Lists ------------------------------------------------------------------------------------ */

static const char *const keys[TENSOR_LISTS] = {"small", "skewed", "bert", "resnet50"};

/* A tensor's bytes, and a gap behind: neighbours would move as one. */
static size_t room_of(int64_t count)
{
    return ((size_t)count * 4 + 511) / 512 * 512 + 512;
}

static void count_list(int which)
{
    static struct tensor_list list;
    static struct hvd_piece pieces[TENSOR_LIST_MAX];
    struct hvd_collective move = {.op = HVD_ALLREDUCE,
                                  .dtype = HVD_FLOAT32,
                                  .reduce = HVD_SUM,
                                  .scaling = {1, 1, 1},
                                  .pieces = pieces};
    struct hvd_device_work work = {.kind = HVD_DEVICE_MOVE, .move = &move, .is_alone = true};
    size_t bytes = 0;

    tensor_list_fill(&list, which);
    for (int i = 0; i < list.n; i++)
        bytes += room_of(list.counts[i]);
    hvd_cu_ptr_t at = 0;
    CHECK(cuMemAlloc_v2(&at, bytes));
    const hvd_cu_ptr_t memory = at;
    for (int i = 0; i < list.n; i++) {
        pieces[i] = (struct hvd_piece){pointer(at), pointer(at), list.counts[i]};
        at += room_of(list.counts[i]);
        move.count += list.counts[i];
    }
    move.n_pieces = list.n;
    n_launches = 0;
    n_copied = 0;
    begin(&work);
    end(&work, true);
    printf("{\"row\": \"launches %s\", \"value\": %d}\n", keys[which], n_launches);
    printf("{\"row\": \"copied %s\", \"value\": %zu}\n", keys[which], n_copied);
    CHECK(cuMemFree_v2(memory));
}

/* --- Time of the thread ----------------------------------------------------------------------- */

/* The first line of a file of a thread of this process, in text; "": there is none. */
static void read_line(const char *thread, const char *name, char *text, int size)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "/proc/self/task/%s/%s", thread, name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, size, file))
        text[0] = '\0';
    if (file)
        (void)fclose(file);
}

#define MOST_THREADS 64

/* Processor times in nanoseconds of threads with the adapter's name. Threads that a library has
 * started there have the name, too. */
struct times {
    long ids[MOST_THREADS];
    double ns[MOST_THREADS];
    int n;
};

static struct times take_times(void)
{
    struct times times = {.n = 0};
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;

    while (tasks && times.n < MOST_THREADS && (entry = readdir(tasks))) {
        char text[100];
        read_line(entry->d_name, "comm", text, sizeof(text));
        if (strcmp(text, "horovod-gpu\n") != 0)
            continue;
        read_line(entry->d_name, "schedstat", text, sizeof(text));
        times.ids[times.n] = strtol(entry->d_name, NULL, 10);
        times.ns[times.n++] = strtod(text, NULL);
    }
    if (tasks)
        (void)closedir(tasks);
    return times;
}

/* The time of the thread that has worked most since then. */
static double most_ns_since(const struct times *before)
{
    const struct times now = take_times();
    double most = 0;

    for (int i = 0; i < now.n; i++)
        for (int k = 0; k < before->n; k++)
            if (now.ids[i] == before->ids[k] && now.ns[i] - before->ns[k] > most)
                most = now.ns[i] - before->ns[k];
    return most;
}

static double thread_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Gives both ranks the key that rank 0 has made. */
static void share_key(int which, char *key)
{
    if (n_ranks == 1)
        return;
    if (my_rank == 0) {
        memcpy(exchange->keys[which], key, HVD_DEVICE_KEY_MAX);
        atomic_fetch_add(&exchange->n_keys, 1);
    }
    while (atomic_load(&exchange->n_keys) <= which)
        (void)usleep(1000);
    memcpy(key, exchange->keys[which], HVD_DEVICE_KEY_MAX);
}

static void connect_set(void)
{
    static const int ranks[] = {0, 1};
    const struct hvd_device_set set = {.set = 0, .rank = my_rank, .size = n_ranks, .ranks = ranks};
    char key[HVD_DEVICE_KEY_MAX] = {0};
    struct hvd_err err = {0};
    hvd_status_t st;

    if (my_rank == 0)
        good(port->ops->make_key(port, key, &err), "make_key", &err);
    share_key(0, key);
    good(port->ops->connect(port, &set, key, &err), "connect", &err);
    while ((st = port->ops->connected(port, 0, &err)) == HVD_INPROGRESS)
        (void)usleep(1000);
    good(st, "connected", &err);
}

/* An operation through the adapter, in nanoseconds of its thread. */
static double time_ours(const struct hvd_collective *move)
{
    struct hvd_device_work works[N_QUEUED];
    struct times before = {.n = 0};

    for (int i = -N_WARM; i < N_CALLS + N_QUEUED; i++) {
        struct hvd_device_work *work = &works[(i + N_WARM) % N_QUEUED];
        if (i == 0)
            before = take_times();
        if (i + N_WARM >= N_QUEUED)
            end(work, false);
        *work = (struct hvd_device_work){.kind = HVD_DEVICE_MOVE, .move = move};
        begin(work);
    }
    for (int i = 0; i < N_QUEUED; i++)
        end(&works[i], true);
    return most_ns_since(&before) / (N_CALLS + N_QUEUED);
}

/* The same by NCCL alone, in nanoseconds of this thread. */
static double time_raw(const struct hvd_collective *move)
{
    const struct hvd_cuda_library *library = NULL;
    struct CUstream_st *stream = NULL;
    struct ncclComm *comm = NULL;
    struct hvd_nccl_id id = {0};
    char key[HVD_DEVICE_KEY_MAX] = {0};
    struct hvd_err err = {0};
    double before = 0;
    bool is_good = true;

    good(hvd_cuda_library(&library, &err), "the driver", &err);
    const struct hvd_nccl_api *nccl = &library->nccl;
    CHECK(cuStreamCreateWithPriority(&stream, HVD_CU_STREAM_NON_BLOCKING, 0));
    if (my_rank == 0)
        is_good = nccl->ncclGetUniqueId(&id) == HVD_NCCL_SUCCESS;
    memcpy(key, &id, sizeof(id));
    share_key(1, key);
    memcpy(&id, key, sizeof(id));
    is_good = is_good && nccl->ncclCommInitRank(&comm, n_ranks, id, my_rank) == HVD_NCCL_SUCCESS;
    for (int i = -N_WARM; i < N_CALLS && is_good; i++) {
        if (i == 0)
            before = thread_ns();
        is_good =
            nccl->ncclAllReduce(move->input, move->output, (size_t)move->count, HVD_NCCL_FLOAT32,
                                HVD_NCCL_SUM, comm, stream) == HVD_NCCL_SUCCESS;
    }
    const double ns = (thread_ns() - before) / N_CALLS;
    CHECK(cuStreamSynchronize(stream));
    if (!is_good) {
        (void)fprintf(stderr, "NCCL alone fails\n");
        exit(1);
    }
    (void)nccl->ncclCommDestroy(comm);
    return ns;
}

static void print_times(double ours, double raw)
{
    printf("{\"row\": \"thread\", \"value\": %.3f}\n", ours / 1000);
    printf("{\"row\": \"NCCL alone\", \"value\": %.3f}\n", raw / 1000);
    printf("{\"row\": \"thread over NCCL alone\", \"value\": %.3f}\n", ours / raw);
    (void)fflush(stdout);
}

static void measure_launcher(void)
{
    const int64_t count = 1 << 18; /* a tensor that moves where it is */
    struct hvd_piece piece = {.count = count};
    hvd_cu_ptr_t memory = 0;

    CHECK(cuMemAlloc_v2(&memory, (size_t)count * 8));
    piece.input = pointer(memory);
    piece.output = pointer(memory + (uint64_t)count * 4);
    const struct hvd_collective move = {.op = HVD_ALLREDUCE,
                                        .dtype = HVD_FLOAT32,
                                        .reduce = HVD_SUM,
                                        .scaling = {1, 1, 1},
                                        .input = piece.input,
                                        .output = piece.output,
                                        .count = count,
                                        .pieces = &piece,
                                        .n_pieces = 1};
    connect_set();
    const double ours = time_ours(&move);
    const double raw = time_raw(&move);
    if (my_rank == 0)
        print_times(ours, raw);
    port->ops->disconnect(port, 0);
    CHECK(cuMemFree_v2(memory));
}

/* Opens the first GPU, counts the calls of lists unless two processes run, and measures. */
static int measure(void)
{
    const struct hvd_cuda_options options = {.ordinal = 0};
    const char *missing = machine_missing();
    struct hvd_err err = {0};

    if (missing) {
        (void)fprintf(stderr, "%s\n", missing);
        return 77;
    }
    if (n_ranks == 1) {
        count_calls();
        good(hvd_cuda_create(&options, &port, &err), "create", &err);
        for (int i = 0; i < TENSOR_LISTS; i++)
            count_list(i);
        hvd_device_release(port);
    }
    if (hvd_cuda_nccl_version() == 0)
        return n_ranks == 1 ? 0 : 77;
    good(hvd_cuda_create(&options, &port, &err), "create", &err);
    measure_launcher();
    hvd_device_release(port);
    return 0;
}

/* Two processes that NCCL takes for two hosts. Neither the driver nor NCCL is open before the fork.
 */
static int measure_two(void)
{
    int worst = 0;

    exchange =
        mmap(NULL, sizeof(*exchange), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (exchange == MAP_FAILED)
        return 1;
    n_ranks = 2;
    for (my_rank = 0; my_rank < n_ranks; my_rank++) {
        if (fork() != 0)
            continue;
        (void)setenv("NCCL_HOSTID", my_rank == 0 ? "device-test-0" : "device-test-1", 1);
        return measure();
    }
    for (int i = 0; i < n_ranks; i++) {
        int status = 0;
        (void)wait(&status);
        if (status != 0)
            worst = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return worst;
}

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "two") == 0 ? measure_two() : measure();
}
