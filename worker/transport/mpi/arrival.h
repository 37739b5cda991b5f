#ifndef HVD_WORKER_TRANSPORT_MPI_ARRIVAL_H
#define HVD_WORKER_TRANSPORT_MPI_ARRIVAL_H

#include "base/aside.h"
#include "base/log.h"
#include "base/status.h"

/*
 * The beginning of a job, watched: calls that wait for all ranks run in a thread of their own while
 * this one exchanges messages with the ranks next to it (core/arrival.h). A rank that does not
 * come, or stands still, is named in the log, and in the failure that ends the beginning after the
 * shutdown time. One thread; MPI at MPI_THREAD_MULTIPLE, else the calls run here and nobody is
 * watched.
 */
struct hvd_mpi_arrival;

/* W and S as of HOROVOD_STALL_*, 0: nobody is named, or nobody lost. The log is borrowed.
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_mpi_arrival_create(int64_t warning_ns, int64_t shutdown_ns,
                                    const struct hvd_log *log, struct hvd_mpi_arrival **out,
                                    struct hvd_err *err);

/* NULL is fine. What MPI may still read stays. */
void hvd_mpi_arrival_destroy(struct hvd_mpi_arrival *a);

/* The times that count from now on. */
void hvd_mpi_arrival_set_times(struct hvd_mpi_arrival *a, int64_t warning_ns, int64_t shutdown_ns);

/* The ranks of the job, and how messages reach them. */
struct hvd_mpi_arrival_ranks {
    const void *comm; /* an MPI_Comm *; no other messages of HVD_MPI_ARRIVAL_TAG are on it */
    const int *ranks; /* there, by rank of the job; NULL: the same. Borrowed until the end */
    int rank;         /* of the job */
    int size;
    bool is_late;    /* ranks have waited for each other before */
    bool can_attend; /* this rank can send while another thread is in MPI */
};

/* From now on ranks are named. HVD_ERR_NOMEM. */
hvd_status_t hvd_mpi_arrival_open(struct hvd_mpi_arrival *a,
                                  const struct hvd_mpi_arrival_ranks *ranks, struct hvd_err *err);

/* Calls run in this thread: MPI allows no other one beside it. */
void hvd_mpi_arrival_stay(struct hvd_mpi_arrival *a);

/* Whether it was opened. */
bool hvd_mpi_arrival_is_open(const struct hvd_mpi_arrival *a);

/*
 * Runs a call that waits for all ranks, and returns what it did; ctx, one allocation, stays the
 * caller's then. HVD_ERR_GONE: the job does not begin, for the reason in err. ctx is taken over
 * then, and the call may still be under way with all that it uses, which has to stay for good.
 */
hvd_status_t hvd_mpi_arrival_attend(struct hvd_mpi_arrival *a, hvd_aside_fn fn, void *ctx,
                                    struct hvd_err *err);

/* This rank is through: waits until all are. HVD_ERR_GONE as above; HVD_ERR_NOMEM, HVD_ERR_SYSTEM.
 */
hvd_status_t hvd_mpi_arrival_finish(struct hvd_mpi_arrival *a, struct hvd_err *err);

#endif
