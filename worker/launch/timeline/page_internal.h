#ifndef HVD_WORKER_LAUNCH_TIMELINE_PAGE_INTERNAL_H
#define HVD_WORKER_LAUNCH_TIMELINE_PAGE_INTERNAL_H

#include "worker/launch/timeline/page.h"

/* The page that is being written, and what about. */
struct hvd_tl_page_out {
    const struct hvd_tl_model *m;
    const struct hvd_tl_analysis *a;
    const struct hvd_tl_about *about;
    struct hvd_buf *out;
};

/* Appends a text with what means something in HTML escaped. Fails as hvd_buf_add does. */
hvd_status_t hvd_tl_put_escaped(struct hvd_buf *out, const char *text);

/* Appends the beginning of the page's title, "train.py: "; nothing where no program is known.
 * Failures as above. */
hvd_status_t hvd_tl_put_title(const struct hvd_tl_page_out *p);

/* Appends which job it is about, on which hosts, where its timelines came from, and where and when
 * the page was made. Failures as above. */
hvd_status_t hvd_tl_put_about(const struct hvd_tl_page_out *p);

#endif
