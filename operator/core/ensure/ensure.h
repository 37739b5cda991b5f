#ifndef HVD_OPERATOR_CORE_ENSURE_ENSURE_H
#define HVD_OPERATOR_CORE_ENSURE_ENSURE_H

#include <stdbool.h>

#include "operator/core/pass/pass.h"

/* Within operator/core only. Children as they should be. */

/* Makes and repairs Secret, Service, ConfigMap and StatefulSet of a job that is to run. */
void hvd_ensure_children(struct hvd_pass *p);

/* Whether the spec changed so that what runs is of another spec: the job was suspended, changed and
 * resumed before anybody saw it suspended. */
bool hvd_ensure_is_outdated(struct hvd_pass *p);

/* Takes all workers down: sets of ours have no replicas, those of no group are removed. True once
 * no set has any. */
bool hvd_ensure_no_workers(struct hvd_pass *p);

/* Publishes the list of Ready workers if it differs. */
void hvd_ensure_hosts(struct hvd_pass *p);

/* Whether the list was made immutable and is to be made anew: until then the job gets no workers.
 */
bool hvd_ensure_list_thaws(struct hvd_pass *p);

/* Tells a running master's pod of a list that changed, twice. */
void hvd_ensure_master_told(struct hvd_pass *p);

/* Makes the master's Job once every worker is Ready and the list says so. */
void hvd_ensure_master(struct hvd_pass *p);

#endif
