/*
 * What this library was built with. Whatever brings another transport, bootstrap or device has a
 * row here, and nothing else of the API names it.
 */
#include "worker/api/providers.h"

#include <stddef.h>
#include <string.h>

#include "worker/transport/mpi/bootstrap.h"

/* Those who can begin a job come first, in the order of preference. */
static const struct hvd_provider providers[] = {
    {.name = "mpi", .bootstrap = &hvd_mpi_bootstrap, .built = 1},
    {.name = "gloo"},
    {.name = "nccl"},
    {.name = "ddl"},
    {.name = "ccl"},
    {.name = "cuda"},
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

    return provider ? provider->built : 0;
}

bool hvd_providers_enabled(const char *name)
{
    const struct hvd_provider *provider = hvd_providers_find(name);

    return provider && provider->built > 0 && (!provider->probe || provider->probe());
}

const struct hvd_bootstrap_provider *hvd_providers_bootstrap(void)
{
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
        if (providers[i].bootstrap && hvd_providers_enabled(providers[i].name))
            return providers[i].bootstrap;
    return NULL;
}
