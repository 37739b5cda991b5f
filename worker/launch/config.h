#ifndef HVD_WORKER_LAUNCH_CONFIG_H
#define HVD_WORKER_LAUNCH_CONFIG_H

#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/args.h"

/* Bytes of a configuration file at most. */
#define HVD_LAUNCH_CONFIG_MAX ((size_t)1 << 20)

/*
 * Reads the text of a configuration file (YAML) and appends the flags that say the same to out, one
 * word each: "--cycle-time-ms=2.5". HVD_ERR_INVALID names the line and the key that is unknown or
 * wrong; HVD_ERR_NOMEM. What was appended before a failure stays.
 */
hvd_status_t hvd_launch_config_parse(struct hvd_strview text, struct hvd_args *out,
                                     struct hvd_err *err);

#endif
