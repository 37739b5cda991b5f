#ifndef HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAMS_H
#define HVD_TESTS_UNIT_WORKER_ENGINE_PROGRAMS_H

#include <stddef.h>
#include <stdint.h>

#include "worker/engine/engine.h"

/*
 * Random programs of collectives over N simulated ranks, judged by a sequential oracle. A seed is
 * the whole story: the same seed is the same run.
 *
 * Each rank submits the program's tensors in an order of its own, within windows; some in process
 * sets. Some disagree on purpose and must end as a mismatch on every rank; some rounds end with a
 * join, before which ranks leave tensors out. In some programs a rank dies or shuts down early, and
 * everything that had not ended before must end with its name.
 */
struct program_options {
    int n_ranks;
    uint64_t seed;
    bool may_lose; /* a rank dies or leaves in the middle */

    /* Threads submit and wait, one or two to a rank, beside the engine's own; they run in turns
     * drawn from the seed (turns.h). Otherwise one thread drives all engines step by step, which is
     * faster, and has no process sets, because making them blocks. */
    bool has_threads;

    bool has_devices; /* each rank has a fake device, and some tensors are there */
};

/*
 * Makes the program of the seed and runs it to its end. NULL when all was as the oracle says, else
 * what was not, in memory of the function's that the next call overwrites.
 */
const char *program_run(const struct program_options *options);

#endif
