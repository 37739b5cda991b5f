/* Local ranks; see local_ranks.h. Pure. */
#include "worker/core/local_ranks.h"

#include <stdlib.h>

#include "base/mem.h"

struct placed {
    int host;
    int rank;
};

static int compare(const void *a, const void *b)
{
    const struct placed *x = a;
    const struct placed *y = b;

    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

hvd_status_t hvd_local_ranks_of(const int *hosts, int n, int **local_ranks)
{
    struct placed *placed = hvd_calloc((size_t)n, sizeof(*placed));
    int *out = hvd_calloc((size_t)n, sizeof(*out));

    if (!placed || !out) {
        hvd_free(placed);
        hvd_free(out);
        return HVD_ERR_NOMEM;
    }
    for (int i = 0; i < n; i++)
        placed[i] = (struct placed){.host = hosts[i], .rank = i};
    qsort(placed, (size_t)n, sizeof(*placed), compare);
    for (int i = 1; i < n; i++)
        if (placed[i].host == placed[i - 1].host)
            out[placed[i].rank] = out[placed[i - 1].rank] + 1;
    hvd_free(placed);
    *local_ranks = out;
    return HVD_OK;
}
