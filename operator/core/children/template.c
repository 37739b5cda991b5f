/*
 * The pod templates of master and workers. The short form becomes a template first, so that both
 * forms share one path: labels, role container (mounts, environment, launch), pod. The user's
 * values win over every default. Values of an unexpected type are left for the API server to
 * reject. Pure.
 */
#include "operator/core/children/template.h"

#include <string.h>

#include "operator/api/kind.h"
#include "operator/core/children/environment.h"
#include "operator/core/children/gpus.h"
#include "operator/core/children/security.h"
#include "operator/core/launch/launch.h"
#include "operator/core/launch/volumes.h"

static const char *role_name(enum hvd_role role)
{
    return role == HVD_ROLE_MASTER ? "master" : "worker";
}

static void append_all(struct hvd_jb *jb, cJSON *to, const cJSON *from)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, from)
    {
        hvd_jb_copy(jb, to, NULL, item);
    }
}

/* horovodrun -np N --hostfile ... COMMAND ARGS */
static void master_command(struct hvd_jb *jb, cJSON *container, const struct hvd_child_inputs *in)
{
    cJSON *command = hvd_jb_array(jb, container, "command");

    hvd_jb_str(jb, command, NULL, "horovodrun");
    hvd_jb_str(jb, command, NULL, "-np");
    hvd_jb_fmt(jb, command, NULL, "%lld", (long long)in->n_ranks);
    hvd_jb_str(jb, command, NULL, "--hostfile");
    hvd_jb_str(jb, command, NULL, HVD_HOSTS_DIR "/hostfile");
    append_all(jb, command, hvd_json_get(in->spec, "command"));
    append_all(jb, command, hvd_json_get(in->spec, "args"));
}

static void short_form(struct hvd_jb *jb, cJSON *template, const struct hvd_child_inputs *in,
                       enum hvd_role role)
{
    cJSON *pod = hvd_jb_object(jb, template, "spec");
    cJSON *container = hvd_jb_object(jb, hvd_jb_array(jb, pod, "containers"), NULL);

    hvd_jb_bool(jb, pod, "enableServiceLinks", false);
    hvd_jb_bool(jb, pod, "automountServiceAccountToken", false);
    hvd_jb_str(jb, container, "name", role_name(role));
    hvd_jb_copy(jb, container, "image", hvd_json_get(in->spec, "image"));
    hvd_jb_copy(jb, container, "env", hvd_json_get(in->spec, "env"));
    if (role == HVD_ROLE_MASTER)
        master_command(jb, container, in);
    if (role == HVD_ROLE_WORKER || in->job->spec.is_master_worker)
        hvd_jb_copy(jb, container, "resources", hvd_json_get(in->spec, "resources"));
}

/* The container named after the role, else the first; NULL without any. */
static cJSON *role_container(const cJSON *pod, const char *role)
{
    const cJSON *containers = hvd_json_get(pod, "containers");
    cJSON *item = NULL;

    cJSON_ArrayForEach(item, containers)
    {
        const char *name = hvd_json_str(item, "name");

        if (name && strcmp(name, role) == 0)
            return item;
    }
    return cJSON_IsArray(containers) ? containers->child : NULL;
}

/* Whether the root is read-only and /tmp has no mount: the launch and Open MPI write there. */
static bool needs_tmp(const cJSON *container)
{
    return hvd_json_true(container, "securityContext.readOnlyRootFilesystem") &&
           !hvd_volumes_has(container, "/tmp");
}

static void add_volumes(struct hvd_jb *jb, cJSON *pod, cJSON *container, const struct hvd_job *job)
{
    const struct hvd_launch *launch = hvd_launch_of(job);
    char name[HVD_CHILD_NAME_MAX];
    cJSON *source;

    hvd_children_name(job, HVD_KIND_CONFIGMAP, name);
    source = hvd_jb_object(jb, hvd_volumes_add(jb, pod, "horovod-hosts"), "configMap");
    hvd_jb_str(jb, source, "name", name);
    hvd_jb_int(jb, source, "defaultMode", 0555);
    hvd_volumes_mount(jb, container, "horovod-hosts", HVD_HOSTS_DIR, true);

    hvd_children_name(job, launch->child, name);
    launch->mount_child(jb, pod, container, name, hvd_security_is_root(pod, container));

    if (needs_tmp(container)) {
        hvd_jb_object(jb, hvd_volumes_add(jb, pod, "horovod-tmp"), "emptyDir");
        hvd_volumes_mount(jb, container, "horovod-tmp", "/tmp", false);
    }
    hvd_gpus_add_memory(jb, pod, container);
}

static void default_text(struct hvd_jb *jb, cJSON *object, const char *key, const char *value)
{
    if (object && !hvd_json_get(object, key))
        hvd_jb_str(jb, object, key, value);
}

