/*
 * The bodies of a job's children. The HorovodJob owns all of them (controller, blockOwnerDeletion),
 * so the garbage collector removes them with it. Nothing here depends on time or chance: the same
 * job gives the same bytes. Pure.
 */
#include "operator/core/children/children.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "operator/core/children/gang.h"
#include "operator/core/children/patch.h"
#include "operator/core/children/placement.h"
#include "operator/core/children/template.h"
#include "operator/core/launch/launch.h"
#include "operator/core/view/hash.h"

/* Appends to a name of len bytes; returns its new length. A pass builds dozens of names, so this
 * avoids snprintf. */
static size_t append(char out[HVD_CHILD_NAME_MAX], size_t len, const char *text)
{
    const size_t n = strnlen(text, HVD_CHILD_NAME_MAX - 1 - len);

    memcpy(out + len, text, n);
    out[len + n] = '\0';
    return len + n;
}

void hvd_children_name(const struct hvd_job *job, enum hvd_kind kind, char out[HVD_CHILD_NAME_MAX])
{
    static const char *const suffixes[HVD_N_KINDS] = {
        [HVD_KIND_STATEFULSET] = "-worker",
        [HVD_KIND_CONFIGMAP] = "-hosts",
        [HVD_KIND_JOB] = "-master",
    };
    const struct hvd_launch *launch = hvd_launch_of(job);
    const char *suffix = kind == launch->child ? launch->child_suffix : suffixes[kind];

    (void)append(out, append(out, 0, job->name), suffix ? suffix : "");
}

void hvd_children_group_name(const struct hvd_job *job, size_t group, char out[HVD_CHILD_NAME_MAX])
{
    const char *name = group < job->spec.n_groups ? job->spec.groups[group].name : "";
    size_t len = append(out, append(out, 0, job->name), "-worker");

    if (*name)
        (void)append(out, append(out, len, "-"), name);
}

void hvd_children_labels(struct hvd_jb *jb, cJSON *meta, const struct hvd_job *job,
                         enum hvd_kind kind)
{
    cJSON *labels = hvd_jb_object(jb, meta, "labels");

    hvd_jb_str(jb, labels, HVD_LABEL_MANAGED_BY, HVD_MANAGER);
    hvd_jb_str(jb, labels, HVD_LABEL_JOB, job->name);
    if (kind == HVD_KIND_STATEFULSET)
        hvd_jb_str(jb, labels, HVD_LABEL_ROLE, "worker");
    if (kind == HVD_KIND_JOB)
        hvd_jb_str(jb, labels, HVD_LABEL_ROLE, "master");
}

void hvd_children_owner(struct hvd_jb *jb, cJSON *owner, const struct hvd_job *job)
{
    hvd_jb_str(jb, owner, "apiVersion", hvd_kind_info(HVD_KIND_HOROVODJOB)->api_version);
    hvd_jb_str(jb, owner, "kind", HVD_JOB_KIND);
    hvd_jb_str(jb, owner, "name", job->name);
    hvd_jb_str(jb, owner, "uid", job->uid);
    hvd_jb_bool(jb, owner, "controller", true);
    hvd_jb_bool(jb, owner, "blockOwnerDeletion", true);
}

cJSON *hvd_children_mark(struct hvd_jb *jb, cJSON *parent, const char *key,
                         const struct hvd_job *job)
{
    cJSON *annotations = hvd_jb_ensure_object(jb, parent, key);

    hvd_jb_str(jb, annotations, HVD_ANNOTATION_JOB_UID, job->uid);
    return annotations;
}

/* Whether children of that kind have the operator's annotations. */
static bool has_mark(enum hvd_kind kind)
{
    return kind != HVD_KIND_SECRET && kind != HVD_KIND_SERVICE && kind != HVD_KIND_CONFIGMAP;
}

/* Begins a child with its metadata; returns metadata. */
static cJSON *start(struct hvd_jb *jb, cJSON *root, const struct hvd_job *job, enum hvd_kind kind,
                    const char *name)
{
    const struct hvd_kind_info *info = hvd_kind_info(kind);
    cJSON *meta;

    hvd_jb_str(jb, root, "apiVersion", info->api_version);
    hvd_jb_str(jb, root, "kind", info->kind);
    meta = hvd_jb_object(jb, root, "metadata");
    hvd_jb_str(jb, meta, "name", name);
    hvd_jb_str(jb, meta, "namespace", job->namespace);
    hvd_children_labels(jb, meta, job, kind);
    hvd_children_owner(jb, hvd_jb_object(jb, hvd_jb_array(jb, meta, "ownerReferences"), NULL), job);
    if (has_mark(kind))
        hvd_children_mark(jb, meta, "annotations", job);
    return meta;
}

