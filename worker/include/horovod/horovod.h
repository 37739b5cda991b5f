#ifndef HOROVOD_HOROVOD_H
#define HOROVOD_HOROVOD_H

/*
 * libhorovod: reductions over the ranks of a training job.
 *
 * A program starts as N processes (horovodrun, mpirun), and each calls horovod_init(). Then every
 * rank submits the same set of named tensors, in any order and from any thread. The library reduces
 * a tensor once every rank has submitted it, and pairs tensors by their names.
 *
 *     float gradient[1000];
 *     horovod_error_t err = {0};
 *
 *     if (!horovod_init(NULL, 0, NULL, NULL, 0))
 *         return 1;
 *     if (horovod_allreduce(gradient, gradient,
 *                           HOROVOD_TENSOR(.name = "gradient", .dtype = HOROVOD_FLOAT32, .ndim = 1,
 *                                          .shape = (const int64_t[]){1000}),
 *                           &err) != HOROVOD_OK)
 *         fprintf(stderr, "%s\n", err.message);
 *     horovod_shutdown();
 *
 * Rules that hold for every function:
 * - Any thread may call it, any number of threads at once, between horovod_init and
 *   horovod_shutdown. The library never ends the process and installs no signal handler.
 * - A child of fork() is no part of the job. It may query its parent's place (horovod_rank and the
 *   like). Every other function returns at once as if Horovod were not initialised, and its message
 *   names the reason. The child may end in any way.
 * - A process that a rank starts by exec cannot join the job, because the rank has its place at the
 *   launcher: horovod_init fails and names this reason. Without a launcher the process is a job of
 *   its own.
 * - `err` may be NULL. On failure it holds the status that was returned and a sentence that names
 *   the problem; on success the function leaves it alone. Functions write output parameters on
 *   success only.
 * - Sizes and shapes are counted in elements and are 64 bits wide; memory is dense, in row-major
 *   order, in the byte order of the machine, aligned for its type.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOROVOD_API __attribute__((visibility("default")))

/* The result of a call. Values never change; more may follow. */
typedef enum horovod_status {
    HOROVOD_OK = 0,
    HOROVOD_UNKNOWN_ERROR = 1,      /* a system or MPI call failed; the message names it */
    HOROVOD_PRECONDITION_ERROR = 2, /* not initialised, or the ranks disagree about this tensor:
                                       then every rank gets this status, and the job may go on */
    HOROVOD_ABORTED = 3,            /* a rank shut down or was lost: initialise anew or end */
    HOROVOD_INVALID_ARGUMENT = 4,   /* wrong arguments; the call fails on the other ranks, too */
    HOROVOD_IN_PROGRESS = 5,        /* not an error: not finished yet */
    HOROVOD_OUT_OF_MEMORY = 6,
} horovod_status_t;

#define HOROVOD_MESSAGE_MAX 1024

/* Holds the failure of a call. The caller owns it, usually on the stack; start from {0}. */
typedef struct horovod_error {
    horovod_status_t status;
    int reserved[3];
    char message[HOROVOD_MESSAGE_MAX]; /* one line, terminated */
} horovod_error_t;

/* Element types. Values not listed are reserved. */
typedef enum horovod_dtype {
    HOROVOD_UINT8 = 0,
    HOROVOD_INT8 = 1,
    HOROVOD_UINT16 = 2,
    HOROVOD_INT16 = 3,
    HOROVOD_INT32 = 4,
    HOROVOD_INT64 = 5,
    HOROVOD_FLOAT16 = 6, /* IEEE 754 half precision */
    HOROVOD_FLOAT32 = 7,
    HOROVOD_FLOAT64 = 8,
    HOROVOD_BOOL = 9, /* a byte; every value but 0 is true */
    HOROVOD_BFLOAT16 = 10,
    HOROVOD_UINT32 = 11,
    HOROVOD_UINT64 = 12,
} horovod_dtype_t;

/*
 * Reductions. Values not listed are reserved. Integers wrap around as unsigned arithmetic does;
 * their average is the sum divided by the number of ranks, rounded towards zero. For bool, sum and
 * maximum are "or", product and minimum are "and". Minimum and maximum of anything and a NaN are
 * NaN.
 *
 * Adasum is for gradients: allreduce alone; float16, float32, float64, bfloat16; 2, 4, 8, ...
 * ranks. It adds the gradients of two ranks where they are orthogonal, and averages them where they
 * are parallel: a (1 - a.b / (2 a.a)) + b (1 - a.b / (2 b.b)), over each tensor as a whole. Then it
 * combines the results of two pairs, and so on. A vector of zeros changes nothing.
 */
typedef enum horovod_reduce_op {
    HOROVOD_AVERAGE = 0,
    HOROVOD_SUM = 1,
    HOROVOD_ADASUM = 2,
    HOROVOD_MIN = 3,
    HOROVOD_MAX = 4,
    HOROVOD_PRODUCT = 5,
} horovod_reduce_op_t;

