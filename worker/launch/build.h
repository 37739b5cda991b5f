#ifndef HVD_WORKER_LAUNCH_BUILD_H
#define HVD_WORKER_LAUNCH_BUILD_H

#include "base/buf.h"
#include "base/status.h"

/* Appends what there is, as --check-build shows it: frameworks, controllers, operations. Fails as
 * hvd_buf_add does. */
hvd_status_t hvd_build_describe(struct hvd_buf *out);

#endif
