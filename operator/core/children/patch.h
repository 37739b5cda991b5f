#ifndef HVD_OPERATOR_CORE_CHILDREN_PATCH_H
#define HVD_OPERATOR_CORE_CHILDREN_PATCH_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/view/projection.h"

/*
 * Parts of the bodies of patches. Every patch of a child names the uid and the version of the
 * object that it was decided for: one that comes late, from an operator that leads no longer (a
 * proxy may have held it back for minutes) or past a newer decision, is answered 409.
 */

/* Puts uid and version into the metadata of a merge patch. */
void hvd_patch_expect(struct hvd_jb *jb, cJSON *meta, const struct hvd_meta *known);

/* Appends the steps to a JSON patch that do the same: the uid is tested, and the version is set, as
 * the API server compares it then. (That a test fails it answers by 422, like a wrong patch.) */
void hvd_patch_expect_steps(struct hvd_jb *jb, cJSON *steps, const struct hvd_meta *known);

/* Appends a step to a JSON patch, whose value is the caller's to add. Borrowed; NULL after a
 * failure of jb. */
cJSON *hvd_patch_step(struct hvd_jb *jb, cJSON *steps, const char *op, const char *path);

#endif