/* The output of an allgather or alltoall: memory that the library owns, valid until
 * horovod_output_release. */
typedef struct horovod_output horovod_output_t;

/*
 * The library calls this function once when a tensor has ended. status is what a wait would return.
 * message is the reason of a failure, borrowed for the call, or "". output is that of an allgather
 * or alltoall that succeeded, and then the callee owns it; else NULL. The name is free by then. The
 * library does not call it for a submission that it refuses. The call may run in another thread,
 * before the submitting call has returned.
 *
 * The thread that makes progress calls it. That is a thread that waits or polls, one in a
 * synchronous call, in a call about process sets or in horovod_shutdown, or the library's own
 * thread. So do not take a lock here that your program holds over such a call. Return soon: no
 * other thread makes progress meanwhile. The function may submit tensors and query ranks and sizes.
 * It must not wait, poll or change process sets. It must not call horovod_init, horovod_shutdown
 * and their siblings, horovod_init_error or horovod_comm_process_set: such a call waits for what
 * the function holds up. The function has to return, without longjmp, the end of its thread or an
 * exception of C++. A process that is forked here must not return from the function.
 *
 * After HOROVOD_ABORTED MPI may still write to outputs, also to those that horovod_allocate_t has
 * returned: keep them until the process ends. Where HOROVOD_MPI_THREADS_DISABLE is set, only the
 * thread that called horovod_init makes progress, and only while it waits. A barrier may end before
 * earlier tensors do. Submit a tensor with a handle if your program must know its end, and wait for
 * that handle. horovod_shutdown makes all calls that are left.
 */
typedef void (*horovod_done_t)(void *context, horovod_status_t status, const char *message,
                               horovod_output_t *output);

/*
 * Returns memory for the output of an allgather or alltoall, once the ranks have agreed on its
 * size: `bytes` bytes, as `rows` rows. The callee keeps the ownership: the library writes to the
 * memory until the tensor has ended, and never frees it. The library calls this once for a tensor,
 * also for 0 rows, but not for a tensor that fails before. NULL for more than 0 bytes ends the job,
 * as a lack of memory does. The caller and the restrictions are those of horovod_done_t, and it
 * must not submit tensors. No context of CUDA may be current.
 */
typedef void *(*horovod_allocate_t)(void *context, int64_t rows, size_t bytes);

/* Where the elements of a tensor are. */
typedef enum horovod_memory {
    HOROVOD_MEMORY_HOST = 0,
    HOROVOD_MEMORY_CUDA = 1, /* memory of an NVIDIA GPU */
} horovod_memory_t;

/*
 * Describes a tensor. `size` is sizeof(horovod_tensor_t) as the caller was compiled, so that later
 * versions can add fields behind; HOROVOD_TENSOR fills it in. Fields left out are zero. The call
 * copies everything: name and shape may be freed afterwards (data may not).
 */
typedef struct horovod_tensor {
    size_t size;
    const char *name; /* 1 to 1023 bytes, terminated; names the tensor on every rank, and is free
                         for use again once the tensor is done. NULL: the library names it, for
                         example "allreduce.noname.1"; then every rank makes its calls without a
                         name in the same order. Repeated use of one name is faster */
    horovod_dtype_t dtype;
    int ndim;               /* 0 (a single element) to 16 */
    const int64_t *shape;   /* ndim sizes, each >= 0; may be NULL when ndim is 0 */
    horovod_reduce_op_t op; /* allreduce, reducescatter */
    int root_rank;   /* broadcast only: the rank whose data all ranks receive. It is numbered as in
                        the job, also in a process set, which it must be in */
    int process_set; /* the ranks that take part; 0: all */
    double prescale_factor; /* allreduce, reducescatter: the library multiplies every input by this
                               factor before the reduction, and the result by postscale_factor after
                               it, in the tensor's type (integers: as double, rounded towards zero).
                               0, as left out, means 1 */
    double postscale_factor;
    const int64_t *splits; /* alltoall only: how many rows go to each rank; NULL: the same number to
                              each */
    int n_splits;
    int reserved;        /* 0 */
    horovod_done_t done; /* asynchronous calls only: then no wait follows, the handle is 0, and the
                            pointer to one handle may be NULL. The library requests the tensor at
                            the first pause of 30 us between submissions. NULL: wait for the
                            tensor */
    horovod_allocate_t allocate; /* allgather, alltoall; NULL: the library allocates the output */
    void *context;               /* passed to both functions */
    horovod_memory_t memory; /* of input, output and what `allocate` returns; see "GPUs" below. 0 is
                                the host, where a pointer to other memory crashes */
    int device;              /* HOROVOD_MEMORY_CUDA: the number of the GPU, among those that this
                                process sees */
    void *stream;            /* HOROVOD_MEMORY_CUDA: the stream (cudaStream_t or CUstream) that
                                has the input ready; NULL: the legacy default stream */
} horovod_tensor_t;

