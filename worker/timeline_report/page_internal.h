#ifndef HVD_WORKER_TIMELINE_REPORT_PAGE_INTERNAL_H
#define HVD_WORKER_TIMELINE_REPORT_PAGE_INTERNAL_H

#include "worker/timeline_report/page.h"

/* The page under construction, and its data. */
struct hvd_tl_page_out {
    const struct hvd_tl_model *m;
    const struct hvd_tl_analysis *a;
    const struct hvd_tl_about *about;
    struct hvd_buf *out;
};

/* The form of a class of time in the page: CSS class, name, short name for narrow columns. */
struct hvd_tl_kind {
    const char *id;
    const char *name;
    const char *short_name;
    const char *meaning;
};

extern const struct hvd_tl_kind hvd_tl_kinds[HVD_TL_CLASSES];

/* The style sheet. Text is never below 11 px, and no part but a .scroll is wider than the page. */
extern const char hvd_tl_style[];

/* Appends a text and escapes HTML's special characters. Fails as hvd_buf_add does. */
hvd_status_t hvd_tl_head_escaped(struct hvd_buf *out, const char *text);

/* Appends a time with three significant digits: "1.23 ms". Failures as above. */
hvd_status_t hvd_tl_page_time(struct hvd_buf *out, double ns);

/* Appends the name of the i-th timeline, "rank 3"; the index behind the last one stands for all
 * ranks without a timeline. Failures as above. */
hvd_status_t hvd_tl_page_rank(const struct hvd_tl_page_out *p, size_t i);

/* Returns the part in percent; 0 if the whole is 0. */
double hvd_tl_page_percent(double part, double whole);

/* Appends the beginning of the page's title, "train.py: "; nothing if no program is known. Failures
 * as above. */
hvd_status_t hvd_tl_head_title(const struct hvd_tl_page_out *p);

/* Appends the description of the job: its hosts, the files of its timelines, and where and when the
 * page was made. Failures as above. */
hvd_status_t hvd_tl_head_about(const struct hvd_tl_page_out *p);

/* Appends the notes about doubtful numbers, if any apply. Failures as above. */
hvd_status_t hvd_tl_notes_put(const struct hvd_tl_page_out *p);

/* Appends the typical step as a picture; nothing if there is none. Failures as above, and
 * HVD_ERR_NOMEM. */
hvd_status_t hvd_tl_picture_step(const struct hvd_tl_page_out *p);

/* Appends the table of which rank waited for which. Failures as above. */
hvd_status_t hvd_tl_waits_put(const struct hvd_tl_page_out *p);

/* Appends the table of the most expensive tensors. Failures as above. */
hvd_status_t hvd_tl_tensors_put(const struct hvd_tl_page_out *p);

#endif
