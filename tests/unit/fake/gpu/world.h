#ifndef HVD_TESTS_UNIT_FAKE_GPU_WORLD_H
#define HVD_TESTS_UNIT_FAKE_GPU_WORLD_H

#include "tests/unit/fake/gpu/gpu.h"

/* Ranks as threads of this process, a device each. */
#define WORLD_MAX 5
#define NCCL_OK(call) assert_int_equal((int)(call), HVD_NCCL_SUCCESS)

struct rank {
    int rank;
    int n_ranks;
    struct hvd_nccl_id id;
    struct ncclComm *comm; /* NULL if the function has ended it */
    struct CUstream_st *stream;
    void *shared; /* of the test */
};

/* Initialises the devices, runs the function on each rank, with a communicator and a stream, and
 * ends both; then checks that nothing is left over. A failed check ends the process. */
void world_run(int n_ranks, void (*run)(struct rank *rank), void *shared);

/* The same without communicators. */
void world_run_bare(int n_ranks, void (*run)(struct rank *rank), void *shared);

/* Waits until all ranks are there; a second use is a second meeting. */
void world_meet(const struct rank *rank);

/* A configuration with all fields unset. */
struct hvd_nccl_config world_config(void);

#endif
