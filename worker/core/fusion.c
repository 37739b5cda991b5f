/*
 * Decides which tensors of a plan move together. Pure, linear in the number of tensors. A few
 * batches are open at a time, at most one of each kind. A tensor joins the batch of its kind, or
 * opens a new one in its place.
 */
#include "worker/core/fusion.h"

#include <string.h>

#define OPEN_MAX 16

/* Parts of a kind: all factors are 1, or the factors must be compared. */
#define PLAIN (1U << 30)
#define SCALED (1U << 31)

/* The batches that can still grow. */
struct open {
    uint32_t batches[OPEN_MAX];
    unsigned n;
    unsigned oldest; /* the next one to close when there are too many kinds */
};

uint32_t hvd_fusion_kind(const struct hvd_request *request, int64_t count)
{
    const bool is_plain =
        hvd_factor_equal(request->prescale, 1) && hvd_factor_equal(request->postscale, 1);

    if (request->op != HVD_ALLREDUCE || count <= 0)
        return HVD_FUSION_NEVER;
    return (is_plain ? PLAIN : SCALED) | (uint32_t)request->device << 16 |
           (uint32_t)request->reduce << 8 | (uint32_t)request->dtype;
}

static bool is_same_kind(const struct hvd_fusable *x, const struct hvd_fusable *y)
{
    const struct hvd_request *a = x->request;
    const struct hvd_request *b = y->request;

    return x->kind == y->kind && x->group == y->group &&
           (!(x->kind & SCALED) || (hvd_factor_equal(a->prescale, b->prescale) &&
                                    hvd_factor_equal(a->postscale, b->postscale)));
}

static int64_t bytes_of(const struct hvd_fusable *item)
{
    /* The kind contains the type, and is already in the CPU's cache. */
    const int dtype = item->kind ? (int)(item->kind & 0xff) : (int)item->request->dtype;

    return item->count * (int64_t)hvd_dtype_size(dtype);
}

/* Returns the index of the open batch of that kind, or the index at which to open one. */
static unsigned find_open(struct open *open, const struct hvd_fusable *items,
                          const struct hvd_batch *batches, const struct hvd_fusable *item)
{
    for (unsigned i = 0; i < open->n; i++)
        if (is_same_kind(&items[batches[open->batches[i]].first], item))
            return i;
    if (open->n < OPEN_MAX)
        return open->n;
    open->oldest = (open->oldest + 1) % OPEN_MAX;
    return open->oldest;
}

static bool joins(const struct hvd_batch *batch, const struct hvd_fusable *items,
                  const struct hvd_fusable *item, int64_t bytes, int64_t max_bytes)
{
    return is_same_kind(&items[batch->first], item) && bytes <= max_bytes &&
           batch->bytes <= max_bytes - bytes;
}

uint32_t hvd_fusion_fuse(struct hvd_fusable *items, uint32_t n, int64_t max_bytes,
                         struct hvd_batch *batches)
{
    struct open open = {.n = 0};
    uint32_t n_batches = 0;

    for (uint32_t i = 0; i < n; i++) {
        const int64_t bytes = bytes_of(&items[i]);
        unsigned index = OPEN_MAX;
        items[i].next = HVD_FUSION_END;
        if (items[i].kind != HVD_FUSION_NEVER)
            index = find_open(&open, items, batches, &items[i]);
        if (index < open.n &&
            joins(&batches[open.batches[index]], items, &items[i], bytes, max_bytes)) {
            struct hvd_batch *batch = &batches[open.batches[index]];
            items[batch->last].next = i;
            batch->last = i;
            batch->n++;
            batch->bytes += bytes;
            continue;
        }
        batches[n_batches] = (struct hvd_batch){.first = i, .last = i, .n = 1, .bytes = bytes};
        if (index < OPEN_MAX && bytes <= max_bytes) {
            open.batches[index] = n_batches;
            open.n += index == open.n;
        }
        n_batches++;
    }
    return n_batches;
}
