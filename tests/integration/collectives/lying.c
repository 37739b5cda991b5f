/*
 * Preloaded before libhorovod: the last rank gets results that are wrong by one bit. Every program
 * of examples/collectives must notice, or it does not check what it shows.
 */
#include <dlfcn.h>
#include <stddef.h>

#include <horovod/horovod.h>

static void *group_output; /* the first one; NULL once it is spoiled */

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static bool is_victim(void)
{
    return horovod_rank() == horovod_size() - 1;
}

static horovod_status_t spoil(horovod_status_t status, void *output)
{
    if (status == HOROVOD_OK && is_victim())
        *(unsigned char *)output ^= 1;
    return status;
}

typedef horovod_status_t (*two_buffers_fn)(const void *input, void *output,
                                           const horovod_tensor_t *tensor, horovod_error_t *err);

#define SPOILED(name)                                                                              \
    HOROVOD_API horovod_status_t name(const void *input, void *output,                             \
                                      const horovod_tensor_t *tensor, horovod_error_t *err)        \
    {                                                                                              \
        two_buffers_fn fn = NULL;                                                                  \
        *(void **)&fn = real(#name);                                                               \
        return fn ? spoil(fn(input, output, tensor, err), output) : HOROVOD_UNKNOWN_ERROR;         \
    }

SPOILED(horovod_allreduce)
SPOILED(horovod_broadcast)
SPOILED(horovod_reducescatter)

/* What the library has made is as writable as anything. */
HOROVOD_API const void *horovod_output_data(const horovod_output_t *output)
{
    const void *(*fn)(const horovod_output_t *output) = NULL;

    *(void **)&fn = real("horovod_output_data");
    union {
        const void *read;
        void *write;
    } data = {.read = fn ? fn(output) : NULL};
    if (data.write)
        (void)spoil(HOROVOD_OK, data.write);
    return data.read;
}

HOROVOD_API horovod_status_t horovod_grouped_allreduce_async(int n, const void *const *inputs,
                                                             void *const *outputs,
                                                             const horovod_tensor_t *const *tensors,
                                                             horovod_handle_t *handles,
                                                             horovod_error_t *err)
{
    horovod_status_t (*fn)(int, const void *const *, void *const *, const horovod_tensor_t *const *,
                           horovod_handle_t *, horovod_error_t *) = NULL;

    *(void **)&fn = real("horovod_grouped_allreduce_async");
    group_output = outputs[0];
    return fn ? fn(n, inputs, outputs, tensors, handles, err) : HOROVOD_UNKNOWN_ERROR;
}

HOROVOD_API horovod_status_t horovod_wait(horovod_handle_t handle, horovod_error_t *err)
{
    horovod_status_t (*fn)(horovod_handle_t, horovod_error_t *) = NULL;

    *(void **)&fn = real("horovod_wait");
    const horovod_status_t status = fn ? fn(handle, err) : HOROVOD_UNKNOWN_ERROR;
    void *output = group_output;
    group_output = NULL; /* once */
    return output ? spoil(status, output) : status;
}

HOROVOD_API horovod_status_t horovod_join(int *last_rank, horovod_error_t *err)
{
    horovod_status_t (*fn)(int *, horovod_error_t *) = NULL;

    *(void **)&fn = real("horovod_join");
    const horovod_status_t status = fn ? fn(last_rank, err) : HOROVOD_UNKNOWN_ERROR;
    return spoil(status, last_rank);
}

/* The other ranks do not wait for the last one. */
HOROVOD_API horovod_status_t horovod_barrier(horovod_error_t *err)
{
    (void)err;
    return is_victim() ? HOROVOD_UNKNOWN_ERROR : HOROVOD_OK;
}
