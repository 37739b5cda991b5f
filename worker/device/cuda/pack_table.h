#ifndef HVD_WORKER_DEVICE_CUDA_PACK_TABLE_H
#define HVD_WORKER_DEVICE_CUDA_PACK_TABLE_H

#include "worker/core/collective.h"
#include "worker/device/cuda/kernels.h"

/*
 * What a launch of a kernel needs, computed from a list of pieces: pure, without CUDA. Any thread.
 *
 * The table depends on the sizes of the pieces alone. An adapter keeps it in device memory as long
 * as hvd_pack_table_fits() holds, and uploads addresses when hvd_pack_table_addresses() reports
 * that they have changed. An unchanged list needs no upload.
 *
 *     hvd_pack_table_measure(&list, &shape, err)        sizes of table, addresses and grid
 *     hvd_pack_table_write(&list, &shape, table)        host memory, for the upload
 *     hvd_pack_table_addresses(&list, false, addresses) the same
 *     args = {.table, .addresses, .buffer}              device addresses
 *     kernel = hvd_pack_table_prepare(&list, &shape, scaling, false, &args)
 *     launch: shape.n_blocks blocks of HVD_CUDA_BLOCK threads, no shared memory, params = {&args}
 */

/* The pieces of a buffer. Empty pieces take no part. */
struct hvd_pack_list {
    const struct hvd_piece *pieces;
    int n_pieces;
    enum hvd_dtype dtype;
    /* Each piece begins at a multiple of 16 bytes of the buffer. Gaps are neither read nor written.
     * Otherwise pieces lie one behind the other, as in the host memory of the port device.h. */
    bool is_padded;
};

#define HVD_PACK_ALIGN 16

/* Returns where a piece of a padded list begins, behind one that ends there. */
static inline uint64_t hvd_pack_table_next(uint64_t end)
{
    return (end + HVD_PACK_ALIGN - 1) / HVD_PACK_ALIGN * HVD_PACK_ALIGN;
}

struct hvd_pack_shape {
    uint64_t buffer_bytes; /* to the end of the last piece. The same on all ranks */
    size_t table_bytes;    /* a multiple of 4; the table is aligned to 8 */
    uint32_t n_pieces;     /* that are not empty; addresses take 8 bytes for each */
    uint32_t n_tiles;
    uint32_t n_blocks; /* of the grid; 0: there is nothing to launch */
};

/* Computes the shape of the list, whose counts are 0 or more. HVD_ERR_TOO_LARGE when a buffer of 16
 * TiB cannot hold it; *shape is untouched then. */
hvd_status_t hvd_pack_table_measure(const struct hvd_pack_list *list, struct hvd_pack_shape *shape,
                                    struct hvd_err *err);

/* Writes shape->table_bytes, as kernels.h draws them. The shape is that of the list. */
void hvd_pack_table_write(const struct hvd_pack_list *list, const struct hvd_pack_shape *shape,
                          void *table);

/* Whether the table, which was written with the shape, is that of the list. */
bool hvd_pack_table_fits(const struct hvd_pack_list *list, const struct hvd_pack_shape *shape,
                         const void *table);

/* Writes the address of each piece that is not empty: the input, or for is_unpack the output; 0 for
 * NULL. Returns whether any address differs from the one that was there. */
bool hvd_pack_table_addresses(const struct hvd_pack_list *list, bool is_unpack,
                              uint64_t *addresses);

/* Returns the kernel that packs with the prescale as hvd_reduce_prescale computes it, or unpacks
 * with postscale and divisor as hvd_reduce_finish does. scaling may be NULL. Sets all fields of
 * *args but table, addresses and buffer. */
enum hvd_cuda_kernel hvd_pack_table_prepare(const struct hvd_pack_list *list,
                                            const struct hvd_pack_shape *shape,
                                            const struct hvd_scaling *scaling, bool is_unpack,
                                            struct hvd_cuda_args *args);

/*
 * Returns how many pieces from `first` on lie one behind the other, in the buffer and in memory, so
 * that one piece without packing replaces them: *whole receives it. Empty pieces count as well.
 * Returns 0, with *whole untouched, when the first piece lacks an input or output, or when all
 * pieces are empty.
 */
int hvd_pack_table_run(const struct hvd_pack_list *list, int first, struct hvd_piece *whole);

/* Whether the list needs no packing: all its pieces are one run. *whole receives it, else it is
 * untouched. It has as many bytes as the buffer that other ranks pack. */
bool hvd_pack_table_in_place(const struct hvd_pack_list *list, struct hvd_piece *whole);

#endif
