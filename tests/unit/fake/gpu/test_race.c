/* Every kind of race of the driver's part, each planted once; and the same work in order. */
#include "tests/unit/support.h"

#include <string.h>

#include "tests/unit/fake/gpu/gpu.h"

#define N 100
#define BYTES (N * sizeof(float))

/* Two streams, two blocks, a kernel. */
struct fixture {
    struct CUstream_st *a;
    struct CUstream_st *b;
    struct CUevent_st *event;
    struct CUmod_st *module;
    struct CUfunc_st *add;
    hvd_cu_ptr_t x;
    hvd_cu_ptr_t y;
};

static struct fixture begin(void)
{
    struct fixture f = {0};

    gpu_begin(2);
    f.a = gpu_stream();
    f.b = gpu_stream();
    f.event = gpu_event();
    f.module = gpu_module();
    f.add = gpu_kernel(f.module, "gpu_add");
    f.x = gpu_floats(N, 1);
    f.y = gpu_floats(N, 2);
    return f;
}

static void end(struct fixture *f)
{
    GPU_OK(cuStreamSynchronize(f->a));
    GPU_OK(cuStreamSynchronize(f->b));
    GPU_OK(cuStreamDestroy_v2(f->a));
    GPU_OK(cuStreamDestroy_v2(f->b));
    GPU_OK(cuEventDestroy_v2(f->event));
    GPU_OK(cuModuleUnload(f->module));
    GPU_OK(cuMemFree_v2(f->x));
    GPU_OK(cuMemFree_v2(f->y));
    gpu_end();
}

static void work_in_order_is_no_race(void **state)
{
    struct fixture f = begin();

    (void)state;
    for (int i = 0; i < 20; i++) {
        GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));
        GPU_OK(cuEventRecord(f.event, f.a));
        GPU_OK(cuStreamWaitEvent(f.b, f.event, 0));
        GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.b));
        GPU_OK(cuEventRecord(f.event, f.b));
        GPU_OK(cuStreamWaitEvent(f.a, f.event, 0));
    }
    GPU_OK(cuStreamSynchronize(f.b));
    assert_true(gpu_float_at(f.y, N - 1) == 21);
    end(&f);
}

static void a_write_beside_a_write_is_found_in_any_schedule(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        fake_gpu_set(FAKE_GPU_SEED, seed);
        struct fixture f = begin();
        GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));
        GPU_OK(cuMemcpyDtoDAsync_v2(f.x + 8, f.y, 8, f.b));
        assert_true(fake_gpu_settle(20000));
        const char *text = gpu_expect(FAKE_GPU_RACE);
        assert_non_null(strstr(text, "cuLaunchKernel of gpu_add on stream"));
        assert_non_null(strstr(text, "cuMemcpyDtoDAsync of 8 bytes on stream"));
        end(&f);
    }
}

static void a_read_beside_a_write_is_found_when_one_is_long_over(void **state)
{
    struct fixture f = begin();

    (void)state;
    GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));
    assert_true(fake_gpu_settle(20000)); /* that is no order: the program did not wait */
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.b));
    assert_true(fake_gpu_settle(20000));
    gpu_expect(FAKE_GPU_RACE);
    end(&f);
}

static void a_write_beside_a_read_is_found(void **state)
{
    struct fixture f = begin();

    (void)state;
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.a));
    GPU_OK(cuMemsetD8Async(f.x + BYTES - 1, 0, 1, f.b));
    assert_true(fake_gpu_settle(20000));
    gpu_expect(FAKE_GPU_RACE);
    end(&f);
}

static void reads_beside_reads_and_other_bytes_are_no_race(void **state)
{
    struct fixture f = begin();
    hvd_cu_ptr_t z = gpu_floats(N, 0);

    (void)state;
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.a));
    GPU_OK(cuMemcpyDtoDAsync_v2(z, f.x, BYTES, f.b));
    GPU_OK(cuStreamSynchronize(f.a));
    GPU_OK(cuStreamSynchronize(f.b));
    GPU_OK(cuMemsetD8Async(z, 0, 16, f.a));
    GPU_OK(cuMemsetD8Async(z + 16, 0, 16, f.b));
    GPU_OK(cuStreamSynchronize(f.a));
    GPU_OK(cuStreamSynchronize(f.b));
    GPU_OK(cuMemFree_v2(z));
    end(&f);
}

static void a_query_that_succeeds_orders_and_one_that_does_not_does_not(void **state)
{
    struct fixture f = begin();

    (void)state;
    gpu_hold(f.a);
    GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));
    GPU_OK(cuEventRecord(f.event, f.a));
    assert_int_equal(cuEventQuery(f.event), HVD_CU_NOT_READY);
    gpu_let_go();
    while (cuEventQuery(f.event) == HVD_CU_NOT_READY)
        continue;
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.b));
    GPU_OK(cuStreamSynchronize(f.b));
    assert_int_equal(fake_gpu_found_any(), 0);
    end(&f);
}

