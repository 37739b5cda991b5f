#ifndef HVD_OPERATOR_CORE_CHILDREN_GANG_H
#define HVD_OPERATOR_CORE_CHILDREN_GANG_H

#include <stdint.h>

#include "operator/core/children/children.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/settings.h"

/*
 * Within operator/core only. The group in which a gang scheduler places a job's workers: all that
 * the job needs to start, or none. The master is no member, because it is made after the workers.
 */

/* The kind of PodGroup; HVD_N_KINDS without a gang scheduler. settings may be NULL. */
enum hvd_kind hvd_gang_kind(const struct hvd_settings *settings);

/* How many workers the gang scheduler places together: scheduling.minAvailable, else what the job
 * needs to start. At most the number of workers. */
int64_t hvd_gang_members(const struct hvd_job *job);

/* Adds spec and annotation to a PodGroup under construction. */
void hvd_gang_spec(struct hvd_jb *jb, cJSON *root, cJSON *meta, const struct hvd_child_inputs *in);

/* Makes the pods of a worker template members of the job's group. Does nothing without a gang. */
void hvd_gang_join(struct hvd_jb *jb, cJSON *template, const struct hvd_child_inputs *in);

/*
 * The JSON patch that corrects a PodGroup of ours. *out is NULL if nothing differs, else the
 * caller's to hvd_free. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_gang_patch(const struct hvd_child_inputs *in, const struct hvd_object *group,
                            char **out, struct hvd_err *err);

/* Hashes the operator's fields of a PodGroup, for its projection. */
void hvd_gang_observe(const cJSON *spec, uint64_t fields[HVD_GANG_FIELDS]);

#endif
