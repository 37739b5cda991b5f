/*
 * The PodGroup of a job, for volcano and for scheduler-plugins. Its minResources are the sum of the
 * requests of exactly those workers that minMember counts, in the order of the host list. Other
 * programs add to a PodGroup (defaults, status), so the operator compares only the fields that it
 * sets. The hash of its own spec reveals a field that it no longer sets. Pure.
 */
#include "operator/core/children/gang.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "operator/core/children/patch.h"
#include "operator/core/children/requests.h"
#include "operator/core/view/hash.h"

#define EXACT_MAX 9007199254740992.0                  /* 2^53 */
#define VOLCANO_GROUP "scheduling.k8s.io/group-name"  /* annotation */
#define PLUGINS_GROUP "scheduling.x-k8s.io/pod-group" /* label */
#define VOLCANO_SCHEDULER "volcano"
#define PLUGINS_SCHEDULER "scheduler-plugins-scheduler" /* its name in the plugins' own chart */

static const char *const fields[HVD_GANG_FIELDS] = {"minMember", "minResources", "queue",
                                                    "priorityClassName", "scheduleTimeoutSeconds"};

enum hvd_kind hvd_gang_kind(const struct hvd_settings *settings)
{
    if (!settings || settings->gang == HVD_GANG_NONE)
        return HVD_N_KINDS;
    return settings->gang == HVD_GANG_VOLCANO ? HVD_KIND_VOLCANO_PODGROUP
                                              : HVD_KIND_PLUGINS_PODGROUP;
}

int64_t hvd_gang_members(const struct hvd_job *job)
{
    int64_t wanted = job->spec.min_available;

    for (size_t i = 0; job->spec.min_available == 0 && i < job->spec.n_groups; i++)
        wanted += job->spec.groups[i].n_enough;
    return wanted < job->spec.replicas ? wanted : job->spec.replicas;
}

/* The PodSpec of a group's workers; for a short form it is made under keep. Borrowed. */
static const cJSON *pod_of(struct hvd_jb *jb, cJSON *keep, const cJSON *spec, size_t group)
{
    const cJSON *item =
        group ? cJSON_GetArrayItem(hvd_json_get(spec, "workerGroups"), (int)group - 1) : NULL;
    const cJSON *pod = hvd_json_at(item, "template.spec");
    cJSON *made, *container;

    if (!pod)
        pod = hvd_json_at(spec, "worker.template.spec");
    if (pod)
        return pod;
    made = hvd_jb_object(jb, keep, NULL);
    container = hvd_jb_object(jb, hvd_jb_array(jb, made, "containers"), NULL);
    hvd_jb_copy(jb, container, "resources", hvd_json_get(spec, "resources"));
    return made;
}

/* Adds the requests of the first n workers; keep owns the names in the sum. */
static void add_members(struct hvd_requests *sum, struct hvd_jb *jb, cJSON *keep,
                        const struct hvd_child_inputs *in, int64_t n)
{
    for (size_t i = 0; i < in->job->spec.n_groups && n > 0; i++) {
        int64_t some = in->job->spec.groups[i].replicas;

        some = some < n ? some : n;
        hvd_requests_add_pod(sum, pod_of(jb, keep, in->spec, i), some);
        n -= some;
    }
}

static const char *priority(const cJSON *spec)
{
    const char *own = hvd_json_str(spec, "scheduling.priorityClassName");

    return own ? own : hvd_json_str(spec, "worker.template.spec.priorityClassName");
}

/* Puts parent["spec"], with only the fields of a PodGroup that the operator sets. */
static cJSON *put_spec(struct hvd_jb *jb, cJSON *parent, const struct hvd_child_inputs *in)
{
    struct hvd_requests sum = {0};
    int64_t members = hvd_gang_members(in->job);
    bool is_volcano = in->settings->gang == HVD_GANG_VOLCANO;
    cJSON *spec = hvd_jb_object(jb, parent, "spec");
    cJSON *root = hvd_jb_root(jb);
    cJSON *keep = hvd_jb_array(jb, root, "pods");
    const char *queue = hvd_json_str(in->spec, "scheduling.queue");

    hvd_jb_int(jb, spec, "minMember", members);
    add_members(&sum, jb, keep, in, members);
    hvd_requests_encode(jb, spec, "minResources", &sum);
    cJSON_Delete(root);
    if (is_volcano && queue)
        hvd_jb_str(jb, spec, "queue", queue);
    if (is_volcano && priority(in->spec))
        hvd_jb_str(jb, spec, "priorityClassName", priority(in->spec));
    if (!is_volcano && in->job->spec.schedule_timeout_s > 0)
        hvd_jb_int(jb, spec, "scheduleTimeoutSeconds", in->job->spec.schedule_timeout_s);
    return spec;
}

/* 3, 3.0 and 3e0 are one number; the bits identify one that no integer holds. */
static uint64_t hash_number(double value)
{
    int64_t number;

    if (fabs(value) <= EXACT_MAX)
        number = (int64_t)value;
    else
        memcpy(&number, &value, sizeof(number));
    return hvd_hash_number(HVD_HASH_START, number);
}

/* Hashes the value of a scalar, or the members of an object in any order. 0: there is none. */
static uint64_t hash_of(const cJSON *item)
{
    const cJSON *member = NULL;
    uint64_t sum = 1;

    if (cJSON_IsNumber(item))
        return hash_number(item->valuedouble);
    if (cJSON_IsString(item))
        return hvd_hash_text(HVD_HASH_START, item->valuestring);
    if (!cJSON_IsObject(item))
        return 0;
    cJSON_ArrayForEach(member, item)
    {
        sum += hvd_hash_number(hvd_hash_text(HVD_HASH_START, member->string),
                               (int64_t)hash_of(member));
    }
    return sum;
}

