#ifndef HVD_OPERATOR_CORE_CHILDREN_ENVIRONMENT_H
#define HVD_OPERATOR_CORE_CHILDREN_ENVIRONMENT_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"

/* Within operator/core only. */

/* Adds to a container what Open MPI 4 and 5, horovodrun and NCCL need to find hosts, ssh and
 * interfaces. A variable that the container sets itself stays as it is. */
void hvd_environment_add(struct hvd_jb *jb, cJSON *container, const cJSON *spec);

/* Adds the variable by which horovodrun knows the file of the container's last words, unless the
 * container has it. Failures stay in jb. */
void hvd_environment_add_termination_log(struct hvd_jb *jb, cJSON *container);

#endif
