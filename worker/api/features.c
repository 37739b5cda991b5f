/*
 * What this library was built with, and the numbers behind the names of the public header.
 * Constants.
 */
#include <horovod/horovod.h>

bool horovod_mpi_enabled(void)
{
    return true;
}

bool horovod_mpi_built(void)
{
    return true;
}

bool horovod_gloo_enabled(void)
{
    return false;
}

bool horovod_gloo_built(void)
{
    return false;
}

int horovod_nccl_built(void)
{
    return 0;
}

bool horovod_ddl_built(void)
{
    return false;
}

bool horovod_ccl_built(void)
{
    return false;
}

bool horovod_cuda_built(void)
{
    return false;
}

bool horovod_rocm_built(void)
{
    return false;
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
