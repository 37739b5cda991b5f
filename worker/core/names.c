/*
 * The only file that uses uthash. Here its macros, which expand to hundreds of statements, allocate
 * through the project's allocator. They report exhausted memory by a handle without a table.
 */
#include "base/mem.h"

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(item) ((void)(item))
#define uthash_malloc(size) hvd_malloc(1, (size))
#define uthash_free(p, size) hvd_free(p)

#include "worker/core/names.h"

/* This project cannot shorten the functions that the macros expand to. */
/* NOLINTBEGIN(readability-function-size) */
struct hvd_named *hvd_names_find(const struct hvd_names *names, struct hvd_strview name)
{
    struct hvd_named *item = NULL;

    HASH_FIND(hh, names->first, name.data, name.len, item);
    return item;
}

bool hvd_names_add(struct hvd_names *names, struct hvd_strview name, struct hvd_named *item)
{
    HASH_ADD_KEYPTR(hh, names->first, name.data, name.len, item);
    return item->hh.tbl != NULL;
}

void hvd_names_remove(struct hvd_names *names, struct hvd_named *item)
{
    HASH_DEL(names->first, item);
}
/* NOLINTEND(readability-function-size) */

size_t hvd_names_count(const struct hvd_names *names)
{
    return HASH_COUNT(names->first);
}

struct hvd_named *hvd_names_next(const struct hvd_named *item)
{
    return item->hh.next;
}
