/*
 * Fields of a Job or StatefulSet that cannot be changed once it is made, and that a webhook has set
 * while it was: what the operator sent is not what the API server keeps. Made anew it would be
 * altered anew. So it is reported; where the job would be another one for it, as with two masters,
 * the job ends. Pure.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/observe/observe_internal.h"
#include "operator/core/pass/pass.h"
#include "operator/core/pass/trouble.h"

#define MESSAGE_SIZE 1024
#define VALUE_SIZE 64

enum effect {
    ENDS,           /* the job, whatever its spec says */
    ENDS_BY_NAME,   /* it, if the workers are known by their names */
    ENDS_BY_MASTER, /* it, if ranks run beside the master, which is known by its name */
    REPORTED,
};

struct alteration {
    enum hvd_kind kind;
    const char *path;
    const char *wanted; /* its text; "JOB": the job's name; NULL: not there */
    enum effect effect;
    const char *follows;
};

/* The first one that differs is told of: what ends jobs comes first. */
static const struct alteration alterations[] = {
    {HVD_KIND_JOB, "spec.completions", "1", ENDS, "another number of masters would run"},
    {HVD_KIND_JOB, "spec.template.spec.restartPolicy", "Never", ENDS,
     "a master that failed would be started again beside what is left of its ranks"},
    {HVD_KIND_JOB, "spec.backoffLimitPerIndex", NULL, ENDS,
     "the Job would start further masters by itself"},
    {HVD_KIND_JOB, "spec.completionMode", "NonIndexed", ENDS_BY_MASTER,
     "the master's pod gets another host name"},
    {HVD_KIND_JOB, "spec.podFailurePolicy", NULL, REPORTED,
     "a rule of it with the action Ignore lets the Job start a further master"},
    {HVD_KIND_JOB, "spec.managedBy", NULL, REPORTED, "another controller has to make its pod"},
    {HVD_KIND_JOB, "spec.manualSelector", NULL, REPORTED,
     "it counts pods of others that have these labels"},
    {HVD_KIND_STATEFULSET, "spec.serviceName", "JOB", ENDS_BY_NAME,
     "the names of the workers would lead nowhere"},
    {HVD_KIND_STATEFULSET, "spec.podManagementPolicy", "Parallel", REPORTED,
     "workers start one after the other, each when the one before is Ready"},
    {HVD_KIND_STATEFULSET, "spec.volumeClaimTemplates", NULL, REPORTED,
     "their claims are not removed with the job"},
};
#define N_ALTERATIONS ((int32_t)(sizeof(alterations) / sizeof(alterations[0])))

/* ---- in a projection ---- */

/* Writes the value as a short text; false if it is not there, or says no more than its absence. */
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

/* Whether a field that is not there is another one than was sent: the API server sets no default
 * for what was removed. */
static bool is_removed(const cJSON *object, const struct alteration *alteration)
{
    if (hvd_str_equal(alteration->path, "spec.completions"))
        return hvd_json_int(object, "spec.parallelism", 1) > 1;
    return alteration->effect == ENDS_BY_NAME && hvd_json_at(object, "spec.selector");
}

bool hvd_altered_observe(const cJSON *object, struct hvd_object *out)
{
    struct hvd_altered *altered =
        out->kind == HVD_KIND_JOB ? &out->u.job.altered : &out->u.statefulset.altered;

    for (int32_t i = 0; i < N_ALTERATIONS; i++) {
        const struct alteration *row = &alterations[i];
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

/* ---- in a pass ---- */

/* What is altered of the object, a child of the job; NULL: nothing. */
static const struct hvd_altered *altered_of(const struct hvd_object *object)
{
    const struct hvd_altered *altered =
        object->kind == HVD_KIND_JOB ? &object->u.job.altered : &object->u.statefulset.altered;

    return altered->field > 0 && altered->field <= N_ALTERATIONS ? altered : NULL;
}

static bool ends_job(const struct hvd_pass *p, const struct hvd_altered *altered)
{
    switch (alterations[altered->field - 1].effect) {
    case ENDS:
        return true;
    case ENDS_BY_NAME:
        return !p->job->spec.has_ip_names;
    case ENDS_BY_MASTER:
        return p->job->spec.is_master_worker;
    case REPORTED:
        break;
    }
    return false;
}

static void describe(const struct hvd_pass *p, const struct hvd_object *object, char *out,
                     size_t size)
{
    const struct hvd_altered *altered = altered_of(object);
    const struct alteration *row = &alterations[altered->field - 1];
    const char *wanted = hvd_str_equal(row->wanted, "JOB") ? p->job->name : row->wanted;

    hvd_pass_text(out, size,
                  "%s %s field %s is %s, not %s, as an admission webhook or another program set it "
                  "when it was made: %s",
                  hvd_kind_info(object->kind)->kind, object->meta.name, row->path, altered->value,
                  wanted ? wanted : "absent", row->follows);
}

/* The first child of the job that is altered so that the job ends, or (is_end false) does not; NULL
 * if there is none. */
static const struct hvd_object *find(const struct hvd_pass *p, enum hvd_kind kind, bool is_end)
{
    const struct hvd_object *object = p->child[HVD_KIND_JOB];

    if (kind == HVD_KIND_JOB)
        return hvd_pass_child(p, kind) == HVD_CHILD_OURS && altered_of(object) &&
                       ends_job(p, altered_of(object)) == is_end
                   ? object
                   : NULL;
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        object = p->owners.sets[i];
        if (hvd_pass_set(p, i) == HVD_CHILD_OURS && altered_of(object) &&
            ends_job(p, altered_of(object)) == is_end)
            return object;
    }
    return NULL;
}

bool hvd_altered_is_wrong(const struct hvd_pass *p, enum hvd_kind kind)
{
    return find(p, kind, true) != NULL;
}

bool hvd_altered_ends_job(struct hvd_pass *p)
{
    const struct hvd_object *object = find(p, HVD_KIND_STATEFULSET, true);
    char text[MESSAGE_SIZE - 128], message[MESSAGE_SIZE];

    if (!object && !hvd_outcome_is_uncleared(p)) /* else it goes in any case */
        object = find(p, HVD_KIND_JOB, true);
    if (!object)
        return false;
    describe(p, object, text, sizeof(text));
    hvd_pass_text(message, sizeof(message), "%s; except objects with the label %s from that rule",
                  text, HVD_LABEL_JOB);
    hvd_outcome_fail(p, "ChildAltered", message);
    return true;
}

bool hvd_altered_describe(struct hvd_pass *p, enum hvd_kind kind, char *out, size_t size)
{
    const struct hvd_object *object = find(p, kind, false);

    if (object)
        describe(p, object, out, size);
    return object != NULL;
}
