#ifndef HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAMS_H
#define HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAMS_H

#include <stddef.h>
#include <stdint.h>

#include "worker/engine/engine.h"

/*
 * Random programs of collectives over N simulated ranks, judged by a sequential oracle. One thread
 * drives all ranks in a random order, so a seed is the whole story: the same seed is the same run.
 *
 * Each rank submits the program's tensors in an order of its own, within windows. Some tensors
 * disagree on purpose and must end as a mismatch on every rank; in some programs a rank dies and
 * everything that had not ended before must end with its name.
 */
struct program_options {
    int n_ranks;
    uint64_t seed;
    bool may_kill; /* a rank dies in the middle */
};

/*
 * Makes the program of the seed and runs it to its end. NULL when all was as the oracle says, else
 * what was not, in memory of the function's that the next call overwrites.
 */
const char *program_run(const struct program_options *options);

#endif
