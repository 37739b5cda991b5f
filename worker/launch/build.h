#ifndef HVD_WORKER_LAUNCH_BUILD_H
#define HVD_WORKER_LAUNCH_BUILD_H

#include "base/buf.h"
#include "base/status.h"

/* Appends the available frameworks, controllers and operations, as --check-build prints them. Fails
 * as hvd_buf_add does. */
hvd_status_t hvd_build_describe(struct hvd_buf *out);

#endif
