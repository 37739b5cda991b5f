#ifndef HVD_TESTS_UNIT_WORKER_ENGINE_WORLD_H
#define HVD_TESTS_UNIT_WORKER_ENGINE_WORLD_H

#include "tests/sim/sim.h"
#include "worker/engine/engine.h"

#define MAX_RANKS 8

/* Engines with threads of their own; and those that only hvd_engine_step and waits drive. */
extern const struct hvd_engine_options world_threaded;
extern const struct hvd_engine_options world_manual;

/* N engines over one simulated transport. */
struct world {
    struct hvd_sim *sim;
    struct hvd_engine *engines[MAX_RANKS];
    int size;
};

/* Opens a world of engines. no_background: only hvd_engine_step and waits drive them. */
void world_open(struct world *w, int size, uint64_t seed, const struct hvd_engine_options *options);

/* Shuts all engines down, each in a thread of its own, and frees everything. */
void world_close(struct world *w);

/* Frees everything without a shutdown: what was going on is left as it is. */
void world_destroy(struct world *w);

/* Runs body(w, rank) in a thread per rank and waits for all. */
void world_run(struct world *w, void (*body)(struct world *w, int rank));

/* Steps all engines in turn, from this thread, until none has anything to do any more. */
void world_settle(struct world *w);

/* Threads cannot assert: this counts what is not good, and says what. */
void world_expect(bool good, const char *what, int rank);

/* How much was not good so far. */
int world_problems(void);

/* Submits a tensor of a rank, which is expected to be taken; the handle. */
int64_t world_submit(struct world *w, int rank, const struct hvd_request *req, const void *in,
                     void *out);

/* A request for a vector of `count` elements. */
struct hvd_request world_request(enum hvd_op op, const char *name, int64_t count);

#endif
