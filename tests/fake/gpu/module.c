/*
 * Modules and launches. An image is PTX text or machine code; its entries name kernels of the
 * tables, which are functions in C. A kernel that is loaded late waits until the device is idle,
 * and holds the context meanwhile.
 */
#include "tests/fake/gpu/machine.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 64
#define MAX_FUNCTIONS 64
#define MAX_TABLES 8

struct CUfunc_st {
    char name[MAX_NAME];
    struct CUmod_st *module;
    const struct fake_kernel *kernel; /* NULL: there is none in C */
    bool is_loaded;
};

struct CUmod_st {
    struct CUmod_st *next;
    enum fake_life life;
    int number;
    struct CUctx_st *context;
    struct CUfunc_st functions[MAX_FUNCTIONS];
    int n_functions;
};

_Thread_local struct fake_dim3 threadIdx __attribute__((visibility("default")));
_Thread_local struct fake_dim3 blockIdx __attribute__((visibility("default")));
_Thread_local struct fake_dim3 blockDim __attribute__((visibility("default")));
_Thread_local struct fake_dim3 gridDim __attribute__((visibility("default")));

static struct CUmod_st *modules; /* all, also unloaded ones */
static int n_modules;
static const struct fake_kernel *tables[MAX_TABLES];
static int n_tables;

int fake_module_leaks(void)
{
    int n = 0;

    for (struct CUmod_st *m = modules; m; m = m->next) {
        if (m->life != FAKE_ALIVE)
            continue;
        n++;
        fake_report(FAKE_GPU_LEAK, "module %d of device %d is not unloaded", m->number,
                    m->context->device);
    }
    return n;
}

void fake_gpu_add_kernels(const struct fake_kernel *kernels)
{
    fake_lock();
    if (n_tables == MAX_TABLES)
        fake_die("too many tables of kernels");
    tables[n_tables++] = kernels;
    fake_unlock();
}

static const struct fake_kernel *find_in(const struct fake_kernel *table, const char *name)
{
    for (const struct fake_kernel *kernel = table; kernel && kernel->name; kernel++)
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    return NULL;
}

static const struct fake_kernel *find_kernel(const char *name)
{
    const struct fake_kernel *kernel = NULL;

    for (int i = n_tables - 1; i >= 0 && !kernel; i--)
        kernel = find_in(tables[i], name);
    return kernel ? kernel : find_in(fake_kernels, name);
}

/* --- Images ----------------------------------------------------------------------------------- */

/* The number behind a directive such as ".version", times ten; -1 if there is none. */
static long number_behind(const char *text, const char *directive, const char *prefix)
{
    const char *at = strstr(text, directive);
    char *end = NULL;

    if (!at)
        return -1;
    at += strlen(directive);
    at += strspn(at, " \t");
    if (strncmp(at, prefix, strlen(prefix)) != 0)
        return -1;
    const long whole = strtol(at + strlen(prefix), &end, 10);
    return *end == '.' ? 10 * whole + strtol(end + 1, NULL, 10) : whole;
}

/* Machine code begins with this number. */
static bool is_machine_code(const char *image)
{
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};

    return memcmp(image, magic, sizeof(magic)) == 0;
}

/* That of a compiler of CUDA 13 for the GPUs of script/kernels: each serves later ones of the same
 * generation. */
static hvd_cu_result_t check_machine_code(void)
{
    static const long gpus[] = {75, 80, 90, 100, 120};
    const long own = fake_option(FAKE_GPU_CAPABILITY);

    if (fake_option(FAKE_GPU_DRIVER_VERSION) < 13000)
        return HVD_CU_INVALID_IMAGE;
    for (size_t i = 0; i < sizeof(gpus) / sizeof(*gpus); i++)
        if (own / 10 == gpus[i] / 10 && own >= gpus[i])
            return HVD_CU_SUCCESS;
    return HVD_CU_NO_BINARY_FOR_GPU;
}

