#ifndef HVD_WORKER_PYTHON_CORE_DLPACK_H
#define HVD_WORKER_PYTHON_CORE_DLPACK_H

#include <stdint.h>

/*
 * The binary interface of DLPack, by which Python's array libraries share memory, as far as tensors
 * of the host and of NVIDIA's GPUs need it.
 */

#define HVD_DL_CPU 1
#define HVD_DL_CUDA 2
#define HVD_DL_CUDA_HOST 3 /* pinned */

/* Kinds of elements. */
#define HVD_DL_INT 0
#define HVD_DL_UINT 1
#define HVD_DL_FLOAT 2
#define HVD_DL_BFLOAT 4
#define HVD_DL_BOOL 6

struct hvd_dl_device {
    int32_t type;
    int32_t id;
};

struct hvd_dl_dtype {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct hvd_dl_tensor {
    void *data;
    struct hvd_dl_device device;
    int32_t ndim;
    struct hvd_dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense */
    uint64_t byte_offset;
};

/* The content of a capsule "dltensor". */
struct hvd_dl_managed {
    struct hvd_dl_tensor tensor;
    void *context;
    void (*deleter)(struct hvd_dl_managed *self);
};

/* Returns the calling thread's current stream of a device, which is of one of the types above.
 * Nonzero with an exception. */
typedef int hvd_dl_stream_fn(int32_t device_type, int32_t device, void **stream);

/* The content of the capsule "dlpack_exchange_api" of a type, from DLPack 1.x: functions that need
 * no capsule for each tensor. Functions that are not called here have no type. */
struct hvd_dl_exchange {
    uint32_t major;
    uint32_t minor;
    const struct hvd_dl_exchange *previous; /* of an older major version; NULL: none */
    void (*allocate)(void);
    void (*managed_from_object)(void);
    void (*managed_to_object)(void);
    int (*tensor_from_object)(void *object, struct hvd_dl_tensor *out); /* may be NULL */
    hvd_dl_stream_fn *current_stream;
};

#endif