/* Users read the last lines of a failed init container, so its termination message falls back to
 * its log. */
static void complete_init(struct hvd_jb *jb, cJSON *pod)
{
    cJSON *container = NULL;

    cJSON_ArrayForEach(container, hvd_json_get(pod, "initContainers"))
    {
        if (cJSON_IsObject(container))
            default_text(jb, container, "terminationMessagePolicy", "FallbackToLogsOnError");
    }
}

static void complete_master(struct hvd_jb *jb, cJSON *pod, cJSON *container,
                            const struct hvd_job *job)
{
    char name[HVD_CHILD_NAME_MAX];

    hvd_children_name(job, HVD_KIND_JOB, name);
    hvd_jb_str(jb, pod, "restartPolicy", "Never");
    hvd_jb_str(jb, pod, "hostname", name);
    hvd_jb_str(jb, pod, "subdomain", job->name);
    default_text(jb, container, "terminationMessagePolicy", "FallbackToLogsOnError");
    hvd_environment_add_termination_log(jb, container);
}

/* The user's template; NULL in the short form. */
static const cJSON *own_template(const struct hvd_child_inputs *in, enum hvd_role role)
{
    const cJSON *groups = hvd_json_get(in->spec, "workerGroups");
    const cJSON *own = NULL;

    if (role == HVD_ROLE_MASTER)
        return hvd_json_at(in->spec, "master.template");
    if (in->group > 0)
        own = hvd_json_get(cJSON_GetArrayItem(groups, (int)in->group - 1), "template");
    return own ? own : hvd_json_at(in->spec, "worker.template");
}

const cJSON *hvd_template_own_container(const struct hvd_child_inputs *in, enum hvd_role role)
{
    const cJSON *own = own_template(in, role);

    return own ? role_container(hvd_json_get(own, "spec"), role_name(role)) : in->spec;
}

static void add_labels(struct hvd_jb *jb, cJSON *template, const struct hvd_child_inputs *in,
                       enum hvd_role role)
{
    cJSON *labels =
        hvd_jb_ensure_object(jb, hvd_jb_ensure_object(jb, template, "metadata"), "labels");

    hvd_jb_str(jb, labels, HVD_LABEL_MANAGED_BY, HVD_MANAGER);
    hvd_jb_str(jb, labels, HVD_LABEL_JOB, in->job->name);
    hvd_jb_str(jb, labels, HVD_LABEL_ROLE, role_name(role));
    if (role == HVD_ROLE_WORKER && in->group > 0)
        hvd_jb_str(jb, labels, HVD_LABEL_GROUP, in->job->spec.groups[in->group].name);
}

/* Records the role's container if its name is not the role's, because others may precede it. */
static void name_container(struct hvd_jb *jb, cJSON *template, const cJSON *container,
                           enum hvd_role role)
{
    const char *name = hvd_json_str(container, "name");
    cJSON *meta;

    if (!name || strcmp(name, role_name(role)) == 0)
        return;
    meta = hvd_jb_ensure_object(jb, template, "metadata");
    hvd_jb_str(jb, hvd_jb_ensure_object(jb, meta, "annotations"), HVD_ANNOTATION_CONTAINER, name);
}

void hvd_template_build(struct hvd_jb *jb, cJSON *parent, const struct hvd_child_inputs *in,
                        enum hvd_role role)
{
    const struct hvd_launch *launch = hvd_launch_of(in->job);
    const cJSON *own = own_template(in, role);
    cJSON *template, *annotations, *pod, *container;

    hvd_jb_copy(jb, parent, "template", own);
    template = hvd_jb_ensure_object(jb, parent, "template");
    if (!own)
        short_form(jb, template, in, role);
    add_labels(jb, template, in, role);
    annotations =
        hvd_children_mark(jb, (cJSON *)hvd_json_get(template, "metadata"), "annotations", in->job);
    if (role == HVD_ROLE_WORKER && in->job->spec.topology_keys)
        hvd_jb_str(jb, annotations, HVD_ANNOTATION_TOPOLOGY, in->job->spec.topology_keys);
    pod = hvd_jb_ensure_object(jb, template, "spec");
    container = role_container(pod, role_name(role));
    if (role == HVD_ROLE_MASTER)
        complete_master(jb, pod, container, in->job);
    name_container(jb, template, container, role);
    complete_init(jb, pod);
    hvd_environment_add(jb, container, launch, in->spec);
    if (container)
        add_volumes(jb, pod, container, in->job);
    if (role == HVD_ROLE_WORKER)
        launch->complete_worker(jb, pod, container, in->job);
    hvd_security_defaults(jb, pod);
}
