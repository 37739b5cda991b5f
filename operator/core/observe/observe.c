/*
 * Projects API objects: copies the fields that reconcile reads, and drops the rest. A field that is
 * absent or of an unexpected type stays zero. observe_pod.c projects pods, which have the most
 * fields. Pure.
 */
#include "operator/core/observe/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/api/finalizers.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/core/children/gang.h"
#include "operator/core/children/hosts.h"
#include "operator/core/observe/observe_altered.h"
#include "operator/core/observe/observe_internal.h"
#include "operator/core/view/hash.h"
#include "operator/core/view/packed.h"

#define OWNER_NAME_MAX 256 /* names of objects have at most 253 bytes */

int hvd_observe_cut(const char *text, size_t len, size_t max)
{
    if (len > max) {
        len = max;
        while (len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80)
            len--;
    }
    return (int)len;
}

bool hvd_observe_text_n(const char *text, size_t len, char **out)
{
    if (!text)
        return true;
    *out = hvd_strndup(text, (size_t)hvd_observe_cut(text, len, HVD_OBSERVE_TEXT_MAX));
    if (*out)
        hvd_str_disarm(*out);
    return *out != NULL;
}

bool hvd_observe_text(const cJSON *object, const char *path, char **out)
{
    const char *text = hvd_json_str(object, path);

    return hvd_observe_text_n(text, text ? strlen(text) : 0, out);
}

/* Names in an owner reference may have any content and length; one that is too long names
 * nothing. */
static bool observe_name(const cJSON *owner, const char *key, char **out)
{
    const char *text = hvd_json_str(owner, key);

    return hvd_observe_text_n(
        text, text ? (size_t)hvd_observe_cut(text, strlen(text), OWNER_NAME_MAX) : 0, out);
}

static bool observe_owner(const cJSON *meta, struct hvd_meta *out)
{
    const cJSON *owners = hvd_json_get(meta, "ownerReferences");
    const cJSON *owner = NULL;

    out->has_owners = cJSON_GetArraySize(owners) > 0;
    cJSON_ArrayForEach(owner, owners)
    {
        if (hvd_json_true(owner, "controller"))
            return observe_name(owner, "kind", &out->owner_kind) &&
                   observe_name(owner, "name", &out->owner_name) &&
                   observe_name(owner, "uid", &out->owner_uid);
    }
    return true;
}

static const char *label_of(const cJSON *meta, const char *name)
{
    return cJSON_GetStringValue((cJSON *)hvd_json_get(hvd_json_get(meta, "labels"), name));
}

static enum hvd_role role_of(const cJSON *meta)
{
    const char *role = label_of(meta, HVD_LABEL_ROLE);

    if (hvd_str_equal(role, "master"))
        return HVD_ROLE_MASTER;
    if (hvd_str_equal(role, "worker"))
        return HVD_ROLE_WORKER;
    return HVD_ROLE_NONE;
}

/* The part after "JOB-master" or "JOB-worker" in the name of a pod that a controller of our
 * children made; sets the pod's role. NULL for every other pod. Unlike labels and owners, name and
 * subdomain cannot change. */
static const char *member_tail(const cJSON *object, struct hvd_meta *meta)
{
    const char *job = hvd_json_str(object, "spec.subdomain");
    const char *tail;

    if (!job || !hvd_str_has_prefix(meta->name, job) ||
        (meta->owner_kind && strcmp(meta->owner_kind, "StatefulSet") != 0 &&
         strcmp(meta->owner_kind, "Job") != 0))
        return NULL;
    tail = meta->name + strlen(job);
    if (hvd_str_has_prefix(tail, "-worker-"))
        meta->role = HVD_ROLE_WORKER;
    else if (hvd_str_has_prefix(tail, "-master-"))
        meta->role = HVD_ROLE_MASTER;
    return meta->role ? tail + strlen("-worker") : NULL;
}

/* Whether it is a number in a StatefulSet's notation. */
static bool is_ordinal(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0' &&
           (*text != '0' || text[1] == '\0');
}

/* Whether a worker's group label differs from the group in the end of its name, "-GROUP-3" or
 * "-3". */
