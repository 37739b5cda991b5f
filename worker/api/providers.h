#ifndef HVD_WORKER_API_PROVIDERS_H
#define HVD_WORKER_API_PROVIDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/transport/bootstrap.h"

/* An implementation of a part of a job's work, under Horovod's name. */
struct hvd_provider {
    const char *name;
    const struct hvd_bootstrap_provider *bootstrap; /* NULL: it cannot start a job */
    int built;                    /* its version, or 1 if it has none; 0: not built */
    bool (*probe)(void);          /* whether it works on this machine; NULL: always if built */
    const char *const *variables; /* environment variables that name it, up to NULL; or NULL */
};

/* Returns the provider of that name; NULL if there is none. */
const struct hvd_provider *hvd_providers_find(const char *name);

/* Returns whether it is built, and works on this machine. */
bool hvd_providers_enabled(const char *name);

/* Returns the version that this library was built with, or 1; 0: without it. */
int hvd_providers_built(const char *name);

/* Returns the name of the i-th provider, from 0, that is built and that the environment variable
 * may name; NULL: there are no more. */
const char *hvd_providers_of(const char *variable, size_t i);

/* Returns the bootstrap by which the ranks of the next job find each other; NULL if there is none.
 */
const struct hvd_bootstrap_provider *hvd_providers_bootstrap(void);

#endif
