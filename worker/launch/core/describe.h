#ifndef HVD_WORKER_LAUNCH_CORE_DESCRIBE_H
#define HVD_WORKER_LAUNCH_CORE_DESCRIBE_H

#include <stddef.h>

#include "worker/launch/core/hosts.h"
#include "worker/launch/core/report.h"

/*
 * Writes one line without newline: "rank 1 on host h raised KeyError: 'x'", "rank 1 on host h was
 * killed by signal 9 (Killed): out of memory (limit 64Mi)". Hosts have their names from the list,
 * where it has them.
 */
void hvd_describe_report(const struct hvd_report *report, const struct hvd_hosts *hosts, char *out,
                         size_t size);

#endif
