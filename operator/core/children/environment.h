#ifndef HVD_OPERATOR_CORE_CHILDREN_ENVIRONMENT_H
#define HVD_OPERATOR_CORE_CHILDREN_ENVIRONMENT_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/launch/launch.h"

/* Within operator/core only. */

/* Adds to a container the variables that Open MPI, horovodrun and NCCL need for the launch, and to
 * find hosts and interfaces. Keeps a variable that the container sets itself. */
void hvd_environment_add(struct hvd_jb *jb, cJSON *container, const struct hvd_launch *launch,
                         const cJSON *spec);

/* Adds the variable that gives horovodrun the file for the container's last words, unless the
 * container has it. Failures stay in jb. */
void hvd_environment_add_termination_log(struct hvd_jb *jb, cJSON *container);

#endif
