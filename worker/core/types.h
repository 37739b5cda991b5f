#ifndef HVD_WORKER_CORE_TYPES_H
#define HVD_WORKER_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

/* Limits of what a rank may submit; the decoder enforces them on peers too. */
#define HVD_NAME_MAX 1023
#define HVD_NDIM_MAX 16
#define HVD_TEXT_MAX 1000

/* The values are those of the public header and of control messages. */
enum hvd_dtype {
    HVD_UINT8 = 0,
    HVD_INT8 = 1,
    HVD_UINT16 = 2,
    HVD_INT16 = 3,
    HVD_INT32 = 4,
    HVD_INT64 = 5,
    HVD_FLOAT16 = 6,
    HVD_FLOAT32 = 7,
    HVD_FLOAT64 = 8,
    HVD_BOOL = 9,
    HVD_BFLOAT16 = 10,
    HVD_UINT32 = 11,
    HVD_UINT64 = 12,
};

#define HVD_DTYPES 13

enum hvd_reduce {
    HVD_AVERAGE = 0,
    HVD_SUM = 1,
    HVD_ADASUM = 2,
    HVD_MIN = 3,
    HVD_MAX = 4,
    HVD_PRODUCT = 5,
};

enum hvd_op {
    HVD_ALLREDUCE = 0,
    HVD_ALLGATHER = 1,
    HVD_BROADCAST = 2,
    HVD_JOIN = 3,
    HVD_ALLTOALL = 5,
    HVD_BARRIER = 6,
    HVD_REDUCESCATTER = 7,
};

/*
 * The scaling of each element of a reduction: result = (prescale * x of each rank, reduced) *
 * (postscale / divisor). A factor of 1 changes nothing. The divisor alone divides integers exactly,
 * rounding towards zero. worker/reduce/reduce.h defines the type of the arithmetic.
 *
 * The transport scales once, with the same bits on every rank.
 */
struct hvd_scaling {
    double prescale;
    double postscale;
    int divisor;
};

/* Where the tensor's memory is. */
enum hvd_device {
    HVD_CPU = 0,
    HVD_GPU = 1,
};

/* A rank's request. The name is borrowed; code that keeps a request must copy it. The first 64
 * bytes contain most of the fields that comparisons read. */
struct hvd_request {
    enum hvd_op op;
    enum hvd_dtype dtype;
    enum hvd_reduce reduce; /* allreduce, reducescatter; HVD_SUM otherwise */
    enum hvd_device device;
    int root; /* broadcast: within the process set; 0 otherwise */
    int ndim;
    double prescale; /* allreduce, reducescatter; 1 otherwise */
    double postscale;
    struct hvd_strview name;
    uint32_t group;      /* shared by tensors of a rank that complete together; 0: no group */
    uint32_t group_size; /* how many tensors share it; 0 without a group */
    int64_t shape[HVD_NDIM_MAX];
};

/* Returns the bytes of one element; 0 for a type that does not exist. */
size_t hvd_dtype_size(int dtype);

/* Returns a name such as "float32"; "unknown" for a type that does not exist. */
const char *hvd_dtype_name(int dtype);

/* Whether its values are real numbers: float16, float32, float64, bfloat16. */
bool hvd_dtype_is_real(enum hvd_dtype dtype);

/* Returns a name such as "ALLREDUCE"; "UNKNOWN" for an operation that does not exist. */
const char *hvd_op_name(int op);

/* Returns a name such as "SUM"; "UNKNOWN" for a reduction that does not exist. */
const char *hvd_reduce_name(int reduce);

/* Computes the number of elements of ndim dimensions. False when a size is negative, or when the
 * product times 8 bytes does not fit 63 bits. *count is untouched then. */
bool hvd_shape_count(const int64_t *shape, int ndim, int64_t *count);

/* Whether the result has the size of each rank's input, as with an allreduce but not an
 * allgather. */
bool hvd_op_keeps_shape(enum hvd_op op);

/* Whether the tensors of the ranks may differ in the first dimension. */
bool hvd_op_is_uneven(enum hvd_op op);

/* Whether two factors have the same bits. The program passes them unchanged to all ranks, and a
 * NaN must equal itself. */
bool hvd_factor_equal(double a, double b);

/* Whether two requests are equal except for name and group, so that an agreement on one is valid
 * for the other. */
bool hvd_request_equal(const struct hvd_request *a, const struct hvd_request *b);

/* Returns the elements of one row, which is a tensor without its first dimension. Requires
 * req->ndim >= 1 and a legal shape. */
int64_t hvd_request_row_elements(const struct hvd_request *req);

/* Returns how many of `rows` rows a scatter gives to a rank; the first ranks get one more. */
int64_t hvd_rows_of(int64_t rows, int rank, int size);

/*
 * Checks a request of a rank in a job of `size`: known values, sizes that can be addressed, an
 * existing root, a name of 1 to 1023 bytes. HVD_ERR_INVALID describes what is wrong.
 */
hvd_status_t hvd_request_check(const struct hvd_request *req, int size, struct hvd_err *err);

#endif
