#ifndef HVD_WORKER_CORE_NAMES_H
#define HVD_WORKER_CORE_NAMES_H

#include <uthash.h>

#include "base/str.h"

/*
 * A map from names to structs that hold a struct hvd_named as their first member. The names belong
 * to those structs and stay in place while they are in the map. Iteration is in the order of
 * insertion: for (struct hvd_named *n = names->first; n; n = hvd_names_next(n)).
 */
struct hvd_named {
    UT_hash_handle hh;
};

struct hvd_names {
    struct hvd_named *first;
};

/* Returns the struct of that name, borrowed; NULL when there is none. */
struct hvd_named *hvd_names_find(const struct hvd_names *names, struct hvd_strview name);

/* Adds a struct under a name that is not in the map. False when out of memory; the map is
 * unchanged. */
bool hvd_names_add(struct hvd_names *names, struct hvd_strview name, struct hvd_named *item);

/* Removes a struct that is in the map. */
void hvd_names_remove(struct hvd_names *names, struct hvd_named *item);

/* Returns how many structs are in the map. */
size_t hvd_names_count(const struct hvd_names *names);

/* Returns the struct that was added after this one; NULL after the last. */
struct hvd_named *hvd_names_next(const struct hvd_named *item);

#endif
