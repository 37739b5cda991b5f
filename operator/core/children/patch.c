/*
 * Parts of the bodies of patches. Pure.
 */
#include "operator/core/children/patch.h"

void hvd_patch_expect(struct hvd_jb *jb, cJSON *meta, const struct hvd_meta *known)
{
    hvd_jb_str(jb, meta, "uid", known->uid);
    hvd_jb_str(jb, meta, "resourceVersion", known->resource_version);
}

void hvd_patch_expect_steps(struct hvd_jb *jb, cJSON *steps, const struct hvd_meta *known)
{
    hvd_jb_str(jb, hvd_patch_step(jb, steps, "test", "/metadata/uid"), "value", known->uid);
    hvd_jb_str(jb, hvd_patch_step(jb, steps, "add", "/metadata/resourceVersion"), "value",
               known->resource_version);
}

cJSON *hvd_patch_step(struct hvd_jb *jb, cJSON *steps, const char *op, const char *path)
{
    cJSON *step = hvd_jb_object(jb, steps, NULL);

    hvd_jb_str(jb, step, "op", op);
    hvd_jb_str(jb, step, "path", path);
    return step;
}