/* Prints and deletes root. */
static hvd_status_t finish(struct hvd_jb *jb, cJSON *root, char **out, struct hvd_err *err)
{
    char *text = hvd_jb_print(jb, root);

    cJSON_Delete(root);
    if (!text)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "body of a child");
    *out = text;
    return HVD_OK;
}

hvd_status_t hvd_children_secret_encode(const struct hvd_job *job, const struct hvd_launch_key *key,
                                        char **out, struct hvd_err *err)
{
    const struct hvd_launch *launch = hvd_launch_of(job);
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(job, launch->child, name);
    start(&jb, root, job, launch->child, name);
    launch->put_child(&jb, root, job, key);
    return finish(&jb, root, out, err);
}

static void service_spec(struct hvd_jb *jb, cJSON *root, const struct hvd_child_inputs *in)
{
    cJSON *spec = hvd_jb_object(jb, root, "spec");
    cJSON *selector;

    hvd_jb_str(jb, spec, "clusterIP", "None");
    hvd_jb_bool(jb, spec, "publishNotReadyAddresses", true);
    selector = hvd_jb_object(jb, spec, "selector");
    hvd_jb_str(jb, selector, HVD_LABEL_MANAGED_BY, HVD_MANAGER);
    hvd_jb_str(jb, selector, HVD_LABEL_JOB, in->job->name);
}

static uint64_t hash_item(struct hvd_jb *jb, const cJSON *item, uint64_t hash)
{
    char *text = item ? hvd_jb_print(jb, item) : NULL;

    hash = hvd_hash_text(hash, text);
    hvd_free(text);
    return hash;
}

/*
 * The API server adds the definition's defaults to a spec, also to one stored without them. That
 * must not change the hash and restart the job, so a field with its default counts as absent.
 */
static uint64_t hash_network(struct hvd_jb *jb, const cJSON *network, uint64_t hash)
{
    cJSON *root = hvd_jb_root(jb);
    cJSON *given;

    hvd_jb_copy(jb, root, "network", network);
    given = (cJSON *)hvd_json_get(root, "network");
    if (hvd_str_equal(hvd_json_str(given, "hostNames"), "DNS"))
        cJSON_DeleteItemFromObjectCaseSensitive(given, "hostNames");
    if (cJSON_IsFalse(hvd_json_get(given, "hostNetwork")))
        cJSON_DeleteItemFromObjectCaseSensitive(given, "hostNetwork");
    hash = hash_item(jb, given && given->child ? given : NULL, hash);
    cJSON_Delete(root);
    return hash;
}

static uint64_t hash_slots(struct hvd_jb *jb, const cJSON *spec, uint64_t hash)
{
    const bool is_auto = hvd_str_equal(hvd_json_str(spec, "slotsPerWorker"), "auto");

    return hash_item(jb, is_auto ? NULL : hvd_json_get(spec, "slotsPerWorker"), hash);
}

/* Later fields count only where they are used: the hash of older specs must not change. */
static uint64_t hash_later_fields(struct hvd_jb *jb, const cJSON *spec, uint64_t hash)
{
    static const char *const fields[] = {"runMasterAsWorker", "topologyKeys"};
    static const char *const of_group[] = {"name", "slotsPerWorker", "template"};
    const cJSON *group = NULL;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const cJSON *item = hvd_json_get(spec, fields[i]);

        if (item && !cJSON_IsFalse(item))
            hash = hash_item(jb, item, hvd_hash_text(hash, fields[i]));
    }
    cJSON_ArrayForEach(group, hvd_json_get(spec, "workerGroups"))
    {
        for (size_t i = 0; i < sizeof(of_group) / sizeof(of_group[0]); i++)
            hash = hash_item(jb, hvd_json_get(group, of_group[i]), hash);
    }
    return hash;
}

