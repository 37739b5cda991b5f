/*
 * Functions of the host on a stream, and values in memory that streams write and wait for. A value
 * in pinned memory orders what the host does after it has looked (guard.c). Between streams, values
 * order nothing for the checks of races.
 */
#include "tests/fake/gpu/machine.h"

#include <string.h>

static _Thread_local bool is_host_function;

bool fake_is_host_function(void)
{
    return is_host_function;
}

struct host_call {
    hvd_cu_host_fn call;
    void *data;
};

static enum fake_step step_host(struct fake_op *op)
{
    const struct host_call *call = op->data;

    fake_unlock();
    is_host_function = true;
    call->call(call->data);
    is_host_function = false;
    fake_lock();
    return FAKE_DONE;
}

hvd_cu_result_t cuLaunchHostFunc(struct CUstream_st *handle, hvd_cu_host_fn call, void *data)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuLaunchHostFunc);
    struct CUstream_st *stream = result == 0 ? fake_stream_of(handle, "cuLaunchHostFunc") : NULL;

    if (result == 0 && !stream)
        result = HVD_CU_INVALID_HANDLE;
    if (result == 0) {
        struct host_call *copy = fake_calloc(1, sizeof(*copy));
        *copy = (struct host_call){.call = call, .data = data};
        result = fake_enqueue(
            stream, &(struct fake_op){.call = "cuLaunchHostFunc", .step = step_host, .data = copy},
            NULL, 0);
    }
    return fake_end(result);
}

struct value {
    void *at;
    uint32_t value;
    unsigned flags;
};

static enum fake_step step_write_value(struct fake_op *op)
{
    const struct value *v = op->data;
    struct fake_block *block = fake_block_of(v->at);

    if (block->is_free) {
        fake_report(FAKE_GPU_USE_AFTER_FREE, "%s writes %p, which is freed", op->access->what,
                    v->at);
        return FAKE_DONE;
    }
    if (block->is_host)
        fake_guard_value(op, block);
    __atomic_store_n((uint32_t *)fake_at(v->at), v->value, __ATOMIC_RELEASE);
    return FAKE_DONE;
}

static enum fake_step step_wait_value(struct fake_op *op)
{
    const struct value *v = op->data;
    const uint32_t seen = __atomic_load_n((uint32_t *)fake_at(v->at), __ATOMIC_ACQUIRE);
    const bool is_there = v->flags == HVD_CU_WAIT_VALUE_GEQ  ? (int32_t)(seen - v->value) >= 0
                          : v->flags == HVD_CU_WAIT_VALUE_EQ ? seen == v->value
                                                             : (seen & v->value) != 0;
    return is_there ? FAKE_DONE : FAKE_AGAIN;
}

static hvd_cu_result_t enqueue_value(struct CUstream_st *handle, const struct value *value,
                                     const char *call, enum fake_step (*step)(struct fake_op *))
{
    struct CUstream_st *stream = fake_stream_of(handle, call);
    struct fake_block *block = fake_block_of(value->at);

    if (!stream)
        return HVD_CU_INVALID_HANDLE;
    if (!block || block->is_free || (uintptr_t)value->at % sizeof(uint32_t))
        return HVD_CU_INVALID_VALUE;
    struct value *copy = fake_calloc(1, sizeof(*copy));
    *copy = *value;
    return fake_enqueue(stream, &(struct fake_op){.call = call, .step = step, .data = copy}, NULL,
                        0);
}

hvd_cu_result_t cuStreamWriteValue32_v2(struct CUstream_st *stream, hvd_cu_ptr_t at,
                                        unsigned int value, unsigned int flags)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamWriteValue32_v2);

    if (result == 0)
        result = enqueue_value(
            stream, &(struct value){.at = fake_pointer(at), .value = value, .flags = flags},
            "cuStreamWriteValue32", step_write_value);
    return fake_end(result);
}

hvd_cu_result_t cuStreamWaitValue32_v2(struct CUstream_st *stream, hvd_cu_ptr_t at,
                                       unsigned int value, unsigned int flags)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuStreamWaitValue32_v2);

    if (result == 0)
        result = enqueue_value(
            stream, &(struct value){.at = fake_pointer(at), .value = value, .flags = flags},
            "cuStreamWaitValue32", step_wait_value);
    return fake_end(result);
}
