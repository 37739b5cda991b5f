/*
 * The GPU of this rank. The adapter for it is opened for the first tensor on a GPU, never by
 * horovod_init, because that takes memory of the GPU which the program may not want to use. The
 * engine borrows the adapter, and the job and outputs are its users. Any thread.
 */
#include "worker/api/devices.h"

#include <pthread.h>

#include "worker/api/providers.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Returns the provider of devices; NULL: there is none. */
static const struct hvd_provider *provider(void)
{
    const struct hvd_provider *cuda = hvd_providers_find("cuda");

    return cuda && cuda->open_device ? cuda : NULL;
}

/* Without NCCL on one rank, the GPUs of all ranks exchange tensors through host memory. */
static void warn_of_detour(const struct hvd_engine *engine, const struct hvd_device_port *device,
                           const char *why)
{
    const struct hvd_log *log = NULL;

    (void)hvd_api_telemetry(&log);
    hvd_log(
        log, HVD_LOG_WARN, "api",
        "%s of rank %d has no NCCL that can be used (%s): the tensors of all ranks move through "
        "the memory of the host, which is slow",
        device->name, hvd_engine_topology(engine)->rank, why);
}

/* Opens the GPU for the engine, unless another thread has. */
static hvd_status_t open_gpu(struct hvd_engine *engine, int ordinal, struct hvd_err *err)
{
    const struct hvd_provider *cuda = provider();
    struct hvd_cuda_options options = hvd_api_device_options();
    struct hvd_device_port *device = NULL;
    hvd_status_t st = HVD_OK;

    if (!cuda)
        return HVD_FAIL(err, HVD_ERR_NOT_FOUND, 0, "this library was built without CUDA");
    options.ordinal = ordinal;
    pthread_mutex_lock(&opening);
    if (!hvd_engine_device(engine)) {
        st = cuda->open_device(&options, &device, err);
        if (st == HVD_OK)
            hvd_engine_use_device(engine, device);
        if (st == HVD_OK && !device->ops->moves && !options.has_no_nccl)
            warn_of_detour(engine, device, cuda->problem());
    }
    pthread_mutex_unlock(&opening);
    return st == HVD_OK ? st : HVD_WRAP(err, st, "GPU %d cannot be used", ordinal);
}

hvd_status_t hvd_api_device_of(struct hvd_engine *engine, const horovod_tensor_t *tensor,
                               struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    if (tensor->memory != HOROVOD_MEMORY_CUDA)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "memory is %d: 0 is the host, 1 is CUDA",
                        (int)tensor->memory);
    if (!hvd_engine_device(engine))
        st = open_gpu(engine, tensor->device, err);
    if (st == HVD_ERR_NOT_FOUND)
        st = HVD_ERR_INVALID;
    if (st != HVD_OK)
        return st;
    const int mine = hvd_engine_device(engine)->ordinal;
    if (mine != tensor->device)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0,
                        "it is on GPU %d, and this rank uses GPU %d: a rank has one GPU, which its "
                        "first tensor chooses; start a rank for each GPU",
                        tensor->device, mine);
    return HVD_OK;
}

hvd_status_t hvd_api_check_gpu_memory(const horovod_tensor_t *tensor, const void *memory,
                                      const char *what, struct hvd_err *err)
{
    const struct hvd_provider *cuda = provider();
    const int ordinal = cuda ? cuda->ordinal_of(memory) : -1;
    const size_t width = hvd_dtype_size((int)tensor->dtype);

    if (ordinal >= 0 && (uintptr_t)memory % width != 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s is not aligned for its type: to %zu bytes",
                        what, width);
    if (ordinal == tensor->device)
        return HVD_OK;
    if (ordinal < 0)
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s is not memory of a GPU", what);
    return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s is memory of GPU %d, and device is %d", what,
                    ordinal, tensor->device);
}

hvd_status_t hvd_api_mark_input(struct hvd_engine *engine, const horovod_tensor_t *tensor,
                                struct hvd_api_mark *last, struct hvd_err *err)
{
    struct hvd_device_port *device = hvd_engine_device(engine);

    if (tensor->memory == HOROVOD_MEMORY_HOST || (last->is_there && last->stream == tensor->stream))
        return HVD_OK;
    hvd_api_mark_drop(last);
    const hvd_status_t st = device->ops->mark(device, tensor->stream, &last->event, err);
    last->is_there = st == HVD_OK;
    last->stream = tensor->stream;
    return st;
}

void hvd_api_mark_drop(struct hvd_api_mark *last)
{
    if (last->is_there)
        hvd_device_event_release(last->event);
    *last = (struct hvd_api_mark){.is_there = false};
}

void horovod_output_release(horovod_output_t *output)
{
    struct hvd_device_event *mark = NULL;

    if (output && output->device && hvd_api_is_forked())
        return; /* the memory is the parent's, and the GPU cannot be used here */
    if (!output || !output->device || !output->has_stream) {
        hvd_output_destroy(output);
        return;
    }
    struct hvd_device_port *device = output->device;
    const hvd_status_t st = device->ops->mark(device, output->stream, &mark, NULL);
    /* Without a mark nothing says when the stream has read the memory. So it stays in use. */
    output->is_borrowed = output->is_borrowed || st != HVD_OK;
    if (st == HVD_OK) {
        hvd_device_event_release(output->after);
        output->after = mark;
    }
    hvd_output_destroy(output);
}

int horovod_output_device(const horovod_output_t *output)
{
    return output->device ? output->device->ordinal : -1;
}
