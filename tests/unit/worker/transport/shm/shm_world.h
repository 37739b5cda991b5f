#ifndef HVD_TESTS_UNIT_WORKER_TRANSPORT_SHM_SHM_WORLD_H
#define HVD_TESTS_UNIT_WORKER_TRANSPORT_SHM_SHM_WORLD_H

#include "worker/transport/shm/shm.h"

/*
 * Ranks that share memory, a thread each. The memory is mapped once, so that the thread sanitizer
 * sees what the ranks do to each other. Functions fail the running test.
 */
#define SHM_WORLD_MAX 8
#define SHM_WORLD_SIZES 6

extern const int shm_world_sizes[SHM_WORLD_SIZES];
extern const struct hvd_scaling shm_unscaled;

struct shm_world {
    struct hvd_transport *ranks[SHM_WORLD_MAX];
    void *segment;
    int size;
};

/* What a rank does; NULL when all is well, else what is not, in a static text. */
typedef const char *(*shm_trial_fn)(struct hvd_transport *t);

/* Ranks on stages of so many bytes (0: the default) that never spin. */
void shm_world_open(struct shm_world *w, int size, size_t stage_bytes);

/* The same with options of the test's; what says which rank it is and what it shares is filled in.
 * location is an array, of all ranks, or NULL. */
void shm_world_open_with(struct shm_world *w, int size, const struct hvd_shm_options *options);

/* Ends all ranks. */
void shm_world_close(struct shm_world *w);

/* Runs the trial on every rank, in threads. */
void shm_world_run(const struct shm_world *w, shm_trial_fn run);

/* Opens, runs, closes for each of shm_world_sizes; nothing may leak. */
void shm_world_try_sizes(shm_trial_fn run, size_t stage_bytes);

/* The same for 4 and 8 ranks on 2 and 4 packages, neighbours and not. */
void shm_world_try_localities(shm_trial_fn run, size_t stage_bytes);

/* Locations of so many ranks, in turn on so many packages. */
void shm_world_cpu_location(struct hvd_cpu_location *cpu_locations, int size, int n_packages);

/* A sum of one number over all ranks, in place. */
struct hvd_collective shm_sum(int32_t *value);

/* Starts a collective and waits for its end. */
const char *shm_finish(struct hvd_transport *t, struct hvd_collective *c);

#endif
