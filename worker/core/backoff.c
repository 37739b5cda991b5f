/* The lengths of sleeps; see backoff.h. */
#include "worker/core/backoff.h"

int64_t hvd_backoff_longest_ns(int64_t cycle_ns)
{
    return cycle_ns < HVD_BACKOFF_MAX_NS ? cycle_ns : HVD_BACKOFF_MAX_NS;
}

int64_t hvd_backoff_sleep_ns(int64_t idle_ns, int64_t cycle_ns)
{
    const int64_t longest_ns = hvd_backoff_longest_ns(cycle_ns);
    const int64_t ns = idle_ns / 4 > HVD_BACKOFF_MIN_NS ? idle_ns / 4 : HVD_BACKOFF_MIN_NS;

    return ns < longest_ns ? ns : longest_ns;
}
