#ifndef HVD_WORKER_LAUNCH_REPORT_H
#define HVD_WORKER_LAUNCH_REPORT_H

#include <stddef.h>

#include "base/status.h"

/*
 * Reads the timelines and writes the page of where the time went. The failure names the file that
 * cannot be read or written, or is none; then the page is as it was before.
 */
hvd_status_t hvd_report_make(const char *page, char *const *timelines, size_t n,
                             struct hvd_err *err);

#endif
