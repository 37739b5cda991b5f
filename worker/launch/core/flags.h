#ifndef HVD_WORKER_LAUNCH_CORE_FLAGS_H
#define HVD_WORKER_LAUNCH_CORE_FLAGS_H

#include <stdbool.h>

#include "base/str.h"
#include "worker/launch/core/args.h"

/* A flag of horovodrun that sets a variable of the runtime, or that Horovod has and this horovodrun
 * does not support. */
struct hvd_launch_flag;

/* Finds the flag of that name; NULL when there is none. */
const struct hvd_launch_flag *hvd_launch_flag_find(struct hvd_strview name);

/* Whether the flag takes a value. */
bool hvd_launch_flag_takes_value(const struct hvd_launch_flag *flag);

/* The reason why the flag changes nothing; NULL for one that has an effect. */
const char *hvd_launch_flag_note(const struct hvd_launch_flag *flag);

/* Appends VARIABLE=VALUE to out. value is NULL for a flag without one. HVD_ERR_INVALID names the
 * flag and the allowed values, or the remedy; HVD_ERR_NOMEM. */
hvd_status_t hvd_launch_flag_apply(const struct hvd_launch_flag *flag, const char *value,
                                   struct hvd_args *out, struct hvd_err *err);

#endif
