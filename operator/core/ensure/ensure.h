#ifndef HVD_OPERATOR_CORE_ENSURE_ENSURE_H
#define HVD_OPERATOR_CORE_ENSURE_ENSURE_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Creation and repair of children. */

/* Creates and repairs Secret, Service, ConfigMap and StatefulSet of a job that is to run. */
void hvd_ensure_children(struct hvd_pass *p);

/* Whether the running objects belong to an outdated spec: the job was suspended, changed and
 * resumed before the operator saw it suspended. */
bool hvd_ensure_is_outdated(struct hvd_pass *p);

/* Takes all workers down: the job's sets get no replicas, sets of no group are removed. True once
 * no set has any. */
bool hvd_ensure_no_workers(struct hvd_pass *p);

/* Publishes the list of Ready workers if it differs. */
void hvd_ensure_hosts(struct hvd_pass *p);

/* Whether the list was made immutable and must be made anew: until then the job gets no workers. */
bool hvd_ensure_list_thaws(struct hvd_pass *p);

/* Announces a changed list to a running master's pod by an annotation, twice: that makes its
 * kubelet update the files at once. */
void hvd_ensure_master_told(struct hvd_pass *p);

/* Creates the master's Job once every worker is Ready and in the published list. */
void hvd_ensure_master(struct hvd_pass *p);

#endif