#ifndef __cplusplus
/* HOROVOD_TENSOR(.name = "g", .dtype = HOROVOD_FLOAT32, .ndim = 1, .shape = shape) */
#define HOROVOD_TENSOR(...)                                                                        \
    (&(const horovod_tensor_t){.size = sizeof(horovod_tensor_t), __VA_ARGS__})
#endif

/* Names a tensor that was submitted and not waited for yet. Never 0; values are not reused soon. */
typedef int64_t horovod_handle_t;

/* --- Start and end ---------------------------------------------------------------------------- */

/*
 * Joins the job: a collective call, every process makes it. Initialises MPI unless the program did
 * (then at MPI_THREAD_MULTIPLE). A process that was started alone is a job of size 1. While
 * initialised, another call does nothing and returns true. On failure it returns false, logs the
 * reason to standard error, and keeps it for horovod_init_error. After a horovod_shutdown that
 * finalised MPI it fails: MPI cannot be initialised twice in a process. If the program has
 * initialised MPI itself, jobs may follow one another.
 *
 * ranks = NULL with n_ranks = 0 means all processes. Else the job is those n_ranks processes of
 * MPI_COMM_WORLD alone, which become the ranks 0, 1, ... in the order given. They pass the same
 * list in the same order. Otherwise the call fails on all of them, and no other job begins in these
 * processes where Horovod has initialised MPI. They wait for no other process. So several jobs may
 * run side by side, each with a list of its own. For a process that is not in its own list the call
 * fails. Such a process may try again with another list. It calls horovod_shutdown before it ends,
 * which finalises MPI.
 *
 * The other arguments are process sets to begin with, the same on every rank; none: NULL, NULL, 0.
 * process_set_sizes holds the number of ranks of each of n_process_sets sets, process_set_ranks
 * lists their ranks one set behind the other. The sets are numbered from 1. A set that exists
 * already, such as the whole job, keeps its number.
 */
HOROVOD_API bool horovod_init(const int *ranks, int n_ranks, const int *process_set_ranks,
                              const int *process_set_sizes, int n_process_sets);

/*
 * horovod_init for a program that has initialised MPI and has communicators. comms is an array of
 * n_comms values, an `MPI_Comm *`; the same number on every rank. The members of the first one are
 * the job. Each of the others becomes a process set: at each index a rank passes a communicator of
 * which it is a member, or MPI_COMM_NULL. Different ranks may pass different communicators there,
 * as MPI_Comm_split makes them, and each becomes a set of its own. Members stand in the order of
 * their ranks in the job. The sets are numbered from 1, those of lists behind those of
 * communicators; horovod_comm_process_set returns the number. The program keeps the communicators,
 * and may free them afterwards. With n_comms = 0 this is horovod_init.
 */
HOROVOD_API bool horovod_init_multi_comm(const void *comms, int n_comms,
                                         const int *process_set_ranks, const int *process_set_sizes,
                                         int n_process_sets);

/* Stores in err why the last horovod_init failed. Returns its status, or HOROVOD_OK if it
 * succeeded. */
HOROVOD_API horovod_status_t horovod_init_error(horovod_error_t *err);

/*
 * Leaves the job, at most once per horovod_init. When not initialised it only finalises MPI if a
 * failed horovod_init had initialised it. A collective call at the end of a job: it waits until
 * every rank shuts down or is lost. Tensors that are still pending, here or on any other rank, end
 * with HOROVOD_ABORTED and a message that names the rank that shut down first. Handles stay valid
 * for horovod_wait until the next horovod_init; outputs stay valid until released. Finalises MPI
 * only if horovod_init initialised it. MPI may then wait for all processes that the launcher
 * started, also those of other jobs.
 */
HOROVOD_API void horovod_shutdown(void);

/*
 * horovod_shutdown that leaves MPI initialised, so that horovod_init can begin another job in this
 * process. A horovod_shutdown before the process ends finalises MPI then. After an aborted job
 * horovod_init fails even so, because MPI is in an undefined state.
 */
HOROVOD_API void horovod_shutdown_job(void);

/* Returns 1 between horovod_init and horovod_shutdown, else 0. */
HOROVOD_API int horovod_is_initialized(void);

/* --- Who am I: each -1 when not initialised --------------------------------------------------- */

/* Return the number of this process in the job, from 0 to size - 1, and the number of processes. */
HOROVOD_API int horovod_rank(void);
HOROVOD_API int horovod_size(void);

/* Return the number of this process among those of its host, and how many run there. */
HOROVOD_API int horovod_local_rank(void);
HOROVOD_API int horovod_local_size(void);

