/*
 * Sums up the pods of a job: which workers are Ready, in numeric order (worker-10 after worker-2),
 * and which pod is the current master. Pure.
 */
#include "operator/core/pods.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/children.h"

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* The ordinal of a pod of the set, -1 for another name. */
static int32_t ordinal(const struct hvd_job *job, const char *pod_name)
{
    const int64_t range[2] = {0, INT32_MAX};
    char set[HVD_CHILD_NAME_MAX];
    int64_t value = -1;

    hvd_child_name(job, HVD_KIND_STATEFULSET, set);
    if (!hvd_str_has_prefix(pod_name, set) || pod_name[strlen(set)] != '-')
        return -1;
    if (hvd_str_parse_int64(hvd_strview_of(pod_name + strlen(set) + 1), range, &value, NULL))
        return -1;
    return (int32_t)value;
}

static bool is_owned_by(const struct hvd_object *pod, const struct hvd_object *owner)
{
    return owner && hvd_str_equal(pod->meta.owner_uid, owner->meta.uid);
}

static void add_worker(const struct hvd_view *view, const struct hvd_object *pod,
                       const struct hvd_object *set, struct hvd_pods *out)
{
    int32_t index = ordinal(view->job, pod->meta.name);

    out->n_workers++;
    if (pod->u.pod.trouble && !pod->meta.is_deleting && index >= 0 && is_owned_by(pod, set) &&
        (!out->troubled || index < ordinal(view->job, out->troubled->meta.name)))
        out->troubled = pod;
    if (pod->u.pod.is_ready && !pod->meta.is_deleting && index >= 0 &&
        index < view->job->spec.replicas && is_owned_by(pod, set))
        out->ready[out->n_ready++] = index;
}

hvd_status_t hvd_pods_collect(const struct hvd_view *view, const struct hvd_object *worker_set,
                              const struct hvd_object *master_job, struct hvd_pods *out)
{
    struct hvd_pods pods = {.ready = hvd_malloc(view->n_objects, sizeof(int32_t))};

    if (!pods.ready)
        return HVD_ERR_NOMEM;
    for (size_t i = 0; i < view->n_objects; i++) {
        const struct hvd_object *pod = view->objects[i];

        if (pod->kind != HVD_KIND_POD)
            continue;
        if (pod->meta.role == HVD_ROLE_WORKER)
            add_worker(view, pod, worker_set, &pods);
        if (pod->meta.role != HVD_ROLE_MASTER)
            continue;
        pods.n_masters++;
        if (is_owned_by(pod, master_job))
            pods.master = pod;
    }
    qsort(pods.ready, pods.n_ready, sizeof(pods.ready[0]), compare);
    *out = pods;
    return HVD_OK;
}

void hvd_pods_fini(struct hvd_pods *pods)
{
    hvd_free(pods->ready);
    *pods = (struct hvd_pods){0};
}
