#ifndef HVD_OPERATOR_CORE_CHILDREN_PLACEMENT_H
#define HVD_OPERATOR_CORE_CHILDREN_PLACEMENT_H

#include "operator/core/children/children.h"
#include "operator/core/view/projection.h"

/*
 * Within operator/core only. Adds to a complete pod template the placement that it leaves open: the
 * priority class, the nodes' network with the DNS policy that it needs, and, for workers, the gang.
 */
void hvd_placement_add(struct hvd_jb *jb, cJSON *template, const struct hvd_child_inputs *in,
                       enum hvd_role role);

#endif