/* Return the number of this host among the hosts that run a process of the same local rank, and how
 * many there are. */
HOROVOD_API int horovod_cross_rank(void);
HOROVOD_API int horovod_cross_size(void);

/* Returns whether every host runs the same number of processes; false when not initialised. */
HOROVOD_API bool horovod_is_homogeneous(void);

/* Returns 1 if several threads may call MPI at once (MPI_THREAD_MULTIPLE), 0 if not, -1 when not
 * initialised. */
HOROVOD_API int horovod_mpi_threads_supported(void);

/* --- What this library was built with and uses ------------------------------------------------ */

/* Return whether jobs of this library start over MPI, and whether it was built with MPI. */
HOROVOD_API bool horovod_mpi_enabled(void);
HOROVOD_API bool horovod_mpi_built(void);

/* The same for Gloo. */
HOROVOD_API bool horovod_gloo_enabled(void);
HOROVOD_API bool horovod_gloo_built(void);

/* Returns the version code of the NCCL that the library finds at run time, such as 22809
 * for 2.28.9; 0 without one that it can use. */
HOROVOD_API int horovod_nccl_built(void);

/* Returns whether the library finds a driver for NVIDIA GPUs at run time that it can use. */
HOROVOD_API bool horovod_cuda_built(void);

/* Return whether the library was built with DDL, oneCCL, ROCm. */
HOROVOD_API bool horovod_ddl_built(void);
HOROVOD_API bool horovod_ccl_built(void);
HOROVOD_API bool horovod_rocm_built(void);

/* Return the values of the reductions, for callers that cannot read this header. */
HOROVOD_API int horovod_reduce_op_average(void);
HOROVOD_API int horovod_reduce_op_sum(void);
HOROVOD_API int horovod_reduce_op_adasum(void);
HOROVOD_API int horovod_reduce_op_min(void);
HOROVOD_API int horovod_reduce_op_max(void);
HOROVOD_API int horovod_reduce_op_product(void);

/* The library's version, for example "0.1.0". */
HOROVOD_API const char *horovod_version(void);

/* Returns the name of a status, for example "HOROVOD_ABORTED". Never NULL. */
HOROVOD_API const char *horovod_status_name(horovod_status_t status);

/* --- Collectives ------------------------------------------------------------------------------ */

/*
 * The asynchronous forms submit and return at once with a handle; exactly one horovod_wait or
 * horovod_wait_output ends each handle. The synchronous forms submit and wait.
 *
 * The caller owns the data. From the submission until the wait has returned, keep and do not change
 * input memory; keep and do not touch output memory.
 *
 * A submission fails with HOROVOD_PRECONDITION_ERROR when not initialised. It fails with
 * HOROVOD_INVALID_ARGUMENT for arguments and for a name that is pending on this rank. It fails with
 * HOROVOD_ABORTED once the job is shutting down. A wait fails on every rank with
 * HOROVOD_PRECONDITION_ERROR when ranks disagree (operation, type, shape, reduction, root), or when
 * a rank has refused its call for its arguments or a lack of memory. It fails with HOROVOD_ABORTED
 * when the job ends.
 */

/* The number of tensors that stands for an empty group in horovod_refuse. */
#define HOROVOD_EMPTY_GROUP (-1)

/*
 * Makes the matching calls of the other ranks fail with a reason, when the caller does not make its
 * own: otherwise they would wait for it. It is for bindings, which check arguments before they
 * submit them. collective is "allreduce", "allgather", "broadcast", "alltoall" or "reducescatter".
 * tensors has the n descriptions of a group, or with n = 0 tensors[0] alone; only name and
 * process_set count.
 *
 * n = HOROVOD_EMPTY_GROUP stands for a group without tensors. The name of tensors[0], if there is
 * one, is then "grouped_NAME_1of0", and groups with tensors fail whose names are
 * "grouped_NAME_1of3" and so on. Returns HOROVOD_INVALID_ARGUMENT for another collective and for
 * NULL, and HOROVOD_PRECONDITION_ERROR when not initialised.
 */
HOROVOD_API horovod_status_t horovod_refuse(const char *collective, int n,
                                            const horovod_tensor_t *const *tensors,
                                            const char *reason, horovod_error_t *err);

/*
 * output = reduction of the inputs of all ranks, element by element, the same bits on every rank.
 * Shape, type and op are the same on every rank. input and output have the size of the shape. They
 * may be the same memory, but must not overlap otherwise; both may be NULL when there are no
 * elements.
 *
 * The same holds between pending tensors of a set. Those that begin at the same address are reduced
 * one after the other in the agreed order. Within a fused operation the library reads all of them
 * before it writes one. Memory that overlaps in another way, or across sets, gives undefined
 * results.
 */
