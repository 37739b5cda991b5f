#ifndef HVD_OPERATOR_CORE_OBSERVE_OBSERVE_H
#define HVD_OPERATOR_CORE_OBSERVE_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/api/kind.h"
#include "operator/core/view/projection.h"

/*
 * Projects a decoded API object (of a list, a watch or a response; it may lack kind and apiVersion)
 * into *out, which then owns all it holds. Of a Secret it reads only metadata. So metadata-only
 * lists and watches (PartialObjectMetadata) are enough, and no key material enters a cache.
 * HVD_ERR_INVALID if metadata lacks name, namespace or uid; HVD_ERR_NOMEM; *out is untouched then.
 */
hvd_status_t hvd_observe(enum hvd_kind kind, const cJSON *object, struct hvd_object *out,
                         struct hvd_err *err);

/* Frees the strings. A zeroed struct is legal. */
void hvd_observe_object_fini(struct hvd_object *object);

#endif
