/*
 * Replicas that change while an attempt runs. The start of the master fixes the ranks of an
 * attempt. A job with minReplicas is elastic: its program follows the host list, which follows the
 * replicas. Any other program would lose a rank to a smaller size, and would not use a larger one.
 * So its attempt keeps the workers that it began with, and the next attempt has the new size. All
 * decisions of a pass use the held size, because they work on one view. Pure.
 */
#include "operator/core/attempt/scaling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "operator/core/children/children.h"
#include "operator/core/view/text.h"

size_t hvd_scaling_read(const char *text, size_t n, int32_t out[])
{
    size_t i = 0;

    while (text && i < n) {
        char *end = NULL;
        long value = strtol(text, &end, 10);

        if (end == text || value < 0 || value > HVD_JOB_WORKERS_MAX)
            break;
        out[i++] = (int32_t)value;
        text = *end == ',' ? end + 1 : NULL;
    }
    return i;
}

#define FIELD_SIZE (HVD_CHILD_NAME_MAX + 32)

/* The path of the field with a group's replicas. */
static void name_field(const struct hvd_job *job, size_t group, char out[FIELD_SIZE])
{
    if (group == 0)
        (void)snprintf(out, FIELD_SIZE, "spec.worker.replicas");
    else
        (void)snprintf(out, FIELD_SIZE, "spec.workerGroups[%.*s].replicas", HVD_JOB_GROUP_NAME_MAX,
                       job->spec.groups[group].name);
}

void hvd_scaling_describe_removal(const struct hvd_job *job, size_t group, int32_t from, char *out,
                                  size_t size)
{
    int32_t to = job->spec.groups[group].replicas;
    char set[HVD_CHILD_NAME_MAX], field[FIELD_SIZE];

    hvd_children_group_name(job, group, set);
    name_field(job, group, field);
    if (from - to == 1)
        hvd_text_format(out, size, "worker %s-%d was removed by scaling from %d to %d (%s)", set,
                        to, from, to, field);
    else
        hvd_text_format(out, size,
                        "workers %s-%d to %s-%d were removed by scaling from %d to %d (%s)", set,
                        to, set, from - 1, from, to, field);
}

/* The master's Job of the attempt under way; NULL: there is none. */
static const struct hvd_object *find_master(const struct hvd_view *view, int32_t n_ended)
{
    const struct hvd_job *job = view->job;
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(job, HVD_KIND_JOB, name);
    for (size_t i = 0; i < view->n_objects; i++) {
        const struct hvd_object *object = view->objects[i];

        if (object->kind == HVD_KIND_JOB && hvd_str_equal(object->meta.name, name) &&
            hvd_str_equal(object->meta.owner_uid, job->uid) &&
            (object->u.job.attempt == 0 || object->u.job.attempt > n_ended))
            return object;
    }
    return NULL;
}

/* Adds the pending change of one group to the text. */
static void add_text(struct hvd_scaling *scaling, const struct hvd_job *job, size_t group,
                     int32_t from)
{
    size_t len = strlen(scaling->text);
    char field[FIELD_SIZE];

    name_field(job, group, field);
    hvd_text_format(scaling->text + len, sizeof(scaling->text) - len, "%s%s changed from %d to %d",
                    len ? ", " : "", field, from, job->spec.groups[group].replicas);
}

static const struct hvd_object *find_set(const struct hvd_view *view, size_t group)
{
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_group_name(view->job, group, name);
    for (size_t i = 0; i < view->n_objects; i++) {
        const struct hvd_object *object = view->objects[i];

        if (object->kind == HVD_KIND_STATEFULSET && hvd_str_equal(object->meta.name, name))
            return object;
    }
    return NULL;
}

/*
 * Whether a group really began with so many workers. Three places record its size: the spec, its
 * set and the annotation. A user changes only the spec. If set and spec agree, another writer
 * changed the annotation.
 */
static bool is_believed(const struct hvd_view *view, size_t group, int32_t started)
{
    const int64_t wanted = view->job->spec.groups[group].replicas;
    const struct hvd_object *set = find_set(view, group);

    if (started < 1)
        return false;
    if (!set || started == wanted || set->u.statefulset.replicas == started)
        return true;
    return set->u.statefulset.replicas != wanted &&
           (started <= wanted || started <= set->u.statefulset.replicas);
}

/* Reads the sizes at the start of the attempt into out->groups, and the differences into out->text.
 * Returns the number of all workers, 0 if no change is pending. */
static int64_t compare(const struct hvd_object *master, const struct hvd_view *view,
                       struct hvd_scaling *out)
{
    const struct hvd_job_spec *spec = &view->job->spec;
    int32_t started[HVD_JOB_GROUPS_MAX];
    int64_t total = 0;

    if (hvd_scaling_read(master->u.job.workers, spec->n_groups, started) < spec->n_groups)
        return 0;
    for (size_t i = 0; i < spec->n_groups; i++) {
        out->groups[i] = spec->groups[i];
        out->groups[i].replicas = started[i];
        out->groups[i].n_enough = started[i];
        if (!is_believed(view, i, started[i]))
            return 0;
        total += started[i];
        if (started[i] != spec->groups[i].replicas)
            add_text(out, view->job, i, started[i]);
    }
    return out->text[0] && total <= HVD_JOB_WORKERS_MAX ? total : 0;
}

static void hold(struct hvd_job *job, struct hvd_scaling *out, int64_t total)
{
    job->spec.groups = out->groups;
    job->spec.replicas = (int32_t)total;
}

const struct hvd_view *hvd_scaling_hold(const struct hvd_view *view, struct hvd_job *job,
                                        struct hvd_scaling *out)
{
    static const char when[] = ": takes effect with the next attempt; suspend and resume the job "
                               "to apply it now";
    const struct hvd_object *master = NULL;
    int64_t total;
    size_t len;

    out->text[0] = '\0';
    if (!job->spec.is_elastic && !job->spec.is_suspended && !job->invalid)
        master = find_master(view, hvd_job_ended(&job->status));
    total = master ? compare(master, view, out) : 0;
    if (total == 0) {
        out->text[0] = '\0';
        return view;
    }
    /* A long list of pending changes may be cut, but not the advice after it. */
    len = strlen(out->text);
    if (len > sizeof(out->text) - sizeof(when))
        len = sizeof(out->text) - sizeof(when);
    hvd_text_format(out->text + len, sizeof(out->text) - len, "%s", when);
    hold(job, out, total);
    out->job = *view->job;
    hold(&out->job, out, total);
    out->view = *view;
    out->view.job = &out->job;
    return &out->view;
}
