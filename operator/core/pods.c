/*
 * Sums up the pods of a job: which workers are Ready, in numeric order (worker-10 after worker-2),
 * and which pod is the current master. Pure.
 */
#include "operator/core/pods.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/topology.h"

static int compare(const void *a, const void *b)
{
    const struct hvd_worker *x = a;
    const struct hvd_worker *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

/* The ordinal of a pod of the set, -1 for another name. */
static int32_t ordinal(const char *set, const char *pod_name)
{
    const int64_t range[2] = {0, INT32_MAX};
    int64_t value = -1;

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

bool hvd_pods_identify(const struct hvd_view *view, const struct hvd_object *pod,
                       const struct hvd_pod_owners *owners, struct hvd_worker *out)
{
    for (size_t i = 0; i < view->job->spec.n_groups; i++) {
        if (!is_owned_by(pod, owners->sets[i]))
            continue;
        *out = (struct hvd_worker){
            .group = i, .ordinal = ordinal(owners->sets[i]->meta.name, pod->meta.name), .pod = pod};
        return out->ordinal >= 0;
    }
    return false;
}

static void add_worker(const struct hvd_view *view, const struct hvd_worker *worker,
                       struct hvd_pods *out, struct hvd_worker *troubled)
{
    const struct hvd_object *pod = worker->pod;

    if (pod->meta.is_deleting)
        return;
    if (pod->u.pod.trouble && (!out->troubled || compare(worker, troubled) < 0)) {
        out->troubled = pod;
        *troubled = *worker;
    }
    if (pod->u.pod.is_ready && (pod->u.pod.ip || !view->job->spec.has_ip_names) &&
        worker->ordinal < view->job->spec.groups[worker->group].replicas) {
        out->ready[out->n_ready++] = *worker;
        out->n_ready_of[worker->group]++;
    }
}

hvd_status_t hvd_pods_collect(const struct hvd_view *view, const struct hvd_pod_owners *owners,
                              struct hvd_pods *out)
{
    struct hvd_pods pods = {.ready = hvd_malloc(view->n_objects, sizeof(pods.ready[0]))};
    struct hvd_worker worker, troubled = {0};

    if (!pods.ready)
        return HVD_ERR_NOMEM;
    for (size_t i = 0; i < view->n_objects; i++) {
        const struct hvd_object *pod = view->objects[i];

        if (pod->kind != HVD_KIND_POD)
            continue;
        if (pod->meta.role == HVD_ROLE_WORKER) {
            pods.n_workers++;
            if (hvd_pods_identify(view, pod, owners, &worker)) {
                pods.n_of[worker.group]++;
                add_worker(view, &worker, &pods, &troubled);
            }
        }
        if (pod->meta.role != HVD_ROLE_MASTER)
            continue;
        pods.n_masters++;
        if (is_owned_by(pod, owners->master_job))
            pods.master = pod;
    }
    *out = pods;
    return HVD_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct hvd_worker *x = a;
    const struct hvd_worker *y = b;
    const struct hvd_place place_x = {x->place, x->pod->u.pod.place};
    const struct hvd_place place_y = {y->place, y->pod->u.pod.place};
    bool has_places = x->place || y->place || place_x.pod || place_y.pod;
    int order = has_places ? hvd_topology_compare(&place_x, &place_y) : 0;

    return order != 0 ? order : compare(a, b);
}

void hvd_pods_sort(struct hvd_pods *pods)
{
    qsort(pods->ready, pods->n_ready, sizeof(pods->ready[0]), compare_places);
}

void hvd_pods_fini(struct hvd_pods *pods)
{
    hvd_free(pods->ready);
    *pods = (struct hvd_pods){0};
}
