/*
 * The consequences of immutable fields of a Job or StatefulSet that a webhook changed at creation.
 * A new object would be altered again. So the operator reports it, and ends the job if the change
 * makes it another job, for example with two masters. Pure.
 */
#include "operator/core/outcome/altered.h"

#include "base/str.h"
#include "operator/core/attempt/attempt.h"
#include "operator/core/observe/observe_altered.h"
#include "operator/core/outcome/outcome.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"

#define MESSAGE_SIZE 1024

static bool ends_job(const struct hvd_pass *p, const struct hvd_alteration *alteration)
{
    switch (alteration->effect) {
    case HVD_ALTERED_ENDS:
        return true;
    case HVD_ALTERED_ENDS_BY_NAME:
        return !p->job->spec.has_ip_names;
    case HVD_ALTERED_ENDS_BY_MASTER:
        return p->job->spec.is_master_worker;
    case HVD_ALTERED_REPORTED:
        break;
    }
    return false;
}

static void describe(const struct hvd_pass *p, const struct hvd_object *object, char *out,
                     size_t size)
{
    const struct hvd_altered *altered = hvd_observe_altered_of(object);
    const struct hvd_alteration *row = hvd_observe_alteration(object);
    const char *wanted = hvd_str_equal(row->wanted, "JOB") ? p->job->name : row->wanted;

    hvd_text_format(
        out, size,
        "%s %s field %s is %s, not %s, as an admission webhook or another program set it "
        "when it was made: %s",
        hvd_kind_info(object->kind)->kind, object->meta.name, row->path, altered->value,
        wanted ? wanted : "absent", row->follows);
}

/* Whether the object is altered in a way that ends the job, or (is_end false) does not. */
static bool differs(const struct hvd_pass *p, const struct hvd_object *object, bool is_end)
{
    const struct hvd_alteration *row = hvd_observe_alteration(object);

    return row && ends_job(p, row) == is_end;
}

/* The first child of the job that is altered in a way that ends the job, or (is_end false) does
 * not; NULL if there is none. */
static const struct hvd_object *find(const struct hvd_pass *p, enum hvd_kind kind, bool is_end)
{
    const struct hvd_object *object = p->child[HVD_KIND_JOB];

    if (kind == HVD_KIND_JOB)
        return hvd_pass_child(p, kind) == HVD_CHILD_OURS && differs(p, object, is_end) ? object
                                                                                       : NULL;
    for (size_t i = 0; i < p->job->spec.n_groups; i++) {
        object = p->owners.sets[i];
        if (hvd_pass_set(p, i) == HVD_CHILD_OURS && differs(p, object, is_end))
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

    if (!object && !hvd_attempt_is_uncleared(p)) /* else it is removed anyway */
        object = find(p, HVD_KIND_JOB, true);
    if (!object)
        return false;
    describe(p, object, text, sizeof(text));
    hvd_text_format(message, sizeof(message), "%s; except objects with the label %s from that rule",
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
