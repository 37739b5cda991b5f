#ifndef HVD_OPERATOR_CORE_LAUNCH_SSHD_H
#define HVD_OPERATOR_CORE_LAUNCH_SSHD_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"

/* Within operator/core only. */

/* The directory in which a worker that the operator starts keeps its environment: a volume in
 * memory. */
#define HVD_RUN_DIR "/run/horovod"

/* Makes sshd the command of a worker container and passes the container's environment to its
 * sessions. It writes to HVD_RUN_DIR. */
void hvd_sshd_command(struct hvd_jb *jb, cJSON *container, int port);

/* Adds the ssh port to a worker container, and probes of that port where it has none. */
void hvd_sshd_probes(struct hvd_jb *jb, cJSON *container, int port, int startup_s);

#endif
