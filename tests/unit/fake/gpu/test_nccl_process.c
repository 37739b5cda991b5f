/* Ranks in processes of their own. This process makes no context, so that it may fork. */
#include "tests/unit/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fake/gpu/world.h"

#define N 1000
#define MAX 4

/* What the processes of a test share. */
struct shared {
    volatile int stage;
    volatile int results[MAX];
};

static struct shared *shared;
static struct hvd_nccl_id id;

/* A check in a child, which cmocka does not know about. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(9);                                                                              \
        }                                                                                          \
    } while (0)

struct child {
    int rank;
    int n_ranks;
    struct CUstream_st *stream;
    struct ncclComm *comm;
};

static void reduce_once(const struct child *child, float expected)
{
    hvd_cu_ptr_t memory = gpu_floats(N, (float)(child->rank + 1));
    void *at = fake_pointer(memory);

    MUST(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, child->comm, child->stream) == 0);
    MUST(cuStreamSynchronize(child->stream) == 0);
    MUST(gpu_float_at(memory, N - 1) == expected);
    MUST(cuMemFree_v2(memory) == 0);
}

static pid_t spawn(int rank, int n_ranks, void (*run)(struct child *))
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    struct child child = {.rank = rank, .n_ranks = n_ranks};
    fake_gpu_set(FAKE_GPU_FIRST_GPU, rank);
    gpu_begin(1);
    child.stream = gpu_stream();
    MUST(ncclCommInitRank(&child.comm, n_ranks, id, rank) == 0);
    run(&child);
    if (child.comm)
        MUST(ncclCommDestroy(child.comm) == 0);
    MUST(cuStreamDestroy_v2(child.stream) == 0);
    MUST(fake_gpu_found_any() == 0);
    _exit(0);
}

/* Waits for a child; returns its status, or kills it after the time and returns -1. */
static int await(pid_t pid, int timeout_ms)
{
    int status = 0;

    for (int i = 0; i < timeout_ms; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

static int setup(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static int renew(void **state)
{
    (void)state;
    *shared = (struct shared){0};
    return ncclGetUniqueId(&id) == 0 ? 0 : -1;
}

static void run_work(struct child *child)
{
    for (int i = 0; i < 20; i++)
        reduce_once(child, (float)(child->n_ranks * (child->n_ranks + 1)) / 2);
}

static void processes_reduce_together(void **state)
{
    pid_t pids[MAX];

    (void)state;
    for (int n = 1; n <= MAX; n++) {
        NCCL_OK(ncclGetUniqueId(&id));
        for (int r = 0; r < n; r++)
            pids[r] = spawn(r, n, run_work);
        for (int r = 0; r < n; r++)
            assert_int_equal(await(pids[r], 60000), 0);
    }
}

static void run_until_killed(struct child *child)
{
    hvd_cu_ptr_t memory = 0;

    reduce_once(child, 3);
    if (child->rank == 1) {
        shared->stage = 1;
        pause();
    }
    while (shared->stage < 2)
        usleep(1000);
    memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);
    MUST(ncclAllReduce(at, at, N, HVD_NCCL_FLOAT32, HVD_NCCL_SUM, child->comm, child->stream) == 0);
    usleep(50000);
    MUST(cuStreamQuery(child->stream) == HVD_CU_NOT_READY); /* it waits for ever */
    hvd_nccl_result_t error = HVD_NCCL_SUCCESS;
    MUST(ncclCommGetAsyncError(child->comm, &error) == 0);
    MUST(error == HVD_NCCL_SUCCESS); /* and learns nothing of the peer's end */
    MUST(ncclCommAbort(child->comm) == 0);
    child->comm = NULL;
    MUST(cuStreamSynchronize(child->stream) == 0);
    MUST(cuMemFree_v2(memory) == 0);
}

static void a_killed_peer_leaves_the_others_waiting(void **state)
{
    (void)state;
    const pid_t first = spawn(0, 2, run_until_killed);
    const pid_t second = spawn(1, 2, run_until_killed);
    while (shared->stage < 1)
        usleep(1000);
    kill(second, SIGKILL);
    await(second, 10000);
    shared->stage = 2;
    assert_int_equal(await(first, 60000), 0);
}

/* What a rank leaves that is killed while it waits for others. */
static void remove_meeting(void)
{
    char path[128];

    snprintf(path, sizeof(path), "/dev/shm/hvd-fake-nccl-%.32s", id.bytes);
    unlink(path);
    snprintf(path, sizeof(path), "/dev/shm/hvd-fake-nccl-%.32s.0", id.bytes);
    unlink(path);
}

static void run_nothing(struct child *child)
{
    (void)child;
}

static void an_initialisation_without_a_peer_hangs(void **state)
{
    (void)state;
    assert_int_equal(await(spawn(0, 2, run_nothing), 200), -1);
    remove_meeting();
}

static void run_mismatch(struct child *child)
{
    hvd_cu_ptr_t memory = gpu_floats(N, 1);
    void *at = fake_pointer(memory);

    MUST(ncclAllReduce(at, at, child->rank == 0 ? N : N - 1, HVD_NCCL_FLOAT32, HVD_NCCL_SUM,
                       child->comm, child->stream) == 0);
    MUST(cuStreamSynchronize(child->stream) == 0);
    MUST(fake_gpu_found(FAKE_GPU_MISMATCH) == 1); /* each process has its own */
    fake_gpu_forget();
    MUST(cuMemFree_v2(memory) == 0);
}

static void each_process_finds_a_mismatch(void **state)
{
    (void)state;
    const pid_t first = spawn(0, 2, run_mismatch);
    const pid_t second = spawn(1, 2, run_mismatch);
    assert_int_equal(await(first, 60000), 0);
    assert_int_equal(await(second, 60000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(processes_reduce_together, renew),
        cmocka_unit_test_setup(a_killed_peer_leaves_the_others_waiting, renew),
        cmocka_unit_test_setup(an_initialisation_without_a_peer_hangs, renew),
        cmocka_unit_test_setup(each_process_finds_a_mismatch, renew),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
