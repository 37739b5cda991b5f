/*
 * The place of this process in the job: constant from horovod_init on. Any thread.
 */
#include "worker/api/api_internal.h"

/* Stores the topology in *out; false when not initialised. */
static bool get_topology(struct hvd_topology *out)
{
    if (hvd_api_is_forked())
        return hvd_api_parents_topology(out);
    struct hvd_engine *engine = hvd_api_enter(true);
    if (!engine)
        return false;
    *out = *hvd_engine_topology(engine);
    hvd_api_exit();
    return true;
}

int horovod_rank(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.rank : -1;
}

int horovod_size(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.size : -1;
}

int horovod_local_rank(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.local_rank : -1;
}

int horovod_local_size(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.local_size : -1;
}

int horovod_cross_rank(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.cross_rank : -1;
}

int horovod_cross_size(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.cross_size : -1;
}

bool horovod_is_homogeneous(void)
{
    struct hvd_topology top;

    return get_topology(&top) && top.is_homogeneous;
}

int horovod_mpi_threads_supported(void)
{
    struct hvd_topology top;

    return get_topology(&top) ? top.threads_multiple : -1;
}
