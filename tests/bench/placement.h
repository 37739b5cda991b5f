#ifndef HVD_TESTS_BENCH_PLACEMENT_H
#define HVD_TESTS_BENCH_PLACEMENT_H

/*
 * Where the hypervisor has put the cores of rank 0 and 1, judged by how long a cache line takes
 * there and back, and a barrier that neither of the arms provides. All ranks are on one host.
 */

/* Collective over MPI_COMM_WORLD; ends the job when there is no shared memory. */
void placement_start(void);

/* Collective: frees what placement_start made. */
void placement_stop(void);

/* Collective: the median round trip between rank 0 and 1 in nanoseconds, on rank 0; else 0. */
double placement_probe(void);

/* Returns once every rank has called it. */
void placement_barrier(void);

#endif
