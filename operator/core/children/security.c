/*
 * Security defaults of a pod template: the rules of Pod Security "restricted", wherever the
 * template leaves them open. The operator overrides nothing in the template and adds no default
 * that contradicts it: the API server or the kubelet would reject the pod for a field that the user
 * has not written. A template that chooses root keeps what the launch needs of root. Pure.
 */
#include "operator/core/children/security.h"

#include <string.h>

#define FS_GROUP 1000

/* Whether this security context requests root. */
static bool asks_for_root(const cJSON *context)
{
    return hvd_json_int(context, "runAsUser", -1) == 0 ||
           cJSON_IsFalse(hvd_json_get(context, "runAsNonRoot"));
}

bool hvd_security_is_root(const cJSON *pod, const cJSON *container)
{
    const cJSON *own = hvd_json_get(container, "securityContext");

    if (hvd_json_get(own, "runAsUser") || hvd_json_get(own, "runAsNonRoot"))
        return asks_for_root(own);
    return asks_for_root(hvd_json_get(pod, "securityContext"));
}

static void default_bool(struct hvd_jb *jb, cJSON *context, const char *key, bool value)
{
    if (context && !hvd_json_get(context, key))
        hvd_jb_bool(jb, context, key, value);
}

/* Whether securityContext.capabilities.add of this context names one of these. */
static bool adds_capability(const cJSON *context, const char *const *names, size_t n)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, hvd_json_at(context, "capabilities.add"))
    {
        for (size_t i = 0; cJSON_IsString(item) && i < n; i++) {
            if (strcmp(item->valuestring, names[i]) == 0)
                return true;
        }
    }
    return false;
}

/*
 * Sets what the context leaves open. The API server rejects allowPrivilegeEscalation false together
 * with privileged or CAP_SYS_ADMIN, both of which imply true. Dropping ALL would undo an added ALL.
 * With privileged, capabilities have no effect.
 */
static void context_defaults(struct hvd_jb *jb, cJSON *context)
{
    static const char *const all[] = {"ALL", "CAP_ALL"};
    static const char *const escalating[] = {"ALL", "CAP_ALL", "SYS_ADMIN", "CAP_SYS_ADMIN"};
    cJSON *capabilities;

    if (hvd_json_true(context, "privileged"))
        return;
    if (!adds_capability(context, escalating, sizeof(escalating) / sizeof(escalating[0])))
        default_bool(jb, context, "allowPrivilegeEscalation", false);
    if (adds_capability(context, all, sizeof(all) / sizeof(all[0])))
        return;
    capabilities = hvd_jb_ensure_object(jb, context, "capabilities");
    if (capabilities && !hvd_json_get(capabilities, "drop"))
        hvd_jb_str(jb, hvd_jb_array(jb, capabilities, "drop"), NULL, "ALL");
}

static const char *const lists[] = {"initContainers", "containers"};

/* Whether a container requests root in a pod that does not. */
static bool has_root_container(const cJSON *pod)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const cJSON *container = NULL;

        cJSON_ArrayForEach(container, hvd_json_get(pod, lists[i]))
        {
            if (asks_for_root(hvd_json_get(container, "securityContext")))
                return true;
        }
    }
    return false;
}

/* is_each: each container declares that it does not run as root, as the pod cannot. */
static void container_defaults(struct hvd_jb *jb, const cJSON *pod, bool is_each)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        cJSON *container = NULL;

        cJSON_ArrayForEach(container, hvd_json_get(pod, lists[i]))
        {
            cJSON *context;

            if (!cJSON_IsObject(container) || hvd_security_is_root(pod, container))
                continue;
            context = hvd_jb_ensure_object(jb, container, "securityContext");
            if (is_each)
                default_bool(jb, context, "runAsNonRoot", true);
            context_defaults(jb, context);
        }
    }
}

void hvd_security_defaults(struct hvd_jb *jb, cJSON *pod)
{
    const char *os = hvd_json_str(pod, "os.name");
    bool is_each = has_root_container(pod) && !hvd_json_at(pod, "securityContext.runAsNonRoot") &&
                   !asks_for_root(hvd_json_get(pod, "securityContext"));
    cJSON *context;

    if (os && strcmp(os, "windows") == 0) /* the API server rejects these fields for Windows */
        return;
    container_defaults(jb, pod, is_each);
    context = hvd_jb_ensure_object(jb, pod, "securityContext");
    if (!is_each && !asks_for_root(context))
        default_bool(jb, context, "runAsNonRoot", true);
    if (context && !hvd_json_get(context, "seccompProfile"))
        hvd_jb_str(jb, hvd_jb_object(jb, context, "seccompProfile"), "type", "RuntimeDefault");
    if (context && !hvd_json_get(context, "fsGroup"))
        hvd_jb_int(jb, context, "fsGroup", FS_GROUP);
}
