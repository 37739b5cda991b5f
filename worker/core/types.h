#ifndef HVD_WORKER_CORE_TYPES_H
#define HVD_WORKER_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

/* Limits of what a rank may submit; the decoder holds peers to them too. */
#define HVD_NAME_MAX 1023
#define HVD_NDIM_MAX 16
#define HVD_TEXT_MAX 1000

/* Values are those of the public header and of the wire. */
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
 * What happens to every element of a reduction: result = (prescale * x of each rank, reduced) *
 * (postscale / divisor). 1 is no change; the divisor alone divides integers exactly, rounding
 * towards zero. In which type is in worker/reduce/reduce.h.
 * Done once, by the transport, with the same bits on every rank.
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

/* What one rank requests. The name is borrowed; whoever keeps a request copies it. Most of what two
 * requests are compared by lies in the first 64 bytes. */
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
    uint32_t group;      /* tensors of a rank that complete together share a number; 0: alone */
    uint32_t group_size; /* how many share it; 0 when alone */
    int64_t shape[HVD_NDIM_MAX];
};

/* Bytes of one element; 0 for a type that does not exist. */
size_t hvd_dtype_size(int dtype);

/* "float32"; "unknown" for a type that does not exist. */
const char *hvd_dtype_name(int dtype);

/* Whether its values are real numbers: float16, float32, float64, bfloat16. */
bool hvd_dtype_is_real(enum hvd_dtype dtype);

/* "ALLREDUCE"; "UNKNOWN" for an operation that does not exist. */
const char *hvd_op_name(int op);

/* "SUM"; "UNKNOWN" for a reduction that does not exist. */
const char *hvd_reduce_name(int reduce);

/* Elements of ndim sizes, from the first given dimension on; false when a size is negative or the
 * product times 8 bytes does not fit 63 bits. *count is untouched then. */
bool hvd_shape_count(const int64_t *shape, int ndim, int64_t *count);

/* Whether the result of an operation is as large as what each rank brings (an allgather's is not).
 */
bool hvd_op_keeps_shape(enum hvd_op op);

/* Whether ranks may bring tensors that differ in the first dimension. */
bool hvd_op_is_uneven(enum hvd_op op);

/* Whether two factors have the same bits: they came from the program as they are, and a NaN equals
 * itself. */
bool hvd_factor_equal(double a, double b);

/* Whether both request the same, but for name and group: what was agreed for one holds for the
 * other. */
bool hvd_request_equal(const struct hvd_request *a, const struct hvd_request *b);

/* The elements of one row, a tensor without its first dimension. req->ndim >= 1 and a legal shape.
 */
int64_t hvd_request_row_elements(const struct hvd_request *req);

/* How many of `rows` rows go to a rank when they are scattered: the first ranks get one more. */
int64_t hvd_rows_of(int64_t rows, int rank, int size);

/*
 * Whether a request is one that a rank of a job of `size` may make: known values, sizes that can be
 * addressed, a root that exists, a name of 1 to 1023 bytes. HVD_ERR_INVALID with what is wrong.
 */
hvd_status_t hvd_request_check(const struct hvd_request *req, int size, struct hvd_err *err);

#endif
