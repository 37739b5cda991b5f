#ifndef HVD_BASE_ASIDE_H
#define HVD_BASE_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * A call that may never return, in a thread of its own: whoever started it looks now and then
 * whether it has, does other things meanwhile, and may leave it behind.
 */
struct hvd_aside;

/* Runs in the thread. ctx is one allocation, and what it points to outlives the call. */
typedef hvd_status_t (*hvd_aside_fn)(void *ctx, struct hvd_err *err);

/* Starts the call, in a thread of that name (at most 15 bytes). ctx stays the caller's, until it is
 * left behind. HVD_ERR_NOMEM, HVD_ERR_SYSTEM: nothing was called. */
hvd_status_t hvd_aside_start(const char *name, hvd_aside_fn fn, void *ctx, struct hvd_aside **out);

/* Waits for its return, at most so long; whether it has returned. */
bool hvd_aside_wait(struct hvd_aside *aside, int64_t ns);

/* Ends the watch. Where the call has returned, *status and err are what it returned. Else false: it
 * is left behind with ctx, which its thread hvd_frees should it ever return. */
bool hvd_aside_end(struct hvd_aside *aside, hvd_status_t *status, struct hvd_err *err);

#endif
