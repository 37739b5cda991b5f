#ifndef HVD_OPERATOR_APP_FENCE_H
#define HVD_OPERATOR_APP_FENCE_H

#include "operator/core/lease/lease.h"
#include "operator/kube/api.h"

/*
 * The performer's port where several operators compete. Reads pass. A write passes only while the
 * Lease allows one to start. It must end, here and in the API server, before another operator may
 * take the Lease.
 */
struct hvd_fence {
    struct hvd_kube_api api; /* the performer's port; its self is the fence */
    const struct hvd_kube_api *_inner;
    const struct hvd_lease *_lease;
    int64_t (*_now_ms)(void);
};

/* Fills *fence, which must not move afterwards. All pointers are borrowed; now_ms reads the clock
 * that the lease is stepped with. */
void hvd_fence_init(struct hvd_fence *fence, const struct hvd_kube_api *inner,
                    const struct hvd_lease *lease, int64_t (*now_ms)(void));

#endif
