#ifndef HVD_OPERATOR_CORE_WRITES_KEPT_H
#define HVD_OPERATOR_CORE_WRITES_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/api/horovodjob.h"

/*
 * What a status patch has set and the API server did not keep: a definition of HorovodJob that is
 * older than this operator knows fewer fields, and the others are dropped without a word; a
 * mutating webhook may drop anything, the conditions that say how the job has ended among them. The
 * shell keeps the members that are lost, of the conditions the operator's own that are, and adds
 * them to each version of the job that it observes.
 */

/*
 * Compares the body of a status patch with the object in its answer. *lost holds members of status
 * that earlier answers lacked, or is NULL; it becomes those that this one lacks (owned by the
 * caller), NULL for none. An answer with another state changes nothing: others have changed it. On
 * HVD_ERR_NOMEM *lost is what it was.
 */
hvd_status_t hvd_kept_compare(const char *sent, const cJSON *answer, cJSON **lost);

/* Decodes the object again, with those that its status lacks; failures as hvd_job_decode. *out is a
 * job that was decoded before. */
hvd_status_t hvd_kept_decode(const cJSON *object, const cJSON *lost, struct hvd_job *out,
                             struct hvd_err *err);

/* Whether conditions are among them, which every definition has: it is no older one. */
bool hvd_kept_lacks_conditions(const cJSON *lost);

/* Their names, "status.cleaned, status.failures", as many as there is room for. */
void hvd_kept_names(const cJSON *lost, char *out, size_t size);

#endif