static bool is_group_lost(const cJSON *meta, const char *tail)
{
    const char *group = label_of(meta, HVD_LABEL_GROUP);
    const char *dash = strrchr(tail, '-');
    size_t len = dash > tail ? (size_t)(dash - tail) - 1 : 0;

    return len > 0 && (!group || strlen(group) != len || strncmp(group, tail + 1, len) != 0);
}

static struct hvd_strview view_of(const char *text)
{
    return text ? hvd_strview_of(text) : (struct hvd_strview){NULL, 0};
}

/*
 * The job in the name of a StatefulSet, Job or PodGroup of ours that has lost its controller;
 * without data: unknown. The label does not count here, because edits of owner references change
 * labels too.
 */
static struct hvd_strview job_of_released(const cJSON *object, const struct hvd_object *out)
{
    const struct hvd_strview none = {NULL, 0};
    struct hvd_strview job = view_of(out->meta.name);
    const char *service = hvd_json_str(object, "spec.serviceName");

    if (out->meta.owner_kind || !out->meta.name || !out->meta.made_for)
        return none;
    if (out->kind == HVD_KIND_VOLCANO_PODGROUP || out->kind == HVD_KIND_PLUGINS_PODGROUP)
        return job;
    if (out->kind == HVD_KIND_JOB && hvd_str_has_suffix(out->meta.name, "-master")) {
        job.len -= strlen("-master");
        return job;
    }
    if (out->kind != HVD_KIND_STATEFULSET || !service ||
        !hvd_str_has_prefix(out->meta.name, service) ||
        !hvd_str_has_prefix(out->meta.name + strlen(service), "-worker"))
        return none;
    return hvd_strview_of(service);
}

/* Finds the job that the object belongs to, and its labels that are lost or wrong. */
static bool observe_labels(const cJSON *object, const char *member, struct hvd_object *out)
{
    static const char *const roles[] = {
        [HVD_ROLE_NONE] = NULL, [HVD_ROLE_MASTER] = "master", [HVD_ROLE_WORKER] = "worker"};
    const cJSON *meta = hvd_json_get(object, "metadata");
    const char *kind = hvd_kind_info(HVD_KIND_HOROVODJOB)->kind;
    const char *label = label_of(meta, HVD_LABEL_JOB);
    struct hvd_strview job = job_of_released(object, out);
    bool is_managed = hvd_str_equal(label_of(meta, HVD_LABEL_MANAGED_BY), HVD_MANAGER);

    if (member)
        job = view_of(hvd_json_str(object, "spec.subdomain"));
    else if (hvd_str_equal(out->meta.owner_kind, kind))
        job = view_of(out->meta.owner_name);
    else if (!job.data)
        job = view_of(label);
    if (out->kind == HVD_KIND_STATEFULSET || out->kind == HVD_KIND_JOB)
        out->meta.role = out->kind == HVD_KIND_JOB ? HVD_ROLE_MASTER : HVD_ROLE_WORKER;
    else if (!member)
        out->meta.role = is_managed ? role_of(meta) : HVD_ROLE_NONE;
    out->meta.is_in_sight = label != NULL;
    out->meta.lost_labels = is_managed ? 0 : HVD_LOST_MANAGER;
    if (!label || !job.data || !hvd_strview_equal(job, label))
        out->meta.lost_labels |= HVD_LOST_JOB;
    if (out->meta.role && !hvd_str_equal(label_of(meta, HVD_LABEL_ROLE), roles[out->meta.role]))
        out->meta.lost_labels |= HVD_LOST_ROLE;
    if (member && out->meta.role == HVD_ROLE_WORKER && is_group_lost(meta, member))
        out->meta.lost_labels |= HVD_LOST_GROUP;
    return hvd_observe_text_n(job.data, job.len, &out->meta.job);
}

static bool has_mark(const cJSON *meta)
{
    return hvd_json_get(hvd_json_get(meta, "annotations"), HVD_ANNOTATION_JOB_UID) != NULL;
}

/* Whether the pod has the label, or has lost it but still has the annotation with the job's uid. */
static bool has_or_lost(const cJSON *meta, const char *name, const char *wanted)
{
    const char *label = label_of(meta, name);

    return label ? hvd_str_equal(label, wanted) : has_mark(meta);
}

