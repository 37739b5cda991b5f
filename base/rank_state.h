#ifndef HVD_BASE_RANK_STATE_H
#define HVD_BASE_RANK_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/*
 * How far a rank has come, for the wrapper that horovodrun puts around it: a page of memory that
 * both map. An exit code of 0 says nothing about a job that was left without horovod_shutdown.
 * The variable below names the page, through /proc, so that it outlives shells in between.
 */
#define HVD_RANK_STATE_ENV "HOROVOD_RANK_STATE"

enum hvd_rank_phase {
    HVD_RANK_OUTSIDE, /* horovod_init was not called */
    /* within horovod_init: */
    HVD_RANK_JOINING,   /* MPI is not there yet: MPI_Init waits for every process */
    HVD_RANK_GATHERING, /* it waits for processes of its job, and nobody would be named */
    HVD_RANK_MEETING,   /* the library names the rank that it waits for */
    HVD_RANK_RUNNING,
    HVD_RANK_ENDED, /* after horovod_shutdown, or after the end of the job, whoever caused it */
};

/* Makes the page, and sets the variable for the programs that this process starts. The page lives
 * as long as the process. HVD_ERR_SYSTEM: there is none, and nothing depends on it. */
hvd_status_t hvd_rank_state_create(void);

/* What the rank has said last; HVD_RANK_OUTSIDE when there is no page. */
enum hvd_rank_phase hvd_rank_state_get(void);

/* Whether a rank that has come so far is within horovod_init. */
bool hvd_rank_state_is_init(enum hvd_rank_phase phase);

/* How often the rank has come to HVD_RANK_JOINING. */
uint32_t hvd_rank_state_joins(void);

/* The process that has come there last; 0: there is none. */
pid_t hvd_rank_state_pid(void);

/* The rank's side: finds the page where the variable names one. Once, before hvd_rank_state_set; a
 * variable that names anything else is ignored. */
void hvd_rank_state_open(void);

/* Says how far this rank is, where there is a page; one that joins a job blames nobody any more.
 * Any thread. */
void hvd_rank_state_set(enum hvd_rank_phase phase);

/* Says how long this rank waits in horovod_init until others are to be named, and until it gives
 * up; 0: for ever. Any thread. */
void hvd_rank_state_set_stall_times(int64_t warning_ms, int64_t shutdown_ms);

/* What it has said: 0 before. */
int64_t hvd_rank_state_warning_ms(void);
int64_t hvd_rank_state_shutdown_ms(void);

/* Says that an exception which nothing caught ends this process, as Python does it, and in one line
 * which; as much of it as there is room for. One thread at a time. */
void hvd_rank_state_raise(const char *words);

/* What it has said; of a process that has ended. Empty before. */
const char *hvd_rank_state_words(void);

/* The process that has said so; 0: none has. */
pid_t hvd_rank_state_raised(void);

/* Says with what words the library has told the program that its job has ended: what the program
 * does then follows from that. The first ones stay until the next job; none come behind an
 * exception that has ended this process. Any thread. */
void hvd_rank_state_set_cause(const char *words);

/* What it has said; of a process that has ended. Empty before. */
const char *hvd_rank_state_cause(void);

/* Says that this rank's job has ended because of another rank; the first one stays. Any thread. */
void hvd_rank_state_blame(int64_t rank);

/* The rank because of which the job has ended; -1: none is known. */
int64_t hvd_rank_state_blamed(void);

/* Says whether the job that this rank is about to join has all processes: before HVD_RANK_JOINING.
 * Any thread. */
void hvd_rank_state_join_all(bool joins_all);

/* Whether the last job that the rank joined has all processes. */
bool hvd_rank_state_joins_all(void);

/* Says that this rank is within MPI_Finalize, or beyond: it joins no job any more. Any thread. */
void hvd_rank_state_finalise(void);

/* Whether it has said so. */
bool hvd_rank_state_is_final(void);

/* Whether MPI was initialised and not finalised: of a process that has ended, as after a job that
 * was aborted, mpirun takes that for a failure and ends all others. */
bool hvd_rank_state_keeps_mpi(void);

#endif
