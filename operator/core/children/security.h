#ifndef HVD_OPERATOR_CORE_CHILDREN_SECURITY_H
#define HVD_OPERATOR_CORE_CHILDREN_SECURITY_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "operator/api/json.h"

/* Within operator/core only. */

/* Whether the template requests root for this container (runAsUser 0 or runAsNonRoot false). */
bool hvd_security_is_root(const cJSON *pod, const cJSON *container);

/* Adds to a PodSpec the rules of Pod Security "restricted" that the template leaves open:
 * runAsNonRoot, seccompProfile, no privilege escalation, no capabilities. Adds an fsGroup for the
 * key of the launch. Omits each rule that contradicts a field of the template, and all rules for a
 * pod of Windows. Failures stay in jb. */
void hvd_security_defaults(struct hvd_jb *jb, cJSON *pod);

#endif
