/*
 * Sums up the pods of a job: which workers are Ready, in numeric order (worker-10 after worker-2),
 * and which pod is the current master. The controller of a pod decides to which job it belongs,
 * because everybody who may write pods can write labels. Pure.
 */
#include "operator/core/pass/pods.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/children/children.h"
#include "operator/core/children/owner.h"
#include "operator/core/view/topology.h"

static const char pod_word[] = "pod "; /* of a message about one: its name follows */

static int compare(const void *a, const void *b)
{
    const struct hvd_worker *x = a;
    const struct hvd_worker *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

int32_t hvd_pods_ordinal_in(const char *name, const char *pod_name)
{
    const int64_t range[2] = {0, INT32_MAX};
    int64_t value = -1;
    const char *text;

    if (!hvd_str_has_prefix(pod_name, name) || pod_name[strlen(name)] != '-')
        return -1;
    text = pod_name + strlen(name) + 1;
    if (*text < '0' || *text > '9' || (*text == '0' && text[1] != '\0'))
        return -1;
    if (hvd_str_parse_int64(hvd_strview_of(text), range, &value, NULL))
        return -1;
    return (int32_t)value;
}

int32_t hvd_pods_number_in(const char *name, const char *pod_name)
{
    int64_t value = 0;
    const char *text;

    if (!hvd_str_has_prefix(pod_name, name) || pod_name[strlen(name)] != '-')
        return -1;
    text = pod_name + strlen(name) + 1;
    if (*text == '\0')
        return -1;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value < INT32_MAX ? value * 10 + (*text - '0') : INT32_MAX;
    if (*text != '\0')
        return -1;
    return value < INT32_MAX ? (int32_t)value : INT32_MAX;
}

int32_t hvd_pods_ordinal(const struct hvd_object *set, const struct hvd_object *pod)
{
    return hvd_pods_ordinal_in(set->meta.name, pod->meta.name);
}

static bool is_made_by(const struct hvd_object *pod, const struct hvd_object *owner)
{
    return owner && hvd_str_equal(pod->meta.owner_uid, owner->meta.uid);
}

/* Whether a child of ours made the pod. */
static bool is_owned_by(const struct hvd_view *view, const struct hvd_object *pod,
                        const struct hvd_object *owner)
{
    return is_made_by(pod, owner) && hvd_owner_is_job(view->job, owner);
}

/* Whether the pod without a controller was made for an earlier job of this name. A pod without a
 * job's uid is an older operator's; if it is older than the job, it belongs to another job. */
static bool is_of_earlier_job(const struct hvd_job *job, const struct hvd_object *pod)
{
    const char *uid = pod->meta.made_for;

    return uid ? strcmp(uid, job->uid) != 0 : pod->meta.created_s < job->created_s;
}

/* A set releases a pod whose labels were edited. A set that is deleted with --cascade=orphan
 * releases all its pods. No other pod of that name can be made. So the pod stays that worker until
 * its labels are restored, or until the next set adopts it. */
static bool is_let_go_by(const struct hvd_view *view, const struct hvd_object *pod,
                         const struct hvd_pod_owners *owners, size_t group, int32_t *ordinal)
{
    const struct hvd_object *set = owners->sets[group];
    char name[HVD_CHILD_NAME_MAX];

    if (!pod->u.pod.is_orphan || is_of_earlier_job(view->job, pod) ||
        (set && !hvd_owner_is_job(view->job, set)))
        return false;
    hvd_children_group_name(view->job, group, name);
    *ordinal = hvd_pods_ordinal_in(name, pod->meta.name);
    return *ordinal >= 0;
}

/* Whether this job's master Job made the pod and released it: the Job was deleted with
 * --cascade=orphan, or the pod's labels were edited. */
static bool is_stray_master(const struct hvd_job *job, const struct hvd_object *pod)
{
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(job, HVD_KIND_JOB, name);
    return hvd_str_has_prefix(pod->meta.name, name) && pod->meta.name[strlen(name)] == '-';
}

/* Whether the message of a condition is about the pod of that name. */
static bool is_about(const struct hvd_condition *condition, const char *name)
{
    const char *text = hvd_str_has_prefix(condition->message, pod_word)
                           ? condition->message + sizeof(pod_word) - 1
                           : NULL;

    return text && hvd_str_has_prefix(text, name) && text[strlen(name)] == ' ';
}

/* Whether the status names the pod as its master, or as the one whose end it reports. */
static bool is_named(const struct hvd_job *job, const struct hvd_object *pod)
{
    const struct hvd_condition *conditions = job->status.conditions;

    return is_about(&conditions[HVD_COND_RUNNING], pod->meta.name) ||
           is_about(&conditions[HVD_COND_FAILED], pod->meta.name);
}

bool hvd_pods_named(const struct hvd_job *job, char out[HVD_POD_NAME_SIZE])
{
    static const enum hvd_condition_type types[] = {HVD_COND_RUNNING, HVD_COND_FAILED};
    char master[HVD_CHILD_NAME_MAX];
    const char *text;
    size_t len;

    hvd_children_name(job, HVD_KIND_JOB, master);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        text = job->status.conditions[types[i]].message;
        if (!hvd_str_has_prefix(text, pod_word))
            continue;
        text += sizeof(pod_word) - 1;
        len = strcspn(text, " ");
        if (hvd_str_has_prefix(text, master) && text[strlen(master)] == '-' &&
            len < HVD_POD_NAME_SIZE) {
            memcpy(out, text, len);
            out[len] = '\0';
            return true;
        }
    }
    return false;
}

