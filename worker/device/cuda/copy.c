/*
 * Copies between tensors and host memory, and the beginning and the end of all launched work. Runs
 * in the launcher.
 */
#include "base/clock.h"
#include "worker/device/cuda/cuda_internal.h"

static hvd_status_t wait_on(struct hvd_cuda_device *g, struct CUstream_st *stream,
                            struct CUevent_st *event, struct hvd_err *err)
{
    const hvd_cu_result_t result = g->library->cu.cuStreamWaitEvent(stream, event, 0);

    return result == HVD_CU_SUCCESS
               ? HVD_OK
               : hvd_cuda_library_failure(g->library, result, "cuStreamWaitEvent", err);
}

/* Whether a later event of the list is on the same stream of the program, so that this one is done
 * before it. */
static bool is_covered(const struct hvd_cuda_item *item, int i)
{
    const struct hvd_cuda_event *event = (const struct hvd_cuda_event *)item->ready[i];

    if (i + 1 == item->work.n_ready)
        return false;
    const struct hvd_cuda_event *next = (const struct hvd_cuda_event *)item->ready[i + 1];
    return !event->done && !next->done && event->program_stream == next->program_stream &&
           (int32_t)(next->number - event->number) >= 0;
}

hvd_status_t hvd_cuda_await_inputs(struct hvd_cuda_device *g, const struct hvd_cuda_item *item,
                                   struct hvd_cuda_stream *s, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (item->allocations != s->n_allocations)
        st = wait_on(g, s->stream, g->alloc_event, err);
    s->n_allocations = item->allocations;
    for (int i = 0; i < item->work.n_ready && st == HVD_OK; i++) {
        const struct hvd_cuda_event *event = (const struct hvd_cuda_event *)item->ready[i];
        if (!is_covered(item, i))
            st = wait_on(g, s->stream, event->event, err);
    }
    return st;
}

hvd_status_t hvd_cuda_end_work(struct hvd_cuda_device *g, struct hvd_cuda_stream *s,
                               bool is_collective, struct hvd_cuda_event **out, struct hvd_err *err)
{
    struct hvd_cuda_event *event = hvd_cuda_event_take(g, err);

    if (!event)
        return HVD_ERR_NOMEM;
    hvd_status_t st = hvd_cuda_stream_count(g, s, err);
    const hvd_cu_result_t result =
        st == HVD_OK ? g->library->cu.cuEventRecord(event->event, s->stream) : HVD_CU_SUCCESS;
    if (result != HVD_CU_SUCCESS)
        st = hvd_cuda_library_failure(g->library, result, "cuEventRecord", err);
    event->done = s->done;
    event->since_ns = hvd_clock_now_ns();
    event->number = s->n_launched;
    event->is_collective = is_collective;
    *out = event;
    return st;
}

/* Copies a tensor in one direction. */
static hvd_cu_result_t copy_piece(struct hvd_cuda_device *g, const struct hvd_piece *p, bool loads,
                                  char *host, size_t bytes)
{
    const struct hvd_cu_driver_api *cu = &g->library->cu;

    return loads ? cu->cuMemcpyDtoHAsync_v2(host, (hvd_cu_ptr_t)(uintptr_t)p->input, bytes,
                                            g->in.stream)
                 : cu->cuMemcpyHtoDAsync_v2((hvd_cu_ptr_t)(uintptr_t)p->output, host, bytes,
                                            g->out.stream);
}

hvd_status_t hvd_cuda_copy(struct hvd_cuda_device *g, struct hvd_cuda_item *item,
                           struct hvd_cuda_event **out, struct hvd_err *err)
{
    const bool loads = item->work.kind == HVD_DEVICE_LOAD;
    struct hvd_cuda_stream *s = loads ? &g->in : &g->out;
    const size_t width = hvd_dtype_size((int)item->move.dtype);
    char *host = item->work.host;
    hvd_status_t st = hvd_cuda_await_inputs(g, item, s, err);

    for (int i = 0; i < item->work.n_pieces && st == HVD_OK; i++) {
        const struct hvd_piece *p = &item->pieces[i];
        const size_t bytes = (size_t)p->count * width;
        hvd_cu_result_t result = HVD_CU_SUCCESS;
        if (bytes > 0 && (loads ? p->input != NULL : p->output != NULL))
            result = copy_piece(g, p, loads, host, bytes);
        else if (bytes > 0 && loads)
            result =
                g->library->cu.cuMemsetD8Async((hvd_cu_ptr_t)(uintptr_t)host, 0, bytes, s->stream);
        if (result != HVD_CU_SUCCESS)
            st = hvd_cuda_library_failure(g->library, result, loads ? "load" : "unload", err);
        host += bytes;
    }
    return st == HVD_OK ? hvd_cuda_end_work(g, s, false, out, err) : st;
}
