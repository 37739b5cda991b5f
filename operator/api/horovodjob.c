/*
 * Decodes a HorovodJob: this file its metadata, spec.c and status.c the rest. Pure. A decoded job
 * owns all of its strings and keeps nothing of the API object.
 */
#include "operator/api/horovodjob.h"

#include <string.h>

#include "base/mem.h"
#include "operator/api/finalizers.h"
#include "operator/api/horovodjob_internal.h"
#include "operator/api/json.h"
#include "operator/api/object.h"
#include "operator/api/rfc3339.h"

static hvd_status_t copy_text(const cJSON *object, const char *path, char **out,
                              struct hvd_err *err)
{
    const char *text = hvd_json_str(object, path);

    if (!text || *text == '\0')
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "HorovodJob without %s", path);
    *out = hvd_strdup(text);
    if (!*out)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s", text);
    return HVD_OK;
}

static hvd_status_t decode_meta(const cJSON *object, struct hvd_job *job, struct hvd_err *err)
{
    hvd_status_t st = copy_text(object, "metadata.namespace", &job->namespace, err);

    if (!st)
        st = copy_text(object, "metadata.name", &job->name, err);
    if (!st)
        st = copy_text(object, "metadata.uid", &job->uid, err);
    if (!st)
        st = copy_text(object, "metadata.resourceVersion", &job->resource_version, err);
    job->generation = hvd_json_int(object, "metadata.generation", 0);
    job->created_s = hvd_rfc3339_parse(hvd_json_str(object, "metadata.creationTimestamp"));
    job->is_deleting = hvd_json_str(object, "metadata.deletionTimestamp") != NULL;
    if (!job->is_deleting || st)
        return st;
    job->deletion_s = hvd_rfc3339_parse(hvd_json_str(object, "metadata.deletionTimestamp"));
    if (hvd_finalizers_text(hvd_json_get(object, "metadata"), &job->finalizers))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s", job->name);
    return HVD_OK;
}

/* Whether the unreadable part of the object is its status. */
static bool is_status_unread(const cJSON *object)
{
    const char *trouble = hvd_object_trouble(object);

    return trouble && hvd_str_has_prefix(trouble, "status");
}

/* Marks a job as invalid if a part of it could not be read: the operator never runs the rest. */
static hvd_status_t refuse_unread(const cJSON *object, struct hvd_job *job, struct hvd_err *err)
{
    const char *trouble = hvd_object_trouble(object);

    if (!trouble || is_status_unread(object))
        return HVD_OK;
    hvd_free(job->invalid);
    job->invalid = hvd_strdup(trouble);
    if (!job->invalid)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s", job->name);
    return HVD_OK;
}

/* Marks a status that could not be read for rewriting; the job goes on. A finished job stays
 * finished: its missing condition is set again. */
static hvd_status_t replace_unread(struct hvd_job_status *status)
{
    static const char text[] = "the condition was not readable and is written again";
    const bool has_succeeded = status->state == HVD_JOB_SUCCEEDED;
    const struct hvd_condition_update end = {
        has_succeeded ? HVD_COND_SUCCEEDED : HVD_COND_FAILED, HVD_TRUE,
        has_succeeded ? "MasterSucceeded" : "MasterFailed", text};
    bool is_changed = false;

    status->is_inexact = true;
    if ((!has_succeeded && status->state != HVD_JOB_FAILED) || hvd_job_is_finished(status))
        return HVD_OK;
    return hvd_job_condition_set(status, &end, status->completion_s, &is_changed);
}

hvd_status_t hvd_job_decode(const cJSON *object, struct hvd_job *out, struct hvd_err *err)
{
    struct hvd_job job = {0};
    hvd_status_t st = decode_meta(object, &job, err);

    if (!st)
        st = hvd_spec_decode(hvd_json_get(object, "spec"), &job, err);
    if (!st)
        st = refuse_unread(object, &job, err);
    if (!st)
        st = hvd_status_decode(hvd_json_get(object, "status"), &job, err);
    if (!st && is_status_unread(object) && replace_unread(&job.status) != HVD_OK)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "HorovodJob %s", job.name);
    if (!st && job.spec.is_host_network && !job.spec.has_launch_port && job.status.launch_port > 0)
        job.spec.launch_port = job.status.launch_port;
    if (st) {
        hvd_job_fini(&job);
        return st;
    }
    *out = job;
    return HVD_OK;
}

bool hvd_job_is_idle(const struct hvd_job *job)
{
    return job->is_deleting || job->invalid || job->spec.is_suspended || job->spec.is_foreign ||
           hvd_job_is_finished(&job->status);
}

/* ---- in one block ---- */

#define TEXTS_MAX (10 + HVD_JOB_GROUPS_MAX + HVD_STATUS_TEXTS_MAX)

/* Collects the places of the job's strings; returns their number. */
static size_t texts_of(struct hvd_job *job, char **out[TEXTS_MAX])
{
    char **const texts[] = {&job->namespace,          &job->name,       &job->uid,
                            &job->resource_version,   &job->invalid,    &job->finalizers,
                            &job->spec.topology_keys, &job->spec.image, &job->spec.manager,
                            &job->spec.text};
    size_t n = sizeof(texts) / sizeof(texts[0]);

    memcpy(out, texts, sizeof(texts));
    for (size_t i = 0; i < job->spec.n_groups; i++)
        out[n++] = &job->spec.groups[i].name;
    return n + hvd_status_texts(&job->status, out + n);
}

static size_t size_of_groups(const struct hvd_job *job)
{
    return job->spec.n_groups * sizeof(job->spec.groups[0]);
}

size_t hvd_job_size(const struct hvd_job *job)
{
    char **texts[TEXTS_MAX];
    size_t n = texts_of((struct hvd_job *)job, texts), size = size_of_groups(job);

    for (size_t i = 0; i < n; i++)
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    return size;
}

void hvd_job_move(struct hvd_job *from, void *block, struct hvd_job *to)
{
    char *at = (char *)block + size_of_groups(from);
    char **texts[TEXTS_MAX];
    size_t n;

    *to = *from;
    to->spec.groups = block;
    memcpy(block, from->spec.groups, size_of_groups(from));
    n = texts_of(to, texts);
    for (size_t i = 0; i < n; i++) {
        size_t size = *texts[i] ? strlen(*texts[i]) + 1 : 0;

        if (size)
            *texts[i] = memcpy(at, *texts[i], size);
        at += size;
    }
    hvd_job_fini(from);
}

void hvd_job_fini(struct hvd_job *job)
{
    for (size_t i = 0; i < job->spec.n_groups; i++)
        hvd_free(job->spec.groups[i].name);
    hvd_free(job->spec.groups);
    hvd_free(job->spec.topology_keys);
    hvd_free(job->spec.image);
    hvd_free(job->spec.manager);
    hvd_free(job->namespace);
    hvd_free(job->name);
    hvd_free(job->uid);
    hvd_free(job->resource_version);
    hvd_free(job->spec.text);
    hvd_free(job->invalid);
    hvd_free(job->finalizers);
    hvd_job_status_fini(&job->status);
    *job = (struct hvd_job){0};
}
