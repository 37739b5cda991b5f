#ifndef HVD_WORKER_LAUNCH_CORE_CGROUP_H
#define HVD_WORKER_LAUNCH_CORE_CGROUP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define HVD_CGROUP_PATH_MAX 1024

/* The memory controller of a process in the file system. */
struct hvd_cgroup {
    int version;                     /* 1 or 2 */
    char mount[HVD_CGROUP_PATH_MAX]; /* the controller's mount point */
    char dir[HVD_CGROUP_PATH_MAX];   /* the process's own directory, at or below mount */
};

/*
 * Finds the controller from the texts of /proc/self/cgroup and /proc/self/mountinfo. Takes version
 * 1's memory hierarchy where there is one, else version 2. HVD_ERR_NOT_FOUND when neither is
 * mounted.
 */
hvd_status_t hvd_cgroup_locate(const char *cgroup, const char *mountinfo, struct hvd_cgroup *out);

/*
 * The number of processes that the kernel killed for memory, from the text of memory.oom_control
 * (version 1) or memory.events (version 2). HVD_ERR_NOT_FOUND when the text has no such number.
 */
hvd_status_t hvd_cgroup_oom_kills(const char *text, int64_t *out);

/*
 * The limit, from the text of memory.limit_in_bytes or memory.max; INT64_MAX for no limit.
 * HVD_ERR_INVALID on any other text.
 */
hvd_status_t hvd_cgroup_limit(const char *text, int64_t *out_bytes);

/* Writes bytes as Kubernetes does, in the largest unit that divides it: "64Mi", "1536Ki", "1000".
 */
void hvd_cgroup_format_size(int64_t size_bytes, char *out, size_t out_size);

#endif
