/*
 * Device and pinned memory. The arena is one reserved range of addresses of twice FAKE_GPU_ALIAS
 * bytes: the program's pointers, and behind them the alias at which threads of the double access
 * the bytes. No address is used twice, so what is freed stays unmapped. A block ends at the end of
 * a page, up to its alignment, and the page behind it is never mapped.
 */
#include "tests/fake/gpu/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define ALIGNMENT ((size_t)256) /* of cuMemAlloc */
#define BEHIND 0xb5             /* what the rest of the last page holds */
#define NEW 0xa5                /* what memory holds that nobody has written */

static char *arena;
static char *next;
static struct fake_block **blocks; /* by address */
static size_t n_blocks;
static size_t max_blocks;

/* --- The arena -------------------------------------------------------------------------------- */

static void reserve(void)
{
    arena = mmap(NULL, 2 * (size_t)FAKE_GPU_ALIAS, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        fake_die("cannot reserve the addresses of device memory");
    next = arena + PAGE;
}

static bool is_in_arena(const void *at)
{
    return arena && (const char *)at >= arena && (const char *)at < arena + FAKE_GPU_ALIAS;
}

bool fake_is_pageable(const void *at)
{
    return !is_in_arena(at);
}

void *fake_at(const void *at)
{
    return is_in_arena(at) ? FAKE_GPU_AT(at) : (void *)at;
}

struct fake_block *fake_block_of(const void *at)
{
    size_t low = 0;
    size_t high = n_blocks;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (blocks[mid]->at <= (const char *)at)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || (const char *)at >= blocks[low - 1]->at + blocks[low - 1]->bytes)
        return NULL;
    return blocks[low - 1];
}

/* Maps both sides of pinned memory, and the alias of device memory. */
static bool map(struct fake_block *block)
{
    const int access = PROT_READ | PROT_WRITE;

    if (!block->is_host)
        return mprotect(FAKE_GPU_AT(block->first), block->pages, access) == 0;
    block->fd = memfd_create("fake-gpu-pinned", MFD_CLOEXEC);
    return block->fd >= 0 && ftruncate(block->fd, (off_t)block->pages) == 0 &&
           mmap(block->first, block->pages, access, MAP_SHARED | MAP_FIXED, block->fd, 0) !=
               MAP_FAILED &&
           mmap(FAKE_GPU_AT(block->first), block->pages, access, MAP_SHARED | MAP_FIXED, block->fd,
                0) != MAP_FAILED;
}

static void unmap(struct fake_block *block)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

    if (mmap(FAKE_GPU_AT(block->first), block->pages, PROT_NONE, flags, -1, 0) == MAP_FAILED)
        fake_die("mmap");
    if (!block->is_host)
        return;
    if (mmap(block->first, block->pages, PROT_NONE, flags, -1, 0) == MAP_FAILED)
        fake_die("mmap");
    close(block->fd);
}

static void put_block(struct fake_block *block)
{
    if (n_blocks == max_blocks) {
        max_blocks = max_blocks ? 2 * max_blocks : 64;
        blocks = realloc(blocks, max_blocks * sizeof(struct fake_block *));
        if (!blocks)
            fake_die("out of memory");
    }
    blocks[n_blocks++] = block;
}

static struct fake_block *make_block(struct CUctx_st *context, size_t bytes, bool is_host)
{
    struct fake_block *block = fake_calloc(1, sizeof(*block));
    const size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    if (!arena)
        reserve();
    block->pages = (padded + PAGE - 1) / PAGE * PAGE;
    if ((size_t)(arena + FAKE_GPU_ALIAS - next) < block->pages + PAGE)
        fake_die("the addresses of device memory are used up");
    block->first = next;
    block->at = next + block->pages - padded;
    block->bytes = bytes;
    block->is_host = is_host;
    block->context = context;
    next += block->pages + PAGE;
    if (!map(block))
        fake_die("cannot map memory");
    if (bytes <= 64 * PAGE) /* large memory stays untouched until it is used */
        memset(FAKE_GPU_AT(block->at), NEW, bytes);
    memset((char *)FAKE_GPU_AT(block->at) + bytes, BEHIND, padded - bytes);
    put_block(block);
    return block;
}

