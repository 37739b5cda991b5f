#ifndef HVD_TESTS_UNIT_WORKER_ENGINE_TURNS_H
#define HVD_TESTS_UNIT_WORKER_ENGINE_TURNS_H

#include <stdint.h>

/*
 * Threads that run one at a time, in turns drawn from a seed: the same seed is the same run. For
 * programs linked with turns.c and with the calls below wrapped (hvd_turns in CMakeLists.txt); all
 * code of the process then gets, while turns_run is active,
 *
 * - threads that are coroutines of one real thread: pthread_create, _join, _self;
 * - locks and conditions that switch to another thread, at any of their calls, as the seed says;
 * - a clock that goes on a microsecond with each such call and is set forward to the next deadline
 *   when every thread sleeps: nothing ever waits for real.
 *
 * When every thread waits and none has a deadline, somebody was not woken: the run ends and says
 * so, as it does after 40 s of its clock. Who waits for what then goes to standard error, with
 * places in the program for addr2line.
 */

/* Runs body(arg) as the first thread, until it and all it started have returned. NULL, or what went
 * wrong, in memory that the next call overwrites; the threads that were left are never resumed. */
const char *turns_run(uint64_t seed, void (*body)(void *arg), void *arg);

/* How often the clock was set forward because all slept, in the run so far or the last one. */
uint64_t turns_expired(void);

#endif
