#ifndef HVD_BASE_RANK_STATE_H
#define HVD_BASE_RANK_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/*
 * The phase of a rank. The rank stores it in a page of memory that it shares with the wrapper,
 * which horovodrun puts around the rank. The wrapper needs it, because a program that leaves its
 * job without horovod_shutdown may still exit with 0. The variable below holds the page's path in
 * /proc, so that it survives shells between wrapper and rank.
 */
#define HVD_RANK_STATE_ENV "HOROVOD_RANK_STATE"

enum hvd_rank_phase {
    HVD_RANK_OUTSIDE, /* horovod_init was not called */
    /* within horovod_init: */
    HVD_RANK_JOINING,   /* MPI_Init runs, and waits for every process */
    HVD_RANK_GATHERING, /* it waits for processes of its job, and the library cannot name them */
    HVD_RANK_MEETING,   /* the library names the rank that it waits for */
    HVD_RANK_RUNNING,
    HVD_RANK_ENDED, /* after horovod_shutdown, or after any rank ended the job */
};

/* Creates the page, and sets the variable for the programs that this process starts. The page lives
 * as long as the process. Returns HVD_ERR_SYSTEM if there is no page; the caller can go on without.
 */
hvd_status_t hvd_rank_state_create(void);

/* Returns the phase that the rank set last; HVD_RANK_OUTSIDE if there is no page. */
enum hvd_rank_phase hvd_rank_state_get(void);

/* Returns whether a rank in that phase is within horovod_init. */
bool hvd_rank_state_is_init(enum hvd_rank_phase phase);

/* Returns how often the rank has entered HVD_RANK_JOINING. */
uint32_t hvd_rank_state_joins(void);

/* Returns the process that entered HVD_RANK_JOINING last; 0: none has. */
pid_t hvd_rank_state_pid(void);

/* The rank's side: maps the page that the variable names, and ignores a variable that names
 * anything else. Call it once, before hvd_rank_state_set. */
void hvd_rank_state_open(void);

/* Stores the phase of this rank if there is a page. HVD_RANK_JOINING clears the blamed rank and the
 * cause of the last job. Any thread. */
void hvd_rank_state_set(enum hvd_rank_phase phase);

/* Stores how long this rank waits in horovod_init before it names the missing ranks, and before it
 * gives up; 0: for ever. Any thread. */
void hvd_rank_state_set_stall_times(int64_t warning_ms, int64_t shutdown_ms);

/* Return the times that the rank stored; 0 before. */
int64_t hvd_rank_state_warning_ms(void);
int64_t hvd_rank_state_shutdown_ms(void);

/* Stores that an uncaught exception ends this process, with one line about the exception, cut to
 * the space in the page. One thread at a time. */
void hvd_rank_state_raise(const char *words);

/* Returns that line, for use once the process has ended. Empty before. */
const char *hvd_rank_state_words(void);

/* Returns the process that called hvd_rank_state_raise; 0: none has. */
pid_t hvd_rank_state_raised(void);

/* Stores the message with which the library reported the end of the job to the program, because the
 * program's own end follows from it. Keeps the first message until the next job. Does nothing after
 * hvd_rank_state_raise in this process. Any thread. */
void hvd_rank_state_set_cause(const char *words);

/* Returns that message, for use once the process has ended. Empty before. */
const char *hvd_rank_state_cause(void);

/* Stores the rank because of which the job has ended; keeps the first one. Any thread. */
void hvd_rank_state_blame(int64_t rank);

/* Returns the rank because of which the job has ended; -1: none is known. */
int64_t hvd_rank_state_blamed(void);

/* Stores whether the job that this rank is about to join has all processes. Call it before
 * HVD_RANK_JOINING. Any thread. */
void hvd_rank_state_join_all(bool joins_all);

/* Returns whether the last job that the rank joined has all processes. */
bool hvd_rank_state_joins_all(void);

/* Stores that this rank has entered MPI_Finalize: it joins no job any more. Any thread. */
void hvd_rank_state_finalise(void);

/* Returns whether the rank has called hvd_rank_state_finalise. */
bool hvd_rank_state_is_final(void);

/* Returns whether MPI was initialised and not finalised, as after a job that was aborted. If such a
 * process ends, mpirun reports a failure and ends all other ranks. */
bool hvd_rank_state_keeps_mpi(void);

#endif
