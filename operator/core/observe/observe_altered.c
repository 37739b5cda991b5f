/*
 * Finds immutable fields of a Job or StatefulSet that a webhook changed at creation: the API server
 * keeps other values than the operator sent. The pass decides what follows (altered.c). Pure.
 */
#include "operator/core/observe/observe_altered.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/observe/observe_internal.h"

#define VALUE_SIZE 64

/* Reports use the first row that differs, so rows that end jobs come first. */
static const struct hvd_alteration alterations[] = {
    {HVD_KIND_JOB, "spec.completions", "1", HVD_ALTERED_ENDS,
     "another number of masters would run"},
    {HVD_KIND_JOB, "spec.template.spec.restartPolicy", "Never", HVD_ALTERED_ENDS,
     "a master that failed would be started again beside what is left of its ranks"},
    {HVD_KIND_JOB, "spec.backoffLimitPerIndex", NULL, HVD_ALTERED_ENDS,
     "the Job would start further masters by itself"},
    {HVD_KIND_JOB, "spec.completionMode", "NonIndexed", HVD_ALTERED_ENDS_BY_MASTER,
     "the master's pod gets another host name"},
    {HVD_KIND_JOB, "spec.podFailurePolicy", NULL, HVD_ALTERED_REPORTED,
     "a rule of it with the action Ignore lets the Job start a further master"},
    {HVD_KIND_JOB, "spec.managedBy", NULL, HVD_ALTERED_REPORTED,
     "another controller has to make its pod"},
    {HVD_KIND_JOB, "spec.manualSelector", NULL, HVD_ALTERED_REPORTED,
     "it counts pods of others that have these labels"},
    {HVD_KIND_STATEFULSET, "spec.serviceName", "JOB", HVD_ALTERED_ENDS_BY_NAME,
     "the names of the workers would lead nowhere"},
    {HVD_KIND_STATEFULSET, "spec.podManagementPolicy", "Parallel", HVD_ALTERED_REPORTED,
     "workers start one after the other, each when the one before is Ready"},
    {HVD_KIND_STATEFULSET, "spec.volumeClaimTemplates", NULL, HVD_ALTERED_REPORTED,
     "their claims are not removed with the job"},
};
#define N_ALTERATIONS ((int32_t)(sizeof(alterations) / sizeof(alterations[0])))

/* Writes the value as a short text; false if it is absent, or means the same as its absence. */
static bool write_value(const cJSON *item, char out[VALUE_SIZE])
{
    const char *text = cJSON_GetStringValue((cJSON *)item);

    if (!item || cJSON_IsNull(item) || cJSON_IsFalse(item) ||
        (cJSON_IsArray(item) && !item->child) ||
        hvd_str_equal(text, "kubernetes.io/job-controller"))
        return false;
    if (text)
        (void)snprintf(out, VALUE_SIZE, "%.*s", hvd_observe_cut(text, strlen(text), VALUE_SIZE - 1),
                       text);
    else if (cJSON_IsNumber(item))
        (void)snprintf(out, VALUE_SIZE, "%.0f", cJSON_GetNumberValue(item));
    else
        (void)snprintf(out, VALUE_SIZE, "%s", cJSON_IsTrue(item) ? "true" : "set");
    return true;
}

/* Whether a field is missing that was sent: the API server sets no default for a removed field. */
static bool is_removed(const cJSON *object, const struct hvd_alteration *alteration)
{
    if (hvd_str_equal(alteration->path, "spec.completions"))
        return hvd_json_int(object, "spec.parallelism", 1) > 1;
    return alteration->effect == HVD_ALTERED_ENDS_BY_NAME && hvd_json_at(object, "spec.selector");
}

bool hvd_observe_altered(const cJSON *object, struct hvd_object *out)
{
    struct hvd_altered *altered =
        out->kind == HVD_KIND_JOB ? &out->u.job.altered : &out->u.statefulset.altered;

    for (int32_t i = 0; i < N_ALTERATIONS; i++) {
        const struct hvd_alteration *row = &alterations[i];
        const char *wanted = hvd_str_equal(row->wanted, "JOB") ? out->meta.job : row->wanted;
        char value[VALUE_SIZE] = "absent";

        if (row->kind != out->kind)
            continue;
        if (!write_value(hvd_json_at(object, row->path), value)) {
            if (!is_removed(object, row))
                continue;
        } else if (hvd_str_equal(value, wanted)) {
            continue;
        }
        altered->field = i + 1;
        return hvd_observe_text_n(value, strlen(value), &altered->value);
    }
    return true;
}

const struct hvd_altered *hvd_observe_altered_of(const struct hvd_object *object)
{
    return object->kind == HVD_KIND_JOB ? &object->u.job.altered : &object->u.statefulset.altered;
}

const struct hvd_alteration *hvd_observe_alteration(const struct hvd_object *object)
{
    const int32_t field = hvd_observe_altered_of(object)->field;

    return field > 0 && field <= N_ALTERATIONS ? &alterations[field - 1] : NULL;
}
