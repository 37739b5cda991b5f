#ifndef HVD_OPERATOR_CORE_PORTS_H
#define HVD_OPERATOR_CORE_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "operator/api/horovodjob.h"

/*
 * Ports for the sshd of jobs whose workers use their nodes' network. Each job gets one of its own
 * out of a range; it is recorded in the job's status before anything is made with it.
 */

struct hvd_port_range {
    int32_t first;
    int32_t last; /* >= first */
};

#define HVD_PORTS_FIRST 20000 /* below the ports of Linux' outgoing connections and NodePorts */
#define HVD_PORTS_LAST 29999

/* Whether the job is to get a port: it is to run, on the nodes' network, and has none. */
bool hvd_ports_is_wanted(const struct hvd_job *job);

/*
 * The port that the job holds, so that no other gets it: recorded or given; 0 if none. A finished
 * job holds its port as long as it has pods.
 */
int32_t hvd_ports_held(const struct hvd_job *job, size_t n_pods);

/*
 * A port of the range that is not taken; 0 if there is none. The first one tried follows from the
 * job's uid, so that the choice does not depend on the order of events. Sorts taken.
 */
int32_t hvd_ports_choose(const struct hvd_port_range *range, int32_t *taken, size_t n_taken,
                         const char *uid);

#endif
