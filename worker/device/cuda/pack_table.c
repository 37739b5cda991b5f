/*
 * The arrays that the kernels read; see pack_table.h. Pure arithmetic on the caller's memory. Any
 * thread; no state, nothing is allocated.
 */
#include <inttypes.h>
#include <string.h>

#include "worker/device/cuda/pack_table.h"

/* Tiles have numbers of 32 bits, also those behind the last one in the last block. */
#define MOST_TILES (UINT32_MAX - HVD_CUDA_TILES_PER_BLOCK)
#define MOST_BYTES ((uint64_t)MOST_TILES * HVD_CUDA_TILE_BYTES)

/* Walks over the pieces that are not empty. */
struct walk {
    const struct hvd_pack_list *list;
    int next;
    const struct hvd_piece *piece;
    struct hvd_cuda_piece place;
};

static struct walk begin(const struct hvd_pack_list *list)
{
    return (struct walk){.list = list};
}

static bool advance(struct walk *w)
{
    const struct hvd_pack_list *list = w->list;
    uint64_t end = w->place.offset + w->place.bytes;

    while (w->next < list->n_pieces && list->pieces[w->next].count == 0)
        w->next++;
    if (w->next == list->n_pieces)
        return false;
    if (list->is_padded)
        end = hvd_pack_table_next(end);
    w->piece = &list->pieces[w->next++];
    w->place.offset = end;
    w->place.bytes = (uint64_t)w->piece->count * hvd_dtype_size((int)list->dtype);
    return true;
}

hvd_status_t hvd_pack_table_measure(const struct hvd_pack_list *list, struct hvd_pack_shape *shape,
                                    struct hvd_err *err)
{
    struct walk w = begin(list);
    uint64_t n_pieces = 0;
    uint64_t bytes = 0;

    while (advance(&w)) {
        if ((uint64_t)w.piece->count > MOST_BYTES || w.place.offset + w.place.bytes > MOST_BYTES)
            return HVD_FAIL(err, HVD_ERR_TOO_LARGE, 0,
                            "fused buffer of %d tensors exceeds %" PRIu64 " bytes", list->n_pieces,
                            MOST_BYTES);
        bytes = w.place.offset + w.place.bytes;
        n_pieces++;
    }
    const uint64_t n_tiles = (bytes + HVD_CUDA_TILE_BYTES - 1) / HVD_CUDA_TILE_BYTES;
    const uint64_t n_entries = n_tiles == 0 ? 0 : n_tiles + 1;
    *shape = (struct hvd_pack_shape){
        .buffer_bytes = bytes,
        .table_bytes = n_pieces * sizeof(struct hvd_cuda_piece) + n_entries * sizeof(uint32_t),
        .n_pieces = (uint32_t)n_pieces,
        .n_tiles = (uint32_t)n_tiles,
        .n_blocks = (uint32_t)((n_tiles + HVD_CUDA_TILES_PER_BLOCK - 1) / HVD_CUDA_TILES_PER_BLOCK),
    };
    return HVD_OK;
}

void hvd_pack_table_write(const struct hvd_pack_list *list, const struct hvd_pack_shape *shape,
                          void *table)
{
    struct hvd_cuda_piece *pieces = table;
    uint32_t *tiles = (uint32_t *)(pieces + shape->n_pieces);
    struct walk w = begin(list);
    uint32_t n_tiles = 0;

    for (uint32_t i = 0; advance(&w); i++) {
        const uint64_t end = w.place.offset + w.place.bytes;

        pieces[i] = w.place;
        while ((uint64_t)n_tiles * HVD_CUDA_TILE_BYTES < end)
            tiles[n_tiles++] = i;
    }
    if (shape->n_tiles > 0)
        tiles[n_tiles] = shape->n_pieces - 1;
}

bool hvd_pack_table_fits(const struct hvd_pack_list *list, const struct hvd_pack_shape *shape,
                         const void *table)
{
    const struct hvd_cuda_piece *pieces = table;
    struct walk w = begin(list);
    uint32_t i = 0;

    for (; advance(&w); i++)
        if (i == shape->n_pieces || pieces[i].offset != w.place.offset ||
            pieces[i].bytes != w.place.bytes)
            return false;
    return i == shape->n_pieces;
}

