#ifndef HVD_WORKER_LAUNCH_REPORT_H
#define HVD_WORKER_LAUNCH_REPORT_H

#include <stddef.h>

#include "base/status.h"

/*
 * Reads the timelines and writes the page that shows where the time went. A failure names the file
 * that cannot be read or written, or is no timeline; then the page is unchanged.
 */
hvd_status_t hvd_report_make(const char *page, char *const *timelines, size_t n,
                             struct hvd_err *err);

#endif
