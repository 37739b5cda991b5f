/*
 * Preloaded before libhorovod: every rank's allreduce gives it back its own input. With it the test
 * of equal losses must fail; otherwise it would not notice gradients that never meet.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include <horovod/horovod.h>

#define NOOP_HANDLE ((horovod_handle_t)-77)

static size_t size_of(const horovod_tensor_t *tensor)
{
    size_t size = tensor->dtype == HOROVOD_FLOAT64 ? sizeof(double) : sizeof(float);

    for (int i = 0; i < tensor->ndim; i++)
        size *= (size_t)tensor->shape[i];
    return size;
}

HOROVOD_API horovod_status_t horovod_allreduce(const void *input, void *output,
                                               const horovod_tensor_t *tensor, horovod_error_t *err)
{
    (void)err;
    memmove(output, input, size_of(tensor));
    return HOROVOD_OK;
}

HOROVOD_API horovod_status_t horovod_allreduce_async(const void *input, void *output,
                                                     const horovod_tensor_t *tensor,
                                                     horovod_handle_t *handle, horovod_error_t *err)
{
    *handle = NOOP_HANDLE;
    return horovod_allreduce(input, output, tensor, err);
}

HOROVOD_API horovod_status_t horovod_wait(horovod_handle_t handle, horovod_error_t *err)
{
    horovod_status_t (*real)(horovod_handle_t, horovod_error_t *) = NULL;

    if (handle == NOOP_HANDLE)
        return HOROVOD_OK;
    *(void **)&real = dlsym(RTLD_NEXT, "horovod_wait");
    return real ? real(handle, err) : HOROVOD_UNKNOWN_ERROR;
}
