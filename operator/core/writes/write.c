/*
 * Adds changes and deletions of objects to the plan, unless one has to wait because the same write
 * was undone. Pure.
 */
#include "operator/core/writes/write.h"

#include "base/mem.h"
#include "operator/core/writes/contest.h"
#include "operator/core/writes/repair.h"

void hvd_write_patch(struct hvd_pass *p, const struct hvd_object *object,
                     const struct hvd_patch *patch)
{
    const struct hvd_action action = {.type = HVD_ACTION_PATCH,
                                      .kind = object->kind,
                                      .body = patch->body,
                                      .repair = patch->repair,
                                      .value = patch->value,
                                      .is_json_patch = patch->is_json_patch,
                                      .is_template = patch->is_template};
    const struct hvd_write write = {object->kind, object->meta.name, patch->repair, patch->value};

    if (p->st || (patch->body && !hvd_contest_admit(p, &write))) {
        hvd_free(patch->body);
        return;
    }
    p->st = hvd_plan_add(p->plan, &action, object->meta.namespace, object->meta.name);
}

void hvd_write_delete_for(struct hvd_pass *p, const struct hvd_object *object,
                          enum hvd_repair repair)
{
    const struct hvd_write write = {object->kind, object->meta.name, repair, HVD_REPAIR_ABSENT};

    if (!p->st && hvd_contest_admit(p, &write))
        p->st = hvd_plan_delete(p->plan, &write, object->meta.namespace, object->meta.uid);
}

void hvd_write_delete(struct hvd_pass *p, const struct hvd_object *object)
{
    hvd_write_delete_for(p, object, hvd_repair_of_existence(object->kind));
}
