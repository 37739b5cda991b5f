#ifndef HVD_OPERATOR_CORE_ATTEMPT_ENDING_H
#define HVD_OPERATOR_CORE_ATTEMPT_ENDING_H

#include <stddef.h>

#include "operator/core/view/projection.h"

/* Within operator/core only. Texts for users about how a pod of a job ended. */

/*
 * Describes how a pod's container that has_failed ended: "container worker exited with code 3". A
 * container with code 0 ended by itself, which only a master may do.
 */
void hvd_ending_of_container(const struct hvd_pod_view *pod, char *out, size_t size);

/* Describes how a worker's pod, whose phase is Failed or Succeeded, ended. */
void hvd_ending_of_worker(const struct hvd_pod_view *pod, char *out, size_t size);

/* Describes how a master's pod in phase Failed ended, as the continuation of its name: "container
 * master exited with code 3" or "failed: Evicted: The node was low on memory". */
void hvd_ending_of_master(const struct hvd_pod_view *pod, char *out, size_t size);

#endif
