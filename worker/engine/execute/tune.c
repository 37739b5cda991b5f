/*
 * Autotuning. The coordinator of all ranks counts landed operations. Its next plan carries the new
 * settings, so that every rank applies them at the same plan. Runs in the progress owner.
 */
#include "worker/engine/execute/tune.h"

#include "base/clock.h"
#include "worker/autotune/autotune.h"

void hvd_tune_landed(struct hvd_engine *e, struct hvd_set *set, const struct hvd_fused_op *f)
{
    const int64_t width = (int64_t)hvd_dtype_size((int)f->request.dtype);
    bool is_full = false;

    if (set->id != 0 || f->request.op != HVD_ALLREDUCE || !set->own.negotiator)
        return;
    for (uint32_t i = 0; i < f->n_members; i++) {
        const struct hvd_member *m = &f->members[i];
        if (m->entry &&
            hvd_autotune_count(e->options.autotune, m->entry->request.name, m->count * width))
            is_full = true;
    }
    if (!is_full)
        return;
    const struct hvd_tuning tuning = hvd_autotune_next(e->options.autotune, hvd_clock_now_ns());
    hvd_negotiator_tune(set->own.negotiator, tuning.fusion_bytes, (uint32_t)tuning.cycle_us);
}
