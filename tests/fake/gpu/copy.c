/*
 * Copies and fills. With pageable memory of the host a copy is not asynchronous: the call waits for
 * the stream. From pinned memory it is, so the program must not change that memory before the copy
 * has run; a hash of it finds that.
 */
#include "tests/fake/gpu/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { UPLOAD, DOWNLOAD, WITHIN, FILL };

struct copy {
    enum kind kind;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
    struct fake_block *pinned; /* that an upload reads */
    uint64_t n_writes;         /* to it, when the copy was enqueued */
    uint64_t hash;
};

static uint64_t hash_of(const void *at, size_t bytes)
{
    const unsigned char *p = at;
    uint64_t hash = 1469598103934665603ULL;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 1099511628211ULL;
    return hash;
}

static bool check_side(struct fake_op *op, const void *at, size_t bytes, bool is_write)
{
    return fake_is_pageable(at) || fake_access_range(op, at, bytes, is_write);
}

static enum fake_step step(struct fake_op *op)
{
    const struct copy *copy = op->data;

    if (!check_side(op, copy->to, copy->bytes, true))
        return FAKE_DONE;
    if (copy->kind == FILL) {
        memset(fake_at(copy->to), copy->value, copy->bytes);
        return FAKE_DONE;
    }
    if (!check_side(op, copy->from, copy->bytes, false))
        return FAKE_DONE;
    if (copy->pinned && copy->pinned->n_writes == copy->n_writes &&
        hash_of(fake_at(copy->from), copy->bytes) != copy->hash)
        fake_report(FAKE_GPU_HOST_CHANGED, "%s from %p", op->access->what, copy->from);
    memmove(fake_at(copy->to), fake_at(copy->from), copy->bytes);
    return FAKE_DONE;
}

/* Whether the address may be used as memory of the device; pinned memory may, too. */
static bool is_device_side(const void *at, const char *call)
{
    if (!fake_is_pageable(at))
        return true;
    fake_report(FAKE_GPU_OUT_OF_BOUNDS, "%s with %p as device memory", call, at);
    return false;
}

static bool is_host_side(const void *at, const char *call)
{
    const struct fake_block *block = fake_is_pageable(at) ? NULL : fake_block_of(at);

    if (fake_is_pageable(at) || (block && block->is_host))
        return true;
    fake_report(FAKE_GPU_OUT_OF_BOUNDS, "%s with %p, which is device memory, as memory of the host",
                call, at);
    return false;
}

static void count(enum kind kind)
{
    if (fake_is_program())
        return;
    fake_counts()->uploads += kind == UPLOAD;
    fake_counts()->downloads += kind == DOWNLOAD;
}

static hvd_cu_result_t enqueue(struct CUstream_st *stream, struct copy *copy, const char *call)
{
    struct copy *kept = fake_calloc(1, sizeof(*kept));
    struct fake_op op = {.call = call, .step = step, .data = kept};

    if (copy->kind == UPLOAD && !fake_is_pageable(copy->from)) {
        copy->pinned = fake_block_of(copy->from);
        copy->n_writes = copy->pinned->n_writes;
        copy->hash = hash_of(fake_at(copy->from), copy->bytes);
    }
    *kept = *copy;
    snprintf(op.what, sizeof(op.what), "of %zu bytes", copy->bytes);
    count(copy->kind);
    return fake_enqueue(stream, &op, NULL, 0);
}

static hvd_cu_result_t copy_on(struct CUstream_st *handle, struct copy *copy, const char *call)
{
    struct CUstream_st *stream = fake_stream_of(handle, call);
    const void *host = copy->kind == UPLOAD ? copy->from : copy->kind == DOWNLOAD ? copy->to : NULL;
    const void *device = copy->kind == UPLOAD ? copy->to : copy->from;

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    if (stream->context->broken)
        return stream->context->broken;
    if (copy->bytes == 0)
        return HVD_CU_SUCCESS;
    if ((host && !is_host_side(host, call)) || (device && !is_device_side(device, call)) ||
        (copy->kind >= WITHIN && !is_device_side(copy->to, call)))
        return HVD_CU_INVALID_VALUE;
    const hvd_cu_result_t result = enqueue(stream, copy, call);
    if (result != 0 || !host || !fake_is_pageable(host))
        return result;
    fake_count_blocking();
    if (copy->kind == DOWNLOAD)
        fake_wait_stream(stream);
    else /* the bytes may be in a staging buffer yet: the host knows nothing about the stream */
        fake_wait_for(stream, stream->enqueued);
    return stream->context->broken;
}

hvd_cu_result_t cuMemcpyHtoDAsync_v2(hvd_cu_ptr_t to, const void *from, size_t bytes,
                                     struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemcpyHtoDAsync_v2);
    struct copy copy = {.kind = UPLOAD, .to = fake_pointer(to), .from = from, .bytes = bytes};

    if (result == 0)
        result = copy_on(stream, &copy, "cuMemcpyHtoDAsync");
    return fake_end(result);
}

hvd_cu_result_t cuMemcpyDtoHAsync_v2(void *to, hvd_cu_ptr_t from, size_t bytes,
                                     struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemcpyDtoHAsync_v2);
    struct copy copy = {.kind = DOWNLOAD, .to = to, .from = fake_pointer(from), .bytes = bytes};

    if (result == 0)
        result = copy_on(stream, &copy, "cuMemcpyDtoHAsync");
    return fake_end(result);
}

hvd_cu_result_t cuMemcpyDtoDAsync_v2(hvd_cu_ptr_t to, hvd_cu_ptr_t from, size_t bytes,
                                     struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemcpyDtoDAsync_v2);
    struct copy copy = {
        .kind = WITHIN, .to = fake_pointer(to), .from = fake_pointer(from), .bytes = bytes};

    if (result == 0)
        result = copy_on(stream, &copy, "cuMemcpyDtoDAsync");
    return fake_end(result);
}

hvd_cu_result_t cuMemsetD8Async(hvd_cu_ptr_t to, unsigned char value, size_t bytes,
                                struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemsetD8Async);
    struct copy copy = {.kind = FILL, .to = fake_pointer(to), .bytes = bytes, .value = value};

    if (result == 0)
        result = copy_on(stream, &copy, "cuMemsetD8Async");
    return fake_end(result);
}

/* On the legacy stream, and until it is done. */
static hvd_cu_result_t copy_now(struct copy *copy, const char *call)
{
    const void *host = copy->kind == UPLOAD ? copy->from : copy->to;
    const hvd_cu_result_t result = copy_on(NULL, copy, call);

    if (result == 0 && copy->bytes && !fake_is_pageable(host))
        fake_wait_stream(fake_current()->legacy);
    return result ? result : fake_current()->broken;
}

hvd_cu_result_t cuMemcpyDtoH_v2(void *to, hvd_cu_ptr_t from, size_t bytes)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemcpyDtoH_v2);
    struct copy copy = {.kind = DOWNLOAD, .to = to, .from = fake_pointer(from), .bytes = bytes};

    if (result == 0)
        result = copy_now(&copy, "cuMemcpyDtoH");
    return fake_end(result);
}

hvd_cu_result_t cuMemcpyHtoD_v2(hvd_cu_ptr_t to, const void *from, size_t bytes)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemcpyHtoD_v2);
    struct copy copy = {.kind = UPLOAD, .to = fake_pointer(to), .from = from, .bytes = bytes};

    if (result == 0)
        result = copy_now(&copy, "cuMemcpyHtoD");
    return fake_end(result);
}
