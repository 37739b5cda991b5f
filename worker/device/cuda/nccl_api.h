#ifndef HVD_WORKER_DEVICE_CUDA_NCCL_API_H
#define HVD_WORKER_DEVICE_CUDA_NCCL_API_H

#include <limits.h>
#include <stddef.h>

/*
 * What this project uses of NCCL (libnccl.so.2), declared by itself as driver_api.h does for the
 * driver. Enumerations are unsigned int here, too.
 */
typedef unsigned int hvd_nccl_result_t;
typedef unsigned int hvd_nccl_type_t;
typedef unsigned int hvd_nccl_op_t;

struct ncclComm;    /* a communicator */
struct CUstream_st; /* a stream of the driver */

/* The key by which the ranks of a communicator meet. Calls take it by value. */
struct hvd_nccl_id {
    char bytes[128];
};

enum hvd_nccl_results {
    HVD_NCCL_SUCCESS = 0,
    HVD_NCCL_UNHANDLED_CUDA_ERROR = 1,
    HVD_NCCL_SYSTEM_ERROR = 2,
    HVD_NCCL_INTERNAL_ERROR = 3,
    HVD_NCCL_INVALID_ARGUMENT = 4,
    HVD_NCCL_INVALID_USAGE = 5,
    HVD_NCCL_REMOTE_ERROR = 6,
    HVD_NCCL_IN_PROGRESS = 7,
    HVD_NCCL_TIMEOUT = 8 /* 2.30 */
};

enum hvd_nccl_types {
    HVD_NCCL_INT8 = 0,
    HVD_NCCL_UINT8 = 1,
    HVD_NCCL_INT32 = 2,
    HVD_NCCL_UINT32 = 3,
    HVD_NCCL_INT64 = 4,
    HVD_NCCL_UINT64 = 5,
    HVD_NCCL_FLOAT16 = 6,
    HVD_NCCL_FLOAT32 = 7,
    HVD_NCCL_FLOAT64 = 8,
    HVD_NCCL_BFLOAT16 = 9,
    HVD_NCCL_FLOAT8_E4M3 = 10, /* 2.24, and compute capability 9.0 */
    HVD_NCCL_FLOAT8_E5M2 = 11
};

enum hvd_nccl_ops {
    HVD_NCCL_SUM = 0,
    HVD_NCCL_PROD = 1,
    HVD_NCCL_MAX = 2,
    HVD_NCCL_MIN = 3,
    HVD_NCCL_AVG = 4
};

/* Where the factor of ncclRedOpCreatePreMulSum is read: on the device later, or during the call. */
enum hvd_nccl_residences { HVD_NCCL_SCALAR_DEVICE = 0, HVD_NCCL_SCALAR_HOST = 1 };

/* Of ncclCommSplit: this rank gets no communicator. */
#define HVD_NCCL_SPLIT_NO_COLOR (-1)

#define HVD_NCCL_CONFIG_MAGIC 0xcafebeefU
#define HVD_NCCL_CONFIG_VERSION 21800U
#define HVD_NCCL_CONFIG_UNSET INT_MIN

/* The options of a communicator as of 2.18. Later versions accept this shorter struct by its size.
 * Fields that are not set are HVD_NCCL_CONFIG_UNSET, or NULL. */
struct hvd_nccl_config {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
};

/*
 * X(symbol, first version, whether the adapter needs it, result, parameters). The version is that
 * of ncclGetVersion: 21400 is 2.14.0, and before 2.9 it is 2700 for 2.7.0.
 */
#define HVD_NCCL_MEET_MAP(X)                                                                       \
    X(ncclGetUniqueId, 2000, 1, hvd_nccl_result_t, (struct hvd_nccl_id * id))                      \
    X(ncclCommInitRank, 2000, 1, hvd_nccl_result_t,                                                \
      (struct ncclComm * *comm, int n_ranks, struct hvd_nccl_id id, int rank))                     \
    X(ncclCommInitRankConfig, 21400, 1, hvd_nccl_result_t,                                         \
      (struct ncclComm * *comm, int n_ranks, struct hvd_nccl_id id, int rank,                      \
       struct hvd_nccl_config *config))                                                            \
    X(ncclCommSplit, 21800, 1, hvd_nccl_result_t,                                                  \
      (struct ncclComm * comm, int color, int key, struct ncclComm **made,                         \
       struct hvd_nccl_config *config))

