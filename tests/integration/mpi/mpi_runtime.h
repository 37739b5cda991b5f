#ifndef HVD_TESTS_INTEGRATION_MPI_MPI_RUNTIME_H
#define HVD_TESTS_INTEGRATION_MPI_MPI_RUNTIME_H

#include <horovod/horovod.h>

/* Counts a check that does not hold and says which one, on standard error. Any thread. */
void check(bool good, const char *what, const char *detail);

/* 1 when a check did not hold, else 0. */
int checks_failed(void);

/* horovod_init or the end of the program. */
void must_init(void);

/* The sum of one int64 over all ranks under that name, as a check that the job goes on. */
void check_sum(const char *name);

/* --- values.c: what the collectives compute --------------------------------------------------- */

/* Every reduction of every type, in place and not; every root. */
void mode_values(void);

/* Uneven and empty allgathers. */
void mode_gather(void);

/* Several threads, each submitting in an order of its own. */
void mode_threads(void);

/* A tensor of more than 2^31 elements. */
void mode_large(void);

/* --- kinds.c: every kind of collective ------------------------------------------------------- */

/* Types, factors, scattered and exchanged rows, groups, joins, tensors without names. */
void mode_kinds(void);

/* Process sets: from the start, added and removed, side by side, and what is refused. */
void mode_sets(void);
void mode_tied(void);

/* Without HOROVOD_DYNAMIC_PROCESS_SETS sets stay as they are. */
void mode_fixed_sets(void);

/* --- adasum.c --------------------------------------------------------------------------------- */

/* Adasum of tensors that have a closed form; refused unless the ranks are 2^k. */
void mode_adasum(void);

/* --- jobs.c: who takes part ------------------------------------------------------------------- */

/* Even and odd processes are jobs of their own, side by side. */
void mode_halves(void);

/* The first two processes are a job; the others are told that they are not in it. */
void mode_some(void);

/* The job and its process sets are communicators of the program, twice. */
void mode_comms(void);

/* Communicators that cannot be process sets are refused on every rank, and the program goes on. */
void mode_bad_comms(void);

/* --- waits.c ---------------------------------------------------------------------------------- */

/* Waits that give up and are taken up again: horovod_wait_for, horovod_wait_join. */
void mode_waits(void);

/* Jobs that follow one another in a process: horovod_shutdown_job. */
void mode_jobs(void);

/* --- callbacks.c ------------------------------------------------------------------------------ */

/* Tensors that nobody waits for, and outputs in the program's memory. */
void mode_callbacks(void);

/* --- forked.c --------------------------------------------------------------------------------- */

/* Children of fork() while other threads are at work: they are told what they are, and harm
 * nothing. */
void mode_fork(void);

/* --- started.c -------------------------------------------------------------------------------- */

/* Processes that each rank starts are told that the place is taken, and harm nothing. */
void mode_started(void);

/* Such a process. */
void mode_inside(void);

/* Without a launcher: the process, one that it starts, and one that this one starts join jobs of
 * one each. */
void mode_alone(void);

/* bits.c: prints what the bits of many sums are, as a number. */
void mode_bits(void);

/* --- failures.c: what goes wrong, and what is said then --------------------------------------- */

/* Every disagreement between ranks. */
void mode_mismatch(void);

/* Wrong arguments, and calls at the wrong time. */
void mode_arguments(void);

/* The last rank shuts down while the others wait. */
void mode_leave(void);

/* The last rank ends without a word: the launcher ends the job. */
void mode_exit(void);

/* A second horovod_init after a rank was lost. */
void mode_after_abort(void);

/* MPI belongs to the program: Horovod can come and go. */
void mode_reuse(void);

/* The program initialised MPI for one thread. */
void mode_single(void);

/* A second horovod_init after MPI was finalised. */
void mode_again(void);

/* HOROVOD_MPI_THREADS_DISABLE=1. */
void mode_funneled(void);

/* refusals.c: the last rank refuses what the others submit. */
void mode_refusals(void);

/* horovod_init must fail; prints why. */
void mode_refused(void);

#endif
