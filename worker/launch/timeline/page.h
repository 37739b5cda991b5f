#ifndef HVD_WORKER_LAUNCH_TIMELINE_PAGE_H
#define HVD_WORKER_LAUNCH_TIMELINE_PAGE_H

#include "base/buf.h"
#include "worker/launch/timeline/analysis.h"

/* Appends the report as one page of HTML that needs nothing else. Fails as hvd_buf_add does. */
hvd_status_t hvd_tl_page(const struct hvd_tl_model *model, const struct hvd_tl_analysis *analysis,
                         struct hvd_buf *out);

#endif
