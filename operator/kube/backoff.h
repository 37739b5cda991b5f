#ifndef HVD_OPERATOR_KUBE_BACKOFF_H
#define HVD_OPERATOR_KUBE_BACKOFF_H

#include <stdint.h>

/* The bounds of a series of waiting times. */
struct hvd_backoff {
    int64_t first_ms; /* about the length of the first wait */
    int64_t max_ms;   /* no wait is longer */
};

/*
 * The wait before the next try after n_failures (>= 1) in a row. It doubles each time up to the
 * maximum. Then random (any 32 bits) spreads it over its upper half, so that clients that failed
 * together do not return together. Pure.
 */
int64_t hvd_backoff_ms(const struct hvd_backoff *backoff, unsigned n_failures, uint32_t random);

#endif
