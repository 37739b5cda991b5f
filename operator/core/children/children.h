#ifndef HVD_OPERATOR_CORE_CHILDREN_CHILDREN_H
#define HVD_OPERATOR_CORE_CHILDREN_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"
#include "operator/api/horovodjob.h"
#include "operator/api/json.h"
#include "operator/api/kind.h"
#include "operator/core/launch/launch.h"
#include "operator/core/view/projection.h"
#include "operator/core/view/settings.h"

/* The bodies of a job's children, built from the job alone. */

#define HVD_CHILD_NAME_MAX 64
#define HVD_HASH_SIZE 17

/* Writes the name of the job's child of that kind (J, J-worker, J-hosts, J-master) to out; for a
 * StatefulSet that of spec.worker. */
void hvd_children_name(const struct hvd_job *job, enum hvd_kind kind, char out[HVD_CHILD_NAME_MAX]);

/* Writes the name of the StatefulSet of a group of the spec: J-worker, J-worker-NAME. */
void hvd_children_group_name(const struct hvd_job *job, size_t group, char out[HVD_CHILD_NAME_MAX]);

/*
 * The body of the child that the job's launch way needs. It may hold a private key: wipe it
 * (explicit_bzero) before hvd_free, and never log it. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_children_secret_encode(const struct hvd_job *job, const struct hvd_launch_key *key,
                                        char **out, struct hvd_err *err);

/* Inputs for the bodies of the other children. */
struct hvd_child_inputs {
    const struct hvd_job *job;
    const cJSON *spec;       /* job->spec.text, parsed */
    size_t group;            /* of the StatefulSet */
    int32_t attempt;         /* of the master's Job */
    int64_t n_ranks;         /* number of ranks that the master of a short form starts */
    bool has_hash;           /* the StatefulSet to patch carries the annotation spec-hash */
    uint64_t workers_hash;   /* annotation of the master's Job: hvd_loss_workers_hash; or 0 */
    const char *hosts_seen;  /* annotation of the master's pod */
    const cJSON *hosts_data; /* of the ConfigMap: hvd_hosts_data */
    const struct hvd_settings *settings; /* may be NULL */
};

/*
 * The body of a Service, StatefulSet, ConfigMap, Job or PodGroup to create; the caller frees *out
 * with hvd_free. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_children_encode(enum hvd_kind kind, const struct hvd_child_inputs *in, char **out,
                                 struct hvd_err *err);

/*
 * The hash of the fields that cannot change while a job runs (image, command, templates, ...), as
 * in the annotation horovod.io/spec-hash of the StatefulSet. It depends only on the spec, not on
 * the operator's version. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_children_spec_hash(const cJSON *spec, char out[HVD_HASH_SIZE],
                                    struct hvd_err *err);

/*
 * A JSON patch that gives a StatefulSet without pods a new template and its replicas, provided that
 * the set is unchanged. The caller frees *out with hvd_free. HVD_ERR_NOMEM.
 */
hvd_status_t hvd_children_template_patch(const struct hvd_child_inputs *in,
                                         const struct hvd_meta *known, char **out,
                                         struct hvd_err *err);

/* Adds the operator's labels to an object under construction, with the role if it has one. */
void hvd_children_labels(struct hvd_jb *jb, cJSON *meta, const struct hvd_job *job,
                         enum hvd_kind kind);

/* Adds the uid of the job to the annotations parent[key] of an object under construction, which
 * identifies its owner without a reference (owner.h). Returns the annotations. */
cJSON *hvd_children_mark(struct hvd_jb *jb, cJSON *parent, const char *key,
                         const struct hvd_job *job);

/*
 * Adds the child's lost annotations to the metadata of a merge patch: the job's uid; of the
 * master's Job the attempt and its workers; of a StatefulSet the hash of the spec if in->spec is
 * given.
 */
void hvd_children_restore_marks(struct hvd_jb *jb, cJSON *meta, const struct hvd_child_inputs *in,
                                const struct hvd_object *child);

/* Puts the reference to the job, as its controller, into owner. */
void hvd_children_owner(struct hvd_jb *jb, cJSON *owner, const struct hvd_job *job);

#endif
