#ifndef HVD_OPERATOR_API_HOROVODJOB_INTERNAL_H
#define HVD_OPERATOR_API_HOROVODJOB_INTERNAL_H

#include <cjson/cJSON.h>

#include "operator/api/horovodjob.h"
#include "operator/api/json.h"

/* Within operator/api only. */

#define HVD_WRONG_MAX 512

/* The first mistake in a spec; zeroed: none. */
struct hvd_wrong {
    char text[HVD_WRONG_MAX];
};

/* Records a mistake, unless one is recorded already. */
void hvd_spec_complain(struct hvd_wrong *wrong, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

struct hvd_spec_range {
    const char *path; /* below holder */
    int64_t min;
    int64_t max;
    int64_t fallback;
};

/* The integer at the path, or the fallback when it is absent. Records a mistake for any other
 * value, under the name spec.<before><path>. */
int64_t hvd_spec_number(const cJSON *holder, const char *before, const struct hvd_spec_range *range,
                        struct hvd_wrong *wrong);

/* types.c: records the first member of spec (may be NULL) whose type or fixed value differs from
 * the CRD's. */
void hvd_types_check_spec(const cJSON *spec, struct hvd_wrong *wrong);

/* The container of the role: the one of that name, else the first; NULL without any. */
const cJSON *hvd_spec_role_container(const cJSON *template, const char *role);

/* Checks the template at spec.<path>, which is required. */
void hvd_spec_check_template(const cJSON *spec, const char *path, const char *role,
                             struct hvd_wrong *wrong);

/* groups.c: decodes the members of the host list and their order. On HVD_ERR_NOMEM the caller's
 * hvd_job_fini frees what was allocated. */
hvd_status_t hvd_groups_decode(const cJSON *spec, const char *job_name, struct hvd_job_spec *out,
                               struct hvd_wrong *wrong);

/*
 * Decodes spec (may be NULL) with its defaults into job->spec. Puts the mistake in it, or in the
 * job's name, into job->invalid. job->name is set. On HVD_ERR_NOMEM the caller's hvd_job_fini frees
 * what was allocated.
 */
hvd_status_t hvd_spec_decode(const cJSON *spec, struct hvd_job *job, struct hvd_err *err);

/* The length of at most max bytes of text that does not cut a UTF-8 character in two. */
size_t hvd_status_cut(const char *text, size_t max);

/* Decodes status (may be NULL: a new job) into the zeroed job->status. HVD_ERR_NOMEM as above. */
hvd_status_t hvd_status_decode(const cJSON *status, struct hvd_job *job, struct hvd_err *err);

#define HVD_STATUS_TEXTS_MAX (32 + 2 * HVD_N_CONDITIONS)

/* Collects the places of the texts that the status owns; returns their number. */
size_t hvd_status_texts(struct hvd_job_status *status, char **out[HVD_STATUS_TEXTS_MAX]);

/* Writes the members of a status of the job under out. */
void hvd_status_put(struct hvd_jb *jb, cJSON *out, const struct hvd_job *job,
                    const struct hvd_job_status *status);

/* Whether a condition of that type is the operator's. */
bool hvd_status_is_own_condition(const char *type);

/* exact.c: keeps the conditions of others, as far as there is room, as the text *out. The caller
 * frees it with hvd_free; NULL if there are none. HVD_ERR_NOMEM leaves *out untouched. */
hvd_status_t hvd_exact_keep_others(const cJSON *status, char **out);

/* exact.c: whether the status (may be NULL) holds only what the operator would write of
 * job->status. Absent fields do not count, because an older definition may lack them. HVD_ERR_NOMEM
 * leaves *is_exact untouched. */
hvd_status_t hvd_exact_check(const cJSON *status, const struct hvd_job *job, bool *is_exact);

#endif
