#ifndef HVD_OPERATOR_CORE_CHILDREN_ENVIRONMENT_H
#define HVD_OPERATOR_CORE_CHILDREN_ENVIRONMENT_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/launch/launch.h"

/* Within operator/core only. */

/* Adds to a container what Open MPI, horovodrun and NCCL need for the launch, and to find hosts and
 * interfaces. A variable that the container sets itself stays as it is. */
void hvd_environment_add(struct hvd_jb *jb, cJSON *container, const struct hvd_launch *launch,
                         const cJSON *spec);

/* Adds the variable by which horovodrun knows the file of the container's last words, unless the
 * container has it. Failures stay in jb. */
void hvd_environment_add_termination_log(struct hvd_jb *jb, cJSON *container);

#endif