/* The memory goes. Nobody uses it any more, or that is reported. */
static void end_block(struct fake_block *block)
{
    const size_t padded = (block->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const unsigned char *rest = FAKE_GPU_AT(block->at);

    for (size_t i = block->bytes; i < padded; i++) {
        if (rest[i] == BEHIND)
            continue;
        fake_report(FAKE_GPU_OUT_OF_BOUNDS, "byte %zu of an allocation of %zu at %p is written", i,
                    block->bytes, (void *)block->at);
        break;
    }
    if (block->is_host)
        fake_guard_end(block);
    unmap(block);
    block->is_free = true;
    if (!block->is_host)
        block->context->used_bytes -= block->bytes;
    if (block->is_pooled)
        fake_pool_put(block->context, block->bytes);
}

int fake_memory_leaks(void)
{
    int n = 0;

    for (size_t i = 0; i < n_blocks; i++) {
        if (blocks[i]->is_free)
            continue;
        n++;
        fake_report(FAKE_GPU_LEAK, "%zu bytes of %s memory at %p are not freed", blocks[i]->bytes,
                    blocks[i]->is_host ? "pinned" : "device", (void *)blocks[i]->at);
    }
    return n;
}

/* --- Allocation ------------------------------------------------------------------------------- */

static hvd_cu_result_t take(struct CUctx_st *context, size_t bytes, bool is_host,
                            struct fake_block **out)
{
    const size_t total = (size_t)fake_option(FAKE_GPU_MEMORY_MIB) << 20;

    if (bytes == 0)
        return HVD_CU_INVALID_VALUE;
    if (!is_host && bytes > total - context->used_bytes)
        return HVD_CU_OUT_OF_MEMORY;
    *out = make_block(context, bytes, is_host);
    if (!is_host)
        context->used_bytes += bytes;
    return HVD_CU_SUCCESS;
}

/* An allocation that the host knows: every later work may use it. */
static void begin_by_host(struct fake_block *block, const char *call)
{
    struct CUctx_st *context = block->context;
    struct fake_access *by = fake_access_create(context->host_agent, ++context->host_when, call);

    fake_clock_set(&context->host, context->host_agent, context->host_when);
    fake_access_begin(block, by);
    fake_access_put(by);
}

hvd_cu_result_t cuMemAlloc_v2(hvd_cu_ptr_t *out, size_t bytes)
{
    struct fake_block *block = NULL;
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemAlloc_v2);

    if (result == 0)
        result = take(fake_current(), bytes, false, &block);
    if (result == 0) {
        begin_by_host(block, "cuMemAlloc");
        *out = (hvd_cu_ptr_t)(uintptr_t)block->at;
    }
    return fake_end(result);
}

hvd_cu_result_t cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    struct fake_block *block = NULL;
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemHostAlloc);

    (void)flags;
    if (result == 0)
        result = take(fake_current(), bytes, true, &block);
    if (result == 0) {
        begin_by_host(block, "cuMemHostAlloc");
        *out = block->at;
    }
    return fake_end(result);
}

/* --- Freeing by the host ---------------------------------------------------------------------- */

static struct fake_block *block_to_free(const void *memory, bool is_host, const char *call)
{
    struct fake_block *block = fake_block_of(memory);

    if (!block || block->at != memory || block->is_host != is_host) {
        fake_report(FAKE_GPU_BAD_HANDLE, "%s of %p, which it did not allocate", call, memory);
        return NULL;
    }
    if (block->is_free) {
        fake_report(FAKE_GPU_USE_AFTER_FREE, "%s of %p, which is freed", call, memory);
        return NULL;
    }
    return block;
}

