#ifndef HVD_TESTS_UNIT_WORKER_DEVICE_CUDA_RANKS_H
#define HVD_TESTS_UNIT_WORKER_DEVICE_CUDA_RANKS_H

#include "tests/fake/gpu/control.h"
#include "tests/fake/gpu/driver.h"
#include "tests/sim/sim.h"
#include "worker/device/cuda/cuda.h"
#include "worker/engine/engine.h"
#include "worker/engine/output.h"

/*
 * Ranks of a job over the adapter for CUDA and NCCL and the doubles of both, for tests: threads
 * with a GPU each. A failure in one ends the process, because threads cannot assert.
 */
#define RANKS_MAX 5
#define N_FUSED 6
#define MANY 300000 /* elements: a collective of its own for every type */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* ten times as slow */
#define DTYPE_STEP 5
#define CALLS_MAX 2
#else
#define DTYPE_STEP 1
#define CALLS_MAX 12
#endif

/* A rank, whose thread is the program. */
struct rank {
    struct hvd_device_port *port;
    struct hvd_engine *engine;
    struct CUctx_st *context;
    struct CUstream_st *stream; /* of the program */
    struct hvd_sim *sim;
    int rank;
    int size;
};

/* Where the ranks run. */
struct ranks_machine {
    int size;
    int ranks_per_host;       /* 0: all on one */
    int64_t stall_warning_ns; /* 0: the engine looks for no stalls */
    struct hvd_cuda_options options;
};

/* A tensor of the program in device memory, and its copy in pinned memory. */
struct tensor {
    hvd_cu_ptr_t memory;
    void *host;
    size_t bytes;
    int64_t handle;
    char name[48];
};

/* Returns the time of the monotonic clock. */
int64_t ranks_now_ns(void);

/* Ends the process with the reason. */
void rank_fail(int rank, const char *what, const char *why);

/* Ends the process unless the call succeeded; `what` names it. */
void rank_ok(const struct rank *r, hvd_status_t st, const char *what, const struct hvd_err *err);

#define GOOD(r, call)                                                                              \
    do {                                                                                           \
        if ((call) != HVD_CU_SUCCESS)                                                              \
            rank_fail((r)->rank, #call, "failed");                                                 \
    } while (0)

/* Element i of the input of a rank: small whole numbers, so that results are exact in every type.
 */
double element_input(enum hvd_dtype dtype, int rank, int64_t i);

/* Element i of the reduction over so many ranks. */
double element_reduced(enum hvd_dtype dtype, enum hvd_reduce reduce, int size, int64_t i);

/* Allocates and frees a tensor, on the program's stream. */
struct tensor tensor_create(const struct rank *r, size_t bytes);
void tensor_destroy(const struct rank *r, struct tensor *t);

/* Writes the input of this rank on the program's stream. */
void tensor_fill(const struct rank *r, struct tensor *t, enum hvd_dtype dtype, int64_t count);

/* A request without a name for a tensor of the GPU. */
struct hvd_request tensor_request(enum hvd_op op, enum hvd_dtype dtype, enum hvd_reduce reduce,
                                  int64_t count);

/* Submits as a program does: behind the work on its stream, without waiting for it. */
void tensor_submit(const struct rank *r, struct tensor *t, struct hvd_submission *s);

/* Waits until it is launched, and orders the program's stream behind it. The caller owns the
 * output. */
struct horovod_output *tensor_wait(const struct rank *r, const struct tensor *t);

/* Copies a result to t->host, which it returns. */
void *tensor_fetch(const struct rank *r, struct tensor *t, const void *from, size_t bytes);

/* Ends the process unless element i of t->host is what is wanted. */
void tensor_check(const struct rank *r, const struct tensor *t, enum hvd_dtype dtype, int64_t i,
                  double wanted);

/* Reduces fused tensors, small and large ones, and checks the results. */
void ranks_reduce(const struct rank *r, enum hvd_dtype dtype, enum hvd_reduce reduce);

/* Sums the same tensor in place several times, and checks the result. Each sum has its own factor,
 * so they are not fused, and the program waits for none in between. */
void ranks_sum_in_place(const struct rank *r, int64_t count);

/* Runs a program on each rank, and checks that nothing was found, and that nothing is left. */
void ranks_run(int size, void (*body)(const struct rank *r, void *shared), void *shared);
void ranks_run_on(const struct ranks_machine *machine,
                  void (*body)(const struct rank *r, void *shared), void *shared);

/* Checks that nothing is left. */
void ranks_no_leaks(void);

/* A setup of cmocka: as many GPUs, and findings that are counted. */
int ranks_begin(void **state);

#endif
