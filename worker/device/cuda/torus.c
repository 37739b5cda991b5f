/* The places and shares of a torus; see torus.h. Pure. */
#include "worker/device/cuda/torus.h"

#include <string.h>

#include "worker/reduce/half_bits.h"

#define LONG_BYTES ((size_t)512 << 10)
#define ALIGNMENT 256 /* of chunks, as NCCL moves aligned memory faster */

struct hvd_torus hvd_torus_of(const int *hosts, const int *local_ranks, int size, int rank)
{
    struct hvd_torus t = {0};
    int most = 0; /* ranks on a host */
    int n_hosts = 0;
    int n_full = 0; /* hosts with so many */

    if (!hosts)
        return t;
    for (int i = 0; i < size; i++) {
        n_hosts += local_ranks[i] == 0;
        if (local_ranks[i] >= most) {
            most = local_ranks[i] + 1;
            n_full = 0;
        }
        n_full += local_ranks[i] == most - 1;
    }
    if (most == 1 || n_hosts == 1 || n_full < n_hosts)
        return t;
    while (hosts[t.host] != hosts[rank])
        t.host++;
    t.local_rank = local_ranks[rank];
    t.local_size = most;
    return t;
}

bool hvd_torus_moves(size_t bytes, enum hvd_dtype dtype, bool is_averaged)
{
    return bytes >= LONG_BYTES && (!is_averaged || hvd_dtype_is_real(dtype));
}

struct hvd_torus_share hvd_torus_share_of(size_t count, size_t width, int local_size)
{
    const size_t step = ALIGNMENT / width;
    const size_t chunk = count / (size_t)local_size / step * step;

    return (struct hvd_torus_share){.chunk = chunk, .rest = count - chunk * (size_t)local_size};
}

size_t hvd_torus_part(struct hvd_torus_share share, const struct hvd_torus *t)
{
    return share.chunk + (t->local_rank == t->local_size - 1 ? share.rest : 0);
}

void hvd_torus_factor(enum hvd_dtype dtype, int size, void *factor)
{
    const double wide = 1 / (double)size;
    const float narrow = (float)wide;
    uint16_t half = 0;

    switch ((int)dtype) {
    case HVD_FLOAT64:
        memcpy(factor, &wide, sizeof(wide));
        return;
    case HVD_FLOAT32:
        memcpy(factor, &narrow, sizeof(narrow));
        return;
    default:
        break;
    }
    half = dtype == HVD_FLOAT16 ? hvd_float16_narrow(narrow) : hvd_bfloat16_narrow(narrow);
    memcpy(factor, &half, sizeof(half));
}
