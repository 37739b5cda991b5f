#ifndef HVD_OPERATOR_CORE_ATTEMPT_SCALING_H
#define HVD_OPERATOR_CORE_ATTEMPT_SCALING_H

#include <stddef.h>
#include <stdint.h>

#include "operator/core/view/view.h"

/* Within operator/core only. Replicas that change while an attempt runs. */

#define HVD_SCALING_TEXT_SIZE 384

/* What a pass looks at where an attempt of fixed size keeps its workers; it points into itself. */
struct hvd_scaling {
    struct hvd_view view;
    struct hvd_job job; /* the view's */
    struct hvd_worker_group groups[HVD_JOB_GROUPS_MAX];
    char text[HVD_SCALING_TEXT_SIZE]; /* which replicas have to wait, and for what; "": none */
};

/*
 * Gives a job whose size is fixed, while the master's Job of the attempt under way exists, the
 * replicas that this Job was made for, as the ranks cannot change: both the job of the view that
 * is returned, and *job, a shallow copy of the view's with another status. What is returned is
 * view, or in *out, which owns nothing, borrows from view and has to outlive *job. Never fails.
 */
const struct hvd_view *hvd_scaling_hold(const struct hvd_view *view, struct hvd_job *job,
                                        struct hvd_scaling *out);

/* Reads the replicas of each group from HVD_ANNOTATION_WORKERS (NULL: nothing); returns how many
 * of the n groups it could read, from the first on. */
size_t hvd_scaling_read(const char *text, size_t n, int32_t out[]);

/* Writes which workers of a group that had `from` are removed because its replicas were reduced:
 * "worker digits-worker-2 was removed by scaling from 3 to 2 (spec.worker.replicas)". */
void hvd_scaling_describe_removal(const struct hvd_job *job, size_t group, int32_t from, char *out,
                                  size_t size);

#endif
