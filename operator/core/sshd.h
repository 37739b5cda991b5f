#ifndef HVD_OPERATOR_CORE_SSHD_H
#define HVD_OPERATOR_CORE_SSHD_H

#include <cjson/cJSON.h>

#include "operator/api/json.h"

/* Within operator/core only. */

/* Gives a worker container sshd as its command and, as SetEnv, the names in its env. */
void hvd_sshd_command(struct hvd_jb *jb, cJSON *container, int port);

/* Adds to a worker container the ssh port and, where it has none, the probes of that port. */
void hvd_sshd_probes(struct hvd_jb *jb, cJSON *container, int port, int startup_s);

#endif