static void spec_hash(struct hvd_jb *jb, const cJSON *spec, char out[HVD_HASH_SIZE])
{
    static const char *const fixed[] = {"image",     "command", "args",           "env",
                                        "resources", "master",  "worker.template"};
    const char *priority = hvd_json_str(spec, "scheduling.priorityClassName");
    uint64_t hash = HVD_HASH_START;

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        hash = hash_item(jb, hvd_json_at(spec, fixed[i]), hash);
    hash = hash_slots(jb, spec, hash);
    hash = hash_item(jb, hvd_json_get(spec, "ssh"), hash);
    hash = hash_network(jb, hvd_json_get(spec, "network"), hash);
    if (priority) /* newer than the others: jobs without it keep their hash */
        hash = hvd_hash_text(hash, priority);
    hash = hash_later_fields(jb, spec, hash);
    (void)snprintf(out, HVD_HASH_SIZE, "%016" PRIx64, hash);
}

hvd_status_t hvd_children_spec_hash(const cJSON *spec, char out[HVD_HASH_SIZE], struct hvd_err *err)
{
    struct hvd_jb jb = {0};

    spec_hash(&jb, spec, out);
    return jb.failed ? HVD_FAIL(err, HVD_ERR_NOMEM, 0, "hash of the spec") : HVD_OK;
}

/* Puts a role's pod template under parent["template"]. */
static void put_template(struct hvd_jb *jb, cJSON *parent, const struct hvd_child_inputs *in,
                         enum hvd_role role)
{
    hvd_template_build(jb, parent, in, role);
    hvd_placement_add(jb, (cJSON *)hvd_json_get(parent, "template"), in, role);
}

/* Records the start of a set in its annotations. */
static void put_start(struct hvd_jb *jb, cJSON *annotations, const struct hvd_job *job,
                      const char *hash)
{
    hvd_jb_str(jb, annotations, HVD_ANNOTATION_SPEC_HASH, hash);
    hvd_jb_fmt(jb, annotations, HVD_ANNOTATION_GENERATION, "%" PRId64, job->generation);
}

static void statefulset_spec(struct hvd_jb *jb, cJSON *root, cJSON *meta,
                             const struct hvd_child_inputs *in)
{
    const struct hvd_worker_group *group = &in->job->spec.groups[in->group];
    cJSON *spec = hvd_jb_object(jb, root, "spec");
    cJSON *labels;
    char hash[HVD_HASH_SIZE];

    hvd_jb_str(jb, spec, "serviceName", in->job->name);
    hvd_jb_int(jb, spec, "replicas", group->replicas);
    hvd_jb_str(jb, spec, "podManagementPolicy", "Parallel");
    hvd_jb_str(jb, hvd_jb_object(jb, spec, "updateStrategy"), "type", "OnDelete");
    labels = hvd_jb_object(jb, hvd_jb_object(jb, spec, "selector"), "matchLabels");
    hvd_jb_str(jb, labels, HVD_LABEL_MANAGED_BY, HVD_MANAGER);
    hvd_jb_str(jb, labels, HVD_LABEL_JOB, in->job->name);
    hvd_jb_str(jb, labels, HVD_LABEL_ROLE, "worker");
    if (in->group > 0)
        hvd_jb_str(jb, labels, HVD_LABEL_GROUP, group->name);
    put_template(jb, spec, in, HVD_ROLE_WORKER);
    spec_hash(jb, in->spec, hash);
    put_start(jb, hvd_jb_ensure_object(jb, meta, "annotations"), in->job, hash);
}

/* Records how many workers of each group the master starts with. */
static void put_workers(struct hvd_jb *jb, cJSON *annotations, const struct hvd_job *job)
{
    char text[HVD_JOB_GROUPS_MAX * 12] = "";
    size_t len = 0;

    for (size_t i = 0; i < job->spec.n_groups; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%d", i ? "," : "",
                                job->spec.groups[i].replicas);
    hvd_jb_str(jb, annotations, HVD_ANNOTATION_WORKERS, text);
}

