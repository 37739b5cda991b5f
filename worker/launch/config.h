#ifndef HVD_WORKER_LAUNCH_CONFIG_H
#define HVD_WORKER_LAUNCH_CONFIG_H

#include "base/status.h"
#include "base/str.h"
#include "worker/launch/core/args.h"

/* The maximum size of a configuration file in bytes. */
#define HVD_LAUNCH_CONFIG_MAX ((size_t)1 << 20)

/*
 * Reads the text of a configuration file (YAML) and appends the equivalent flags to out, one word
 * each: "--cycle-time-ms=2.5". HVD_ERR_INVALID names the line and the unknown or wrong key;
 * HVD_ERR_NOMEM. Flags appended before a failure stay.
 */
hvd_status_t hvd_launch_config_parse(struct hvd_strview text, struct hvd_args *out,
                                     struct hvd_err *err);

#endif
