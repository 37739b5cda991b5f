#ifndef HVD_TESTS_UNIT_WORKER_LAUNCH_CORE_REPORTS_H
#define HVD_TESTS_UNIT_WORKER_LAUNCH_CORE_REPORTS_H

#include "worker/launch/core/report.h"

/* Reports as wrappers send them, and what the launcher makes of them. */
#define NONCE "0123456789abcdef"

/* A report of a rank that ended with code 1 and wrote so to its streams. */
struct hvd_report wrote(int64_t rank, const char *out, const char *err);

/* The last line after these reports, which come in that order; *log is what goes with it. */
void conclude(const struct hvd_report *reports, size_t n, char line[HVD_REPORT_MAX],
              char log[HVD_REPORT_LOG_MAX + 1]);

/* What is fed is one report. */
void feed_report(struct hvd_report_stream *stream, const struct hvd_report *report);

#endif
