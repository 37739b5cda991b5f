/*
 * Volumes of a pod template, and their mounts in containers. Pure.
 */
#include "operator/core/launch/volumes.h"

#include <string.h>

cJSON *hvd_volumes_add(struct hvd_jb *jb, cJSON *pod, const char *name)
{
    cJSON *volume = hvd_jb_object(jb, hvd_jb_ensure_array(jb, pod, "volumes"), NULL);

    hvd_jb_str(jb, volume, "name", name);
    return volume;
}

bool hvd_volumes_has(const cJSON *container, const char *path)
{
    const size_t len = strlen(path);
    const cJSON *mount = NULL;

    cJSON_ArrayForEach(mount, hvd_json_get(container, "volumeMounts"))
    {
        const char *at = hvd_json_str(mount, "mountPath");

        if (at && strncmp(at, path, len) == 0 && strspn(at + len, "/") == strlen(at + len))
            return true;
    }
    return false;
}

void hvd_volumes_mount(struct hvd_jb *jb, cJSON *container, const char *volume, const char *path,
                       bool is_read_only)
{
    cJSON *mounts = hvd_jb_ensure_array(jb, container, "volumeMounts");
    cJSON *mount = hvd_jb_object(jb, mounts, NULL);

    hvd_jb_str(jb, mount, "name", volume);
    hvd_jb_str(jb, mount, "mountPath", path);
    if (is_read_only)
        hvd_jb_bool(jb, mount, "readOnly", true);
}
