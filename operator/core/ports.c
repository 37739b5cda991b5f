/*
 * Which port a job on the nodes' network gets: the first free one, from a place in the range that
 * the job's uid decides. Two jobs that start at the same place are told apart by what is taken,
 * which the caller collects from all jobs. Pure.
 */
#include "operator/core/ports.h"

#include <stdlib.h>

#include "operator/core/hash.h"

bool hvd_ports_is_wanted(const struct hvd_job *job)
{
    return job->spec.is_host_network && !job->spec.has_ssh_port && job->status.ssh_port == 0 &&
           !job->spec.is_suspended && !job->spec.is_foreign && !job->is_deleting &&
           !hvd_job_is_finished(&job->status);
}

int32_t hvd_ports_held(const struct hvd_job *job, size_t n_pods)
{
    if (!job->spec.is_host_network || (hvd_job_is_finished(&job->status) && n_pods == 0))
        return 0;
    return job->spec.has_ssh_port ? job->spec.ssh_port : job->status.ssh_port;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

int32_t hvd_ports_choose(const struct hvd_port_range *range, int32_t *taken, size_t n_taken,
                         const char *uid)
{
    uint64_t size = (uint64_t)(range->last - range->first) + 1;
    uint64_t start = hvd_hash_text(HVD_HASH_START, uid) % size;

    if (n_taken > 0)
        qsort(taken, n_taken, sizeof(taken[0]), by_number);
    for (uint64_t i = 0; i < size; i++) {
        int32_t port = range->first + (int32_t)((start + i) % size);

        if (n_taken == 0 || !bsearch(&port, taken, n_taken, sizeof(taken[0]), by_number))
            return port;
    }
    return 0;
}
