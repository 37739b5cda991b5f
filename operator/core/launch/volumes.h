#ifndef HVD_OPERATOR_CORE_LAUNCH_VOLUMES_H
#define HVD_OPERATOR_CORE_LAUNCH_VOLUMES_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "operator/api/json.h"

/* Within operator/core only. Volumes of a pod template. Failures are remembered in jb. */

/* Adds a volume without a source to a pod and returns it. */
cJSON *hvd_volumes_add(struct hvd_jb *jb, cJSON *pod, const char *name);

/* Whether a volume is mounted at that path of a container, with or without a slash behind it. */
bool hvd_volumes_has(const cJSON *container, const char *path);

/* Mounts a volume into a container. */
void hvd_volumes_mount(struct hvd_jb *jb, cJSON *container, const char *volume, const char *path,
                       bool is_read_only);

#endif
