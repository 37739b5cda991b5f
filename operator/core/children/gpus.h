#ifndef HVD_OPERATOR_CORE_CHILDREN_GPUS_H
#define HVD_OPERATOR_CORE_CHILDREN_GPUS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "operator/api/json.h"
#include "operator/core/children/children.h"

/* Within operator/core only. Containers that get GPUs. */

/*
 * Gives a container with a GPU limit a volume in memory on /dev/shm, where NCCL and data loaders
 * need more than the 64 MiB of a container. Keeps what the template has there, and the memory of
 * the node with hostIPC. Failures are remembered in jb.
 */
void hvd_gpus_add_memory(struct hvd_jb *jb, cJSON *pod, cJSON *container);

/*
 * Whether the workers of the group in have one rank because slotsPerWorker is auto, although their
 * container has parts of GPUs or claims, which auto does not count. Then writes the sentence of
 * the job's event to out.
 */
bool hvd_gpus_are_uncounted(const struct hvd_child_inputs *in, char *out, size_t size);

#endif
