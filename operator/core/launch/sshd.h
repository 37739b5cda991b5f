#ifndef HVD_OPERATOR_CORE_LAUNCH_SSHD_H
#define HVD_OPERATOR_CORE_LAUNCH_SSHD_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"

/* Within operator/core only. */

/* Where a worker that we start keeps its environment: a volume of its own, in memory. */
#define HVD_RUN_DIR "/run/horovod"

/* Gives a worker container sshd as its command, which hands the container's environment on. It
 * writes to HVD_RUN_DIR. */
void hvd_sshd_command(struct hvd_jb *jb, cJSON *container, int port);

/* Adds to a worker container the ssh port and, where it has none, the probes of that port. */
void hvd_sshd_probes(struct hvd_jb *jb, cJSON *container, int port, int startup_s);

#endif
