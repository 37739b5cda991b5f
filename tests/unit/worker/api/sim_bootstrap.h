#ifndef HVD_TESTS_UNIT_WORKER_API_SIM_BOOTSTRAP_H
#define HVD_TESTS_UNIT_WORKER_API_SIM_BOOTSTRAP_H

#include "tests/sim/sim.h"

/*
 * The process as rank 0 of a simulated world: the only provider of a program that links this file
 * in place of worker/api/providers.c. The other ranks are engines of the test's.
 */

/* The world whose rank 0 the next horovod_init is; borrowed until that has returned. */
void sim_bootstrap_set(struct hvd_sim *sim);

/* The last horovod_init, on this rank alone, fails as it begins to meet the others. */
void sim_bootstrap_refuse(bool refuses);

/* How often something of an adapter was made and not destroyed. */
int sim_bootstrap_live(void);

#endif
