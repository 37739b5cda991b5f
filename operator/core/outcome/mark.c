/*
 * Records the end of a job on its ConfigMap while the API server rejects the status, before
 * anything is removed for that end. Otherwise a restarted operator would find neither workers nor
 * Job, or another deadline, and run the job once more. It also records the suspension of an
 * attempt: when the job is resumed, a missing Job would look like one that another writer deleted.
 * Pure.
 */
#include "operator/core/outcome/mark.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/json.h"
#include "operator/core/children/patch.h"
#include "operator/core/view/hash.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/text.h"
#include "operator/core/writes/write.h"

#define COUNT_MAX (1 << 20) /* of attempts: another writer may have written the annotation */
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define REASON_MAX (HVD_MARK_REASON_SIZE - 1)

/* Reads a count and the space after it; false without a valid count. */
static bool read_count(const char **at, int32_t *out)
{
    const int64_t range[2] = {0, COUNT_MAX};
    const size_t len = strcspn(*at, " ");
    int64_t number = 0;

    if ((*at)[len] != ' ' ||
        hvd_str_parse_int64((struct hvd_strview){*at, len}, range, &number, NULL) != HVD_OK)
        return false;
    *out = (int32_t)number;
    *at += len + 1;
    return true;
}

static enum hvd_job_state read_state(const char **at)
{
    static const enum hvd_job_state ends[] = {HVD_JOB_SUCCEEDED, HVD_JOB_FAILED, HVD_JOB_SUSPENDED};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const char *name = hvd_job_state_str(ends[i]);
        const size_t len = strlen(name);

        if (hvd_str_has_prefix(*at, name) && (*at)[len] == ' ') {
            *at += len + 1;
            return ends[i];
        }
    }
    return HVD_JOB_NEW;
}

bool hvd_mark_decode(const char *text, struct hvd_mark *out)
{
    struct hvd_mark mark = {.state = text ? read_state(&text) : HVD_JOB_NEW};
    size_t len;

    *out = (struct hvd_mark){.state = HVD_JOB_NEW};
    if (mark.state == HVD_JOB_NEW || !read_count(&text, &mark.attempts) ||
        !read_count(&text, &mark.failures) || !read_count(&text, &mark.interruptions))
        return false;
    len = strspn(text, LETTERS);
    if (len == 0 || len > REASON_MAX || text[len] != ' ')
        return false;
    (void)snprintf(mark.reason, sizeof(mark.reason), "%.*s", (int)len, text);
    hvd_text_format(mark.message, sizeof(mark.message), "%s", text + len + 1);
    *out = mark;
    return true;
}

char *hvd_mark_encode(const struct hvd_mark *mark)
{
    char text[HVD_MARK_TEXT_MAX];

    hvd_text_format(text, sizeof(text), "%s %d %d %d %s %s", hvd_job_state_str(mark->state),
                    (int)mark->attempts, (int)mark->failures, (int)mark->interruptions,
                    mark->reason, mark->message);
    return hvd_strdup(text);
}

bool hvd_mark_is_end(const struct hvd_pass *p)
{
    return p->mark.state == HVD_JOB_SUCCEEDED || p->mark.state == HVD_JOB_FAILED;
}

/* Whether the recorded suspension belongs to the attempt that is under way in the status. */
static bool is_of_attempt(const struct hvd_mark *mark, const struct hvd_job_status *status)
{
    return status->attempts > hvd_job_ended(status) && mark->failures == status->failures &&
           mark->interruptions == status->interruptions + 1;
}

void hvd_mark_find(struct hvd_pass *p)
{
    const struct hvd_object *map = p->child[HVD_KIND_CONFIGMAP];
    const struct hvd_job_status *status = &p->job->status;

    p->mark = (struct hvd_mark){.state = HVD_JOB_NEW};
    if (map && hvd_pass_is_ours(p, map))
        (void)hvd_mark_decode(map->u.configmap.end, &p->mark);
    if (p->mark.state == HVD_JOB_SUSPENDED && !is_of_attempt(&p->mark, status))
        p->mark = (struct hvd_mark){.state = HVD_JOB_NEW};
}

/* Copies the end, or the suspension, from the next status. */
static void describe(const struct hvd_pass *p, struct hvd_mark *out)
{
    const struct hvd_job_status *next = &p->next;
    const enum hvd_condition_type type = next->state == HVD_JOB_FAILED      ? HVD_COND_FAILED
                                         : next->state == HVD_JOB_SUSPENDED ? HVD_COND_RUNNING
                                                                            : HVD_COND_SUCCEEDED;
    const struct hvd_condition *end = &next->conditions[type];

    *out = (struct hvd_mark){.state = next->state,
                             .attempts = next->attempts,
                             .failures = next->failures,
                             .interruptions = next->interruptions};
    (void)snprintf(out->reason, sizeof(out->reason), "%s", end->reason ? end->reason : "Unknown");
    hvd_text_format(out->message, sizeof(out->message), "%s", end->message ? end->message : "");
}

bool hvd_mark_note(struct hvd_pass *p)
{
    const struct hvd_object *map = p->child[HVD_KIND_CONFIGMAP];
    const size_t n_before = p->plan->n_actions;
    struct hvd_patch patch = {.repair = HVD_REPAIR_END};
    struct hvd_jb jb = {0};
    struct hvd_mark mark;
    cJSON *root, *meta;
    char *text;

    if (p->st || hvd_mark_is_end(p) || p->mark.state == p->next.state ||
        hvd_pass_child(p, HVD_KIND_CONFIGMAP) != HVD_CHILD_OURS)
        return true;
    describe(p, &mark);
    text = hvd_mark_encode(&mark);
    patch.value = hvd_hash_text(HVD_HASH_START, text);
    root = hvd_jb_root(&jb);
    meta = hvd_jb_object(&jb, root, "metadata");
    hvd_patch_expect(&jb, meta, &map->meta);
    hvd_jb_str(&jb, hvd_jb_object(&jb, meta, "annotations"), HVD_ANNOTATION_END, text);
    patch.body = text ? hvd_jb_print(&jb, root) : NULL;
    hvd_free(text);
    cJSON_Delete(root);
    hvd_write_patch(p, map, &patch);
    /* A record that others deny or undo must not delay the job. */
    return p->plan->n_actions == n_before ||
           hvd_pass_failure(p, HVD_KIND_CONFIGMAP, map->meta.name);
}
