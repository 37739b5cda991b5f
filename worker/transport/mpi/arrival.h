#ifndef HVD_WORKER_TRANSPORT_MPI_ARRIVAL_H
#define HVD_WORKER_TRANSPORT_MPI_ARRIVAL_H

#include "base/aside.h"
#include "base/log.h"
#include "base/status.h"

/*
 * Watches the beginning of a job. Calls that wait for all ranks run in a thread of their own.
 * Meanwhile this thread exchanges messages with the neighbours of this rank (core/arrival.h). The
 * log names a rank that does not come, or stands still. After the shutdown time a failure names it
 * and ends the beginning. One thread calls; MPI runs at MPI_THREAD_MULTIPLE. At a lower level the
 * calls run in this thread and no rank is watched.
 */
struct hvd_mpi_arrival;

/* The times are W and S of HOROVOD_STALL_*. 0: no rank is named, or no rank counts as lost. The log
 * is borrowed. HVD_ERR_NOMEM. */
hvd_status_t hvd_mpi_arrival_create(int64_t warning_ns, int64_t shutdown_ns,
                                    const struct hvd_log *log, struct hvd_mpi_arrival **out,
                                    struct hvd_err *err);

/* Accepts NULL. Keeps the memory that MPI may still read. */
void hvd_mpi_arrival_destroy(struct hvd_mpi_arrival *a);

/* Sets the warning and shutdown times that count from now on. */
void hvd_mpi_arrival_set_times(struct hvd_mpi_arrival *a, int64_t warning_ns, int64_t shutdown_ns);

/* The ranks of the job, and how messages reach them. */
struct hvd_mpi_arrival_ranks {
    const void *comm; /* an MPI_Comm *; carries no other messages with the tag of arrival.c */
    const int *ranks; /* in comm, by rank of the job; NULL: the same numbers. Borrowed until the
                         end */
    int rank;         /* of the job */
    int size;
    bool is_late;    /* ranks have already waited for each other */
    bool can_attend; /* this rank can send while another thread is in MPI */
};

/* From now on, warnings and failures name ranks. HVD_ERR_NOMEM. */
hvd_status_t hvd_mpi_arrival_open(struct hvd_mpi_arrival *a,
                                  const struct hvd_mpi_arrival_ranks *ranks, struct hvd_err *err);

/* From now on, calls run in this thread, because MPI allows no other thread beside it. */
void hvd_mpi_arrival_stay(struct hvd_mpi_arrival *a);

/* Whether hvd_mpi_arrival_open has succeeded. */
bool hvd_mpi_arrival_is_open(const struct hvd_mpi_arrival *a);

/*
 * Runs a call that waits for all ranks, and returns its result; the caller then still owns ctx, one
 * allocation. HVD_ERR_GONE: the job does not begin, for the reason in err. Then the call may still
 * be running and owns ctx. All that it uses must stay for good.
 */
hvd_status_t hvd_mpi_arrival_attend(struct hvd_mpi_arrival *a, hvd_aside_fn fn, void *ctx,
                                    struct hvd_err *err);

/* Reports that this rank is ready, and waits until all are. HVD_ERR_GONE as above; HVD_ERR_NOMEM,
 * HVD_ERR_SYSTEM. */
hvd_status_t hvd_mpi_arrival_finish(struct hvd_mpi_arrival *a, struct hvd_err *err);

#endif
