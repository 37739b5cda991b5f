#ifndef HVD_OPERATOR_CORE_CHILDREN_PATCH_H
#define HVD_OPERATOR_CORE_CHILDREN_PATCH_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/view/projection.h"

/*
 * Parts of the bodies of patches. Every patch of a child names the uid and the version of the
 * object that it was decided for. The API server answers 409 to a patch that arrives late: from a
 * former leader (a proxy may have delayed it for minutes), or after a newer decision.
 */

/* Puts uid and version into the metadata of a merge patch. */
void hvd_patch_expect(struct hvd_jb *jb, cJSON *meta, const struct hvd_meta *known);

/* Appends the same preconditions to a JSON patch. It tests the uid and sets the version, which the
 * API server then compares. (The API server answers 422 to a failed test, as to a wrong patch.) */
void hvd_patch_expect_steps(struct hvd_jb *jb, cJSON *steps, const struct hvd_meta *known);

/* Appends a step to a JSON patch; the caller adds its value. Borrowed; NULL after a failure of
 * jb. */
cJSON *hvd_patch_step(struct hvd_jb *jb, cJSON *steps, const char *op, const char *path);

#endif
