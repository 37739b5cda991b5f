/*
 * A GPU as the machine that tests run kernels on. Each launch copies the regions to the device and
 * back.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/integration/cuda/machine_gpu.h"
#include "worker/device/cuda/image.h"

static struct hvd_cu_driver_api api;
static struct CUfunc_st *kernels[HVD_CUDA_N_KERNELS];
static char reason[256];

void machine_gpu_check(hvd_cu_result_t result, const char *what)
{
    const char *name = "?";

    if (result == HVD_CU_SUCCESS)
        return;
    (void)api.cuGetErrorName(result, &name);
    (void)fprintf(stderr, "%s: %s (%u)\n", what, name, result);
    exit(1);
}

#define CHECK(CALL) machine_gpu_check(api.CALL, #CALL)

/* A file with a 0 behind it, to the end of the program. */
static void *content(const char *path)
{
    static char image[4 << 20];
    FILE *file = fopen(path, "rb");

    if (!file || fread(image, 1, sizeof(image) - 1, file) == 0) {
        perror(path);
        exit(1);
    }
    (void)fclose(file);
    return image;
}

static void load_kernels(void)
{
    static const char *const names[] = {
#define NAME(ENUMERATOR, NAME, STEP) #NAME,
        HVD_CUDA_KERNELS(NAME)
#undef NAME
    };
    const char *path = getenv("HVD_KERNELS_IMAGE");
    struct CUmod_st *module = NULL;
    int registers = 0;

    CHECK(cuModuleLoadData(&module, path ? content(path) : (const void *)hvd_cuda_ptx));
    for (int i = 0; i < HVD_CUDA_N_KERNELS; i++) {
        CHECK(cuModuleGetFunction(&kernels[i], module, names[i]));
        CHECK(cuFuncGetAttribute(&registers, HVD_CU_FUNCTION_NUM_REGS, kernels[i]));
    }
}

/* Sets all functions of the driver, or the reason why not. */
static bool open_driver(void)
{
    static const struct {
        const char *symbol;
        void *function; /* of the api */
        bool is_needed;
    } rows[] = {
#define X(symbol, base, since, is_needed, result, params) {#symbol, &api.symbol, is_needed},
        HVD_CU_DRIVER_MAP(X)
#undef X
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (!library) {
        (void)snprintf(reason, sizeof(reason), "%s", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        void *found = dlsym(library, rows[i].symbol);

        memcpy(rows[i].function, &found, sizeof(found));
        if (!found && rows[i].is_needed) {
            (void)snprintf(reason, sizeof(reason), "the driver has no %s", rows[i].symbol);
            return false;
        }
    }
    return true;
}

const char *machine_missing(void)
{
    struct CUctx_st *context = NULL;
    hvd_cu_device_t device = 0;
    int count = 0;

    if (!open_driver())
        return reason;
    if (api.cuInit(0) != HVD_CU_SUCCESS || api.cuDeviceGetCount(&count) != HVD_CU_SUCCESS ||
        count == 0)
        return "no GPU";
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxPushCurrent_v2(context));
    load_kernels();
    return NULL;
}

bool machine_is_host(void)
{
    return false;
}

const struct hvd_cu_driver_api *machine_gpu_api(void)
{
    return &api;
}

struct CUfunc_st *machine_gpu_kernel(enum hvd_cuda_kernel kernel)
{
    return kernels[kernel];
}

hvd_cu_ptr_t machine_gpu_alloc(size_t bytes)
{
    hvd_cu_ptr_t memory = 0;

    CHECK(cuMemAlloc_v2(&memory, bytes + 1));
    return memory;
}

/* Memory of the device that is kept from launch to launch: two regions, table, addresses. */
enum slot { REGION, TABLE = 2, ADDRESSES, SLOTS };

static hvd_cu_ptr_t slot(int i, size_t bytes)
{
    static hvd_cu_ptr_t memory[SLOTS];
    static size_t size[SLOTS];

    if (size[i] < bytes) {
        if (memory[i])
            CHECK(cuMemFree_v2(memory[i]));
        size[i] = 2 * bytes;
        memory[i] = machine_gpu_alloc(size[i]);
    }
    return memory[i];
}

/* The device's copy of what is at an address of the host. */
static uint64_t translate(const struct machine_launch *launch, const hvd_cu_ptr_t copies[2],
                          uint64_t address)
{
    for (int i = 0; address && i < 2; i++) {
        const struct machine_region *region = &launch->regions[i];
        const uint64_t at = address - (uintptr_t)region->memory;
        if (at < region->bytes)
            return copies[i] + at;
    }
    return 0;
}

void machine_run(const struct machine_launch *launch)
{
    struct hvd_pack_shape shape;
    struct hvd_cuda_args args;
    hvd_cu_ptr_t copies[2] = {0, 0};
    void *params[] = {&args};

    if (hvd_pack_table_measure(launch->list, &shape, NULL) != HVD_OK)
        abort();
    void *table = hvd_malloc(shape.table_bytes + 1, 1);
    uint64_t *addresses = hvd_calloc(shape.n_pieces + 1, sizeof(*addresses));
    if (!table || !addresses)
        abort();
    for (int i = 0; i < 2; i++) {
        const struct machine_region *region = &launch->regions[i];
        if (region->bytes == 0)
            continue;
        copies[i] = slot(REGION + i, region->bytes + 16) + (uintptr_t)region->memory % 16;
        CHECK(cuMemcpyHtoD_v2(copies[i], region->memory, region->bytes));
    }
    hvd_pack_table_write(launch->list, &shape, table);
    hvd_pack_table_addresses(launch->list, launch->is_unpack, addresses);
    for (uint32_t i = 0; i < shape.n_pieces; i++)
        addresses[i] = translate(launch, copies, addresses[i]);
    args.table = slot(TABLE, shape.table_bytes + 1);
    args.addresses = slot(ADDRESSES, (shape.n_pieces + 1) * sizeof(*addresses));
    args.buffer = translate(launch, copies, (uintptr_t)launch->buffer);
    if (shape.n_blocks > 0) {
        const enum hvd_cuda_kernel kernel =
            hvd_pack_table_prepare(launch->list, &shape, launch->scaling, launch->is_unpack, &args);
        CHECK(cuMemcpyHtoD_v2(args.table, table, shape.table_bytes));
        CHECK(cuMemcpyHtoD_v2(args.addresses, addresses, shape.n_pieces * sizeof(*addresses)));
        CHECK(cuLaunchKernel(kernels[kernel], shape.n_blocks, 1, 1, HVD_CUDA_BLOCK, 1, 1, 0, NULL,
                             params, NULL));
        CHECK(cuCtxSynchronize());
    }
    for (int i = 0; i < 2; i++)
        if (launch->regions[i].bytes > 0)
            CHECK(cuMemcpyDtoH_v2(launch->regions[i].memory, copies[i], launch->regions[i].bytes));
    hvd_free(table);
    hvd_free(addresses);
}
