/*
 * The library in a child of fork(). The child has the memory of a rank and none of its threads.
 * Threads that do not exist there may hold locks, and MPI and the shared memory are the parent's.
 * So the child is no part of the job: every function returns at once, without taking a lock, with
 * the reason. Only the parent's place can still be queried. The fork handler sets a flag and does
 * nothing else, since hardly anything is allowed there. vfork and posix_spawn do not run it.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "worker/api/api_internal.h"

static struct {
    pthread_once_t once;
    atomic_bool is_watched;
    atomic_bool is_child;
    atomic_bool has_topology; /* a job runs, or ran when this process was forked */
    struct hvd_topology topology;
} forked = {.once = PTHREAD_ONCE_INIT};

static void mark_child(void)
{
    atomic_store(&forked.is_child, true);
}

static void telemetry(void)
{
    atomic_store(&forked.is_watched, pthread_atfork(NULL, NULL, mark_child) == 0);
}

hvd_status_t hvd_api_watch_forks(struct hvd_err *err)
{
    pthread_once(&forked.once, telemetry);
    if (!atomic_load(&forked.is_watched))
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "out of memory for pthread_atfork");
    return HVD_OK;
}

void hvd_api_topology_for_children(const struct hvd_topology *topology)
{
    if (topology)
        forked.topology = *topology;
    atomic_store_explicit(&forked.has_topology, topology != NULL, memory_order_release);
}

bool hvd_api_is_forked(void)
{
    return atomic_load_explicit(&forked.is_child, memory_order_relaxed);
}

bool hvd_api_parents_topology(struct hvd_topology *topology)
{
    if (!atomic_load_explicit(&forked.has_topology, memory_order_acquire))
        return false;
    *topology = forked.topology;
    return true;
}

void hvd_api_explain_fork(struct hvd_err *why)
{
    struct hvd_topology topology;

    if (hvd_api_parents_topology(&topology))
        hvd_err_set(why, HVD_ERR_STATE, 0,
                    "This process was forked from rank %d and is no part of the job: only the "
                    "process that called horovod_init may use Horovod.",
                    topology.rank);
    else
        hvd_err_set(why, HVD_ERR_STATE, 0,
                    "This process was forked from one that has used Horovod, and cannot use it: "
                    "MPI is the parent's.");
}
