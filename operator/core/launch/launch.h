#ifndef HVD_OPERATOR_CORE_LAUNCH_LAUNCH_H
#define HVD_OPERATOR_CORE_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "operator/api/horovodjob.h"
#include "operator/api/json.h"
#include "operator/api/kind.h"

/*
 * How a master starts ranks on workers. A launch way is a table of additions to the children of a
 * job, and of its prerequisites. All code that depends on the way uses the table of the job.
 */

/* The file that each way has in the ConfigMap of the host list. */
#define HVD_LAUNCH_FILE "ssh_config"

/* The keys that the shell makes for a job's master and workers; terminated texts, borrowed for the
 * call. */
struct hvd_launch_key {
    const char *private_pem; /* "-----BEGIN EC PRIVATE KEY-----" ..., ends with a newline */
    const char *public_line; /* "ecdsa-sha2-nistp256 AAAA...", no newline, no comment */
};

/* Failures of the functions are remembered in jb. */
struct hvd_launch {
    /* The additional child. Neither workers nor master are made without it. */
    enum hvd_kind child;
    const char *child_suffix; /* of its name, behind the job's */

    /* Adds the child's content to its body. */
    void (*put_child)(struct hvd_jb *jb, cJSON *root, const struct hvd_job *job,
                      const struct hvd_launch_key *key);

    /* Adds HVD_LAUNCH_FILE to the data of the ConfigMap. */
    void (*put_file)(struct hvd_jb *jb, cJSON *data, const struct hvd_job *job);

    /* Variables of master and workers, each a name and a value. */
    const char *const (*variables)[2];
    size_t n_variables;

    /* The variable with the job's port, in all containers on the nodes' network. */
    const char *port_variable;
    const char *no_port; /* why a job without a port waits, and what to do */

    /* Mounts the child of that name into the role's container. */
    void (*mount_child)(struct hvd_jb *jb, cJSON *pod, cJSON *container, const char *name,
                        bool is_root);

    /* Completes a worker: port, probes, and its command if the template has none. container may be
     * NULL. */
    void (*complete_worker)(struct hvd_jb *jb, cJSON *pod, cJSON *container,
                            const struct hvd_job *job);
};

/* The way of the job. Constant. */
const struct hvd_launch *hvd_launch_of(const struct hvd_job *job);

#endif