static hvd_cu_result_t free_by_host(const void *memory, bool is_host, const char *call)
{
    struct fake_clock known = {0};

    if (!memory)
        return is_host ? HVD_CU_INVALID_VALUE : HVD_CU_SUCCESS;
    struct fake_block *block = block_to_free(memory, is_host, call);
    if (!block)
        return HVD_CU_INVALID_VALUE;
    struct CUctx_st *context = block->context;
    /* What the host knew before the call: that the call itself waits is nothing to rely on. */
    fake_clock_join(&known, &context->host);
    if (fake_option(FAKE_GPU_FREE_WAITS)) {
        fake_check_blocking(context, call);
        fake_wait_idle(context);
    }
    struct fake_access *by = fake_access_create(context->host_agent, context->host_when + 1, call);
    if (!block->is_free) {
        fake_access_free(block, by, &known);
        end_block(block);
    }
    fake_access_put(by);
    fake_clock_fini(&known);
    return context->broken;
}

hvd_cu_result_t cuMemFree_v2(hvd_cu_ptr_t memory)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemFree_v2);

    if (result == 0)
        result = free_by_host(fake_pointer(memory), false, "cuMemFree");
    return fake_end(result);
}

hvd_cu_result_t cuMemFreeHost(void *memory)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemFreeHost);

    if (result == 0)
        result = free_by_host(memory, true, "cuMemFreeHost");
    return fake_end(result);
}

/* --- In the order of a stream ----------------------------------------------------------------- */

static enum fake_step do_nothing(struct fake_op *op)
{
    (void)op;
    return FAKE_DONE;
}

static hvd_cu_result_t alloc_async(hvd_cu_ptr_t *out, size_t bytes, struct CUstream_st *handle)
{
    struct CUstream_st *stream = fake_stream_of(handle, "cuMemAllocAsync");
    const struct fake_op op = {.call = "cuMemAllocAsync", .step = do_nothing};
    struct fake_block *block = NULL;

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    hvd_cu_result_t result = take(stream->context, bytes, false, &block);
    if (result == 0) {
        block->is_pooled = true;
        fake_pool_take(stream->context, bytes);
        result = fake_enqueue(stream, &op, NULL, 0);
    }
    if (result != 0)
        return result;
    struct fake_access *by = fake_access_create(stream->agent, stream->enqueued, "cuMemAllocAsync");
    snprintf(by->what, sizeof(by->what), "cuMemAllocAsync on stream %d", stream->number);
    fake_access_begin(block, by);
    fake_access_put(by);
    *out = (hvd_cu_ptr_t)(uintptr_t)block->at;
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuMemAllocAsync(hvd_cu_ptr_t *out, size_t bytes, struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemAllocAsync);

    if (result == 0)
        result = alloc_async(out, bytes, stream);
    return fake_end(result);
}

static enum fake_step step_free(struct fake_op *op)
{
    struct fake_block *block = fake_block_of(*(void **)op->data);

    if (block->is_free) {
        fake_report(FAKE_GPU_USE_AFTER_FREE, "%s frees %p again", op->access->what,
                    (void *)block->at);
        return FAKE_DONE;
    }
    fake_access_free(block, op->access, &op->clock);
    end_block(block);
    return FAKE_DONE;
}

static hvd_cu_result_t free_async(const void *memory, struct CUstream_st *handle)
{
    struct CUstream_st *stream = fake_stream_of(handle, "cuMemFreeAsync");
    struct fake_op op = {.call = "cuMemFreeAsync", .step = step_free};

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    if (!memory)
        return HVD_CU_SUCCESS;
    if (!block_to_free(memory, false, "cuMemFreeAsync"))
        return HVD_CU_INVALID_VALUE;
    const void **data = fake_calloc(1, sizeof(*data));
    *data = memory;
    op.data = data;
    return fake_enqueue(stream, &op, NULL, 0);
}