/* Whether the Job controller made the pod for a master's Job of ours. Only it gives a pod these
 * labels; the first two are older than the others. */
static bool is_made_for_master(const cJSON *object, const char *job)
{
    static const char *const by_controller[] = {"controller-uid", "job-name",
                                                "batch.kubernetes.io/controller-uid",
                                                "batch.kubernetes.io/job-name"};
    const cJSON *meta = hvd_json_get(object, "metadata");
    bool is_made = false;

    for (size_t i = 0; i < sizeof(by_controller) / sizeof(by_controller[0]); i++)
        is_made = is_made || label_of(meta, by_controller[i]);
    return is_made && has_or_lost(meta, HVD_LABEL_ROLE, "master") &&
           has_or_lost(meta, HVD_LABEL_MANAGED_BY, HVD_MANAGER) &&
           has_or_lost(meta, HVD_LABEL_JOB, job);
}

/* The pod template of a StatefulSet or Job is better evidence than the child's own annotation. A
 * template cannot be edited, or is what the pods are made from. A writer that replaces the owner
 * reference may remove the annotation too. */
static bool observe_made_for(const cJSON *object, struct hvd_object *out)
{
    const bool is_pod = out->kind == HVD_KIND_POD;
    const cJSON *annotations = hvd_json_at(object, "spec.template.metadata.annotations");
    const char *uid = cJSON_GetStringValue(
        (cJSON *)hvd_json_get(is_pod ? NULL : annotations, HVD_ANNOTATION_JOB_UID));

    if (is_pod && !out->u.pod.is_orphan)
        return true;
    return uid ? hvd_observe_text_n(uid, strlen(uid), &out->meta.made_for)
               : hvd_observe_annotation(object, HVD_ANNOTATION_JOB_UID, &out->meta.made_for);
}

static bool observe_place_in_job(const cJSON *object, struct hvd_object *out)
{
    const char *member = out->kind == HVD_KIND_POD ? member_tail(object, &out->meta) : NULL;

    if (member && !out->meta.owner_kind)
        out->u.pod.is_orphan =
            out->meta.role == HVD_ROLE_WORKER
                ? is_ordinal(strrchr(member, '-') + 1)
                : is_made_for_master(object, hvd_json_str(object, "spec.subdomain"));
    if (!observe_made_for(object, out))
        return false;
    return observe_labels(object, member, out);
}

static bool observe_meta(const cJSON *object, struct hvd_object *made)
{
    const cJSON *meta = hvd_json_get(object, "metadata");
    struct hvd_meta *out = &made->meta;

    out->created_s = hvd_rfc3339_parse(hvd_json_str(meta, "creationTimestamp"));
    out->is_deleting = hvd_json_str(meta, "deletionTimestamp") != NULL;
    if (out->is_deleting)
        out->deletion_s = hvd_rfc3339_parse(hvd_json_str(meta, "deletionTimestamp"));
    if (out->is_deleting && hvd_finalizers_text(meta, &out->finalizers) != HVD_OK)
        return false;
    return hvd_observe_text(meta, "namespace", &out->namespace) &&
           hvd_observe_text(meta, "name", &out->name) && hvd_observe_text(meta, "uid", &out->uid) &&
           hvd_observe_text(meta, "resourceVersion", &out->resource_version) &&
           observe_owner(meta, out) && observe_place_in_job(object, made);
}

bool hvd_observe_annotation(const cJSON *object, const char *key, char **out)
{
    const cJSON *item = hvd_json_get(hvd_json_at(object, "metadata.annotations"), key);
    const char *text = cJSON_GetStringValue((cJSON *)item);

    return hvd_observe_text_n(text, text ? strlen(text) : 0, out);
}

bool hvd_observe_is(const cJSON *object, const char *path, const char *expected)
{
    const char *text = hvd_json_str(object, path);

    return text && strcmp(text, expected) == 0;
}