bool hvd_pack_table_addresses(const struct hvd_pack_list *list, bool is_unpack, uint64_t *addresses)
{
    struct walk w = begin(list);
    bool has_changed = false;

    for (; advance(&w); addresses++) {
        const uint64_t address =
            (uint64_t)(uintptr_t)(is_unpack ? w.piece->output : w.piece->input);

        has_changed = has_changed || *addresses != address;
        *addresses = address;
    }
    return has_changed;
}

/* Kernel and steps of a type; HVD_CUDA_COPY: it has no such step. */
struct row {
    enum hvd_cuda_kernel kernel;
    enum hvd_cuda_step scale;
    enum hvd_cuda_step divide;
};

#define INTEGER(TYPE)                                                                              \
    [HVD_##TYPE] = {HVD_CUDA_KERNEL_INTEGERS, HVD_CUDA_SCALE_##TYPE, HVD_CUDA_DIVIDE_##TYPE}
#define REAL(TYPE) [HVD_##TYPE] = {HVD_CUDA_KERNEL_##TYPE, HVD_CUDA_SCALE_##TYPE, HVD_CUDA_COPY}

static const struct row rows[HVD_DTYPES] = {
    INTEGER(UINT8),
    INTEGER(INT8),
    INTEGER(UINT16),
    INTEGER(INT16),
    INTEGER(UINT32),
    INTEGER(INT32),
    INTEGER(UINT64),
    INTEGER(INT64),
    REAL(FLOAT16),
    REAL(BFLOAT16),
    REAL(FLOAT32),
    REAL(FLOAT64),
    [HVD_BOOL] = {HVD_CUDA_KERNEL_COPY, HVD_CUDA_COPY, HVD_CUDA_COPY},
};

/* The step of packing or unpacking, as worker/reduce/scale.c chooses. */
static enum hvd_cuda_step step_of(const struct row *row, const struct hvd_scaling *scaling,
                                  bool is_unpack)
{
    if (!scaling)
        return HVD_CUDA_COPY;
    if (!is_unpack)
        return scaling->prescale == 1 ? HVD_CUDA_COPY : row->scale;
    if (scaling->postscale == 1 && scaling->divisor == 1)
        return HVD_CUDA_COPY;
    return scaling->postscale == 1 && row->divide != HVD_CUDA_COPY ? row->divide : row->scale;
}

enum hvd_cuda_kernel hvd_pack_table_prepare(const struct hvd_pack_list *list,
                                            const struct hvd_pack_shape *shape,
                                            const struct hvd_scaling *scaling, bool is_unpack,
                                            struct hvd_cuda_args *args)
{
    const struct row *row = &rows[list->dtype];
    const enum hvd_cuda_step step = step_of(row, scaling, is_unpack);

    args->factor = 1;
    args->divisor = 1;
    if (step != HVD_CUDA_COPY) {
        args->factor =
            is_unpack ? scaling->postscale / (double)scaling->divisor : scaling->prescale;
        args->divisor = scaling->divisor;
    }
    args->step = step;
    args->n_pieces = shape->n_pieces;
    args->n_tiles = shape->n_tiles;
    args->is_unpack = is_unpack;
    args->_unused = 0;
    return step == HVD_CUDA_COPY ? HVD_CUDA_KERNEL_COPY : row->kernel;
}

/* Whether the piece of w lies behind *whole, in memory and in the buffer. */
static bool follows(const struct walk *w, const struct hvd_piece *whole, uint64_t bytes)
{
    return w->piece->input == (const char *)whole->input + bytes &&
           w->piece->output == (char *)whole->output + bytes &&
           (!w->list->is_padded || bytes % HVD_PACK_ALIGN == 0);
}

int hvd_pack_table_run(const struct hvd_pack_list *list, int first, struct hvd_piece *whole)
{
    const uint64_t width = hvd_dtype_size((int)list->dtype);
    struct walk w = {.list = list, .next = first};
    struct hvd_piece run;
    int end;

    if (!advance(&w) || !w.piece->input || !w.piece->output)
        return 0;
    run = *w.piece;
    for (end = w.next; advance(&w); end = w.next) {
        if (!follows(&w, &run, (uint64_t)run.count * width)) {
            *whole = run;
            return end - first;
        }
        run.count += w.piece->count;
    }
    *whole = run;
    return list->n_pieces - first;
}

bool hvd_pack_table_in_place(const struct hvd_pack_list *list, struct hvd_piece *whole)
{
    struct hvd_piece run;

    if (list->n_pieces == 0 || hvd_pack_table_run(list, 0, &run) < list->n_pieces)
        return false;
    *whole = run;
    return true;
}
