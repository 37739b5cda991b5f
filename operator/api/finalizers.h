#ifndef HVD_OPERATOR_API_FINALIZERS_H
#define HVD_OPERATOR_API_FINALIZERS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/status.h"

/* The garbage collector's own finalizer, which it sets and removes. */
#define HVD_FINALIZER_FOREGROUND "foregroundDeletion"
#define HVD_FINALIZER_ORPHAN "orphan"

/* The names in meta.finalizers, joined by ", ": whole names of at most 256 bytes together, then
 * "..." if there are more. *out is the caller's to hvd_free, NULL without any. HVD_ERR_NOMEM leaves
 * *out untouched. */
hvd_status_t hvd_finalizers_text(const cJSON *meta, char **out);

/* Whether the text (NULL: none) has that name. */
bool hvd_finalizers_has(const char *text, const char *name);

#endif