static void an_event_orders_what_was_in_front_of_its_record_alone(void **state)
{
    struct fixture f = begin();

    (void)state;
    GPU_OK(cuEventRecord(f.event, f.a));
    GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));
    GPU_OK(cuStreamWaitEvent(f.b, f.event, 0));
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.b));
    assert_true(fake_gpu_settle(20000));
    gpu_expect(FAKE_GPU_RACE);
    end(&f);
}

static void memory_that_is_freed_in_flight_is_found(void **state)
{
    struct fixture f = begin();
    hvd_cu_ptr_t z = gpu_floats(N, 0);
    hvd_cu_ptr_t pool = 0;

    (void)state;
    GPU_OK(gpu_launch_add(f.add, f.a, z, N, 1));
    GPU_OK(cuMemFree_v2(z)); /* it waits, which a program may not rely on */
    gpu_expect(FAKE_GPU_FREE_IN_FLIGHT);

    GPU_OK(cuMemAllocAsync(&pool, BYTES, f.a));
    GPU_OK(cuStreamSynchronize(f.a));
    GPU_OK(gpu_launch_add(f.add, f.a, pool, N, 1));
    GPU_OK(cuMemFreeAsync(pool, f.b));
    assert_true(fake_gpu_settle(20000));
    gpu_expect(FAKE_GPU_FREE_IN_FLIGHT);
    end(&f);
}

static void memory_is_used_neither_before_its_allocation_nor_after_its_end(void **state)
{
    struct fixture f = begin();
    hvd_cu_ptr_t pool = 0;

    (void)state;
    GPU_OK(cuMemAllocAsync(&pool, BYTES, f.a));
    GPU_OK(cuMemsetD8Async(pool, 0, BYTES, f.b));
    assert_true(fake_gpu_settle(20000));
    assert_non_null(strstr(gpu_expect(FAKE_GPU_RACE), "allocates"));
    GPU_OK(cuStreamSynchronize(f.b));
    GPU_OK(cuMemFreeAsync(pool, f.a));
    GPU_OK(cuStreamSynchronize(f.a));
    GPU_OK(cuMemsetD8Async(pool, 0, BYTES, f.a));
    GPU_OK(cuStreamSynchronize(f.a));
    gpu_expect(FAKE_GPU_USE_AFTER_FREE);
    end(&f);
}

static void pinned_memory_is_the_streams_until_the_host_has_waited(void **state)
{
    struct fixture f = begin();
    float *pinned = NULL;

    (void)state;
    GPU_OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    memset(pinned, 0, BYTES);
    gpu_hold(f.a);
    GPU_OK(cuMemcpyHtoDAsync_v2(f.x, pinned, BYTES, f.a));
    pinned[3] = 1; /* too early */
    gpu_let_go();
    GPU_OK(cuStreamSynchronize(f.a));
    gpu_expect(FAKE_GPU_HOST_CHANGED);

    GPU_OK(cuMemcpyDtoHAsync_v2(pinned, f.y, BYTES, f.a));
    assert_true(fake_gpu_settle(20000));
    fake_gpu_host_access(pinned, BYTES, false);
    gpu_expect(FAKE_GPU_RACE);
    GPU_OK(cuStreamSynchronize(f.a));
    fake_gpu_host_access(pinned, BYTES, false);
    assert_true(pinned[N - 1] == 2);
    GPU_OK(cuMemFreeHost(pinned));
    end(&f);
}

/* The host learns from a value that a stream wrote, once it has looked. */
static void a_value_orders_the_host_that_looks_at_it(void **state)
{
    struct fixture f = begin();
    _Atomic uint32_t *number = NULL;
    void *memory = NULL;

    (void)state;
    GPU_OK(cuMemHostAlloc(&memory, sizeof(*number), 0));
    number = memory;
    *number = 0;
    const hvd_cu_ptr_t at = (hvd_cu_ptr_t)(uintptr_t)memory;
    for (uint32_t i = 1; i <= 20; i++) {
        GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));
        GPU_OK(cuStreamWriteValue32_v2(f.a, at, i, 0));
        while (*number != i)
            continue;
        GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.b));
        GPU_OK(cuStreamSynchronize(f.b));
    }
    assert_int_equal(fake_gpu_found_any(), 0);
    GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));
    GPU_OK(cuStreamWriteValue32_v2(f.a, at, 21, 0));
    assert_true(fake_gpu_settle(20000)); /* it is there, and nobody has looked */
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, f.x, BYTES, f.b));
    assert_true(fake_gpu_settle(20000));
    gpu_expect(FAKE_GPU_RACE);
    GPU_OK(cuStreamSynchronize(f.a));
    GPU_OK(cuMemFreeHost(memory));
    end(&f);
}