HOROVOD_API horovod_status_t horovod_allreduce_async(const void *input, void *output,
                                                     const horovod_tensor_t *tensor,
                                                     horovod_handle_t *handle,
                                                     horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_allreduce(const void *input, void *output,
                                               const horovod_tensor_t *tensor,
                                               horovod_error_t *err);

/*
 * Concatenates the inputs of all ranks in rank order, along the first dimension. That one may
 * differ between ranks (0 too); type and the other dimensions are the same everywhere, and ndim is
 * at least 1. The library allocates the output: take it with horovod_wait_output.
 */
HOROVOD_API horovod_status_t horovod_allgather_async(const void *input,
                                                     const horovod_tensor_t *tensor,
                                                     horovod_handle_t *handle,
                                                     horovod_error_t *err);
/* *output becomes the caller's, to release. */
HOROVOD_API horovod_status_t horovod_allgather(const void *input, const horovod_tensor_t *tensor,
                                               horovod_output_t **output, horovod_error_t *err);

/*
 * output = input of tensor->root_rank. Shape, type and root are the same on every rank. Only the
 * root reads its input (NULL elsewhere is fine); input and output may be the same memory.
 */
HOROVOD_API horovod_status_t horovod_broadcast_async(const void *input, void *output,
                                                     const horovod_tensor_t *tensor,
                                                     horovod_handle_t *handle,
                                                     horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_broadcast(const void *input, void *output,
                                               const horovod_tensor_t *tensor,
                                               horovod_error_t *err);

/*
 * Rank r sends the rows of its input, in order, to ranks 0, 1, ...: splits[i] of them to rank i.
 * The output holds the rows that all ranks sent to this one, in rank order; horovod_output_rows_of
 * returns how many came from each. Type and all dimensions but the first are the same on every
 * rank. Rows behind the sum of the splits are not sent. The library allocates the output.
 */
HOROVOD_API horovod_status_t horovod_alltoall_async(const void *input,
                                                    const horovod_tensor_t *tensor,
                                                    horovod_handle_t *handle, horovod_error_t *err);
/* *output becomes the caller's, to release. */
HOROVOD_API horovod_status_t horovod_alltoall(const void *input, const horovod_tensor_t *tensor,
                                              horovod_output_t **output, horovod_error_t *err);

/*
 * Reduces the inputs of all ranks and scatters the rows of the result. Of N rows, each of n ranks
 * gets N / n, and the first N % n ranks one more (horovod_reducescatter_rows). tensor describes the
 * input: the same shape, type and op (average or sum) on every rank. output has room for this
 * rank's rows; it may be the input, but must not overlap it otherwise.
 */
HOROVOD_API horovod_status_t horovod_reducescatter_async(const void *input, void *output,
                                                         const horovod_tensor_t *tensor,
                                                         horovod_handle_t *handle,
                                                         horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_reducescatter(const void *input, void *output,
                                                   const horovod_tensor_t *tensor,
                                                   horovod_error_t *err);

/* Returns the number of rows that a rank gets when `rows` rows are scattered over `size` ranks; -1
 * when there is no such rank. Pure arithmetic. */
HOROVOD_API int64_t horovod_reducescatter_rows(int64_t rows, int rank, int size);

/*
 * Groups: n tensors of one process set that complete together, or all fail when one of them does.
 * handles receives n handles, each to be ended as any other; on failure nothing was submitted.
 * inputs and outputs hold n pointers, tensors n descriptions. n = 0 does nothing, and counts as no
 * call: ranks that pass a group wait for this one, unless this one refuses theirs with
 * horovod_refuse.
 *
 * Ranks match their groups by the names of the tensors. Names may be "grouped_NAME_1of3",
 * "grouped_NAME_2of3" and so on, as the library names tensors without names. Then a rank may have
 * only one group of a NAME pending. If ranks pass different numbers of tensors for a NAME, all get
 * an error that lists the numbers.
 */
HOROVOD_API horovod_status_t horovod_grouped_allreduce_async(int n, const void *const *inputs,
                                                             void *const *outputs,
                                                             const horovod_tensor_t *const *tensors,
                                                             horovod_handle_t *handles,
                                                             horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_grouped_allgather_async(int n, const void *const *inputs,
                                                             const horovod_tensor_t *const *tensors,
                                                             horovod_handle_t *handles,
                                                             horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_grouped_reducescatter_async(
    int n, const void *const *inputs, void *const *outputs, const horovod_tensor_t *const *tensors,
    horovod_handle_t *handles, horovod_error_t *err);

/*
 * The synchronous forms with a limit: they stop waiting after about timeout_ms. With 0 they do only
 * what takes microseconds. They are for an interpreter, which releases its lock before a longer
 * wait. HOROVOD_IN_PROGRESS: *handle is pending, to be ended as that of an asynchronous form; err
 * is left alone. On failure *handle shows what failed. 0: the submission, which was refused; else
 * the wait, and the handle has ended. *output as from horovod_allgather.
 */
HOROVOD_API horovod_status_t horovod_allreduce_for(const void *input, void *output,
                                                   const horovod_tensor_t *tensor,
                                                   int64_t timeout_ms, horovod_handle_t *handle,
                                                   horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_allgather_for(const void *input,
                                                   const horovod_tensor_t *tensor,
                                                   int64_t timeout_ms, horovod_handle_t *handle,
                                                   horovod_output_t **output, horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_broadcast_for(const void *input, void *output,
                                                   const horovod_tensor_t *tensor,
                                                   int64_t timeout_ms, horovod_handle_t *handle,
                                                   horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_alltoall_for(const void *input, const horovod_tensor_t *tensor,
                                                  int64_t timeout_ms, horovod_handle_t *handle,
                                                  horovod_output_t **output, horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_reducescatter_for(const void *input, void *output,
                                                       const horovod_tensor_t *tensor,
                                                       int64_t timeout_ms, horovod_handle_t *handle,
                                                       horovod_error_t *err);

/*
 * Joins: this rank has no more tensors for now, for example because its data ended early. Until
 * every rank has joined, it contributes zeros to the sums, averages (which still divide by all
 * ranks) and Adasums of the others, in the job and in every process set that it is in. Everything
 * else that the others submit meanwhile fails for them with HOROVOD_PRECONDITION_ERROR, except
 * barriers. This rank cannot submit anything until the join is done. *last_rank is the rank that
 * joined last.
 */
HOROVOD_API horovod_status_t horovod_join(int *last_rank, horovod_error_t *err);

/* horovod_join that does not wait: horovod_wait_join ends the handle. */
HOROVOD_API horovod_status_t horovod_join_async(horovod_handle_t *handle, horovod_error_t *err);

/* --- Process sets: some of the ranks. Number 0 is the whole job ------------------------------- */

/* Errors that the functions below return instead of a result. */
typedef enum horovod_process_set_error {
    HOROVOD_PROCESS_SET_ERROR_INIT = -1,         /* not initialised */
    HOROVOD_PROCESS_SET_ERROR_DYNAMIC = -2,      /* the ranks disagree, or sets cannot change now */
    HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET = -3,  /* there is no such set, or no such ranks */
    HOROVOD_PROCESS_SET_ERROR_FOREIGN_SET = -4,  /* this rank is not in it */
    HOROVOD_PROCESS_SET_ERROR_SHUTDOWN = -5,     /* the job has been shut down */
    HOROVOD_PROCESS_SET_ERROR_EXISTING_SET = -6, /* there is a set of these ranks */
} horovod_process_set_error_t;

/*
 * Creates a set of these ranks (in any order) and returns its number, the same on every rank and
 * never used again, or an error. Every rank of the job, member or not, makes the same calls about
 * sets in the same order, and waits. Sets do not wait for each other: a tensor of a set needs its
 * members alone.
 */
HOROVOD_API int horovod_add_process_set(const int *ranks, int n_ranks);

/* Removes a set, and returns its number or an error. Every rank calls it, as
 * horovod_add_process_set. Tensors that are pending in the set end with HOROVOD_ABORTED. Set 0
 * cannot be removed. */
HOROVOD_API int horovod_remove_process_set(int id);

/* Return this rank's number within the set; how many ranks the set has, also for ranks outside it;
 * whether this rank is in it (1 or 0). Or an error. */
HOROVOD_API int horovod_process_set_rank(int id);
HOROVOD_API int horovod_process_set_size(int id);
HOROVOD_API int horovod_process_set_included(int id);

/*
 * Returns the number of the set that has the members of a communicator, in the same order, or an
 * error. comm is an MPI_Comm by value, which is a pointer in Open MPI. Needs MPI_THREAD_MULTIPLE.
 */
HOROVOD_API int horovod_comm_process_set(void *comm);

/* Returns the number of sets, set 0 included; -1 when not initialised. */
HOROVOD_API int horovod_number_of_process_sets(void);

/* Writes the numbers of all sets to ids, which must have room for them. */
HOROVOD_API void horovod_process_set_ids(int *ids);

/* Writes the ranks of a set, sorted, to ranks, which must have room for them; returns 0 or an
 * error. */
HOROVOD_API int horovod_process_set_ranks(int id, int *ranks);

/* Ends once every rank has called it. One barrier at a time per rank. */
HOROVOD_API horovod_status_t horovod_barrier_async(horovod_handle_t *handle, horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_barrier(horovod_error_t *err);

/* horovod_barrier among the ranks of a set, which wait for no rank outside it. One at a time per
 * rank and set. */
HOROVOD_API horovod_status_t horovod_process_set_barrier_async(int id, horovod_handle_t *handle,
                                                               horovod_error_t *err);
HOROVOD_API horovod_status_t horovod_process_set_barrier(int id, horovod_error_t *err);

/* --- Waiting ---------------------------------------------------------------------------------- */

/*
 * GPUs. Tensors with HOROVOD_MEMORY_CUDA are in the memory of a GPU. A rank has one GPU, which is
 * that of its first such tensor. Only then does the library use the GPU at all. On all ranks a
 * tensor of one name is on GPUs, or on none.
 *
 * A submission records the present work of the tensor's stream. The GPU starts to read the input
 * when that work is done; neither the call nor the other ranks wait for it. The result is there for
 * a stream that horovod_wait_stream got, or for everybody once horovod_wait or a synchronous form
 * has returned. Keep the memory until then, in the order of that stream.
 *
 * The ranks exchange tensors by NCCL where every rank finds it, and through the memory of the host
 * otherwise (also with HOROVOD_GPU_OPERATIONS=MPI, for Adasum, and for reductions that NCCL does
 * not compute exactly). Results have the types and rules of the host. The order in which floats are
 * added is NCCL's. A stream that is being captured into a graph is refused with
 * HOROVOD_INVALID_ARGUMENT. When the job fails, a stream does not: results that horovod_wait_stream
 * has ordered before may be undefined then, and horovod_check_job returns HOROVOD_ABORTED.
 */

/*
 * Returns HOROVOD_OK while the job goes on, and does not wait then. Once it has failed, or a stall
 * has ended it: HOROVOD_ABORTED with the cause. A rank that has called horovod_shutdown is no
 * failure. Call it after a synchronization with the stream, before results
 * leave the program, for example in a checkpoint: behind a HOROVOD_OK they are right.
 */
HOROVOD_API horovod_status_t horovod_check_job(horovod_error_t *err);

/* Returns 1 if horovod_wait would return at once, 0 if not yet, -1 for a handle that is not
 * pending. */
HOROVOD_API int horovod_poll(horovod_handle_t handle);

/*
 * Blocks until the tensor is done, ends the handle, and returns the tensor's status. Discards the
 * output of an allgather or alltoall. One thread waits for a handle. Returns
 * HOROVOD_INVALID_ARGUMENT for a handle that is unknown or already ended, or that another thread
 * waits for.
 */
HOROVOD_API horovod_status_t horovod_wait(horovod_handle_t handle, horovod_error_t *err);

/*
 * horovod_wait for an allgather or alltoall: the caller owns *output, and releases it. For a handle
 * of another collective *output becomes NULL.
 */
HOROVOD_API horovod_status_t horovod_wait_output(horovod_handle_t handle, horovod_output_t **output,
                                                 horovod_error_t *err);

/*
 * horovod_wait_output that returns after about timeout_ms: then HOROVOD_IN_PROGRESS, err is left
 * alone, and the handle must still be ended. For callers with other duties in between, such as an
 * interpreter that handles signals. output may be NULL, as for horovod_wait.
 */
HOROVOD_API horovod_status_t horovod_wait_for(horovod_handle_t handle, int64_t timeout_ms,
                                              horovod_output_t **output, horovod_error_t *err);

/*
 * Ends the handle as horovod_wait_for does, but does not wait for the GPU: returns once the
 * collective has been launched, and makes `stream`, a stream of the tensor's GPU, wait for the
 * result. timeout_ms < 0: no limit. For a tensor in the memory of the host, and with
 * HOROVOD_ENABLE_ASYNC_COMPLETION=0, waits for the result. An output belongs to the stream then:
 * see horovod_output_release. HOROVOD_INVALID_ARGUMENT when the stream is being captured, or is
 * none: the handle has ended, and so has the work of the library.
 */
HOROVOD_API horovod_status_t horovod_wait_stream(horovod_handle_t handle, void *stream,
                                                 int64_t timeout_ms, horovod_output_t **output,
                                                 horovod_error_t *err);

/* horovod_wait_for for the handle of a join: *last_rank, which may be NULL, is the rank that joined
 * last. */
HOROVOD_API horovod_status_t horovod_wait_join(horovod_handle_t handle, int64_t timeout_ms,
                                               int *last_rank, horovod_error_t *err);

/* Returns the elements, in the memory where the inputs are; NULL when there are none. Borrowed
 * until the release. */
HOROVOD_API const void *horovod_output_data(const horovod_output_t *output);

/* Returns the size of the first dimension of the output: the sum over all ranks. */
HOROVOD_API int64_t horovod_output_rows(const horovod_output_t *output);

/* Returns the size of the first dimension that a rank contributed; -1 when there is no such rank.
 */
HOROVOD_API int64_t horovod_output_rows_of(const horovod_output_t *output, int rank);

/* Returns the size of the elements in bytes. */
HOROVOD_API size_t horovod_output_bytes(const horovod_output_t *output);

/* Returns the number of the GPU whose memory it is; -1 for the host, and for memory from
 * horovod_allocate_t. */
HOROVOD_API int horovod_output_device(const horovod_output_t *output);

/* Frees the output. NULL is fine. If horovod_wait_stream returned it, the memory stays until the
 * present work of that stream is done, so the stream must exist still. */
HOROVOD_API void horovod_output_release(horovod_output_t *output);

/* --- Watching it ------------------------------------------------------------------------------ */

/*
 * Starts a timeline, for chrome://tracing and Perfetto: every tensor's negotiation, queueing and
 * transfer. Rank 0 writes the file. With HOROVOD_TIMELINE_ALL_RANKS=1 or a %d in the path (replaced
 * by the rank) every rank writes one. The file can be read at any time. If a timeline runs already,
 * the call ends it first; if it has the same path, the call does nothing. mark_cycles adds a mark
 * for every plan. Returns 1, or -1 when not initialised, -2 when HOROVOD_TIMELINE was not set (to a
 * path, or to DYNAMIC) at horovod_init, -3 when the file cannot be written, which is logged.
 */
HOROVOD_API int horovod_start_timeline(const char *file, bool mark_cycles);

/* Ends the timeline, if one runs, and returns once its file is complete. 1, or -1 or -2 as above.
 */
HOROVOD_API int horovod_stop_timeline(void);

/*
 * Marks in the timeline that a phase of the program begins or ends now, in the calling thread or in
 * another. Phases appear beside the tensors, in the process of the rank itself. They may be nested
 * up to eight deep; the end of one ends those in it. horovodrun --timeline-report takes phases
 * called BACKWARD for the backward pass. The first 31 bytes of the name count. Returns whether a
 * timeline recorded the mark; without one the call costs some nanoseconds.
 */
HOROVOD_API bool horovod_timeline_mark(const char *phase, bool begins);

/* Counters of this process since horovod_init. `size` is sizeof(horovod_counters_t) as the caller
 * was compiled: set it before the call. HOROVOD_METRICS_FILE has the same numbers. */
typedef struct horovod_counters {
    size_t size;
    uint64_t submitted; /* tensors */
    uint64_t completed; /* tensors that ended well */
    uint64_t failed;
    uint64_t allreduce_tensors; /* completed, and the bytes of this rank's inputs */
    uint64_t allreduce_bytes;
    uint64_t allgather_tensors;
    uint64_t allgather_bytes;
    uint64_t broadcast_tensors;
    uint64_t broadcast_bytes;
    uint64_t alltoall_tensors;
    uint64_t alltoall_bytes;
    uint64_t reducescatter_tensors;
    uint64_t reducescatter_bytes;
    uint64_t barriers;
    uint64_t joins;
    uint64_t plans; /* tensors that the ranks agreed on together share a plan */
    uint64_t messages_sent;
    uint64_t messages_received;
    uint64_t message_bytes_sent;
    uint64_t message_bytes_received;
    uint64_t sleeps;         /* of the progress owner, after long without work */
    uint64_t stall_warnings; /* rank 0: warnings of tensors that wait; any rank: of a rank that does
                                not answer */
    uint64_t ranks_lost;     /* rank 0 */
    uint64_t timeline_events;  /* written */
    uint64_t timeline_dropped; /* missing from the timeline, because its writer could not keep up */
    uint64_t plan_hits;        /* plans of known tensors whose layout was cached */
    uint64_t plan_misses;      /* the same with a new layout: other tensors than in recent plans */
    uint64_t flights;          /* collectives; fused tensors share one */
    uint64_t idle_wakeups;     /* of the library's thread while there was nothing to do */
} horovod_counters_t;

/* Fills as many bytes of *counters as `size` allows. Returns HOROVOD_PRECONDITION_ERROR when not
 * initialised, HOROVOD_INVALID_ARGUMENT for NULL or a size smaller than that of the field `size`.
 */
HOROVOD_API horovod_status_t horovod_counters(horovod_counters_t *counters, horovod_error_t *err);

/*
 * Writes the last 1,024 events of this rank to the file that HOROVOD_FLIGHT_RECORDER names, headed
 * by `why` (may be NULL). The library does the same when the job fails. Not for signal handlers.
 * Returns HOROVOD_PRECONDITION_ERROR when not initialised or HOROVOD_FLIGHT_RECORDER was not set,
 * and HOROVOD_UNKNOWN_ERROR when the file cannot be written.
 */
HOROVOD_API horovod_status_t horovod_dump_flight_recorder(const char *why, horovod_error_t *err);

#ifdef __cplusplus
}
#endif

#endif
