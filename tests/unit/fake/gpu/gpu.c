#include "tests/unit/support.h"

#include "tests/unit/fake/gpu/gpu.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry gpu_add(\n\t.param .u64 p\n)\n{\n}\n"
                          ".visible .entry gpu_sum(\n\t.param .u64 p\n)\n{\n}\n"
                          ".visible .entry gpu_nowhere(\n)\n{\n}\n";

static struct CUctx_st *contexts[FAKE_KERNEL_PARAMS];
static int n_contexts;
static atomic_bool is_held;

/* --- Kernels ---------------------------------------------------------------------------------- */

static unsigned index_of_thread(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

static void add_call(void **params)
{
    float *p = FAKE_GPU_AT(*(float **)params[0]);
    const unsigned n = *(unsigned *)params[1];

    if (index_of_thread() < n)
        p[index_of_thread()] += *(float *)params[2];
}

static void add_ranges(void **params, fake_range_fn add, void *to)
{
    const size_t bytes = *(unsigned *)params[1] * sizeof(float);

    (void)add(to, *(void **)params[0], bytes, false);
    (void)add(to, *(void **)params[0], bytes, true);
}

static void sum_call(void **params)
{
    float *out = FAKE_GPU_AT(*(float **)params[0]);
    const float *in = FAKE_GPU_AT(*(float **)params[1]);
    const unsigned n = *(unsigned *)params[2];

    if (index_of_thread() < n)
        out[index_of_thread()] += in[index_of_thread()];
}

static void sum_ranges(void **params, fake_range_fn add, void *to)
{
    const size_t bytes = *(unsigned *)params[2] * sizeof(float);

    (void)add(to, *(void **)params[1], bytes, false);
    (void)add(to, *(void **)params[0], bytes, true);
}

static const struct fake_kernel kernels[] = {
    {.name = "gpu_add",
     .call = add_call,
     .ranges = add_ranges,
     .param_bytes = {sizeof(void *), sizeof(unsigned), sizeof(float)}},
    {.name = "gpu_sum",
     .call = sum_call,
     .ranges = sum_ranges,
     .param_bytes = {sizeof(void *), sizeof(void *), sizeof(unsigned)}},
    {0},
};

/* --- Beginning and end ------------------------------------------------------------------------ */

void gpu_begin(int n_devices)
{
    if (n_contexts == 0) {
        fake_gpu_set(FAKE_GPU_GPUS, n_devices);
        fake_gpu_add_kernels(kernels);
        GPU_OK(cuInit(0));
        n_contexts = n_devices;
    }
    for (int i = 0; i < n_contexts; i++)
        GPU_OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    GPU_OK(cuCtxPushCurrent_v2(contexts[0]));
    fake_gpu_set(FAKE_GPU_FATAL, 0);
    fake_gpu_forget();
}

void gpu_end(void)
{
    char text[512];

    gpu_let_go();
    assert_true(fake_gpu_settle(20000));
    GPU_OK(cuCtxPopCurrent_v2(NULL));
    for (int i = 0; i < n_contexts; i++)
        GPU_OK(cuDevicePrimaryCtxRelease_v2(i));
    fake_gpu_check_leaks();
    fake_gpu_last_finding(text, sizeof(text));
    assert_string_equal(text, "");
}

struct CUctx_st *gpu_context(int device)
{
    return contexts[device];
}

const char *gpu_expect(enum fake_gpu_finding finding)
{
    static char text[512];

    fake_gpu_last_finding(text, sizeof(text));
    if (fake_gpu_found(finding) != 1 || fake_gpu_found_any() != 1)
        print_error("%d of the kind, %d in all; the last: %s\n", fake_gpu_found(finding),
                    fake_gpu_found_any(), text);
    assert_int_equal(fake_gpu_found(finding), 1);
    assert_int_equal(fake_gpu_found_any(), 1);
    fake_gpu_forget();
    return text;
}

/* --- Objects ---------------------------------------------------------------------------------- */

struct CUstream_st *gpu_stream(void)
{
    struct CUstream_st *stream = NULL;

    GPU_OK(cuStreamCreateWithPriority(&stream, HVD_CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

struct CUevent_st *gpu_event(void)
{
    struct CUevent_st *event = NULL;

    GPU_OK(cuEventCreate(&event, HVD_CU_EVENT_DISABLE_TIMING));
    return event;
}

hvd_cu_ptr_t gpu_floats(size_t n, float value)
{
    hvd_cu_ptr_t memory = 0;

    GPU_OK(cuMemAlloc_v2(&memory, n * sizeof(float)));
    for (size_t i = 0; i < n; i++)
        fake_gpu_poke(memory + i * sizeof(float), &value, sizeof(value));
    return memory;
}

float gpu_float_at(hvd_cu_ptr_t at, size_t index)
{
    float value = 0;

    fake_gpu_peek(&value, at + index * sizeof(float), sizeof(value));
    return value;
}

struct CUmod_st *gpu_module(void)
{
    struct CUmod_st *module = NULL;

    GPU_OK(cuModuleLoadData(&module, ptx));
    return module;
}

struct CUfunc_st *gpu_kernel(struct CUmod_st *module, const char *name)
{
    struct CUfunc_st *kernel = NULL;
    int value = 0;

    GPU_OK(cuModuleGetFunction(&kernel, module, name));
    GPU_OK(cuFuncGetAttribute(&value, HVD_CU_FUNCTION_NUM_REGS, kernel));
    return kernel;
}

hvd_cu_result_t gpu_launch_add(struct CUfunc_st *kernel, struct CUstream_st *stream,
                               hvd_cu_ptr_t at, unsigned n, float value)
{
    void *params[] = {&at, &n, &value};

    return cuLaunchKernel(kernel, (n + 31) / 32, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

/* --- Holding a stream ------------------------------------------------------------------------- */

static void spin(void *data)
{
    (void)data;
    while (is_held)
        usleep(200);
}

void gpu_hold(struct CUstream_st *stream)
{
    is_held = true;
    GPU_OK(cuLaunchHostFunc(stream, spin, NULL));
}

void gpu_let_go(void)
{
    is_held = false;
}
