#ifndef HVD_WORKER_CORE_HASH_INTERNAL_H
#define HVD_WORKER_CORE_HASH_INTERNAL_H

/* uthash over the project's allocator; running out of memory shows as hh.tbl == NULL. */
#include "base/mem.h"

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(item) ((void)(item))
#define uthash_malloc(size) hvd_malloc(1, (size))
#define uthash_free(p, size) hvd_free(p)
#include <uthash.h>

#endif
