#ifndef HVD_OPERATOR_CORE_WRITES_KEPT_H
#define HVD_OPERATOR_CORE_WRITES_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/api/horovodjob.h"

/*
 * Fields of a status patch that the API server did not keep. A definition of HorovodJob that is
 * older than this operator has fewer fields, and the API server drops the others silently. A
 * mutating webhook may drop any field, even the conditions that record how the job ended. The shell
 * keeps the lost members, and the operator's own lost conditions. It adds them to each version of
 * the job that it observes.
 */

/*
 * Compares the body of a status patch with the object in its answer. *lost holds members of status
 * that earlier answers lacked, or is NULL. It becomes those that this one lacks (owned by the
 * caller), NULL for none. An answer with another state changes nothing, because others changed it.
 * HVD_ERR_NOMEM leaves *lost unchanged.
 */
hvd_status_t hvd_kept_compare(const char *sent, const cJSON *answer, cJSON **lost);

/* Decodes the object again, with the fields that its status lacks; failures as hvd_job_decode. *out
 * is a job that was decoded before. */
hvd_status_t hvd_kept_decode(const cJSON *object, const cJSON *lost, struct hvd_job *out,
                             struct hvd_err *err);

/* Whether conditions are lost. Every definition has them, so the definition is not an older one. */
bool hvd_kept_lacks_conditions(const cJSON *lost);

/* Their names, "status.cleaned, status.failures", as many as fit. */
void hvd_kept_names(const cJSON *lost, char *out, size_t size);

#endif
