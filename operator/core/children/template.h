#ifndef HVD_OPERATOR_CORE_CHILDREN_TEMPLATE_H
#define HVD_OPERATOR_CORE_CHILDREN_TEMPLATE_H

#include <cjson/cJSON.h>

#include "operator/api/horovodjob.h"
#include "operator/api/json.h"
#include "operator/core/children/children.h"
#include "operator/core/view/projection.h"

/* Within operator/core only. */

#define HVD_HOSTS_DIR "/etc/horovod/hosts"

/*
 * Builds the pod template of a role (for workers, of the group in) under parent["template"]. It is
 * the user's, or the short form's, with labels, mounts, environment, probes and security defaults
 * where the user set none. Failures are remembered in jb.
 */
void hvd_template_build(struct hvd_jb *jb, cJSON *parent, const struct hvd_child_inputs *in,
                        enum hvd_role role);

/* The part of the spec with the resources of the role's container: a container of the user's
 * template (NULL without any), or the spec itself in the short form. Borrowed. */
const cJSON *hvd_template_own_container(const struct hvd_child_inputs *in, enum hvd_role role);

#endif
