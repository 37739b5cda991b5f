#ifndef HVD_WORKER_TIMELINE_REPORT_PAGE_H
#define HVD_WORKER_TIMELINE_REPORT_PAGE_H

#include "base/buf.h"
#include "worker/timeline_report/analysis.h"

/* No page is larger, whatever its timelines hold. */
#define HVD_TL_PAGE_MAX ((size_t)2 << 20)

/* What the head of the page says beside what is in the timelines; all borrowed. */
struct hvd_tl_about {
    char *const *files; /* of the timelines */
    size_t n_files;
    const char *host; /* where the page was made; NULL: not said */
    const char *made; /* when; NULL: not said */
};

/* Appends the report as one page of HTML that needs nothing else. Fails as hvd_buf_add does. */
hvd_status_t hvd_tl_page(const struct hvd_tl_model *model, const struct hvd_tl_analysis *analysis,
                         const struct hvd_tl_about *about, struct hvd_buf *out);

#endif
