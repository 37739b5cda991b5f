/*
 * A whole view from the API server, {"job": .., "objects": [..], "now": ms}, whatever somebody
 * stored there: what is planned for it can be sent, and planning twice gives the same.
 */
#include "base/mem.h"

#include "operator/api/json.h"
#include "operator/core/observe/observe.h"
#include "operator/core/reconcile.h"
#include "tests/fuzz/fuzz.h"

#define MAX_OBJECTS 32

static size_t observe_all(const cJSON *list, struct hvd_object *objects,
                          const struct hvd_object **out)
{
    const cJSON *item = NULL;
    struct hvd_err err = {0};
    size_t n = 0;

    cJSON_ArrayForEach(item, list)
    {
        const char *kind = hvd_json_str(item, "kind");

        for (int i = 0; kind && n < MAX_OBJECTS && i < HVD_N_KINDS; i++) {
            if (i == HVD_KIND_HOROVODJOB ||
                strcmp(kind, hvd_kind_info((enum hvd_kind)i)->kind) != 0)
                continue;
            if (hvd_observe((enum hvd_kind)i, item, &objects[n], &err) == HVD_OK) {
                out[n] = &objects[n];
                n++;
            }
            break;
        }
    }
    return n;
}

static void check_plan(const struct hvd_plan *plan)
{
    for (size_t i = 0; i < plan->n_actions; i++) {
        const struct hvd_action *action = &plan->actions[i];
        cJSON *body = action->body ? cJSON_Parse(action->body) : NULL;

        MUST(action->namespace && action->name);
        if (action->type == HVD_ACTION_CREATE_SECRET || action->type == HVD_ACTION_ATTRIBUTE ||
            action->type == HVD_ACTION_READ_SPEC)
            MUST(!action->body);
        else if (action->type == HVD_ACTION_EXPLAIN) /* a uid */
            MUST(action->body);
        else if (action->type == HVD_ACTION_LOOK) /* by name, or a selector */
            MUST(!action->body || action->body[0]);
        else
            MUST(body != NULL);
        cJSON_Delete(body);
    }
}

static void plan_twice(const struct hvd_view *view, int64_t now_ms)
{
    struct hvd_plan first = {0}, second = {0};
    struct hvd_err err = {0};

    if (hvd_reconcile(view, now_ms, &first, &err) != HVD_OK) {
        MUST(err.msg[0] && first.n_actions == 0);
        return;
    }
    check_plan(&first);
    MUST(hvd_reconcile(view, now_ms, &second, &err) == HVD_OK);
    MUST(first.n_actions == second.n_actions && first.wake_at_ms == second.wake_at_ms);
    for (size_t i = 0; i < first.n_actions; i++) {
        const char *body = first.actions[i].body;

        MUST(first.actions[i].type == second.actions[i].type);
        MUST(!body || strcmp(body, second.actions[i].body) == 0);
    }
    hvd_plan_fini(&first);
    hvd_plan_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hvd_object objects[MAX_OBJECTS];
    const struct hvd_object *pointers[MAX_OBJECTS];
    struct hvd_view view = {.objects = pointers};
    struct hvd_err err = {0};
    struct hvd_job job;
    char *text = fuzz_text(data, size);
    cJSON *document = cJSON_ParseWithLength(text, size);

    free(text);
    if (document && hvd_job_decode(hvd_json_get(document, "job"), &job, &err) == HVD_OK) {
        view.job = &job;
        view.n_objects = observe_all(hvd_json_get(document, "objects"), objects, pointers);
        plan_twice(&view, hvd_json_int(document, "now", 1700000000000));
        hvd_free(job.spec.text);
        job.spec.text = NULL;
        plan_twice(&view, hvd_json_int(document, "now", 1700000000000));
        for (size_t i = 0; i < view.n_objects; i++)
            hvd_observe_object_fini(&objects[i]);
        hvd_job_fini(&job);
    }
    cJSON_Delete(document);
    return 0;
}
