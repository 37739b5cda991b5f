/*
 * Opens the CUDA driver and NCCL. A copy of NCCL that the program has loaded is used first, because
 * two versions in a process waste memory. Any thread.
 */
#include "worker/device/cuda/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "worker/device/cuda/cuda.h"

#define DRIVER "libcuda.so.1"
#define NCCL "libnccl.so.2"
#define DRIVER_MIN 11070 /* values written by streams */
#define NCCL_MIN 21800   /* the configuration of nccl_api.h */

static struct {
    pthread_once_t once;
    struct hvd_cuda_library library;
    hvd_status_t status;
    struct hvd_err err;
} opened = {.once = PTHREAD_ONCE_INIT};

/* Stores the address of a function. Data and function pointers have one representation in POSIX. */
static bool find(void *handle, const char *symbol, void *to)
{
    void *address = dlsym(handle, symbol);

    memcpy(to, &address, sizeof(address));
    return address != NULL;
}

/* A function of a library, and where its address is kept. */
struct function {
    const char *symbol;
    size_t offset;
    bool is_needed;
};

static const struct function driver_functions[] = {
#define X(symbol, base, since, is_needed, result, params)                                          \
    {#symbol, offsetof(struct hvd_cu_driver_api, symbol), is_needed},
    HVD_CU_DRIVER_MAP(X)
#undef X
};

static const struct function nccl_functions[] = {
#define X(symbol, since, is_needed, result, params)                                                \
    {#symbol, offsetof(struct hvd_nccl_api, symbol), is_needed},
    HVD_NCCL_MAP(X)
#undef X
};

/* Finds all functions. Returns the name of the first needed one that is missing; NULL: none is. */
static const char *find_all(void *handle, const struct function *functions, size_t n, void *api)
{
    const char *missing = NULL;

    for (size_t i = 0; i < n; i++)
        if (!find(handle, functions[i].symbol, (char *)api + functions[i].offset) &&
            functions[i].is_needed && !missing)
            missing = functions[i].symbol;
    return missing;
}

static void open_nccl(struct hvd_cuda_library *library)
{
    char *problem = library->nccl_problem;
    const size_t room = sizeof(library->nccl_problem);
    void *handle = dlopen(NCCL, RTLD_NOW | RTLD_NOLOAD);
    int version = 0;

    if (!handle)
        handle = dlopen(NCCL, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(problem, room, "%s", dlerror());
        return;
    }
    const char *missing = find_all(
        handle, nccl_functions, sizeof(nccl_functions) / sizeof(*nccl_functions), &library->nccl);
    if (library->nccl.ncclGetVersion)
        (void)library->nccl.ncclGetVersion(&version);
    if (version < NCCL_MIN || missing)
        snprintf(problem, room, "NCCL %d is too old: it needs %d%s%s", version, NCCL_MIN,
                 missing ? ", and has no " : "", missing ? missing : "");
    else
        library->nccl_version = version;
}

static void open_once(void)
{
    struct hvd_cuda_library *library = &opened.library;
    void *handle = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);

    open_nccl(library);
    if (!handle) {
        opened.status =
            HVD_FAIL(&opened.err, HVD_ERR_NOT_FOUND, 0,
                     "there is no CUDA driver (%s): install the driver of the GPU", dlerror());
        return;
    }
    const char *missing =
        find_all(handle, driver_functions, sizeof(driver_functions) / sizeof(*driver_functions),
                 &library->cu);
    if (library->cu.cuDriverGetVersion)
        (void)library->cu.cuDriverGetVersion(&library->driver_version);
    if (missing || library->driver_version < DRIVER_MIN) {
        opened.status =
            HVD_FAIL(&opened.err, HVD_ERR_NOT_FOUND, 0,
                     "the CUDA driver is too old: it supports CUDA %d.%d, and this needs 11.7%s%s",
                     library->driver_version / 1000, library->driver_version % 1000 / 10,
                     missing ? "; it has no " : "", missing ? missing : "");
        return;
    }
    const hvd_cu_result_t result = library->cu.cuInit(0);
    if (result != HVD_CU_SUCCESS) {
        (void)hvd_cuda_library_failure(library, result, "cuInit", &opened.err);
        opened.status = opened.err.status = HVD_ERR_NOT_FOUND;
    }
}

hvd_status_t hvd_cuda_library(const struct hvd_cuda_library **out, struct hvd_err *err)
{
    (void)pthread_once(&opened.once, open_once);
    if (opened.status != HVD_OK)
        return HVD_FAIL(err, opened.status, 0, "%s", opened.err.msg);
    *out = &opened.library;
    return HVD_OK;
}

int hvd_cuda_nccl_version(void)
{
    (void)pthread_once(&opened.once, open_once);
    return opened.library.nccl_version;
}

hvd_status_t hvd_cuda_library_failure(const struct hvd_cuda_library *library,
                                      hvd_cu_result_t result, const char *what, struct hvd_err *err)
{
    const char *name = NULL;
    const char *text = NULL;

    (void)library->cu.cuGetErrorName(result, &name);
    (void)library->cu.cuGetErrorString(result, &text);
    return HVD_FAIL(err, result == HVD_CU_OUT_OF_MEMORY ? HVD_ERR_NOMEM : HVD_ERR_SYSTEM, 0,
                    "%s: %s (%s)", what, text ? text : "unknown error", name ? name : "no name");
}

hvd_status_t hvd_cuda_library_nccl_failure(const struct hvd_cuda_library *library,
                                           hvd_nccl_result_t result, const char *what,
                                           struct hvd_err *err)
{
    const char *last = library->nccl.ncclGetLastError(NULL);

    return HVD_FAIL(err, result == HVD_NCCL_REMOTE_ERROR ? HVD_ERR_UNAVAILABLE : HVD_ERR_SYSTEM, 0,
                    "%s: %s%s%s", what, library->nccl.ncclGetErrorString(result),
                    last && last[0] ? ": " : "", last ? last : "");
}
