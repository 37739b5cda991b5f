#ifndef HVD_WORKER_DEVICE_CUDA_KERNELS_H
#define HVD_WORKER_DEVICE_CUDA_KERNELS_H

/*
 * The kernels that copy between tensors and one buffer, and what they read: shared by kernels.cu
 * and the host. One launch copies a list of any length.
 *
 *   table, depends on sizes alone              addresses, one for each piece of the table
 *   ┌ piece 0: offset, bytes                   ┌ tensor 0
 *   │ piece 1                                  │ tensor 1; 0: pack writes zeros,
 *   │ ...                                      │           unpack writes nothing
 *   ├ tile 0: the piece that it begins in      └ ...
 *   │ ...
 *   └ one more tile: the last piece
 *
 * A tile is 4 KiB of the buffer, for one warp. Tile t has bytes of pieces tile[t] to tile[t + 1].
 * worker/device/cuda/pack_table.h makes both arrays.
 *
 * A kernel has one parameter, struct hvd_cuda_args by value. Its blocks have HVD_CUDA_BLOCK
 * threads. Results have the bits of worker/reduce, NaNs included: a scaled NaN is the positive
 * quiet one without payload, and a copied NaN keeps its payload.
 */
#include <stdint.h>

#define HVD_CUDA_TILE_BYTES 4096
#define HVD_CUDA_WARP 32
#define HVD_CUDA_BLOCK 256
#define HVD_CUDA_TILES_PER_BLOCK (HVD_CUDA_BLOCK / HVD_CUDA_WARP)

/* A stretch of the buffer that one tensor fills. Never empty; offsets ascend. */
struct hvd_cuda_piece {
    uint64_t offset; /* bytes in the buffer */
    uint64_t bytes;
};

/* What happens to each element. SCALE: multiplied by the factor. DIVIDE: divided exactly, rounding
 * towards zero. */
enum hvd_cuda_step {
    HVD_CUDA_COPY, /* of any type */
    HVD_CUDA_SCALE_FLOAT16,
    HVD_CUDA_SCALE_BFLOAT16,
    HVD_CUDA_SCALE_FLOAT32,
    HVD_CUDA_SCALE_FLOAT64,
    HVD_CUDA_SCALE_UINT8,
    HVD_CUDA_SCALE_INT8,
    HVD_CUDA_SCALE_UINT16,
    HVD_CUDA_SCALE_INT16,
    HVD_CUDA_SCALE_UINT32,
    HVD_CUDA_SCALE_INT32,
    HVD_CUDA_SCALE_UINT64,
    HVD_CUDA_SCALE_INT64,
    HVD_CUDA_DIVIDE_UINT8,
    HVD_CUDA_DIVIDE_INT8,
    HVD_CUDA_DIVIDE_UINT16,
    HVD_CUDA_DIVIDE_INT16,
    HVD_CUDA_DIVIDE_UINT32,
    HVD_CUDA_DIVIDE_INT32,
    HVD_CUDA_DIVIDE_UINT64,
    HVD_CUDA_DIVIDE_INT64,
};

/* X(enumerator, name, step): every kernel. The last one does the steps of all integers; the others
 * do one step. */
#define HVD_CUDA_KERNELS(X)                                                                        \
    X(HVD_CUDA_KERNEL_COPY, hvd_cuda_copy, HVD_CUDA_COPY)                                          \
    X(HVD_CUDA_KERNEL_FLOAT16, hvd_cuda_float16, HVD_CUDA_SCALE_FLOAT16)                           \
    X(HVD_CUDA_KERNEL_BFLOAT16, hvd_cuda_bfloat16, HVD_CUDA_SCALE_BFLOAT16)                        \
    X(HVD_CUDA_KERNEL_FLOAT32, hvd_cuda_float32, HVD_CUDA_SCALE_FLOAT32)                           \
    X(HVD_CUDA_KERNEL_FLOAT64, hvd_cuda_float64, HVD_CUDA_SCALE_FLOAT64)                           \
    X(HVD_CUDA_KERNEL_INTEGERS, hvd_cuda_integers, (int)args.step)

#define HVD_CUDA_ENUMERATOR(ENUMERATOR, NAME, STEP) ENUMERATOR,
enum hvd_cuda_kernel { HVD_CUDA_KERNELS(HVD_CUDA_ENUMERATOR) HVD_CUDA_N_KERNELS };
#undef HVD_CUDA_ENUMERATOR

/* The parameter of every kernel. Addresses are the device's. */
struct hvd_cuda_args {
    uint64_t table;     /* n_pieces struct hvd_cuda_piece, then n_tiles + 1 uint32_t */
    uint64_t addresses; /* n_pieces uint64_t */
    uint64_t buffer;
    double factor;   /* SCALE. For float16, bfloat16 and float32 rounded to float32 */
    int32_t divisor; /* DIVIDE */
    uint32_t step;   /* enum hvd_cuda_step */
    uint32_t n_pieces;
    uint32_t n_tiles;
    uint32_t is_unpack; /* 0: tensors to buffer */
    uint32_t _unused;
};

#endif
