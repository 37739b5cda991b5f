/*
 * The exported functions that take MPI communicators. They name no MPI type: a communicator arrives
 * as a pointer to the program's variable, or as the pointer that it is in Open MPI.
 */
#include <string.h>

#include "base/mem.h"
#include "worker/api/api_internal.h"
#include "worker/transport/mpi/bootstrap.h"
#include "worker/transport/mpi/comms.h"

bool horovod_init_multi_comm(const void *comms, int n_comms, const int *process_set_ranks,
                             const int *process_set_sizes, int n_process_sets)
{
    return hvd_api_init(
        &(struct hvd_api_start){.comms = comms,
                                .n_comms = n_comms,
                                .sets = {process_set_ranks, process_set_sizes, n_process_sets}});
}

/* Returns the set of exactly these ranks, or an error. */
static int find_set(struct hvd_engine *engine, const int *wanted, int n, int *room)
{
    const int size = hvd_engine_topology(engine)->size;

    /* Removed sets leave gaps in the numbers, so this continues until it has seen as many sets as
     * exist. */
    for (uint32_t id = 0, n_seen = 0; n_seen < (uint32_t)hvd_engine_sets(engine, NULL, 0); id++) {
        const int n_ranks = hvd_engine_set_ranks(engine, id, room, size);
        if (n_ranks < 0)
            continue;
        n_seen++;
        if (n_ranks == n && memcmp(room, wanted, (size_t)n * sizeof(*room)) == 0)
            return (int)id;
    }
    return HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;
}

/* Returns the number of the set whose members, in order, are those of the communicator, or an
 * error. */
static int find_comm(struct hvd_engine *engine, const struct hvd_transport *mpi, const void *comm)
{
    const size_t size = (size_t)hvd_engine_topology(engine)->size;
    int *ranks = hvd_malloc(2 * size, sizeof(*ranks));
    int result = HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;
    int n = 0;

    if (ranks && hvd_mpi_comms_ranks(mpi, comm, ranks, &n, NULL) == HVD_OK)
        result = find_set(engine, ranks, n, ranks + size);
    hvd_free(ranks);
    return result;
}

int horovod_comm_process_set(void *comm)
{
    struct hvd_bootstrap *b = hvd_api_lock_job();
    struct hvd_engine *engine = b ? hvd_api_enter(true) : NULL;
    int result = HOROVOD_PROCESS_SET_ERROR_INIT;

    if (engine) {
        const struct hvd_log *log;
        hvd_api_telemetry(&log);
        result = HOROVOD_PROCESS_SET_ERROR_UNKNOWN_SET;
        if (!hvd_mpi_bootstrap_is(b))
            hvd_log(log, HVD_LOG_WARN, "api", "horovod_comm_process_set works with MPI alone");
        else if (b->transport->topology.threads_multiple)
            result = find_comm(engine, b->transport, &comm);
        else
            hvd_log(log, HVD_LOG_WARN, "api",
                    "horovod_comm_process_set works with MPI_THREAD_MULTIPLE alone");
        hvd_api_exit();
    }
    hvd_api_unlock_job();
    return result;
}
