/*
 * Waiting times between tries: exponential with jitter. Pure: the caller passes the random number,
 * so that tests are exact. The caller itself obeys a server's Retry-After.
 */
#include "operator/kube/backoff.h"

int64_t hvd_backoff_ms(const struct hvd_backoff *backoff, unsigned n_failures, uint32_t random)
{
    int64_t wait_ms = backoff->first_ms;

    for (unsigned i = 1; i < n_failures && wait_ms < backoff->max_ms; i++)
        wait_ms *= 2;
    if (wait_ms > backoff->max_ms)
        wait_ms = backoff->max_ms;
    return wait_ms - (int64_t)((uint64_t)(wait_ms / 2) * random / UINT32_MAX);
}