static bool observe_service(const cJSON *object, struct hvd_object *out)
{
    const cJSON *selector = hvd_json_at(object, "spec.selector");

    const char *type = hvd_json_str(object, "spec.type");
    const char *address = hvd_json_str(object, "spec.clusterIP");

    out->u.service.is_headless =
        hvd_str_equal(address, "None") && (!type || strcmp(type, "ClusterIP") == 0);
    out->u.service.has_address = address && *address != '\0' && strcmp(address, "None") != 0;
    out->u.service.publishes_not_ready = hvd_json_true(object, "spec.publishNotReadyAddresses");
    out->u.service.selects_job =
        cJSON_GetArraySize(selector) == 2 && out->meta.name &&
        hvd_str_equal(cJSON_GetStringValue((cJSON *)hvd_json_get(selector, HVD_LABEL_MANAGED_BY)),
                      HVD_MANAGER) &&
        hvd_str_equal(cJSON_GetStringValue((cJSON *)hvd_json_get(selector, HVD_LABEL_JOB)),
                      out->meta.name);
    return true;
}

uint64_t hvd_observe_revision(const char *name)
{
    /* Half of the hash is enough; it is kept for every worker. */
    return name ? hvd_hash_text(HVD_HASH_START, name) >> 32 : 0;
}

/* The positive number in an annotation; 0: none. */
static int64_t observe_number(const cJSON *object, const char *key, int64_t most)
{
    const cJSON *item = hvd_json_get(hvd_json_at(object, "metadata.annotations"), key);
    const int64_t range[2] = {1, most};
    int64_t number = 0;

    if (cJSON_IsString(item))
        (void)!hvd_str_parse_int64(hvd_strview_of(item->valuestring), range, &number, NULL);
    return number;
}

static bool observe_statefulset(const cJSON *object, struct hvd_object *out)
{
    out->u.statefulset.revision =
        hvd_observe_revision(hvd_json_str(object, "status.updateRevision"));
    out->u.statefulset.is_on_delete =
        hvd_observe_is(object, "spec.updateStrategy.type", "OnDelete") &&
        !hvd_json_at(object, "spec.updateStrategy.rollingUpdate");
    out->u.statefulset.is_unseen = hvd_json_int(object, "status.observedGeneration", 0) <
                                   hvd_json_int(object, "metadata.generation", 1);
    out->u.statefulset.is_shifted = hvd_json_int(object, "spec.ordinals.start", 0) != 0;
    out->u.statefulset.generation = observe_number(object, HVD_ANNOTATION_GENERATION, INT64_MAX);
    out->u.statefulset.replicas = hvd_json_int(object, "spec.replicas", 1);
    return hvd_observe_altered(object, out) &&
           hvd_observe_annotation(object, HVD_ANNOTATION_SPEC_HASH, &out->u.statefulset.spec_hash);
}

const cJSON *hvd_observe_condition(const cJSON *object, const char *type)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(object, "status.conditions"))
    {
        if (hvd_observe_is(item, "type", type) && hvd_observe_is(item, "status", "True"))
            return item;
    }
    return NULL;
}

static uint64_t workers_hash(const cJSON *object)
{
    const cJSON *item =
        hvd_json_get(hvd_json_at(object, "metadata.annotations"), HVD_ANNOTATION_WORKERS_HASH);

    return cJSON_IsString(item) ? strtoull(item->valuestring, NULL, 16) : 0;
}

static int32_t fields_set_by_others(const cJSON *object)
{
    int32_t set = 0;

    if (hvd_json_int(object, "spec.ttlSecondsAfterFinished", -1) >= 0)
        set |= HVD_JOB_TTL;
    if (hvd_json_int(object, "spec.activeDeadlineSeconds", -1) >= 0)
        set |= HVD_JOB_DEADLINE;
    if (hvd_json_int(object, "spec.backoffLimit", 0) != 0)
        set |= HVD_JOB_BACKOFF;
    return set;
}

static bool observe_manager(const cJSON *object, char **out)
{
    const char *manager = hvd_json_str(object, "spec.managedBy");

    return !manager || strcmp(manager, "kubernetes.io/job-controller") == 0 ||
           hvd_observe_text_n(manager, strlen(manager), out);
}

