/*
 * What an edit of the spec changes in the status. An image can change only while spec.suspend is
 * true, or in the update that sets or resets it. The status then keeps the old image until the pods
 * that have it are gone, because the job may still end with them. A finished job keeps it. Pure.
 */
#include "operator/core/outcome/edits.h"

#include <inttypes.h>

#include "base/str.h"
#include "operator/core/ensure/ensure.h"
#include "operator/core/outcome/mark.h"
#include "operator/core/view/text.h"

#define MESSAGE_SIZE 256

/* Whether pods may still run from an earlier spec, or a job ends that has run from one. */
static bool is_earlier_spec(struct hvd_pass *p)
{
    const bool is_stopped = p->job->status.conditions[HVD_COND_SUSPENDED].truth == HVD_TRUE;

    return hvd_mark_is_end(p) || p->job->invalid ||
           (!is_stopped &&
            (p->job->spec.is_suspended || hvd_pass_is_stopping(p) || hvd_ensure_is_outdated(p)));
}

void hvd_edits_take(struct hvd_pass *p)
{
    const char *image = p->job->spec.image;

    p->next.observed_generation = p->job->generation;
    if (hvd_str_equal(image, p->next.image) || (p->next.image && is_earlier_spec(p)))
        return;
    if (!p->st)
        p->st = hvd_job_set_image(&p->next, image);
}

void hvd_edits_ignore(struct hvd_pass *p)
{
    const int64_t known = p->job->status.observed_generation;
    char message[MESSAGE_SIZE];

    p->next.observed_generation = p->job->generation;
    if (known == 0 || p->job->generation <= known || p->job->is_deleting)
        return;
    hvd_text_format(message, sizeof(message),
                    "the job has finished: of generation %" PRId64 " of its spec only "
                    "cleanPodPolicy and ttlSecondsAfterFinished take effect; to run it with other "
                    "values, delete it and apply it again",
                    p->job->generation);
    hvd_pass_event(p, "SpecIgnored", message, false);
}