static void job_spec(struct hvd_jb *jb, cJSON *root, cJSON *meta, const struct hvd_child_inputs *in)
{
    cJSON *spec = hvd_jb_object(jb, root, "spec");
    cJSON *pod_meta;

    hvd_jb_fmt(jb, hvd_jb_ensure_object(jb, meta, "annotations"), HVD_ANNOTATION_ATTEMPT, "%d",
               in->attempt);
    put_workers(jb, (cJSON *)hvd_json_get(meta, "annotations"), in->job);
    if (in->workers_hash)
        hvd_jb_fmt(jb, (cJSON *)hvd_json_get(meta, "annotations"), HVD_ANNOTATION_WORKERS_HASH,
                   "%016" PRIx64, in->workers_hash);
    hvd_jb_int(jb, spec, "backoffLimit", 0);
    put_template(jb, spec, in, HVD_ROLE_MASTER);
    pod_meta = (cJSON *)hvd_json_at(spec, "template.metadata");
    hvd_jb_str(jb, hvd_jb_ensure_object(jb, pod_meta, "annotations"), HVD_ANNOTATION_HOSTS,
               in->hosts_seen);
}

void hvd_children_restore_marks(struct hvd_jb *jb, cJSON *meta, const struct hvd_child_inputs *in,
                                const struct hvd_object *child)
{
    char hash[HVD_HASH_SIZE];
    cJSON *annotations;

    if (!has_mark(child->kind))
        return;
    annotations = hvd_children_mark(jb, meta, "annotations", in->job);
    if (child->kind == HVD_KIND_JOB && !child->u.job.attempt)
        hvd_jb_fmt(jb, annotations, HVD_ANNOTATION_ATTEMPT, "%d", in->attempt);
    if (child->kind == HVD_KIND_JOB && !child->u.job.workers)
        put_workers(jb, annotations, in->job);
    if (child->kind != HVD_KIND_STATEFULSET || !in->spec)
        return;
    spec_hash(jb, in->spec, hash);
    hvd_jb_str(jb, annotations, HVD_ANNOTATION_SPEC_HASH, hash);
}

hvd_status_t hvd_children_encode(enum hvd_kind kind, const struct hvd_child_inputs *in, char **out,
                                 struct hvd_err *err)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    char name[HVD_CHILD_NAME_MAX];
    cJSON *meta;

    if (kind == HVD_KIND_STATEFULSET)
        hvd_children_group_name(in->job, in->group, name);
    else
        hvd_children_name(in->job, kind, name);
    meta = start(&jb, root, in->job, kind, name);
    if (kind == HVD_KIND_SERVICE)
        service_spec(&jb, root, in);
    else if (kind == HVD_KIND_STATEFULSET)
        statefulset_spec(&jb, root, meta, in);
    else if (kind == HVD_KIND_CONFIGMAP)
        hvd_jb_copy(&jb, root, "data", in->hosts_data);
    else if (kind == HVD_KIND_JOB)
        job_spec(&jb, root, meta, in);
    else
        hvd_gang_spec(&jb, root, meta, in);
    return finish(&jb, root, out, err);
}

hvd_status_t hvd_children_template_patch(const struct hvd_child_inputs *in,
                                         const struct hvd_meta *known, char **out,
                                         struct hvd_err *err)
{
    struct hvd_jb jb = {0};
    cJSON *root = hvd_jb_root(&jb);
    cJSON *patch = hvd_jb_array(&jb, root, "patch");
    cJSON *step;
    char hash[HVD_HASH_SIZE];
    char *text;

    hvd_patch_expect_steps(&jb, patch, known);
    step = hvd_patch_step(&jb, patch, "replace", "/spec/template");
    put_template(&jb, root, in, HVD_ROLE_WORKER);
    spec_hash(&jb, in->spec, hash);
    hvd_jb_copy(&jb, step, "value", hvd_json_get(root, "template"));
    hvd_jb_int(&jb, hvd_patch_step(&jb, patch, "replace", "/spec/replicas"), "value",
               in->job->spec.groups[in->group].replicas);
    if (in->has_hash) {
        step = hvd_patch_step(&jb, patch, "add", "/metadata/annotations/horovod.io~1spec-hash");
        hvd_jb_str(&jb, step, "value", hash);
        step = hvd_patch_step(&jb, patch, "add", "/metadata/annotations/horovod.io~1generation");
        hvd_jb_fmt(&jb, step, "value", "%" PRId64, in->job->generation);
    } else {
        step = hvd_patch_step(&jb, patch, "add", "/metadata/annotations");
        put_start(&jb, hvd_children_mark(&jb, step, "value", in->job), in->job, hash);
    }
    text = hvd_jb_print(&jb, patch);
    cJSON_Delete(root);
    if (!text)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "patch of a StatefulSet of %s", in->job->name);
    *out = text;
    return HVD_OK;
}