hvd_cu_result_t cuMemFreeAsync(hvd_cu_ptr_t memory, struct CUstream_st *stream)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemFreeAsync);

    if (result == 0)
        result = free_async(fake_pointer(memory), stream);
    return fake_end(result);
}

/* --- Questions -------------------------------------------------------------------------------- */

hvd_cu_result_t cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemGetInfo_v2);

    if (result == 0) {
        *total_bytes = (size_t)fake_option(FAKE_GPU_MEMORY_MIB) << 20;
        *free_bytes = *total_bytes - fake_current()->used_bytes;
    }
    return fake_end(result);
}

static hvd_cu_result_t attribute_of(unsigned int attribute, void *value, struct fake_block *block,
                                    const void *at)
{
    switch (attribute) {
    case HVD_CU_POINTER_CONTEXT:
        *(struct CUctx_st **)value = block ? block->context : NULL;
        return HVD_CU_SUCCESS;
    case HVD_CU_POINTER_MEMORY_TYPE:
        *(unsigned *)value = !block           ? 0
                             : block->is_host ? HVD_CU_MEMORY_HOST
                                              : HVD_CU_MEMORY_DEVICE;
        return HVD_CU_SUCCESS;
    case HVD_CU_POINTER_DEVICE_POINTER:
        *(hvd_cu_ptr_t *)value = block ? (hvd_cu_ptr_t)(uintptr_t)at : 0;
        return HVD_CU_SUCCESS;
    case HVD_CU_POINTER_HOST_POINTER:
        *(const void **)value = block && block->is_host ? at : NULL;
        return HVD_CU_SUCCESS;
    case HVD_CU_POINTER_IS_MANAGED:
        *(unsigned *)value = 0;
        return HVD_CU_SUCCESS;
    case HVD_CU_POINTER_DEVICE_ORDINAL:
        *(int *)value = block ? block->context->device : -2;
        return HVD_CU_SUCCESS;
    case HVD_CU_POINTER_RANGE_START:
        *(hvd_cu_ptr_t *)value = block ? (hvd_cu_ptr_t)(uintptr_t)block->at : 0;
        return HVD_CU_SUCCESS;
    case HVD_CU_POINTER_RANGE_SIZE:
        *(size_t *)value = block ? block->bytes : 0;
        return HVD_CU_SUCCESS;
    default:
        return HVD_CU_INVALID_VALUE;
    }
}

hvd_cu_result_t cuPointerGetAttributes(unsigned int n, unsigned int *attributes, void **values,
                                       hvd_cu_ptr_t memory)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuPointerGetAttributes);
    const void *at = fake_pointer(memory);
    struct fake_block *block = result ? NULL : fake_block_of(at);

    if (block && block->is_free)
        block = NULL;
    for (unsigned i = 0; i < n && result == 0; i++)
        result = attribute_of(attributes[i], values[i], block, at);
    return fake_end(result);
}

/* --- Control ---------------------------------------------------------------------------------- */

void fake_gpu_host_access(const void *at, size_t bytes, bool is_write)
{
    fake_lock();
    struct fake_block *block = fake_block_of(at);
    if (!block || block->is_free || !block->is_host)
        fake_report(FAKE_GPU_OUT_OF_BOUNDS, "the host accesses %p, which is no pinned memory", at);
    else
        fake_access_host(block, at, bytes, is_write);
    fake_unlock();
}

void fake_gpu_peek(void *to, uint64_t from, size_t bytes)
{
    fake_lock();
    memcpy(to, FAKE_GPU_AT(fake_pointer(from)), bytes);
    fake_unlock();
}

void fake_gpu_poke(uint64_t to, const void *from, size_t bytes)
{
    fake_lock();
    memcpy(FAKE_GPU_AT(fake_pointer(to)), from, bytes);
    fake_unlock();
}
