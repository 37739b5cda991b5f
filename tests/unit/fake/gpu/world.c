#include "tests/unit/support.h"

#include "tests/unit/fake/gpu/world.h"

#include <pthread.h>

struct member {
    struct rank rank;
    void (*run)(struct rank *rank);
    bool is_bare;
    pthread_t thread;
};

static pthread_barrier_t meeting;

void world_meet(const struct rank *rank)
{
    (void)rank;
    pthread_barrier_wait(&meeting);
}

static void *live(void *at)
{
    struct member *member = at;
    struct rank *rank = &member->rank;

    GPU_OK(cuCtxPushCurrent_v2(gpu_context(rank->rank)));
    rank->stream = gpu_stream();
    if (!member->is_bare)
        NCCL_OK(ncclCommInitRank(&rank->comm, rank->n_ranks, rank->id, rank->rank));
    member->run(rank);
    if (rank->comm)
        NCCL_OK(ncclCommDestroy(rank->comm));
    GPU_OK(cuStreamSynchronize(rank->stream));
    GPU_OK(cuStreamDestroy_v2(rank->stream));
    GPU_OK(cuCtxPopCurrent_v2(NULL));
    return NULL;
}

static void run_all(int n_ranks, void (*run)(struct rank *), void *shared, bool is_bare)
{
    struct member members[WORLD_MAX] = {0};
    struct hvd_nccl_id id;

    gpu_begin(WORLD_MAX);
    pthread_barrier_init(&meeting, NULL, (unsigned)n_ranks);
    NCCL_OK(ncclGetUniqueId(&id));
    for (int r = 0; r < n_ranks; r++) {
        members[r] =
            (struct member){.rank = {.rank = r, .n_ranks = n_ranks, .id = id, .shared = shared},
                            .run = run,
                            .is_bare = is_bare};
        pthread_create(&members[r].thread, NULL, live, &members[r]);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(members[r].thread, NULL);
    pthread_barrier_destroy(&meeting);
    gpu_end();
}

void world_run(int n_ranks, void (*run)(struct rank *rank), void *shared)
{
    run_all(n_ranks, run, shared, false);
}

void world_run_bare(int n_ranks, void (*run)(struct rank *rank), void *shared)
{
    run_all(n_ranks, run, shared, true);
}

struct hvd_nccl_config world_config(void)
{
    return (struct hvd_nccl_config){.size = sizeof(struct hvd_nccl_config),
                                    .magic = HVD_NCCL_CONFIG_MAGIC,
                                    .version = HVD_NCCL_CONFIG_VERSION,
                                    .blocking = HVD_NCCL_CONFIG_UNSET,
                                    .cga_cluster_size = HVD_NCCL_CONFIG_UNSET,
                                    .min_ctas = HVD_NCCL_CONFIG_UNSET,
                                    .max_ctas = HVD_NCCL_CONFIG_UNSET,
                                    .split_share = HVD_NCCL_CONFIG_UNSET};
}