static bool observe_job(const cJSON *object, struct hvd_object *out)
{
    const cJSON *failed = hvd_observe_condition(object, "Failed");

    out->u.job.attempt = (int32_t)observe_number(object, HVD_ANNOTATION_ATTEMPT, INT32_MAX);
    out->u.job.is_held =
        hvd_json_true(object, "spec.suspend") || hvd_json_int(object, "spec.parallelism", 1) == 0;
    out->u.job.set_by_others = fields_set_by_others(object);
    out->u.job.is_complete = hvd_observe_condition(object, "Complete") != NULL;
    out->u.job.is_failed = failed != NULL;
    out->u.job.failed_s = hvd_rfc3339_parse(hvd_json_str(failed, "lastTransitionTime"));
    if (!out->u.job.is_complete && !out->u.job.is_failed)
        out->u.job.workers_hash = workers_hash(object);
    out->u.job.is_unseen = !hvd_json_at(object, "status.startTime");
    return hvd_observe_text(failed, "message", &out->u.job.message) &&
           observe_manager(object, &out->u.job.manager) && hvd_observe_altered(object, out) &&
           hvd_observe_annotation(object, HVD_ANNOTATION_WORKERS, &out->u.job.workers) &&
           hvd_observe_annotation(object, HVD_ANNOTATION_SCALED_DOWN, &out->u.job.scaled_down);
}

static bool observe_configmap(const cJSON *object, struct hvd_object *out)
{
    const cJSON *end =
        hvd_json_get(hvd_json_at(object, "metadata.annotations"), HVD_ANNOTATION_END);
    const char *text = cJSON_GetStringValue((cJSON *)end);

    out->u.configmap.is_immutable = hvd_json_true(object, "immutable");
    out->u.configmap.is_shadowed = hvd_hosts_has_any(hvd_json_get(object, "binaryData"));
    out->u.configmap.data_hash = hvd_hosts_hash(hvd_json_get(object, "data"));
    if (!text)
        return true;
    out->u.configmap.end =
        hvd_strndup(text, (size_t)hvd_observe_cut(text, strlen(text), HVD_MARK_TEXT_MAX));
    if (out->u.configmap.end)
        hvd_str_disarm(out->u.configmap.end);
    return out->u.configmap.end != NULL;
}

static bool observe_podgroup(const cJSON *object, struct hvd_object *out)
{
    hvd_gang_observe(hvd_json_get(object, "spec"), out->u.podgroup.fields);
    out->u.podgroup.is_pending = hvd_observe_is(object, "status.phase", "Pending");
    return hvd_observe_annotation(object, HVD_ANNOTATION_SPEC_HASH, &out->u.podgroup.spec_hash);
}

static bool observe_kind(const cJSON *object, struct hvd_object *out)
{
    switch (out->kind) {
    case HVD_KIND_SERVICE:
        return observe_service(object, out);
    case HVD_KIND_STATEFULSET:
        return observe_statefulset(object, out);
    case HVD_KIND_CONFIGMAP:
        return observe_configmap(object, out);
    case HVD_KIND_JOB:
        return observe_job(object, out);
    case HVD_KIND_POD:
        return hvd_observe_pod(object, out);
    case HVD_KIND_VOLCANO_PODGROUP:
    case HVD_KIND_PLUGINS_PODGROUP:
        return observe_podgroup(object, out);
    default:
        return true;
    }
}

hvd_status_t hvd_observe(enum hvd_kind kind, const cJSON *object, struct hvd_object *out,
                         struct hvd_err *err)
{
    struct hvd_object made = {.kind = kind};
    const cJSON *meta = hvd_json_get(object, "metadata");

    if (!hvd_json_str(meta, "namespace") || !hvd_json_str(meta, "name") ||
        !hvd_json_str(meta, "uid"))
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s without namespace, name or uid",
                        hvd_kind_info(kind)->kind);
    if (!observe_meta(object, &made) || !observe_kind(object, &made)) {
        hvd_observe_object_fini(&made);
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s %s", hvd_kind_info(kind)->kind,
                        hvd_json_str(meta, "name"));
    }
    *out = made;
    return HVD_OK;
}

void hvd_observe_object_fini(struct hvd_object *object)
{
    char **texts[HVD_OBJECT_TEXTS_MAX];
    size_t n = hvd_packed_texts(object, texts);

    for (size_t i = 0; i < n; i++) {
        hvd_free(*texts[i]);
        *texts[i] = NULL;
    }
}
