#ifndef HVD_WORKER_API_PROVIDERS_H
#define HVD_WORKER_API_PROVIDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/device/cuda/cuda.h"
#include "worker/transport/bootstrap.h"

/* An implementation of a part of a job's work, under Horovod's name. */
struct hvd_provider {
    const char *name;
    const struct hvd_bootstrap_provider *bootstrap; /* NULL: it cannot start a job */
    int built;           /* its version, or 1 if it has none; 0: not built */
    int (*find)(void);   /* returns `built` as found at run time; NULL: it is constant */
    bool (*probe)(void); /* whether it works on this machine; NULL: always if built */
    /* Opens a GPU, as hvd_cuda_create; NULL: it has no GPUs. */
    hvd_status_t (*open_device)(const struct hvd_cuda_options *options,
                                struct hvd_device_port **out, struct hvd_err *err);
    int (*ordinal_of)(const void *memory); /* as hvd_cuda_ordinal_of */
    const char *(*problem)(void);          /* why GPUs have no collectives; "": they have */
    const char *const *variables; /* environment variables that name it, up to NULL; or NULL */
};

/* Returns the provider of that name; NULL if there is none. */
const struct hvd_provider *hvd_providers_find(const char *name);

/* Returns whether it is built, and works on this machine. */
bool hvd_providers_enabled(const char *name);

/* Returns the version that this library was built with or has found, or 1; 0: there is none. */
int hvd_providers_built(const char *name);

/* Returns the name of the i-th provider, from 0, that is built and that the environment variable
 * may name; NULL: there are no more. */
const char *hvd_providers_of(const char *variable, size_t i);

/* Returns the bootstrap by which the ranks of the next job find each other; NULL if there is none.
 */
const struct hvd_bootstrap_provider *hvd_providers_bootstrap(void);

#endif
