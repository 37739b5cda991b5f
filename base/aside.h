#ifndef HVD_BASE_ASIDE_H
#define HVD_BASE_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * A call in a thread of its own that may never return. The caller polls it with a timeout, does
 * other work in between, and may abandon it.
 */
struct hvd_aside;

/* Runs in the thread. ctx is one allocation; what it points to must outlive the call. */
typedef hvd_status_t (*hvd_aside_fn)(void *ctx, struct hvd_err *err);

/* Starts the call in a thread of that name (at most 15 bytes). ctx stays the caller's until the
 * call is abandoned. Returns HVD_ERR_NOMEM or HVD_ERR_SYSTEM if it could not start the call. */
hvd_status_t hvd_aside_start(const char *name, hvd_aside_fn fn, void *ctx, struct hvd_aside **out);

/* Waits up to ns nanoseconds. Returns whether the call has returned. */
bool hvd_aside_wait(struct hvd_aside *aside, int64_t ns);

/* Releases aside. If the call has returned, stores its status in *status, a failure also in err,
 * and returns true. Else returns false: the call is abandoned with ctx, and its thread calls
 * hvd_free(ctx) if the call ever returns. */
bool hvd_aside_end(struct hvd_aside *aside, hvd_status_t *status, struct hvd_err *err);

#endif
