#ifndef HVD_OPERATOR_CORE_CHILDREN_SECURITY_H
#define HVD_OPERATOR_CORE_CHILDREN_SECURITY_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "operator/api/json.h"

/* Within operator/core only. */

/* Whether the template chooses root for this container (runAsUser 0 or runAsNonRoot false). */
bool hvd_security_is_root(const cJSON *pod, const cJSON *container);

/* Adds to a PodSpec what Pod Security "restricted" asks for and the template leaves open:
 * runAsNonRoot, seccompProfile, no privilege escalation, no capabilities; and an fsGroup for the
 * key of the launch. Leaves out each that contradicts a field of the template, and all of them for
 * a pod of Windows. Failures stay in jb. */
void hvd_security_defaults(struct hvd_jb *jb, cJSON *pod);

#endif
