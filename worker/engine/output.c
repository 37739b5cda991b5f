/*
 * Memory of gathered tensors. The engine allocates it once the sizes are agreed, and the wait
 * passes it to the program. It needs no lock, because one side owns it at a time.
 */

#include "worker/engine/output.h"

#include "base/mem.h"

hvd_status_t hvd_output_create(int n_ranks, struct horovod_output **out)
{
    const size_t n = (size_t)n_ranks;
    struct horovod_output *output = hvd_calloc(1, sizeof(*output) + 2 * n * sizeof(int64_t));

    if (!output)
        return HVD_ERR_NOMEM;
    output->n_ranks = n_ranks;
    output->counts = output->rows + n;
    *out = output;
    return HVD_OK;
}

hvd_status_t hvd_output_reserve(struct horovod_output *output, size_t bytes)
{
    output->bytes = bytes;
    if (bytes == 0)
        return HVD_OK;
    output->data = hvd_malloc(bytes, 1);
    return output->data ? HVD_OK : HVD_ERR_NOMEM;
}

void hvd_output_destroy(struct horovod_output *output)
{
    if (!output)
        return;
    if (output->is_borrowed)
        output->data = NULL;
    if (output->device && output->data)
        output->device->ops->free(output->device, output->data, output->after);
    else
        hvd_free(output->data);
    hvd_device_event_release(output->after);
    hvd_device_release(output->device);
    hvd_free(output);
}
