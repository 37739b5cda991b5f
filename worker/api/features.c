/*
 * The features that this library was built with, and the values of the reductions.
 */
#include <horovod/horovod.h>

#include "worker/api/providers.h"

bool horovod_mpi_enabled(void)
{
    return hvd_providers_enabled("mpi");
}

bool horovod_mpi_built(void)
{
    return hvd_providers_built("mpi");
}

bool horovod_gloo_enabled(void)
{
    return hvd_providers_enabled("gloo");
}

bool horovod_gloo_built(void)
{
    return hvd_providers_built("gloo");
}

int horovod_nccl_built(void)
{
    return hvd_providers_built("nccl");
}

bool horovod_ddl_built(void)
{
    return hvd_providers_built("ddl");
}

bool horovod_ccl_built(void)
{
    return hvd_providers_built("ccl");
}

bool horovod_cuda_built(void)
{
    return hvd_providers_built("cuda");
}

bool horovod_rocm_built(void)
{
    return hvd_providers_built("rocm");
}

int horovod_reduce_op_average(void)
{
    return HOROVOD_AVERAGE;
}

int horovod_reduce_op_sum(void)
{
    return HOROVOD_SUM;
}

int horovod_reduce_op_adasum(void)
{
    return HOROVOD_ADASUM;
}

int horovod_reduce_op_min(void)
{
    return HOROVOD_MIN;
}

int horovod_reduce_op_max(void)
{
    return HOROVOD_MAX;
}

int horovod_reduce_op_product(void)
{
    return HOROVOD_PRODUCT;
}

const char *horovod_version(void)
{
    return HVD_VERSION;
}
