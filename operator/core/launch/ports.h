#ifndef HVD_OPERATOR_CORE_LAUNCH_PORTS_H
#define HVD_OPERATOR_CORE_LAUNCH_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/core/view/projection.h"

/*
 * Ports for the sshd of jobs whose workers use their nodes' network. Each job gets its own port of
 * a range; the job's status records it before anything uses it. A job that runs nothing holds no
 * port.
 */

struct hvd_port_range {
    int32_t first;
    int32_t last; /* >= first */
};

#define HVD_PORTS_FIRST 20000 /* below the ports of Linux' outgoing connections and NodePorts */
#define HVD_PORTS_LAST 29999

/* A job that holds a port, or waits for one; all borrowed. */
struct hvd_port_claim {
    const struct hvd_job *job;
    int32_t port;     /* held; 0: it waits, and the result goes here */
    bool is_by_hand;  /* spec.ssh.port, which does not keep other jobs from the port */
    uint32_t _tenant; /* the same for all jobs of a namespace */
};

/* Whether the job needs a port: it is to run on the nodes' network, and has none. */
bool hvd_ports_is_wanted(const struct hvd_job *job);

/* Whether the object, one of those filed under a job, is a worker that may run, or makes
 * workers. */
bool hvd_ports_is_worker(const struct hvd_object *object);

/*
 * The port that the job holds: recorded or given; 0 if none. A job that has ended, is suspended, is
 * being deleted or has another manager holds its port as long as it has workers.
 */
int32_t hvd_ports_held(const struct hvd_job *job, bool has_workers);

/* Whether hvd_ports_held may depend on has_workers for this job. */
bool hvd_ports_may_be_idle(const struct hvd_job *job);

/*
 * Assigns ports of the range to the waiting claims, the longest wait first, while ports are left.
 * The job's uid determines the first port tried, so that the choice does not depend on the order of
 * events. A port that is only set by hand is given when no other is left. With is_shared, jobs of
 * several namespaces use the range. Then a job gets a port only while its namespace holds less than
 * HVD_PORTS_SHARE times the ports that are left. HVD_ERR_NOMEM: none was given. Changes the order
 * of the claims.
 */
hvd_status_t hvd_ports_assign(const struct hvd_port_range *range, bool is_shared,
                              struct hvd_port_claim *claims, size_t n);

/* One namespace alone gets 8 of 9 ports, a second one 8 of 9 of the rest. */
#define HVD_PORTS_SHARE 8

#endif
