#ifndef HVD_WORKER_TIMELINE_REPORT_PAGE_H
#define HVD_WORKER_TIMELINE_REPORT_PAGE_H

#include "base/buf.h"
#include "worker/timeline_report/analysis.h"

/* The largest size of a page. */
#define HVD_TL_PAGE_MAX ((size_t)2 << 20)

/* The parts of the page's head that do not come from the timelines; all borrowed. */
struct hvd_tl_about {
    char *const *files; /* of the timelines */
    size_t n_files;
    const char *host; /* where the page was made; NULL: not shown */
    const char *made; /* when; NULL: not shown */
};

/* Appends the report as one self-contained HTML page. Fails as hvd_buf_add does. */
hvd_status_t hvd_tl_page(const struct hvd_tl_model *model, const struct hvd_tl_analysis *analysis,
                         const struct hvd_tl_about *about, struct hvd_buf *out);

#endif
