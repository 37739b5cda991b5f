#ifndef HVD_OPERATOR_APP_LOGLIMIT_H
#define HVD_OPERATOR_APP_LOGLIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define HVD_LOGLIMIT_BUCKETS 256
#define HVD_LOGLIMIT_BURST 5
#define HVD_LOGLIMIT_WINDOW_MS 60000

/*
 * A log sink in front of another one. The same message about the same object (the fields job,
 * resource, kind, name, state and lease) passes five times a minute. The next one that passes
 * counts the dropped ones, as suppressed=N. Debug lines always pass. Fixed in size; one thread.
 */
struct hvd_loglimit {
    struct hvd_log log; /* give this one to components */
    uint64_t n_suppressed;
    const struct hvd_log *_inner;
    int64_t (*_now_ms)(void);
    struct {
        uint64_t key; /* 0: free */
        int64_t begin_ms;
        unsigned n;
        unsigned n_suppressed;
    } _buckets[HVD_LOGLIMIT_BUCKETS];
};

/* Prepares *limit, which must not move afterwards; inner and the clock are borrowed. */
void hvd_loglimit_init(struct hvd_loglimit *limit, const struct hvd_log *inner,
                       int64_t (*now_ms)(void));

#endif
