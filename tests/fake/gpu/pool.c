/*
 * The pool of a device, from which memory in stream order comes: how many bytes it has of the
 * device. What is freed stays in it until the host waits; then it keeps as much as its threshold.
 */
#include "tests/fake/gpu/machine.h"

void fake_pool_take(struct CUctx_st *context, size_t bytes)
{
    struct CUmemPoolHandle_st *pool = &context->pool;

    pool->used += bytes;
    if (pool->reserved < pool->used)
        pool->reserved = pool->used;
}

void fake_pool_put(struct CUctx_st *context, size_t bytes)
{
    context->pool.used -= bytes;
}

void fake_pool_trim(struct CUctx_st *context)
{
    struct CUmemPoolHandle_st *pool = &context->pool;
    const uint64_t kept = pool->used > pool->threshold ? pool->used : pool->threshold;

    if (pool->reserved > kept)
        pool->reserved = kept;
}

hvd_cu_result_t cuMemPoolGetAttribute(struct CUmemPoolHandle_st *pool, unsigned int attribute,
                                      void *value)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemPoolGetAttribute);

    if (result == 0 && attribute == HVD_CU_POOL_RELEASE_THRESHOLD)
        *(uint64_t *)value = pool->threshold;
    else if (result == 0 && attribute == HVD_CU_POOL_RESERVED_CURRENT)
        *(uint64_t *)value = pool->reserved;
    else if (result == 0 && attribute == HVD_CU_POOL_USED_CURRENT)
        *(uint64_t *)value = pool->used;
    else if (result == 0)
        result = HVD_CU_INVALID_VALUE;
    return fake_end(result);
}

hvd_cu_result_t cuMemPoolSetAttribute(struct CUmemPoolHandle_st *pool, unsigned int attribute,
                                      void *value)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuMemPoolSetAttribute);

    if (result == 0 && attribute == HVD_CU_POOL_RELEASE_THRESHOLD)
        pool->threshold = *(const uint64_t *)value;
    else if (result == 0)
        result = HVD_CU_INVALID_VALUE;
    return fake_end(result);
}
