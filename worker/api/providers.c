/*
 * The table of providers that this library was built with. A new transport, bootstrap or device
 * adds a row here; no other file of the API names it.
 */
#include "worker/api/providers.h"

#include <stddef.h>
#include <string.h>

#include "worker/transport/mpi/bootstrap.h"

static const char *const moves_host_memory[] = {"HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS",
                                                NULL};

/* Providers that can start a job come first, in the order of preference. */
static const struct hvd_provider providers[] = {
    {.name = "mpi", .bootstrap = &hvd_mpi_bootstrap, .built = 1, .variables = moves_host_memory},
    {.name = "gloo"},
    {.name = "nccl", .find = hvd_cuda_nccl_version},
    {.name = "ddl"},
    {.name = "ccl"},
    {.name = "cuda",
     .find = hvd_cuda_driver_version,
     .open_device = hvd_cuda_create,
     .ordinal_of = hvd_cuda_ordinal_of,
     .problem = hvd_cuda_nccl_problem},
    {.name = "rocm"},
};

const struct hvd_provider *hvd_providers_find(const char *name)
{
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
        if (strcmp(providers[i].name, name) == 0)
            return &providers[i];
    return NULL;
}

int hvd_providers_built(const char *name)
{
    const struct hvd_provider *provider = hvd_providers_find(name);

    if (!provider)
        return 0;
    return provider->find ? provider->find() : provider->built;
}

bool hvd_providers_enabled(const char *name)
{
    const struct hvd_provider *provider = hvd_providers_find(name);

    return provider && provider->built > 0 && (!provider->probe || provider->probe());
}

static bool is_named_by(const struct hvd_provider *provider, const char *variable)
{
    const char *const *at = provider->variables;

    while (at && *at && strcmp(*at, variable) != 0)
        at++;
    return at && *at;
}

const char *hvd_providers_of(const char *variable, size_t i)
{
    for (size_t k = 0; k < sizeof(providers) / sizeof(providers[0]); k++)
        if (providers[k].built > 0 && is_named_by(&providers[k], variable) && i-- == 0)
            return providers[k].name;
    return NULL;
}

const struct hvd_bootstrap_provider *hvd_providers_bootstrap(void)
{
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
        if (providers[i].bootstrap && hvd_providers_enabled(providers[i].name))
            return providers[i].bootstrap;
    return NULL;
}
