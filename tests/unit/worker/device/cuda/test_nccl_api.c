/*
 * Compares nccl_api.h with NCCL's header, by the compiler, and with its library, which answers some
 * calls on a machine without a driver. Built where the header is.
 */
#include "tests/unit/support.h"

#include <dlfcn.h>
#include <nccl.h>
#include <string.h>

#include "worker/device/cuda/nccl_api.h"

#define SAME_TYPE(ours, theirs) _Static_assert(__builtin_types_compatible_p(ours, theirs), #ours)
#define SAME(ours, theirs) _Static_assert((int)HVD_NCCL_##ours == (int)(theirs), #ours)
#define SAME_FIELD(ours, theirs)                                                                   \
    _Static_assert(offsetof(struct hvd_nccl_config, ours) == offsetof(ncclConfig_t, theirs) &&     \
                       sizeof(((struct hvd_nccl_config *)0)->ours) ==                              \
                           sizeof(((ncclConfig_t *)0)->theirs),                                    \
                   #ours)

#define X(symbol, since, is_needed, result, params)                                                \
    SAME_TYPE(result(*) params, __typeof__(&(symbol)));
HVD_NCCL_COMM_MAP(X)
HVD_NCCL_COLLECTIVE_MAP(X)
#undef X

/* These have structs with names of our own. */
SAME_TYPE(hvd_nccl_result_t (*)(ncclUniqueId *), __typeof__(&ncclGetUniqueId));
SAME_TYPE(hvd_nccl_result_t (*)(struct ncclComm **, int, ncclUniqueId, int),
          __typeof__(&ncclCommInitRank));
SAME_TYPE(hvd_nccl_result_t (*)(struct ncclComm **, int, ncclUniqueId, int, ncclConfig_t *),
          __typeof__(&ncclCommInitRankConfig));
SAME_TYPE(hvd_nccl_result_t (*)(struct ncclComm *, int, int, struct ncclComm **, ncclConfig_t *),
          __typeof__(&ncclCommSplit));
_Static_assert(sizeof(struct hvd_nccl_id) == sizeof(ncclUniqueId), "");
_Static_assert(_Alignof(struct hvd_nccl_id) == _Alignof(ncclUniqueId), "");

SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);
SAME_FIELD(cga_cluster_size, cgaClusterSize);
SAME_FIELD(min_ctas, minCTAs);
SAME_FIELD(max_ctas, maxCTAs);
SAME_FIELD(net_name, netName);
SAME_FIELD(split_share, splitShare);
SAME(SPLIT_NO_COLOR, NCCL_SPLIT_NOCOLOR);
SAME(CONFIG_UNSET, NCCL_CONFIG_UNDEF_INT);
_Static_assert(HVD_NCCL_CONFIG_MAGIC == NCCL_API_MAGIC, "");
_Static_assert(HVD_NCCL_CONFIG_VERSION == NCCL_VERSION(2, 18, 0), "");

SAME(SUCCESS, ncclSuccess);
SAME(UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError);
SAME(SYSTEM_ERROR, ncclSystemError);
SAME(INTERNAL_ERROR, ncclInternalError);
SAME(INVALID_ARGUMENT, ncclInvalidArgument);
SAME(INVALID_USAGE, ncclInvalidUsage);
SAME(REMOTE_ERROR, ncclRemoteError);
SAME(IN_PROGRESS, ncclInProgress);
SAME(TIMEOUT, ncclTimeout);
SAME(INT8, ncclInt8);
SAME(UINT8, ncclUint8);
SAME(INT32, ncclInt32);
SAME(UINT32, ncclUint32);
SAME(INT64, ncclInt64);
SAME(UINT64, ncclUint64);
SAME(FLOAT16, ncclFloat16);
SAME(FLOAT32, ncclFloat32);
SAME(FLOAT64, ncclFloat64);
SAME(BFLOAT16, ncclBfloat16);
SAME(FLOAT8_E4M3, ncclFloat8e4m3);
SAME(FLOAT8_E5M2, ncclFloat8e5m2);
SAME(SUM, ncclSum);
SAME(PROD, ncclProd);
SAME(MAX, ncclMax);
SAME(MIN, ncclMin);
SAME(AVG, ncclAvg);
SAME(SCALAR_DEVICE, ncclScalarDevice);
SAME(SCALAR_HOST, ncclScalarHostImmediate);

/* The library of the wheel that has the header; loaded without a driver. */
static struct hvd_nccl_api api;

static const struct {
    const char *name;
    void *slot; /* the pointer in api */
} symbols[] = {
#define X(symbol, since, is_needed, result, params) {#symbol, &api.symbol},
    HVD_NCCL_MAP(X)
#undef X
};

static int load(void **state)
{
    void *library = dlopen(HVD_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    (void)state;
    for (size_t i = 0; library && i < sizeof(symbols) / sizeof(*symbols); i++) {
        void *at = dlsym(library, symbols[i].name);
        if (!at)
            return -1;
        memcpy(symbols[i].slot, &at, sizeof(at));
    }
    return library ? 0 : -1;
}

static void the_library_has_the_version_of_its_header(void **state)
{
    int version = 0;

    (void)state;
    assert_int_equal(api.ncclGetVersion(&version), HVD_NCCL_SUCCESS);
    assert_int_equal(version, NCCL_VERSION_CODE);
}

static void unique_ids_differ_and_need_no_driver(void **state)
{
    struct hvd_nccl_id a = {{0}};
    struct hvd_nccl_id b = {{0}};

    (void)state;
    assert_int_equal(api.ncclGetUniqueId(&a), HVD_NCCL_SUCCESS);
    assert_int_equal(api.ncclGetUniqueId(&b), HVD_NCCL_SUCCESS);
    assert_memory_not_equal(&a, &b, sizeof(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_has_the_version_of_its_header),
        cmocka_unit_test(unique_ids_differ_and_need_no_driver),
    };

    return cmocka_run_group_tests(tests, load, NULL);
}
