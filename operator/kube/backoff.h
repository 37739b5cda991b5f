#ifndef HVD_OPERATOR_KUBE_BACKOFF_H
#define HVD_OPERATOR_KUBE_BACKOFF_H

#include <stdint.h>

/* The bounds of a series of waiting times. */
struct hvd_backoff {
    int64_t first_ms; /* about the first wait */
    int64_t max_ms;   /* no wait is longer */
};

/*
 * The wait before the next try after n_failures (>= 1) in a row: doubles each time up to the
 * maximum, then spread over its upper half by random (any 32 bits), so that clients that failed
 * together do not come back together. Pure.
 */
int64_t hvd_backoff_ms(const struct hvd_backoff *backoff, unsigned n_failures, uint32_t random);

#endif