#define HVD_NCCL_COMM_MAP(X)                                                                       \
    X(ncclGetVersion, 2100, 1, hvd_nccl_result_t, (int *version))                                  \
    X(ncclCommFinalize, 21400, 1, hvd_nccl_result_t, (struct ncclComm * comm))                     \
    X(ncclCommDestroy, 2000, 1, hvd_nccl_result_t, (struct ncclComm * comm))                       \
    X(ncclCommAbort, 2400, 1, hvd_nccl_result_t, (struct ncclComm * comm))                         \
    X(ncclCommGetAsyncError, 2400, 1, hvd_nccl_result_t,                                           \
      (struct ncclComm * comm, hvd_nccl_result_t * async_error))                                   \
    X(ncclCommCount, 2000, 0, hvd_nccl_result_t, (struct ncclComm * comm, int *count))             \
    X(ncclCommUserRank, 2000, 0, hvd_nccl_result_t, (struct ncclComm * comm, int *rank))           \
    X(ncclCommCuDevice, 2000, 0, hvd_nccl_result_t, (struct ncclComm * comm, int *device))         \
    X(ncclGetErrorString, 2000, 1, const char *, (hvd_nccl_result_t result))                       \
    X(ncclGetLastError, 21300, 1, const char *, (struct ncclComm * comm))

#define HVD_NCCL_COLLECTIVE_MAP(X)                                                                 \
    X(ncclAllReduce, 2000, 1, hvd_nccl_result_t,                                                   \
      (const void *input, void *output, size_t count, hvd_nccl_type_t type, hvd_nccl_op_t op,      \
       struct ncclComm *comm, struct CUstream_st *stream))                                         \
    X(ncclBroadcast, 2200, 1, hvd_nccl_result_t,                                                   \
      (const void *input, void *output, size_t count, hvd_nccl_type_t type, int root,              \
       struct ncclComm *comm, struct CUstream_st *stream))                                         \
    X(ncclReduce, 2000, 1, hvd_nccl_result_t,                                                      \
      (const void *input, void *output, size_t count, hvd_nccl_type_t type, hvd_nccl_op_t op,      \
       int root, struct ncclComm *comm, struct CUstream_st *stream))                               \
    X(ncclAllGather, 2000, 1, hvd_nccl_result_t,                                                   \
      (const void *input, void *output, size_t count, hvd_nccl_type_t type, struct ncclComm *comm, \
       struct CUstream_st *stream))                                                                \
    X(ncclReduceScatter, 2000, 1, hvd_nccl_result_t,                                               \
      (const void *input, void *output, size_t count, hvd_nccl_type_t type, hvd_nccl_op_t op,      \
       struct ncclComm *comm, struct CUstream_st *stream))                                         \
    X(ncclSend, 2700, 1, hvd_nccl_result_t,                                                        \
      (const void *input, size_t count, hvd_nccl_type_t type, int peer, struct ncclComm *comm,     \
       struct CUstream_st *stream))                                                                \
    X(ncclRecv, 2700, 1, hvd_nccl_result_t,                                                        \
      (void *output, size_t count, hvd_nccl_type_t type, int peer, struct ncclComm *comm,          \
       struct CUstream_st *stream))                                                                \
    X(ncclGroupStart, 2000, 1, hvd_nccl_result_t, (void))                                          \
    X(ncclGroupEnd, 2000, 1, hvd_nccl_result_t, (void))                                            \
    X(ncclRedOpCreatePreMulSum, 21100, 1, hvd_nccl_result_t,                                       \
      (hvd_nccl_op_t * op, void *scalar, hvd_nccl_type_t type, unsigned int residence,             \
       struct ncclComm *comm))                                                                     \
    X(ncclRedOpDestroy, 21100, 1, hvd_nccl_result_t, (hvd_nccl_op_t op, struct ncclComm * comm))

#define HVD_NCCL_MAP(X)                                                                            \
    HVD_NCCL_MEET_MAP(X)                                                                           \
    HVD_NCCL_COMM_MAP(X)                                                                           \
    HVD_NCCL_COLLECTIVE_MAP(X)

/* One pointer per function, under the name of its symbol. */
struct hvd_nccl_api {
#define X(symbol, since, is_needed, result, params) result(*symbol) params;
    HVD_NCCL_MAP(X)
#undef X
};

#endif