bool hvd_pods_is_let_go(const struct hvd_job *job, const struct hvd_object *pod)
{
    return pod->u.pod.is_orphan || (pod->meta.role == HVD_ROLE_MASTER && !pod->meta.owner_kind &&
                                    is_stray_master(job, pod) && is_named(job, pod));
}

/* Whether the pod's controller has the kind and a name that the job's own has, or had. */
static bool has_name_of_ours(const struct hvd_job *job, const struct hvd_object *pod)
{
    const bool is_master = pod->meta.role == HVD_ROLE_MASTER;
    const enum hvd_kind kind = is_master ? HVD_KIND_JOB : HVD_KIND_STATEFULSET;
    char name[HVD_CHILD_NAME_MAX];

    if (hvd_pods_is_let_go(job, pod))
        return !is_of_earlier_job(job, pod) &&
               (is_master ? is_stray_master(job, pod) : hvd_owner_is_set_name(job, pod->meta.name));
    if (!hvd_str_equal(pod->meta.owner_kind, hvd_kind_info(kind)->kind))
        return false;
    if (!is_master)
        return hvd_owner_is_set_name(job, pod->meta.owner_name);
    hvd_children_name(job, HVD_KIND_JOB, name);
    return hvd_str_equal(pod->meta.owner_name, name);
}

/* The set or Job with a name of ours that made the pod; NULL if it is absent. */
static const struct hvd_object *find_owner(const struct hvd_view *view,
                                           const struct hvd_object *pod,
                                           const struct hvd_pod_owners *owners)
{
    if (pod->meta.role == HVD_ROLE_MASTER)
        return is_made_by(pod, owners->master_job) ? owners->master_job : NULL;
    for (size_t i = 0; i < view->job->spec.n_groups; i++) {
        if (is_made_by(pod, owners->sets[i]))
            return owners->sets[i];
    }
    return NULL;
}

bool hvd_pods_is_ours(const struct hvd_view *view, const struct hvd_object *pod,
                      const struct hvd_pod_owners *owners)
{
    const struct hvd_object *owner;

    if (pod->kind != HVD_KIND_POD || pod->meta.role == HVD_ROLE_NONE)
        return false;
    owner = find_owner(view, pod, owners);
    if (!owner) /* it is gone, and its pods end soon */
        return has_name_of_ours(view->job, pod);
    return hvd_owner_is_job(view->job, owner) ||
           (hvd_str_equal(owner->meta.owner_kind, HVD_JOB_KIND) &&
            hvd_str_equal(owner->meta.owner_name, view->job->name)); /* of an earlier job */
}

bool hvd_pods_identify(const struct hvd_view *view, const struct hvd_object *pod,
                       const struct hvd_pod_owners *owners, struct hvd_worker *out)
{
    for (size_t i = 0; i < view->job->spec.n_groups && pod->meta.role == HVD_ROLE_WORKER; i++) {
        int32_t ordinal = -1;

        if (is_owned_by(view, pod, owners->sets[i]))
            ordinal = hvd_pods_ordinal(owners->sets[i], pod);
        else if (!is_let_go_by(view, pod, owners, i, &ordinal))
            continue;
        *out = (struct hvd_worker){.group = i, .ordinal = ordinal, .pod = pod};
        return ordinal >= 0;
    }
    return false;
}

