#ifndef HVD_WORKER_CORE_FUSION_H
#define HVD_WORKER_CORE_FUSION_H

#include "worker/core/types.h"

/* A tensor of a plan, in the agreed order. */
struct hvd_fusable {
    const struct hvd_request *request; /* borrowed */
    int64_t count;                     /* elements */
    uint32_t kind;                     /* of hvd_fusion_kind; HVD_FUSION_NEVER: moves alone */
    uint32_t group;                    /* tensors of different groups do not fuse */
    uint32_t next; /* out: the next of its batch; HVD_FUSION_END behind the last */
};

#define HVD_FUSION_END UINT32_MAX
#define HVD_FUSION_NEVER 0U

/* Returns the kind of a tensor with `count` elements. Tensors of different kinds do not fuse;
 * those of one kind mostly do. HVD_FUSION_NEVER for all but allreduces that move data. */
uint32_t hvd_fusion_kind(const struct hvd_request *request, int64_t count);

/* Tensors that move as one. */
struct hvd_batch {
    uint32_t first; /* index of a hvd_fusable */
    uint32_t last;
    uint32_t n;
    int64_t bytes;
};

/*
 * Divides n tensors into batches of one type, reduction, scaling and group, each of at most
 * max_bytes. A larger tensor is a batch of its own; with 0, every tensor is. Tensors of different
 * types may alternate: each joins the open batch of its type.
 *
 * Batches stand in the order of their first tensors, and tensors keep their order within a batch.
 * Deterministic: every rank gets the same batches from the same input. `batches` has room for n.
 * Returns the number of batches.
 */
uint32_t hvd_fusion_fuse(struct hvd_fusable *items, uint32_t n, int64_t max_bytes,
                         struct hvd_batch *batches);

#endif
