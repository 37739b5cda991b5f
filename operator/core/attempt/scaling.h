#ifndef HVD_OPERATOR_CORE_ATTEMPT_SCALING_H
#define HVD_OPERATOR_CORE_ATTEMPT_SCALING_H

#include <stddef.h>
#include <stdint.h>

#include "operator/core/view/view.h"

/* Within operator/core only. Replicas that change while an attempt runs. */

#define HVD_SCALING_TEXT_SIZE 384

/* The view of a pass whose attempt keeps its workers. It points into itself. */
struct hvd_scaling {
    struct hvd_view view;
    struct hvd_job job; /* a copy of the view's job */
    struct hvd_worker_group groups[HVD_JOB_GROUPS_MAX];
    char text[HVD_SCALING_TEXT_SIZE]; /* which changes are pending, and until when; "": none */
};

/*
 * Holds the size of a job that is not elastic, because its ranks cannot change. While the master's
 * Job of the attempt under way exists, its replicas replace those of the spec. They are set in the
 * job of the returned view and in *job, which is a shallow copy of the view's job with another
 * status. Returns view, or a view in *out. The latter owns nothing, borrows from view and must
 * outlive *job. Never fails.
 */
const struct hvd_view *hvd_scaling_hold(const struct hvd_view *view, struct hvd_job *job,
                                        struct hvd_scaling *out);

/* Reads the replicas of each group from HVD_ANNOTATION_WORKERS (NULL: nothing); returns for how
 * many of the n groups, from the first on, it could. */
size_t hvd_scaling_read(const char *text, size_t n, int32_t out[]);

/* Describes which workers of a group that had `from` are removed because its replicas were reduced:
 * "worker digits-worker-2 was removed by scaling from 3 to 2 (spec.worker.replicas)". */
void hvd_scaling_describe_removal(const struct hvd_job *job, size_t group, int32_t from, char *out,
                                  size_t size);

#endif