/* Whether to report pod a rather than b: a pod on a node first, then the longer delay. */
static bool is_slower(const struct hvd_object *a, const struct hvd_object *b)
{
    const bool is_placed_a = a->u.pod.stage > HVD_STAGE_SCHEDULE;
    const bool is_placed_b = b->u.pod.stage > HVD_STAGE_SCHEDULE;

    if (is_placed_a != is_placed_b)
        return is_placed_a;
    if (a->u.pod.stage_s != b->u.pod.stage_s)
        return a->u.pod.stage_s < b->u.pod.stage_s;
    return strcmp(a->meta.name, b->meta.name) < 0;
}

static void add_worker(const struct hvd_view *view, const struct hvd_worker *worker,
                       struct hvd_pods *out, struct hvd_worker *troubled)
{
    const struct hvd_object *pod = worker->pod;

    /* A worker beyond the wanted number is another writer's, or goes soon. */
    if (pod->meta.is_deleting || worker->ordinal >= view->job->spec.groups[worker->group].replicas)
        return;
    if (pod->u.pod.trouble && (!out->troubled || compare(worker, troubled) < 0)) {
        out->troubled = pod;
        *troubled = *worker;
    }
    if (pod->u.pod.stage && (!out->slow || is_slower(pod, out->slow)))
        out->slow = pod;
    if (pod->u.pod.is_ready && (pod->u.pod.ip || !view->job->spec.has_ip_names)) {
        out->ready[out->n_ready++] = *worker;
        out->n_ready_of[worker->group]++;
    }
}

static void add_master(const struct hvd_view *view, const struct hvd_object *pod,
                       const struct hvd_pod_owners *owners, struct hvd_pods *out)
{
    const struct hvd_object **found = NULL;

    out->n_masters++;
    if (is_owned_by(view, pod, owners->master_job))
        found = &out->master;
    else if (hvd_pods_is_let_go(view->job, pod))
        found = &out->stray;
    if (found && (!*found || !is_named(view->job, *found)))
        *found = pod;
}

static bool is_finished(const struct hvd_object *pod)
{
    return pod->u.pod.phase == HVD_POD_SUCCEEDED || pod->u.pod.phase == HVD_POD_FAILED;
}

/* A pod that the Job of the attempt has released is still the attempt's master. The Job takes it
 * back, or makes another pod, whose end counts if the first one has none. */
static void settle_master(const struct hvd_view *view, const struct hvd_object *job,
                          struct hvd_pods *pods)
{
    const struct hvd_object *first = pods->stray;

    if (!first || !job || !hvd_owner_is_job(view->job, job) ||
        first->meta.created_s < job->meta.created_s ||
        (pods->master && is_finished(pods->master) && !is_finished(first)))
        return;
    pods->other = pods->master;
    pods->master = first;
}

bool hvd_pods_is_numbered(const struct hvd_object *pod)
{
    const char *tail = strrchr(pod->meta.name, '-');
    int64_t number = 0;

    if (!tail || !tail[1])
        return false;
    for (tail++; *tail; tail++) {
        if (*tail < '0' || *tail > '9')
            return false;
        number = number * 10 + (*tail - '0');
        if (number > INT32_MAX)
            return false;
    }
    return true;
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

        if (!hvd_pods_is_ours(view, pod, owners))
            continue;
        if (pod->meta.role == HVD_ROLE_WORKER) {
            pods.n_workers++;
            if (hvd_pods_identify(view, pod, owners, &worker)) {
                pods.n_of[worker.group]++;
                add_worker(view, &worker, &pods, &troubled);
            } else if (find_owner(view, pod, owners) && !pod->meta.is_deleting) {
                pods.n_misnamed++;
                if (!pods.misnamed || strcmp(pod->meta.name, pods.misnamed->meta.name) < 0)
                    pods.misnamed = pod;
            }
            continue;
        }
        add_master(view, pod, owners, &pods);
    }
    settle_master(view, owners->master_job, &pods);
    *out = pods;
    return HVD_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct hvd_worker *x = a;
    const struct hvd_worker *y = b;
    const struct hvd_topology_pair pair_x = {x->topology, x->pod->u.pod.topology};
    const struct hvd_topology_pair pair_y = {y->topology, y->pod->u.pod.topology};
    bool has_topology = x->topology || y->topology || pair_x.pod || pair_y.pod;
    int order = has_topology ? hvd_topology_compare(&pair_x, &pair_y) : 0;

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
