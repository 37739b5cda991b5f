/*
 * Decides where pods run: priority, network of the node, gang. Applied to a template last. Entries
 * of a controller that queues jobs (node selectors, tolerations, scheduling gates) are part of the
 * template and stay. Pure.
 */
#include "operator/core/children/placement.h"

#include <string.h>

#include "operator/core/children/gang.h"
#include "operator/core/launch/launch.h"

static void default_text(struct hvd_jb *jb, cJSON *object, const char *key, const char *value)
{
    if (object && value && !hvd_json_get(object, key))
        hvd_jb_str(jb, object, key, value);
}

/* Sets the variable for containers with a command of their own. */
static void add_port(struct hvd_jb *jb, cJSON *container, const struct hvd_job *job)
{
    const char *const variable_name = hvd_launch_of(job)->port_variable;
    cJSON *env = hvd_jb_ensure_array(jb, container, "env");
    const cJSON *variable = NULL;
    cJSON *item;

    cJSON_ArrayForEach(variable, env)
    {
        const char *name = hvd_json_str(variable, "name");

        if (name && strcmp(name, variable_name) == 0)
            return;
    }
    item = hvd_jb_object(jb, env, NULL);
    hvd_jb_str(jb, item, "name", variable_name);
    hvd_jb_fmt(jb, item, "value", "%d", job->spec.launch_port);
}

/* Without this policy a pod on its node's network does not resolve the names of the job's hosts. */
static void add_network(struct hvd_jb *jb, cJSON *pod, const struct hvd_child_inputs *in)
{
    cJSON *container = NULL;

    if (pod && hvd_json_true(in->spec, "network.hostNetwork") && !hvd_json_get(pod, "hostNetwork"))
        hvd_jb_bool(jb, pod, "hostNetwork", true);
    if (hvd_json_true(pod, "hostNetwork"))
        default_text(jb, pod, "dnsPolicy", "ClusterFirstWithHostNet");
    if (!in->job->spec.is_host_network)
        return;
    cJSON_ArrayForEach(container, hvd_json_get(pod, "containers"))
    {
        if (cJSON_IsObject(container))
            add_port(jb, container, in->job);
    }
}

void hvd_placement_add(struct hvd_jb *jb, cJSON *template, const struct hvd_child_inputs *in,
                       enum hvd_role role)
{
    cJSON *pod = hvd_jb_ensure_object(jb, template, "spec");

    default_text(jb, pod, "priorityClassName",
                 hvd_json_str(in->spec, "scheduling.priorityClassName"));
    add_network(jb, pod, in);
    if (role == HVD_ROLE_WORKER)
        hvd_gang_join(jb, template, in);
}
