/*
 * Wakes the progress owner, and decides which threads may become it.
 */
#include "worker/engine/state/wake.h"

bool hvd_wake_may_own(const struct hvd_engine *e)
{
    return !e->topology.thread_bound || pthread_equal(pthread_self(), e->owner);
}

void hvd_wake_refuse(struct hvd_strview name, struct hvd_err *err)
{
    hvd_err_set(err, HVD_ERR_STATE, 0,
                "HOROVOD_MPI_THREADS_DISABLE is set: tensor %.*s can be waited for in the thread "
                "that called horovod_init alone",
                name.len > 200 ? 200 : (int)name.len, name.data);
}

/* Wakes the progress owner if it sleeps. Holds mu. */
void hvd_wake_sleeper(struct hvd_engine *e)
{
    if (e->locked.sleeper)
        pthread_cond_signal(e->locked.sleeper);
    else if (e->locked.is_asleep)
        e->transport->ops->wake(e->transport);
}

void hvd_wake_owner(struct hvd_engine *e)
{
    hvd_wake_sleeper(e);
    if (!e->locked.has_progress_owner)
        pthread_cond_signal(&e->locked.background_cond);
}