static hvd_cu_result_t check_image(const char *text)
{
    if (is_machine_code(text))
        return check_machine_code();
    const long version = number_behind(text, ".version", "");
    const long target = number_behind(text, ".target", "sm_");
    if (version < 0)
        return HVD_CU_INVALID_IMAGE;
    if (target < 0)
        return HVD_CU_INVALID_PTX;
    if (version > fake_option(FAKE_GPU_PTX_VERSION))
        return HVD_CU_UNSUPPORTED_PTX_VERSION;
    return target > fake_option(FAKE_GPU_CAPABILITY) ? HVD_CU_INVALID_PTX : HVD_CU_SUCCESS;
}

static void add_function(struct CUmod_st *module, const char *name, size_t len)
{
    struct CUfunc_st *function = &module->functions[module->n_functions++];

    snprintf(function->name, sizeof(function->name), "%.*s", (int)len, name);
    function->module = module;
    function->kernel = find_kernel(function->name);
    function->is_loaded = fake_option(FAKE_GPU_LAZY_LOADING) == 0;
}

static void add_functions(struct CUmod_st *module, const char *text)
{
    static const char entry[] = ".entry";

    /* machine code is not read: it has the library's own kernels */
    for (const struct fake_kernel *k = fake_kernels; is_machine_code(text) && k->name; k++)
        add_function(module, k->name, strlen(k->name));
    for (const char *at = is_machine_code(text) ? NULL : strstr(text, entry);
         at && module->n_functions < MAX_FUNCTIONS; at = strstr(at, entry)) {
        size_t len = 0;

        at += sizeof(entry) - 1;
        at += strspn(at, " \t\n");
        while (isalnum((unsigned char)at[len]) || at[len] == '_' || at[len] == '$')
            len++;
        add_function(module, at, len);
    }
}

static hvd_cu_result_t load(struct CUmod_st **out, const void *image)
{
    const char *text = image;
    const hvd_cu_result_t result = image ? check_image(text) : HVD_CU_INVALID_VALUE;

    if (result != 0)
        return result;
    struct CUmod_st *module = fake_calloc(1, sizeof(*module));
    module->life = FAKE_ALIVE;
    module->number = ++n_modules;
    module->context = fake_current();
    add_functions(module, text);
    module->next = modules;
    modules = module;
    *out = module;
    return HVD_CU_SUCCESS;
}

hvd_cu_result_t cuModuleLoadData(struct CUmod_st **out, const void *image)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuModuleLoadData);

    if (result == 0) {
        fake_check_blocking(fake_current(), "cuModuleLoadData");
        result = load(out, image);
    }
    return fake_end(result);
}

hvd_cu_result_t cuModuleLoadDataEx(struct CUmod_st **out, const void *image, unsigned int n_options,
                                   unsigned int *options, void **values)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuModuleLoadDataEx);
    char *log = NULL;
    size_t log_bytes = 0;

    for (unsigned i = 0; i < n_options; i++) {
        if (options[i] == HVD_CU_JIT_ERROR_LOG)
            log = values[i];
        else if (options[i] == HVD_CU_JIT_ERROR_LOG_BYTES)
            log_bytes = (size_t)(uintptr_t)values[i];
    }
    if (log && log_bytes)
        log[0] = '\0';
    if (result == 0) {
        fake_check_blocking(fake_current(), "cuModuleLoadDataEx");
        result = load(out, image);
    }
    if (log && log_bytes && (result == HVD_CU_INVALID_PTX || result == HVD_CU_INVALID_IMAGE))
        snprintf(log, log_bytes, "ptxas fatal   : the double refuses this image");
    return fake_end(result);
}

static struct CUmod_st *module_of(struct CUmod_st *module, const char *call)
{
    if (module && module->life == FAKE_ALIVE)
        return module;
    fake_report(FAKE_GPU_BAD_HANDLE, "%s of module %d, which is unloaded", call,
                module ? module->number : 0);
    return NULL;
}

