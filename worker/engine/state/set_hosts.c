/* Which ranks of a process set are on one host. Any thread; no state. */
#include "worker/engine/state/set_hosts.h"

#include "base/mem.h"

hvd_status_t hvd_set_hosts_find(const struct hvd_engine *e, const struct hvd_set *set, int **hosts)
{
    const struct hvd_transport *t = e->transport;

    *hosts = NULL;
    if (!t->ops->host_number && e->topology.local_size == e->topology.size)
        return HVD_OK;
    *hosts = hvd_malloc((size_t)set->self.size, sizeof(**hosts));
    if (!*hosts)
        return HVD_ERR_NOMEM;
    for (int i = 0; i < set->self.size; i++) /* unknown: each rank is on a host of its own */
        (*hosts)[i] = t->ops->host_number ? t->ops->host_number(t, set->ranks[i]) : set->ranks[i];
    return HVD_OK;
}
