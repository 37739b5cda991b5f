#ifndef HVD_TESTS_UNIT_WORKER_DEVICE_CUDA_MACHINE_H
#define HVD_TESTS_UNIT_WORKER_DEVICE_CUDA_MACHINE_H

#include "worker/device/cuda/pack_table.h"

/* What runs the kernels under test: the host, which has them as C (machine_c.c), or a GPU
 * (tests/integration/cuda/machine_gpu.c). */

/* Memory of the host. A GPU has a copy of it during a launch. */
struct machine_region {
    char *memory;
    size_t bytes;
};

/* A launch. Tensors and the buffer lie in the regions; one of no bytes is left out. */
struct machine_launch {
    const struct hvd_pack_list *list;
    const struct hvd_scaling *scaling;
    bool is_unpack;
    const void *buffer;
    struct machine_region regions[2];
};

/* Whether the kernels run on the host, which needs no regions. */
bool machine_is_host(void);

/* Packs or unpacks, and returns when the regions have the result. Ends the test on failure. */
void machine_run(const struct machine_launch *launch);

/* Returns why there is nothing to run kernels on, or NULL. */
const char *machine_missing(void);

#endif