hvd_cu_result_t cuModuleUnload(struct CUmod_st *module)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuModuleUnload);

    if (result == 0 && !module_of(module, "cuModuleUnload"))
        result = HVD_CU_INVALID_HANDLE;
    if (result == 0) {
        fake_check_blocking(module->context, "cuModuleUnload");
        fake_wait_idle(module->context);
        module->life = FAKE_DEAD;
    }
    return fake_end(result);
}

/* --- Functions -------------------------------------------------------------------------------- */

/* Loads a kernel: the trap that is called lazy loading. */
static void load_function(struct CUfunc_st *function, const char *call)
{
    struct CUctx_st *context = function->module->context;
    char what[128];

    if (function->is_loaded)
        return;
    snprintf(what, sizeof(what), "%s loads %s and", call, function->name);
    fake_count_blocking();
    fake_check_blocking(context, what);
    context->is_locked = true;
    fake_wait_idle(context);
    context->is_locked = false;
    function->is_loaded = true;
    fake_wake();
}

static hvd_cu_result_t get_function(struct CUfunc_st **out, struct CUmod_st *module,
                                    const char *name)
{
    if (!module_of(module, "cuModuleGetFunction"))
        return HVD_CU_INVALID_HANDLE;
    for (int i = 0; i < module->n_functions; i++) {
        struct CUfunc_st *function = &module->functions[i];
        if (strcmp(function->name, name) != 0)
            continue;
        if (fake_option(FAKE_GPU_LAZY_LOADING) == 1)
            load_function(function, "cuModuleGetFunction");
        *out = function;
        return HVD_CU_SUCCESS;
    }
    return HVD_CU_NOT_FOUND;
}

hvd_cu_result_t cuModuleGetFunction(struct CUfunc_st **out, struct CUmod_st *module,
                                    const char *name)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuModuleGetFunction);

    if (result == 0)
        result = get_function(out, module, name);
    return fake_end(result);
}

hvd_cu_result_t cuFuncGetAttribute(int *value, unsigned int attribute, struct CUfunc_st *function)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuFuncGetAttribute);

    if (result == 0 && !module_of(function->module, "cuFuncGetAttribute"))
        result = HVD_CU_INVALID_HANDLE;
    if (result == 0) {
        load_function(function, "cuFuncGetAttribute");
        *value = attribute == HVD_CU_FUNCTION_MAX_THREADS_PER_BLOCK ? 1024
                 : attribute == HVD_CU_FUNCTION_NUM_REGS            ? 64
                 : attribute == HVD_CU_FUNCTION_BINARY_VERSION
                     ? (int)fake_option(FAKE_GPU_CAPABILITY)
                     : 0;
    }
    return fake_end(result);
}

/* --- Launches --------------------------------------------------------------------------------- */

struct launch {
    const struct fake_kernel *kernel;
    struct fake_dim3 grid;
    struct fake_dim3 block;
    void *params[FAKE_KERNEL_PARAMS]; /* into `bytes` */
    unsigned char bytes[];
};

/* What the ranges of a launch are checked with. */
struct check {
    struct fake_op *op;
    bool is_good;
    bool is_unmapped; /* some range is in no allocation, which a device notices */
};

static bool check_range(void *to, const void *at, size_t bytes, bool is_write)
{
    struct check *check = to;
    const bool is_good = fake_access_range(check->op, at, bytes, is_write);

    check->is_good = check->is_good && is_good;
    check->is_unmapped = check->is_unmapped || (bytes && !fake_block_of(at));
    return is_good;
}

static void run_block(const struct launch *launch, void **params)
{
    for (unsigned z = 0; z < launch->block.z; z++)
        for (unsigned y = 0; y < launch->block.y; y++)
            for (unsigned x = 0; x < launch->block.x; x++) {
                threadIdx = (struct fake_dim3){x, y, z};
                launch->kernel->call(params);
            }
}

static enum fake_step step(struct fake_op *op)
{
    struct launch *launch = op->data;
    struct check check = {.op = op, .is_good = true};
    unsigned code = 0;

