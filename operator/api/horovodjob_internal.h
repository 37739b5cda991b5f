#ifndef HVD_OPERATOR_API_HOROVODJOB_INTERNAL_H
#define HVD_OPERATOR_API_HOROVODJOB_INTERNAL_H

#include <cjson/cJSON.h>

#include "operator/api/horovodjob.h"

/* Within operator/api only. */

/*
 * Decodes spec (may be NULL) with its defaults into job->spec and puts what is wrong with it, or
 * with the job's name, into job->invalid. job->name is set. HVD_ERR_NOMEM: the caller's
 * hvd_job_fini frees what was made.
 */
hvd_status_t hvd_spec_decode(const cJSON *spec, struct hvd_job *job, struct hvd_err *err);

/* Decodes status (may be NULL: a new job) into the zeroed *out. HVD_ERR_NOMEM as above. */
hvd_status_t hvd_status_decode(const cJSON *status, struct hvd_job_status *out,
                               struct hvd_err *err);

#endif