static void pinned_memory_that_is_guarded_needs_no_announced_access(void **state)
{
    struct fixture f = begin();
    volatile float *pinned = NULL;
    void *memory = NULL;

    (void)state;
    fake_gpu_set(FAKE_GPU_GUARD_PINNED, 1);
    GPU_OK(cuMemHostAlloc(&memory, BYTES, 0));
    pinned = memory;
    for (int i = 0; i < 2; i++) {
        GPU_OK(cuMemcpyDtoHAsync_v2(memory, f.y, BYTES, f.a));
        if (i == 0)
            GPU_OK(cuStreamSynchronize(f.a));
        assert_true(fake_gpu_settle(20000));
        assert_true(pinned[N - 1] == 2);
        (void)cuStreamQuery(f.b); /* any call looks */
        assert_int_equal(fake_gpu_found(FAKE_GPU_RACE), i);
    }
    gpu_expect(FAKE_GPU_RACE);
    fake_gpu_set(FAKE_GPU_GUARD_PINNED, 0);
    GPU_OK(cuStreamSynchronize(f.a));
    GPU_OK(cuMemFreeHost(memory));
    end(&f);
}

static void blocking_streams_are_in_order_with_the_legacy_stream(void **state)
{
    struct fixture f = begin();
    struct CUstream_st *blocking = NULL;

    (void)state;
    GPU_OK(cuStreamCreateWithPriority(&blocking, HVD_CU_STREAM_DEFAULT, 0));
    GPU_OK(gpu_launch_add(f.add, blocking, f.x, N, 1));
    GPU_OK(gpu_launch_add(f.add, NULL, f.x, N, 1));
    GPU_OK(gpu_launch_add(f.add, blocking, f.x, N, 1));
    GPU_OK(cuStreamSynchronize(NULL));
    assert_true(gpu_float_at(f.x, 0) == 4);
    assert_int_equal(fake_gpu_found_any(), 0);
    GPU_OK(gpu_launch_add(f.add, f.a, f.x, N, 1));  /* the host knows what was in front */
    GPU_OK(gpu_launch_add(f.add, NULL, f.x, N, 1)); /* but this stream is not blocking */
    assert_true(fake_gpu_settle(20000));
    gpu_expect(FAKE_GPU_RACE);
    GPU_OK(cuStreamDestroy_v2(blocking));
    end(&f);
}

static void a_read_of_memory_without_a_value_is_found_on_request(void **state)
{
    struct fixture f = begin();
    hvd_cu_ptr_t z = 0;

    (void)state;
    GPU_OK(cuMemAlloc_v2(&z, BYTES));
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, z, BYTES, f.a));
    GPU_OK(cuStreamSynchronize(f.a));
    assert_int_equal(fake_gpu_found_any(), 0);
    fake_gpu_set(FAKE_GPU_REPORT_UNWRITTEN, 1);
    GPU_OK(cuMemcpyDtoDAsync_v2(f.y, z, BYTES, f.a));
    GPU_OK(cuStreamSynchronize(f.a));
    gpu_expect(FAKE_GPU_UNWRITTEN);
    fake_gpu_set(FAKE_GPU_REPORT_UNWRITTEN, 0);
    GPU_OK(cuMemFree_v2(z));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_in_order_is_no_race),
        cmocka_unit_test(a_write_beside_a_write_is_found_in_any_schedule),
        cmocka_unit_test(a_read_beside_a_write_is_found_when_one_is_long_over),
        cmocka_unit_test(a_write_beside_a_read_is_found),
        cmocka_unit_test(reads_beside_reads_and_other_bytes_are_no_race),
        cmocka_unit_test(a_query_that_succeeds_orders_and_one_that_does_not_does_not),
        cmocka_unit_test(an_event_orders_what_was_in_front_of_its_record_alone),
        cmocka_unit_test(memory_that_is_freed_in_flight_is_found),
        cmocka_unit_test(memory_is_used_neither_before_its_allocation_nor_after_its_end),
        cmocka_unit_test(pinned_memory_is_the_streams_until_the_host_has_waited),
        cmocka_unit_test(a_value_orders_the_host_that_looks_at_it),
        cmocka_unit_test(pinned_memory_that_is_guarded_needs_no_announced_access),
        cmocka_unit_test(blocking_streams_are_in_order_with_the_legacy_stream),
        cmocka_unit_test(a_read_of_memory_without_a_value_is_found_on_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
