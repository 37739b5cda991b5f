/*
 * Security defaults of a pod template: what Pod Security "restricted" asks for, wherever the
 * template is silent. Nothing that a template says is overridden; one that chooses root keeps what
 * root's sshd needs. Pure.
 */
#include "operator/core/security.h"

#include <string.h>

#define FS_GROUP 1000

/* Whether this security context asks for root. */
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

static void container_defaults(struct hvd_jb *jb, const cJSON *pod, cJSON *container)
{
    cJSON *context, *capabilities;

    if (!cJSON_IsObject(container) || hvd_security_is_root(pod, container))
        return;
    context = hvd_jb_ensure_object(jb, container, "securityContext");
    default_bool(jb, context, "allowPrivilegeEscalation", false);
    capabilities = hvd_jb_ensure_object(jb, context, "capabilities");
    if (capabilities && !hvd_json_get(capabilities, "drop"))
        hvd_jb_str(jb, hvd_jb_array(jb, capabilities, "drop"), NULL, "ALL");
}

void hvd_security_defaults(struct hvd_jb *jb, cJSON *pod)
{
    static const char *const lists[] = {"initContainers", "containers"};
    cJSON *context;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        cJSON *list = (cJSON *)hvd_json_get(pod, lists[i]);
        cJSON *container = NULL;

        cJSON_ArrayForEach(container, list)
        {
            container_defaults(jb, pod, container);
        }
    }
    context = hvd_jb_ensure_object(jb, pod, "securityContext");
    if (!asks_for_root(context))
        default_bool(jb, context, "runAsNonRoot", true);
    if (context && !hvd_json_get(context, "seccompProfile"))
        hvd_jb_str(jb, hvd_jb_object(jb, context, "seccompProfile"), "type", "RuntimeDefault");
    if (context && !hvd_json_get(context, "fsGroup"))
        hvd_jb_int(jb, context, "fsGroup", FS_GROUP);
}
