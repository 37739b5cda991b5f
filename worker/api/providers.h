#ifndef HVD_WORKER_API_PROVIDERS_H
#define HVD_WORKER_API_PROVIDERS_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/transport/bootstrap.h"

/* What can do a part of a job's work, by the names of Horovod. */
struct hvd_provider {
    const char *name;
    const struct hvd_bootstrap_provider *bootstrap; /* NULL: ranks do not find each other by it */
    int built;                    /* its version, or 1 where that means nothing; 0: not built */
    bool (*probe)(void);          /* whether it can be used here; NULL: where it is built */
    const char *const *variables; /* of the environment that may name it, up to NULL; or NULL */
};

/* The one of that name; NULL: nobody knows it. */
const struct hvd_provider *hvd_providers_find(const char *name);

/* Whether it is built, and can be used here. */
bool hvd_providers_enabled(const char *name);

/* The version that this library was built with, or 1; 0: without it. */
int hvd_providers_built(const char *name);

/* The name of the i-th provider, from 0, that is built and that the variable of the environment may
 * name; NULL: none is left. */
const char *hvd_providers_of(const char *variable, size_t i);

/* How the ranks of the next job find each other. */
const struct hvd_bootstrap_provider *hvd_providers_bootstrap(void);

#endif