void hvd_gang_observe(const cJSON *spec, uint64_t out[HVD_GANG_FIELDS])
{
    for (size_t i = 0; i < HVD_GANG_FIELDS; i++)
        out[i] = hash_of(hvd_json_get(spec, fields[i]));
}

static void put_hash(struct hvd_jb *jb, cJSON *meta, const uint64_t own[HVD_GANG_FIELDS],
                     char text[HVD_HASH_SIZE])
{
    uint64_t hash = HVD_HASH_START;

    for (size_t i = 0; i < HVD_GANG_FIELDS; i++)
        hash = hvd_hash_number(hash, (int64_t)own[i]);
    (void)snprintf(text, HVD_HASH_SIZE, "%016" PRIx64, hash);
    hvd_jb_str(jb, hvd_jb_ensure_object(jb, meta, "annotations"), HVD_ANNOTATION_SPEC_HASH, text);
}

void hvd_gang_spec(struct hvd_jb *jb, cJSON *root, cJSON *meta, const struct hvd_child_inputs *in)
{
    uint64_t own[HVD_GANG_FIELDS];
    char text[HVD_HASH_SIZE];

    hvd_gang_observe(put_spec(jb, root, in), own);
    put_hash(jb, meta, own, text);
}

/* Adds the steps for the spec. Each replaces a whole field, because minResources may lose
 * members. */
static void patch_fields(struct hvd_jb *jb, cJSON *patch, const cJSON *spec,
                         const uint64_t is[HVD_GANG_FIELDS])
{
    char path[64];
    bool has_any = false;

    for (size_t i = 0; i < HVD_GANG_FIELDS; i++)
        has_any = has_any || is[i] != 0;
    if (!has_any) {
        hvd_jb_copy(jb, hvd_patch_step(jb, patch, "add", "/spec"), "value", spec);
        return;
    }
    for (size_t i = 0; i < HVD_GANG_FIELDS; i++) {
        const cJSON *wanted = hvd_json_get(spec, fields[i]);

        (void)snprintf(path, sizeof(path), "/spec/%s", fields[i]);
        if (wanted)
            hvd_jb_copy(jb, hvd_patch_step(jb, patch, "add", path), "value", wanted);
        else if (is[i] != 0)
            hvd_patch_step(jb, patch, "remove", path);
    }
}

/* Adds the step for the annotation in meta that holds the hash. */
static void patch_hash(struct hvd_jb *jb, cJSON *patch, const cJSON *meta, bool has_hash)
{
    const cJSON *annotations = hvd_json_get(meta, "annotations");
    cJSON *item = hvd_patch_step(jb, patch, "add",
                                 has_hash ? "/metadata/annotations/horovod.io~1spec-hash"
                                          : "/metadata/annotations");

    hvd_jb_copy(jb, item, "value",
                has_hash ? hvd_json_get(annotations, HVD_ANNOTATION_SPEC_HASH) : annotations);
}

static bool is_same(const struct hvd_object *group, const uint64_t own[HVD_GANG_FIELDS],
                    const char *hash)
{
    if (!hvd_str_equal(hash, group->u.podgroup.spec_hash))
        return false;
    for (size_t i = 0; i < HVD_GANG_FIELDS; i++) {
        if (own[i] != 0 && own[i] != group->u.podgroup.fields[i])
            return false;
    }
    return true;
}

hvd_status_t hvd_gang_patch(const struct hvd_child_inputs *in, const struct hvd_object *group,
                            char **out, struct hvd_err *err)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *meta = hvd_jb_object(&jb, root, "metadata");
    cJSON *spec = put_spec(&jb, root, in);
    cJSON *patch = hvd_jb_array(&jb, root, "patch");
    uint64_t own[HVD_GANG_FIELDS];
    char hash[HVD_HASH_SIZE], *body = NULL;

    hvd_gang_observe(spec, own);
    hvd_children_mark(&jb, meta, "annotations", in->job);
    put_hash(&jb, meta, own, hash);
    if (!jb.failed && !is_same(group, own, hash)) {
        hvd_patch_expect_steps(&jb, patch, &group->meta);
        patch_hash(&jb, patch, meta, group->u.podgroup.spec_hash != NULL);
        patch_fields(&jb, patch, spec, group->u.podgroup.fields);
        body = hvd_jb_print(&jb, patch);
    }
    cJSON_Delete(root);
    if (jb.failed)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "patch of PodGroup %s", in->job->name);
    *out = body;
    return HVD_OK;
}

void hvd_gang_join(struct hvd_jb *jb, cJSON *template, const struct hvd_child_inputs *in)
{
    bool is_volcano;
    cJSON *meta, *pod;
    const char *scheduler;

    if (hvd_gang_kind(in->settings) == HVD_N_KINDS)
        return;
    is_volcano = in->settings->gang == HVD_GANG_VOLCANO;
    scheduler = in->settings->gang_scheduler;
    if (!scheduler)
        scheduler = is_volcano ? VOLCANO_SCHEDULER : PLUGINS_SCHEDULER;
    pod = hvd_jb_ensure_object(jb, template, "spec");
    if (pod && !hvd_json_get(pod, "schedulerName"))
        hvd_jb_str(jb, pod, "schedulerName", scheduler);
    meta = hvd_jb_ensure_object(jb, template, "metadata");
    if (is_volcano)
        hvd_jb_str(jb, hvd_jb_ensure_object(jb, meta, "annotations"), VOLCANO_GROUP, in->job->name);
    else
        hvd_jb_str(jb, hvd_jb_ensure_object(jb, meta, "labels"), PLUGINS_GROUP, in->job->name);
}