    if (fake_kernel_fails(launch->kernel->name, &code)) {
        op->stream->context->broken = code;
        return FAKE_DONE;
    }
    gridDim = launch->grid;
    blockDim = launch->block;
    launch->kernel->ranges(launch->params, check_range, &check);
    if (check.is_unmapped)
        op->stream->context->broken = HVD_CU_ILLEGAL_ADDRESS;
    if (!check.is_good)
        return FAKE_DONE;
    for (unsigned z = 0; z < launch->grid.z; z++)
        for (unsigned y = 0; y < launch->grid.y; y++)
            for (unsigned x = 0; x < launch->grid.x; x++) {
                blockIdx = (struct fake_dim3){x, y, z};
                run_block(launch, launch->params);
            }
    return FAKE_DONE;
}

static bool is_sensible(const struct fake_dim3 *grid, const struct fake_dim3 *block)
{
    const uint64_t threads = (uint64_t)block->x * block->y * block->z;

    return grid->x && grid->y && grid->z && grid->y <= 65535 && grid->z <= 65535 && threads &&
           threads <= 1024;
}

static struct launch *make_launch(const struct fake_kernel *kernel, void **params)
{
    size_t bytes = 0;

    for (int i = 0; i < FAKE_KERNEL_PARAMS && kernel->param_bytes[i]; i++)
        bytes += (kernel->param_bytes[i] + 15) / 16 * 16;
    struct launch *launch = fake_calloc(1, sizeof(*launch) + bytes + 16);
    unsigned char *at =
        launch->bytes + (16 - (uintptr_t)launch->bytes % 16) % 16; /* aligned for any type */
    for (int i = 0; i < FAKE_KERNEL_PARAMS && kernel->param_bytes[i]; i++) {
        launch->params[i] = at;
        memcpy(at, params[i], kernel->param_bytes[i]);
        at += (kernel->param_bytes[i] + 15) / 16 * 16;
    }
    launch->kernel = kernel;
    return launch;
}

static hvd_cu_result_t launch_on(struct CUfunc_st *function, const struct fake_dim3 *grid,
                                 const struct fake_dim3 *block, struct CUstream_st *handle,
                                 void **params)
{
    struct CUstream_st *stream = fake_stream_of(handle, "cuLaunchKernel");
    struct fake_op op = {.call = "cuLaunchKernel", .step = step, .n_multiprocessors = 1};

    if (!stream || !module_of(function->module, "cuLaunchKernel"))
        return HVD_CU_INVALID_HANDLE;
    if (function->module->context != stream->context) {
        fake_report(FAKE_GPU_WRONG_CONTEXT, "cuLaunchKernel of %s of device %d on device %d",
                    function->name, function->module->context->device, stream->context->device);
        return HVD_CU_INVALID_HANDLE;
    }
    if (!is_sensible(grid, block))
        return HVD_CU_INVALID_VALUE;
    if (!function->kernel || !function->kernel->ranges) {
        fake_report(FAKE_GPU_BAD_KERNEL, "%s is in no table of kernels, or without its ranges",
                    function->name);
        return HVD_CU_NOT_FOUND;
    }
    load_function(function, "cuLaunchKernel");
    struct launch *launch = make_launch(function->kernel, params);
    launch->grid = *grid;
    launch->block = *block;
    op.data = launch;
    snprintf(op.what, sizeof(op.what), "of %s", function->name);
    if (!fake_is_program())
        fake_counts()->launches++;
    return fake_enqueue(stream, &op, NULL, 0);
}

/* NOLINTNEXTLINE(readability-function-size): the driver has so many parameters */
hvd_cu_result_t cuLaunchKernel(struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
                               unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                               unsigned int block_z, unsigned int shared_bytes,
                               struct CUstream_st *stream, void **params, void **extra)
{
    hvd_cu_result_t result = fake_begin(FAKE_CALL_cuLaunchKernel);

    if (result == 0 && (shared_bytes || extra || !function))
        result = HVD_CU_INVALID_VALUE;
    if (result == 0)
        result = launch_on(function, &(struct fake_dim3){grid_x, grid_y, grid_z},
                           &(struct fake_dim3){block_x, block_y, block_z}, stream, params);
    return fake_end(result);
}
