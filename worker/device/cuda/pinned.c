/*
 * Pinned memory. To free it waits for all work of the GPU, so also for collectives whose peers may
 * wait for this rank. It is kept for others until the device ends. Any thread, in the context.
 */
#include "base/mem.h"
#include "worker/device/cuda/cuda_internal.h"

struct hvd_cuda_pinned {
    struct hvd_cuda_pinned *next;
    void *memory;
    size_t bytes;
    bool is_used;
};

/* Takes the smallest free block that is large enough; NULL: there is none. */
static void *take_free(struct hvd_cuda_device *g, size_t bytes)
{
    struct hvd_cuda_pinned *best = NULL;

    pthread_mutex_lock(&g->pinned_mu);
    for (struct hvd_cuda_pinned *p = g->pinned; p; p = p->next)
        if (!p->is_used && p->bytes >= bytes && (!best || p->bytes < best->bytes))
            best = p;
    if (best)
        best->is_used = true;
    pthread_mutex_unlock(&g->pinned_mu);
    return best ? best->memory : NULL;
}

hvd_status_t hvd_cuda_pinned_take(struct hvd_cuda_device *g, size_t bytes, void **out,
                                  struct hvd_err *err)
{
    *out = take_free(g, bytes);
    if (*out)
        return HVD_OK;
    struct hvd_cuda_pinned *p = hvd_calloc(1, sizeof(*p));
    if (!p)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for %zu pinned bytes", bytes);
    const hvd_status_t st =
        hvd_cuda_check(g, g->library->cu.cuMemHostAlloc(&p->memory, bytes, HVD_CU_HOST_PORTABLE),
                       "cuMemHostAlloc", err);
    if (st != HVD_OK) {
        hvd_free(p);
        return st;
    }
    *out = p->memory;
    p->bytes = bytes;
    p->is_used = true;
    pthread_mutex_lock(&g->pinned_mu);
    p->next = g->pinned;
    g->pinned = p;
    pthread_mutex_unlock(&g->pinned_mu);
    return HVD_OK;
}

void hvd_cuda_pinned_put(struct hvd_cuda_device *g, void *memory)
{
    pthread_mutex_lock(&g->pinned_mu);
    for (struct hvd_cuda_pinned *p = g->pinned; p; p = p->next)
        if (p->memory == memory)
            p->is_used = false;
    pthread_mutex_unlock(&g->pinned_mu);
}

void hvd_cuda_pinned_destroy(struct hvd_cuda_device *g)
{
    while (g->pinned) {
        struct hvd_cuda_pinned *p = g->pinned;
        g->pinned = p->next;
        (void)g->library->cu.cuMemFreeHost(p->memory);
        hvd_free(p);
    }
}
