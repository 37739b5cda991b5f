/*
 * Looks up TensorFlow's C API in the library that Python has loaded with it. That library is not
 * in the loader's list of global symbols, so it is opened again by its name, without loading it.
 */
#include "worker/python/tensorflow/api.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libtensorflow_framework.so.2"

/* ThreadPoolDevice::ComputeAsync(AsyncOpKernel *, OpKernelContext *, std::function<void()>), of
 * libstdc++. The name would have other letters for the std::function of another C++ library. */
#define TAKES_FUNCTION                                                                             \
    "_ZN10tensorflow16ThreadPoolDevice12ComputeAsyncEPNS_13AsyncOpKernelEPNS_15OpKernelContext"    \
    "ESt8functionIFvvEE"

#define N_CODE 8 /* addresses that are remembered; TensorFlow has some three */

struct hvd_tf_api hvd_tf;
static void *library;
static char problem[256];

/* Where the address of each function goes. */
#define PLACE(result, name, arguments) {"TF_" #name, &hvd_tf.name},
static const struct {
    const char *name;
    void *function;
} places[] = {HVD_TF_API(PLACE)};
#undef PLACE

const char *hvd_tf_api_load(void)
{
    library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) {
        snprintf(problem, sizeof(problem), "%s is not loaded: import tensorflow first.", LIBRARY);
        return problem;
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        void *symbol = dlsym(library, places[i].name);
        memcpy(places[i].function, &symbol, sizeof(void (*)(void)));
        if (symbol)
            continue;
        snprintf(problem, sizeof(problem),
                 "This version of TensorFlow has no function %s: use 2.15 to 2.21.",
                 places[i].name);
        return problem;
    }
    return NULL;
}

bool hvd_tf_api_has_libstdcxx(void)
{
    return dlsym(library, TAKES_FUNCTION) != NULL;
}

bool hvd_tf_api_has_code(const void *address)
{
    static _Atomic(const void *) known[N_CODE];
    Dl_info info;

    for (int i = 0; i < N_CODE; i++)
        if (atomic_load_explicit(&known[i], memory_order_relaxed) == address)
            return true;
    if (dladdr(address, &info) == 0 || !info.dli_fname || !strstr(info.dli_fname, "tensorflow"))
        return false;
    for (int i = 0; i < N_CODE; i++) {
        const void *none = NULL;
        if (atomic_compare_exchange_strong(&known[i], &none, address))
            break;
    }
    return true;
}
